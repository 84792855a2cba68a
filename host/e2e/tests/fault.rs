//! Kernels that fault. On CUDA that ends the context, so this is a program of its own.

use std::io::ErrorKind::{ConnectionRefused, ConnectionReset, WouldBlock};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr as IpSocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use gpunet_e2e::faults::{self, Row};
use gpunet_e2e::{
    Job, Launch, Peer, Script, any_port, deadline, eventually, flags, idle, is_cuda, net,
    net_builder, peer, soon,
};
use gpunet_e2e_kernels::faulting::fault_under_clients;
use gpunet_host::{
    DownError, GpuError, KernelError, LaunchError, Net, Shape, SocketError, Task, WaitError,
};

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
    let ended = launch.wait_timeout(deadline());
    let elapsed = begin.elapsed();
    for _ in 0..blocks {
        // The peer sees the end, whichever.
        peer.result();
    }
    assert!(eventually(|| net.statistics().sockets == 0));
    match ended {
        Err(WaitError::Kernel(error)) => (error, begin, elapsed),
        other => panic!("the kernel must have faulted: {other:?}"),
    }
}

/// A fault can happen only once in a CUDA context: one measurement, with a longer limit.
fn record(fault: &'static str, call: &'static str, elapsed: Duration) {
    let result = if is_cuda() { "ContextLost or Fault" } else { "Fault" }.to_owned();
    let row = Row { fault, call, result, due: Duration::ZERO, elapsed };
    let name = "fault: a_fault_is_reported_and_nothing_hangs";
    faults::note(name, &row);
}

/// A net whose kernel faulted launches no more: on CUDA because the context is lost, for all nets.
fn is_refused(net: &Net) {
    let refused = net.launch(idle, Shape::new(1, 32), ()).expect_err("it has faulted");
    let is_lost = matches!(refused, LaunchError::Gpu(GpuError::ContextLost { .. }) if is_cuda());
    assert!(is_lost || matches!(refused, LaunchError::Down(DownError::Faulted)), "{refused}");
    // The context may be lost before the net's supervisor has seen it and closed what there was.
    let dump = || net.dump().expect("the proxy lives on");
    assert!(eventually(|| dump().is_empty()), "{:?}", dump());
    let refused = net.listen(any_port()).expect_err("nobody would accept");
    let SocketError::Down(down) = &refused else { panic!("{refused}") };
    let is_lost = matches!(down, DownError::Gpu(GpuError::ContextLost { .. }) if is_cuda());
    assert!(is_lost || matches!(down, DownError::Faulted), "{refused}");
}

/// What a program was notified of: the launch, the kernel, the error.
type Fault = (u32, String, KernelError);

/// A net that reports its faults, by a function that never comes back.
fn reporting_net() -> (Net, Receiver<Fault>) {
    let (sender, faults) = mpsc::channel();
    let on_fault = move |launch, kernel: &str, error: &KernelError| {
        sender.send((launch, kernel.to_owned(), error.clone())).expect("the test listens");
        std::thread::sleep(deadline());
    };
    (net_builder().on_fault(on_fault).build().expect("a net"), faults)
}

/// Whether the peer is notified, in time, that nobody is there any more; and when.
fn is_left(mut client: &TcpStream) -> Instant {
    client.set_read_timeout(Some(soon())).expect("a limit");
    let read = client.read(&mut [0]);
    assert!(
        matches!(&read, Ok(0)) || matches!(&read, Err(error) if error.kind() == ConnectionReset),
        "{read:?}"
    );
    Instant::now()
}

/// Waits until connections are refused.
fn is_refused_at(address: IpSocketAddr) {
    let refused = || match TcpStream::connect(address) {
        // The listener may be about to go. Who asks while it closes may find the connection made and
        // nobody at its other end, which the system says only to who sends.
        Ok(mut client) => {
            let _ = client.write(b"x");
            is_left(&client);
            false
        }
        Err(error) => error.kind() == ConnectionRefused,
    };
    assert!(eventually(refused), "{address} takes connections");
}

/// A server of ours with two clients, of which it has accepted one.
fn served(net: &Net) -> (Launch, IpSocketAddr, [TcpStream; 2]) {
    // Of the system's, whatever transport the suite goes by.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let handle = net.hand_over(listener).expect("it is taken");
    let shape = Shape::new(1, 64).shared_memory(64);
    let launch = net.launch(fault_under_clients, shape, (handle,)).expect("it starts");
    let clients = [(); 2].map(|()| TcpStream::connect(address).expect("it listens"));
    (launch, address, clients)
}

/// A listener of the program that no kernel serves, and a client that waits there.
fn unserved(net: &Net) -> (IpSocketAddr, TcpStream) {
    // Of the system's, whatever transport the suite goes by.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    net.hand_over(listener).expect("it is taken");
    (address, TcpStream::connect(address).expect("it listens"))
}

/// Nobody waits for the launch, and clients do not either.
#[test]
fn clients_and_the_program_are_notified_of_a_fault() {
    if is_cuda() {
        let name = "fault: clients_and_the_program_are_notified_of_a_fault";
        return gpunet_e2e::skip(name, "there is one fault in a process, of another test");
    }
    let ((faulty, faults), idle_net) = (reporting_net(), net());
    let (idle_address, _client) = unserved(&idle_net);
    let (launch, address, clients) = served(&faulty);
    (&clients[0]).write_all(b"x").expect("it is open");
    for client in &clients {
        is_left(client);
    }
    is_refused_at(address);
    let (number, kernel, error) = faults.recv_timeout(deadline()).expect("the program is notified");
    assert_eq!((number, kernel.as_str()), (launch.number(), "fault_under_clients"));
    assert!(matches!(launch.wait_timeout(deadline()), Err(WaitError::Kernel(it)) if it == error));
    // Another net is well.
    idle_net.listen(any_port()).expect("a port");
    TcpStream::connect(idle_address).expect("it listens");
    // The program's function still sleeps.
    let begin = Instant::now();
    drop(faulty);
    assert!(begin.elapsed() < soon());
}

#[test]
fn a_fault_closes_its_own_listeners_beside_other_launches() {
    if is_cuda() {
        let name = "fault: a_fault_closes_its_own_listeners_beside_other_launches";
        return gpunet_e2e::skip(name, "a fault ends all kernels");
    }
    let (net, faults) = reporting_net();
    let [first, second] = [(); 2].map(|()| served(&net));
    // Nobody was given this one by an argument, so that it may be anyone's.
    let (_shared, shared) = net.listen(any_port()).expect("a port");
    (&first.2[0]).write_all(b"x").expect("it is open");
    for client in &first.2 {
        is_left(client);
    }
    is_refused_at(first.1);
    faults.recv_timeout(deadline()).expect("the program is notified");
    assert!(!second.0.is_finished());
    second.2.iter().for_each(|client| {
        client.set_read_timeout(Some(SECOND / 20)).expect("a limit");
        let mut client = client;
        assert!(matches!(client.read(&mut [0]), Err(error) if error.kind() == WouldBlock));
    });
    drop(peer::connect(shared));
    // The last one to serve anybody.
    (&second.2[0]).write_all(b"x").expect("it is open");
    for client in &second.2 {
        is_left(client);
    }
    is_refused_at(second.1);
    assert!(eventually(|| net.statistics().sockets == 0));
}

/// One test: the second would find the CUDA context lost.
#[test]
fn a_fault_is_reported_and_nothing_hangs() {
    if is_cuda() {
        let (bystander, (faulty, faults), idle_net) = (net(), reporting_net(), net());
        // Of the net whose kernel faults, of one that loses its kernel, and of one that has none.
        let clients = [&bystander, &faulty, &idle_net].map(|net| {
            let (address, client) = unserved(net);
            (address, std::thread::spawn(move || is_left(&client)))
        });
        let mut waiting = Script::new();
        waiting.stream(0, peer::echo_server()).recv(0, 10).any();
        let lost = Job::blocks(32).script(&waiting).start(&bystander).detach();
        let (error, begin, elapsed) = fault(&faulty, 2, 3);
        let ended = lost.launch().wait_timeout(deadline());
        let lost_after = begin.elapsed();
        assert!(
            matches!(error, KernelError::Fault { .. } | KernelError::ContextLost { .. }),
            "{error}"
        );
        is_refused(&faulty);
        assert!(
            matches!(
                ended,
                Err(WaitError::Kernel(KernelError::ContextLost { .. } | KernelError::Fault { .. }))
            ),
            "{ended:?}"
        );
        is_refused(&bystander);
        is_refused(&idle_net);
        for (address, client) in clients {
            let left = client.join().expect("it returns");
            let late = left.saturating_duration_since(begin + elapsed);
            assert!(late < soon(), "{late:?} after the launch had ended");
            is_refused_at(address);
        }
        let (_, kernel, reported) =
            faults.recv_timeout(deadline()).expect("the program is notified");
        assert_eq!((kernel.as_str(), reported), ("script_block", error));
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
