//! Kernels that fault. On CUDA that ends the context, so this is a program of its own.

use std::time::{Duration, Instant};

use gpunet_e2e::faults::{self, Row};
use gpunet_e2e::{Job, Peer, Script, eventually, flags, idle, is_cuda, net, peer};
use gpunet_host::{KernelError, LaunchError, Net, NetError, Shape};

const SECOND: Duration = Duration::from_secs(1);

/// The flag that is set right before the fault.
const FAULTS: usize = 50;

/// Runs a script that faults beside one that waits, and sees what becomes of both: the error, and
/// when the launch had ended.
fn fault(net: &Net, how: u64, blocks: usize) -> (KernelError, Instant, Duration) {
    let peer = Peer::serve(|mut stream| std::io::copy(&mut stream, &mut std::io::sink()).is_ok());
    let mut faulting = Script::new();
    faulting.stream(0, peer.address).send(0, 100);
    for block in 1..blocks {
        faulting.wait_flag(block);
    }
    faulting.set_flag(FAULTS).fault(how);
    let flags = flags();
    let mut job = Job::blocks(64).script(&faulting);
    for block in 1..blocks {
        let mut waiting = Script::new();
        waiting.stream(0, peer.address).set_flag(block).recv(0, 10).any();
        job = job.script(&waiting);
    }
    let kernel = job.flags(&flags).start(net).detach();
    let launch = kernel.launch().clone();
    flags.wait(FAULTS);
    let begin = Instant::now();
    let ended = launch.wait_for(20 * SECOND);
    let elapsed = begin.elapsed();
    for _ in 0..blocks {
        // The peer sees the end, whichever.
        peer.result();
    }
    assert!(eventually(5 * SECOND, || net.statistics().sockets == 0));
    match ended {
        Err(LaunchError::Kernel(error)) => (error, begin, elapsed),
        other => panic!("the kernel must have faulted: {other:?}"),
    }
}

/// A fault can happen only once in a CUDA context: one measurement, with more patience.
fn record(fault: &'static str, call: &'static str, elapsed: Duration) {
    let result = if is_cuda() { "ContextLost or Fault" } else { "Fault" }.to_owned();
    let row = Row { fault, call, result, due: Duration::ZERO, elapsed };
    let name = "fault: a_fault_is_told_and_nothing_hangs";
    faults::note(name, &row, 5 * SECOND);
}

/// A net whose kernel faulted launches no more.
fn is_refused(net: &Net) {
    let refused = net.launch(idle, Shape::new(1, 32), ()).err();
    assert!(matches!(refused, Some(NetError::Faulted)), "{refused:?}");
    assert!(net.dump().expect("the proxy lives on").is_empty());
}

/// One test: the second would find the CUDA context lost.
#[test]
fn a_fault_is_told_and_nothing_hangs() {
    if is_cuda() {
        let (bystander, faulty) = (net(), net());
        let mut waiting = Script::new();
        waiting.stream(0, peer::echo_server()).recv(0, 10).any();
        let lost = Job::blocks(32).script(&waiting).start(&bystander).detach();
        let (error, begin, elapsed) = fault(&faulty, 2, 3);
        let ended = lost.launch().wait_for(20 * SECOND);
        let lost_after = begin.elapsed();
        assert!(
            matches!(error, KernelError::Fault { .. } | KernelError::ContextLost { .. }),
            "{error}"
        );
        is_refused(&faulty);
        assert!(
            matches!(
                ended,
                Err(LaunchError::Kernel(
                    KernelError::ContextLost { .. } | KernelError::Fault { .. }
                ))
            ),
            "{ended:?}"
        );
        is_refused(&bystander);
        record("the kernel itself faults", "Launch::wait", elapsed);
        // Measured behind the other, whose sockets were waited for in between.
        record("another kernel faults", "Launch::wait", lost_after);
        return;
    }
    for (how, words) in [(0, "a fault was asked for"), (1, "index out of bounds")] {
        for blocks in [1, 3] {
            let (net, bystander, flags) = (net(), gpunet_e2e::net(), flags());
            let mut waiting = Script::new();
            waiting.stream(0, peer::echo_server()).set_flag(0).wait_flag(1);
            waiting.send(0, 10).recv_all(0, 10, 10).close(0);
            let spared = Job::blocks(32).script(&waiting).flags(&flags).start(&bystander);
            spared.until(&flags, 0);
            let (error, _, elapsed) = fault(&net, how, blocks);
            record("the kernel itself faults", "Launch::wait", elapsed);
            // A kernel of another net goes on.
            flags.set(1, 1);
            spared.finish();
            match &error {
                // All threads of block 0 come to it; whichever is first is named.
                KernelError::Fault { kernel, block: Some(0), thread: Some(_), message } => {
                    assert_eq!(kernel, "script_block");
                    assert!(message.contains(words), "{message}");
                }
                other => panic!("no fault: {other}"),
            }
            is_refused(&net);
            // Another net on the same GPU is fine.
            let mut script = Script::new();
            script.stream(0, peer::echo_server()).send(0, 10).recv_all(0, 10, 10).close(0);
            let other = gpunet_e2e::net();
            Job::blocks(64).script(&script).run(&other);
        }
    }
}
