//! A program that forks while its kernel waits: the child can neither use nor harm what the parent opened.

#![allow(unsafe_code, reason = "forks")]

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use gpunet_e2e::{
    Folder, Job, Script, child, flags, gpu, idle, net, net_builder, net_builder_on, peer, timeout,
};
use gpunet_host::gpu::EmulatedOptions;
use gpunet_host::{Gpu, GpuChoice, Shape, Task, WaitError};

/// A child that hangs is ended by SIGALRM.
const HANGS: u32 = 60;
const LENGTH: u64 = 10_000;

#[test]
fn a_forked_child_leaves_its_parents_net_alone() {
    let name = "a_forked_child_leaves_its_parents_net_alone";
    // The child of a process whose other threads are the net's alone.
    match child::part() {
        None => child::alone(name, "forks", "fork"),
        Some(_) => forks(),
    }
}

fn forks() {
    let (net, flags, folder) = (net(), flags(), Folder::new("forks"));
    let (listener, _) = net.listen(folder.address("path")).expect("a path");
    let stream = gpu().stream().expect("a stream");
    let queue = net.queue(&stream).expect("a queue");
    let buffer = gpu().buffer::<u64>(64).expect("GPU memory");
    let mut script = Script::new();
    script.given(0, listener).set_flag(0).accept(0, 1).recv_all(1, LENGTH, 1000);
    script.send_all(1, LENGTH, 1000).close(1);
    let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    let kernel = started.detach();

    // SAFETY: the child runs what follows, on the only thread that it has, and leaves.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "it cannot be forked");
    if child == 0 {
        // SAFETY: has no conditions.
        unsafe { libc::alarm(HANGS) };
        let fine = catch_unwind(AssertUnwindSafe(|| {
            let launch = kernel.launch();
            refused("launch", net.launch(idle, Shape::new(1, 32), ()));
            refused("listen", net.listen(folder.address("child")));
            let (near, _far) = std::os::unix::net::UnixStream::pair().expect("a pair");
            refused("hand_over", net.hand_over(near));
            refused("take_back", net.take_back(listener));
            refused("close", net.close(listener));
            refused("dump", net.dump());
            refused("build", net_builder().build());
            refused("device_memory", gpu().device_memory(8));
            refused("stream", gpu().stream());
            refused("queue", net.queue(&stream));
            refused("receive", queue.receive(listener, &buffer, ..));
            refused("wait for the queue", queue.wait());
            refused("read", buffer.to_vec());
            refused("wait", launch.wait());
            launch.abort();
            queue.abort();
            net.abort();
            drop((queue, stream, buffer, kernel, net));
            if !gpunet_e2e::is_cuda() {
                opens_its_own();
            }
        }));
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(fine.is_err())) }
    }
    let mut status = 0;
    // SAFETY: the child was just made, and nobody else waits for it.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    // One that was stopped has ended by then.
    let ended = kernel.launch().wait_timeout(Duration::from_millis(50));
    let runs = matches!(ended, Err(WaitError::StillRunning { .. }));
    assert!(runs, "the child has ended its parent's kernel: {ended:?}");
    assert_eq!((waited, status), (child, 0), "of the child; 14: it hung");

    let mut client = peer::connect_unix(&folder.path("path"));
    client.set_read_timeout(Some(timeout())).expect("a time-out");
    peer::send(&mut client, 0, LENGTH as usize);
    assert_eq!(peer::receive_rest(&mut client, 0), LENGTH);
    let (ended, finished) = kernel.end();
    ended.expect("the kernel ends");
    finished.check();
    drop(queue);
    gpunet_e2e::drop_in_order(net);
}

/// The error says whose it is.
fn refused<T, E: Display>(what: &str, result: Result<T, E>) {
    let Err(error) = result else { panic!("{what} works in the child") };
    let error = error.to_string();
    assert!(error.contains("from which this one was forked"), "{what}: {error}");
}

/// As the error advises.
fn opens_its_own() {
    let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
    let net = net_builder_on(&gpu).build().expect("a net");
    let (listener, _) = net.listen(gpunet_e2e::any_port()).expect("a port");
    let script = Script::new().given(0, listener).sleep(Duration::from_millis(1)).clone();
    Job::blocks(64).script(&script).run(&net);
}
