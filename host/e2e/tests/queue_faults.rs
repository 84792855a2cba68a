//! Stream-ordered operations when a proxy thread panics or hangs and when a kernel on the stream faults: a
//! program of its own, since that ends nets, and since it counts what the process has.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpunet_e2e::process::{descriptors, mapped};
use gpunet_e2e::queued::{connected, queue, silent_peer};
use gpunet_e2e::{
    Errno, deadline, drop_in_order, eventually, gpu, idle, is_cuda, net, net_builder,
    net_builder_on, peer, skip, slowness, soon,
};
use gpunet_e2e_kernels::queues::{fault_when_told, step};
use gpunet_host::gpu::EmulatedOptions;
use gpunet_host::{
    Batch, Condition, DownError, Gpu, GpuChoice, KernelError, LaunchError, Net, Shape, StreamError,
    Task, WaitError,
};

const MS: Duration = Duration::from_millis(1);
/// The longest time without a heartbeat, on a usual machine: ten times what a proxy thread is late there.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_proxy_thread_panics_under_operations() {
    let _alone = alone();
    for threads in [1, 2] {
        let builder = net_builder().proxy_threads(threads).linger(MS);
        let net = builder.build().expect("a net");
        let (queue, silent) = (queue(&net), silent_peer());
        let (quiet, other) = (connected(&net, silent.address), connected(&net, silent.address));
        let bytes = gpu().buffer::<u8>(64).expect("memory");
        let words = gpu().flags::<u64>(2).expect("memory");
        let mut batch = Batch::new();
        batch.write(&words, 0, 1).expect("it is there");
        batch.receive(quiet, &bytes, ..).expect("in bounds");
        batch.receive(quiet, &bytes, ..).expect("in bounds");
        batch.wait(&words, 1, Condition::Equal, 1).expect("it is there");
        batch.receive(other, &bytes, ..).expect("in bounds");
        let done = queue.post(&batch).expect("it is queued");
        assert!(eventually(|| words.load(0) == 1));
        net.inject_panic();
        let begin = Instant::now();
        let down = Errno::ENETDOWN;
        let failed = done.wait_timeout(deadline()).expect_err("the net is down");
        assert!(
            matches!(failed, WaitError::Operation { index: 1, errno } if errno == down),
            "{failed}"
        );
        assert!(begin.elapsed() < soon(), "it took {:?}", begin.elapsed());
        let wanted = [Ok(()), Err(down), Err(Errno::ECANCELED), Err(down), Err(down)].map(Some);
        assert_eq!(done.statuses(), wanted);
        assert!(queue.stream().wait(deadline()).expect("nothing faults"), "the stream drains");
        // What comes later ends at once.
        let begin = Instant::now();
        let mut later = Batch::new();
        later.send(other, &bytes, ..).expect("in bounds");
        later.wait(&words, 1, Condition::Equal, 1).expect("it is there");
        let done = queue.post(&later).expect("it is queued");
        done.wait_timeout(deadline()).expect_err("the net is down");
        assert_eq!(done.status(1), Some(Err(down)));
        assert!(begin.elapsed() < soon(), "it took {:?}", begin.elapsed());
        let refused = net.queue(queue.stream()).expect_err("the net is down");
        assert!(
            matches!(refused, StreamError::Launch(LaunchError::Down(DownError::Panicked))),
            "{refused}"
        );
        drop_in_order(net);
        let refused = queue.post(&later).expect_err("the net is gone");
        assert!(matches!(refused, StreamError::Closed(_)), "{refused}");
    }
}

#[test]
fn a_proxy_thread_hangs_under_operations() {
    let _alone = alone();
    let timeout = HEARTBEAT * slowness().min(4);
    // Seen by the net's supervisor; or, if that is stopped as well, by the operations themselves.
    for blind in [false, true] {
        let net = net_builder().heartbeat_timeout(timeout).linger(MS).build().expect("a net");
        let (first, silent) = (queue(&net), silent_peer());
        let quiet = connected(&net, silent.address);
        if blind {
            net.inject_blindness();
        }
        let bytes = gpu().buffer::<u8>(64).expect("memory");
        let words = gpu().flags::<u64>(1).expect("memory");
        let mut batch = Batch::new();
        batch.write(&words, 0, 1).expect("it is there");
        batch.receive(quiet, &bytes, ..).expect("in bounds");
        batch.receive(quiet, &bytes, ..).expect("in bounds");
        let done = first.post(&batch).expect("it is queued");
        assert!(eventually(|| words.load(0) == 1));
        let begin = Instant::now();
        net.inject_stall(0, 3 * timeout);
        let failed = done.wait_timeout(deadline()).expect_err("the proxy hangs");
        let elapsed = begin.elapsed();
        assert!(
            matches!(failed, WaitError::Operation { index: 1, errno: Errno::ENETDOWN }),
            "{failed}"
        );
        assert!(elapsed >= timeout / 2, "it took {elapsed:?}");
        assert_eq!(done.status(2), Some(Err(Errno::ECANCELED)));
        for _ in 0..2 {
            assert!(eventually(|| net.dump().is_ok()), "it goes on");
        }
        // Once the thread goes on, a new queue is well.
        let (second, socket) = (queue(&net), connected(&net, peer::echo_server()));
        let mut batch = Batch::new();
        batch.send(socket, &bytes, ..).expect("in bounds");
        batch.receive(socket, &bytes, ..).expect("in bounds");
        second.post(&batch).expect("it is queued").wait_timeout(deadline()).expect("all arrive");
        // The old one was stopped, and says so of every operation that waits; unless its operations
        // saw it themselves, before the supervisor or in its place, and none was left.
        let later = first.receive(socket, &bytes, ..1).expect("it is queued");
        second
            .send(socket, &bytes, ..1)
            .expect("queued")
            .wait_timeout(deadline())
            .expect("it is sent");
        match later.wait_timeout(deadline()) {
            Ok(()) => {}
            Err(WaitError::Operation { errno: Errno::ENETDOWN, .. }) if !blind => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Whether a net says that a kernel faulted.
fn is_faulted(net: &Net) -> bool {
    match net.launch(idle, Shape::new(1, 32), ()) {
        Ok(launch) => launch.wait_timeout(deadline()).map_or(true, |()| false),
        Err(LaunchError::Down(DownError::Faulted)) => true,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_kernel_faults_between_operations() {
    let _alone = alone();
    if is_cuda() {
        let name = "queue_faults: a_kernel_faults_between_operations";
        return skip(name, "a fault ends the context of all tests");
    }
    // As few queues as would be missed if a stream that failed kept one.
    let mut options = EmulatedOptions::default();
    options.queues = 4;
    let gpu = Gpu::open(GpuChoice::Emulated(options)).expect("it opens");
    let [net, bystander] = [(); 2].map(|()| net_builder_on(&gpu).build().expect("a net"));
    let (queue, socket) = (queue(&net), connected(&net, peer::echo_server()));
    let words = gpu.flags::<u64>(2).expect("memory");
    let bytes = gpu.buffer::<u8>(64).expect("memory");
    let mut before = Batch::new();
    before.send(socket, &bytes, ..).expect("in bounds");
    before.receive(socket, &bytes, ..).expect("in bounds");
    let before = queue.post(&before).expect("it is queued");
    queue.launch(fault_when_told, Shape::new(1, 32), (&words,)).expect("it fits");
    let mut batch = Batch::new();
    batch.write(&words, 1, 1).expect("it is there");
    batch.receive(socket, &bytes, ..).expect("in bounds");
    let behind: Vec<_> = (0..5).map(|_| queue.post(&batch).expect("it is queued")).collect();
    before.wait_timeout(deadline()).expect("it came first");
    words.store(0, 1);
    let begin = Instant::now();
    for post in &behind {
        match post.wait_timeout(deadline()).expect_err("it never runs") {
            WaitError::Kernel(KernelError::Fault { kernel, message, .. }) => {
                assert_eq!(kernel, "fault_when_told");
                assert!(message.contains("as the test asked"), "{message}");
            }
            other => panic!("no fault: {other}"),
        }
    }
    assert!(begin.elapsed() < soon(), "it took {:?}", begin.elapsed());
    queue.stream().wait(deadline()).expect_err("it faulted");
    assert!(eventually(|| is_faulted(&net)), "the net says so");
    // More often than there are statuses: none of them is kept.
    let mut many = Batch::new();
    for _ in 0..255 {
        many.write(&words, 1, 1).expect("there is room");
    }
    for _ in 0..20 {
        let refused = queue.post(&many).expect_err("nothing runs there");
        assert!(
            matches!(&refused, StreamError::Failed(cause) if cause.contains("as the test asked")),
            "{refused}"
        );
    }
    let numbers = gpu.buffer::<u32>(8).expect("memory");
    let refused = queue.launch(step, Shape::new(1, 32), (&numbers,)).expect_err("nothing runs");
    assert!(matches!(refused, StreamError::Failed(_)), "{refused}");
    // A net that is well stays so, though it is given the stream.
    let refused = bystander.queue(queue.stream()).expect_err("nothing runs there");
    assert!(matches!(refused, StreamError::Failed(_)), "{refused}");
    std::thread::sleep(20 * MS);
    assert!(!is_faulted(&bystander));
    assert_eq!(words.load(1), 0, "nothing behind the fault has run");
    // The stream that failed has left its queue to others.
    let go = gpu.flags::<u64>(1).expect("memory");
    let mut wait = Batch::new();
    wait.wait(&go, 0, Condition::Equal, 1).expect("it is there");
    let queues = [(); 2].map(|()| gpunet_e2e::queued::queue(&bystander));
    let posts = queues.each_ref().map(|queue| queue.post(&wait).expect("there are two queues"));
    go.store(0, 1);
    posts.iter().for_each(|post| post.wait_timeout(deadline()).expect("it holds"));
    let begin = Instant::now();
    drop((net, queue, behind));
    assert!(begin.elapsed() < soon(), "it took {:?}", begin.elapsed());
}

/// A net, a queue and operations behind a kernel that faults once everything is gone.
fn fault_in_the_end() {
    let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
    let net = net_builder_on(&gpu).build().expect("a net");
    let queue = queue(&net);
    let (words, bytes) =
        (gpu.flags::<u64>(1).expect("memory"), gpu.buffer::<u8>(1 << 20).expect("memory"));
    queue.launch(fault_when_told, Shape::new(1, 32), (&words,)).expect("it fits");
    let mut batch = Batch::new();
    batch.receive(gpunet_device::Handle::NONE, &bytes, ..).expect("in bounds");
    let posts: Vec<_> = (0..10).map(|_| queue.post(&batch).expect("it is queued")).collect();
    // Nobody but what is queued holds the stream and the net's memory any more. The kernel does not
    // listen to the net, which gives it up.
    drop((posts, batch, bytes, queue));
    drop(net);
    drop(gpu);
    words.store(0, 1);
}

#[test]
fn nothing_stays_of_a_stream_that_faults_when_all_else_is_gone() {
    let _alone = alone();
    if is_cuda() {
        let name = "queue_faults: nothing_stays_of_a_stream_that_faults_when_all_else_is_gone";
        return skip(name, "a fault ends the context of all tests");
    }
    // What is made once and kept.
    drop(net());
    let held = || [descriptors(), mapped() as usize, threads_of_streams()];
    let before = held();
    fault_in_the_end();
    let gone = || held().iter().zip(&before).all(|(after, before)| after <= before);
    assert!(eventually(gone), "{before:?} became {:?}", held());
}

/// Threads of this process that serve streams of the emulated GPU.
fn threads_of_streams() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a process has threads");
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    tasks.flatten().filter_map(name).filter(|name| name.trim() == "gpu-stream").count()
}

#[test]
fn a_fault_is_reported_to_the_program() {
    let _alone = alone();
    if is_cuda() {
        let name = "queue_faults: a_fault_is_reported_to_the_program";
        return skip(name, "a fault ends the context of all tests");
    }
    let (sender, faults) = std::sync::mpsc::channel();
    let on_fault = move |_, _: &str, error: &KernelError| {
        sender.send(error.clone()).expect("the test listens");
    };
    let net = net_builder().on_fault(on_fault).build().expect("a net");
    let queue = queue(&net);
    let words = gpu().flags::<u64>(1).expect("memory");
    words.store(0, 1);
    queue.launch(fault_when_told, Shape::new(1, 32), (&words,)).expect("it fits");
    let error = faults.recv_timeout(deadline()).expect("the program is notified");
    assert!(matches!(&error, KernelError::Fault { kernel, .. } if kernel == "fault_when_told"));
    assert!(faults.recv_timeout(50 * MS).is_err(), "once");
    let refused = net.launch(idle, Shape::new(1, 32), ()).map(|launch| launch.wait());
    assert!(matches!(refused, Err(LaunchError::Down(DownError::Faulted))), "{refused:?}");
}
