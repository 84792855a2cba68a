//! Checks of stream-ordered operations that must fail when a bug is planted: a program of its own, since a
//! bug is planted in the whole process.

use std::io::Write as _;
use std::time::{Duration, Instant};

use gpunet_device::planted::{Bug, plant};
use gpunet_e2e::queued::{connected, queue, silent_peer};
use gpunet_e2e::script::SEED;
use gpunet_e2e::{Errno, deadline, eventually, gpu, is_cuda, net, peer, scaled_time, skip};
use gpunet_e2e_kernels::queues::fault_when_told;
use gpunet_host::gpu::EmulatedOptions;
use gpunet_host::{
    Batch, Condition, Gpu, GpuChoice, Shape, StreamError, StreamLimit, StreamQueue, Task, WaitError,
};

const MS: Duration = Duration::from_millis(1);

/// Long enough for what must happen, short enough to wait for what must not.
fn moment() -> Duration {
    scaled_time(500 * MS)
}

/// Whether later operations of a direction that failed fail at once.
fn a_direction_that_failed_stays_so() -> bool {
    let net = net();
    let (queue, silent) = (queue(&net), silent_peer());
    let socket = connected(&net, silent.address);
    let bytes = gpu().buffer::<u8>(8).expect("memory");
    let mut batch = Batch::new().timeout(20 * MS);
    batch.receive(socket, &bytes, ..).expect("in bounds");
    batch.receive(socket, &bytes, ..).expect("in bounds");
    let done = queue.post(&batch).expect("it is queued");
    done.wait_timeout(deadline()).expect_err("nobody sends");
    done.statuses() == [Errno::ETIMEDOUT, Errno::ECANCELED].map(|errno| Some(Err(errno)))
}

/// Whether an operation that fails says how.
fn a_failure_is_told() -> bool {
    let net = net();
    let (queue, silent) = (queue(&net), silent_peer());
    let socket = connected(&net, silent.address);
    let bytes = gpu().buffer::<u8>(8).expect("memory");
    let mut batch = Batch::new().timeout(20 * MS);
    batch.receive(socket, &bytes, ..).expect("in bounds");
    let failed = queue.post(&batch).expect("it is queued").wait_timeout(moment());
    matches!(failed, Err(WaitError::Operation { index: 0, errno: Errno::ETIMEDOUT }))
}

/// Whether a receive is done when its bytes are there, and not before.
fn a_status_comes_with_the_bytes() -> bool {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let served = peer::Peer::serve(move |mut stream| {
        peer::send(&mut stream, 0, 3000);
        let _ = wait.recv_timeout(deadline());
        peer::send(&mut stream, 3000, 5000);
        stream.flush().expect("it is open");
    });
    let net = net();
    let (queue, socket) = (queue(&net), connected(&net, served.address));
    let bytes = gpu().buffer::<u8>(8000).expect("memory");
    let done = queue.receive(socket, &bytes, ..).expect("it is queued");
    let early = done.wait_timeout(moment() / 4).is_ok();
    go.send(()).expect("the peer waits");
    let arrives = done.wait_timeout(deadline()).is_ok();
    !early && arrives && bytes.to_vec().expect("all of it") == peer::bytes(SEED, 0, 8000)
}

/// Whether an operation ends by its deadline however many pieces its bytes come in.
fn a_deadline_is_the_operation_s() -> bool {
    let served = peer::Peer::serve(|mut stream| {
        let begin = Instant::now();
        while begin.elapsed() < moment() * 4 && stream.write_all(&[1]).is_ok() {
            std::thread::sleep(10 * MS);
        }
    });
    let net = net();
    let (queue, socket) = (queue(&net), connected(&net, served.address));
    let bytes = gpu().buffer::<u8>(100_000).expect("memory");
    let mut batch = Batch::new().timeout(moment() / 4);
    batch.receive(socket, &bytes, ..).expect("in bounds");
    let failed = queue.post(&batch).expect("it is queued").wait_timeout(moment() * 2);
    matches!(failed, Err(WaitError::Operation { errno: Errno::ETIMEDOUT, .. }))
}

/// Whether launches of a graph are distinguished.
fn runs_are_counted() -> bool {
    let net = net();
    let queue = queue(&net);
    let words = gpu().flags::<u64>(1).expect("memory");
    let mut batch = Batch::new();
    batch.write(&words, 0, 1).expect("it is there");
    let graph = queue.graph(|graph| graph.post(&batch).map(drop)).expect("a graph");
    (1..=3).all(|launch| {
        graph.launch().expect("it is queued") == launch
            && graph.wait_launch(launch, moment()).is_ok()
    })
}

/// Whether counters may wrap.
fn counters_wrap() -> bool {
    let net = net();
    let queue = queue(&net);
    let words = gpu().flags::<u32>(1).expect("memory");
    words.store(0, 3);
    let mut batch = Batch::new();
    batch.wait(&words, 0, Condition::GreaterOrEqual, u32::MAX - 1).expect("it is there");
    queue.post(&batch).expect("it is queued").wait_timeout(moment()).is_ok()
}

/// A queue whose stream is held until the first word is set.
fn held(net: &gpunet_host::Net) -> (StreamQueue, gpunet_host::gpu::Flags<u64>) {
    let queue = queue(net);
    let words = net.gpu().flags::<u64>(3).expect("memory");
    let mut batch = Batch::new();
    batch.write(&words, 2, 1).expect("it is there");
    batch.wait(&words, 0, Condition::Equal, 1).expect("it is there");
    drop(queue.post(&batch).expect("it is queued"));
    assert!(eventually(|| words.load(2) == 1), "it runs");
    (queue, words)
}

/// Whether what is put on a stream runs in that order.
fn streams_keep_their_order() -> bool {
    let net = net();
    let (queue, words) = held(&net);
    let posts: Vec<_> = (1..=5)
        .map(|number| {
            let mut batch = Batch::new();
            batch.write(&words, 1, number).expect("it is there");
            queue.post(&batch).expect("it is queued")
        })
        .collect();
    words.store(0, 1);
    posts.iter().all(|post| post.wait_timeout(deadline()).is_ok()) && words.load(1) == 5
}

/// Whether nothing runs behind a fault.
fn a_fault_ends_its_stream() -> bool {
    let net = net();
    let queue = queue(&net);
    let words = gpu().flags::<u64>(2).expect("memory");
    queue.launch(fault_when_told, Shape::new(1, 32), (&words,)).expect("it fits");
    let mut batch = Batch::new();
    batch.write(&words, 1, 1).expect("it is there");
    let done = queue.post(&batch).expect("it is queued");
    words.store(0, 1);
    let failed = done.wait_timeout(deadline());
    std::thread::sleep(moment() / 10);
    matches!(failed, Err(WaitError::Kernel(_))) && words.load(1) == 0
}

/// Whether streams that wait leave queues to others.
fn queues_are_left() -> bool {
    let mut options = EmulatedOptions::default();
    options.queues = 4;
    let gpu = Gpu::open(GpuChoice::Emulated(options)).expect("it opens");
    let net = gpunet_e2e::net_builder_on(&gpu).build().expect("a net");
    let streams = [(); 2].map(|()| held(&net));
    let third = queue(&net);
    let words = gpu.flags::<u64>(1).expect("memory");
    let mut batch = Batch::new();
    batch.write(&words, 0, 1).expect("it is there");
    let refused = third.post(&batch).err();
    streams.iter().for_each(|(_, words)| words.store(0, 1));
    matches!(refused, Some(StreamError::Limit(StreamLimit::Streams { .. })))
}

/// Whether a status word is an operation's alone until it is done.
fn statuses_are_kept_until_written() -> bool {
    let net = net();
    let (queue, words) = held(&net);
    let mut batch = Batch::new();
    for _ in 0..255 {
        batch.write(&words, 1, 1).expect("there is room");
    }
    let refused = (0..20).find_map(|_| queue.post(&batch).err());
    words.store(0, 1);
    matches!(refused, Some(StreamError::Limit(StreamLimit::Operations { .. })))
}

/// The check that must find a bug.
fn check_of(bug: Bug) -> fn() -> bool {
    match bug {
        Bug::LatchIgnored => a_direction_that_failed_stays_so,
        Bug::FailureNotWritten => a_failure_is_told,
        Bug::StatusBeforeBytes => a_status_comes_with_the_bytes,
        Bug::DeadlineOfFirstPiece => a_deadline_is_the_operation_s,
        Bug::RunsNotCounted => runs_are_counted,
        Bug::ComparedWithoutWrap => counters_wrap,
        Bug::NewestKernelFirst => streams_keep_their_order,
        Bug::FaultPassedOver => a_fault_ends_its_stream,
        Bug::QueueLimitIgnored => queues_are_left,
        Bug::StatusUsedTooEarly => statuses_are_kept_until_written,
        other => panic!("{other:?} is none of queues"),
    }
}

/// Takes the bug out again, also when a check panics.
struct Planted;

impl Planted {
    fn new(bug: Bug) -> Self {
        plant(Some(bug));
        Self
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        plant(None);
    }
}

/// One test: what is planted is planted for all.
#[test]
fn checks_find_what_is_planted() {
    if is_cuda() {
        let name = "planted_queues: checks_find_what_is_planted";
        return skip(name, "kernels for a GPU are built without planted bugs");
    }
    for bug in Bug::OF_QUEUES {
        let check = check_of(bug);
        assert!(check(), "the check of {bug:?} fails without it");
        let found = {
            let _planted = Planted::new(bug);
            !check()
        };
        assert!(found, "{bug:?} is not found");
    }
}
