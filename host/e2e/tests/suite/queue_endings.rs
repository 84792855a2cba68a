//! Stream-ordered operations under attack: sizes and alignments at the borders, sockets that go or are
//! of another kind, nets and memory that go in any order, several queues on one socket.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gpunet_device::Handle;
use gpunet_e2e::queued::{connected, queue, silent_peer};
use gpunet_e2e::script::SEED;
use gpunet_e2e::{
    Errno, Job, Script, SocketOption, any_port, deadline, drop_in_order, eventually, flags, gpu,
    net, net_builder, peer, raise_file_limit, scaled_time, soon, timeout,
};
use gpunet_e2e_kernels::queues::step;
use gpunet_host::{
    Batch, Completions, Condition, Shape, StreamError, StreamLimit, StreamQueue, Task, WaitError,
};

const MS: Duration = Duration::from_millis(1);

/// How the only operation of a post failed.
fn failure(done: &Completions) -> Errno {
    match done.wait_timeout(deadline()) {
        Err(WaitError::Operation { index: 0, errno }) => errno,
        other => panic!("it does not fail: {other:?}"),
    }
}

/// Has a kernel close a socket.
fn close(net: &gpunet_host::Net, socket: Handle) {
    let mut script = Script::new();
    script.given(0, socket).close(0);
    Job::blocks(32).script(&script).run(net);
}

#[test]
fn messages_of_odd_sizes_and_places_arrive_whole() {
    let net = net();
    let socket = connected(&net, peer::echo_server());
    // The peer sends back while the rest is still to be sent.
    let (sending, receiving) = (queue(&net), queue(&net));
    let sizes = [0, 1, 255, 256, 257, 4095, 4096, 4097, 65_535, 65_536, 65_537, 2 << 20];
    for (at, size) in sizes.into_iter().enumerate() {
        for (from, to) in [(0, 0), (1, 7), (at + 3, 16 - at)] {
            let sent = gpu().buffer::<u8>(size + 32).expect("memory");
            let received = gpu().buffer::<u8>(size + 32).expect("memory");
            let bytes = peer::bytes(at as u64, 0, size + 32);
            sent.write(0, &bytes).expect("in bounds");
            received.write(0, &vec![0xA5; size + 32]).expect("in bounds");
            let sends = sending.send(socket, &sent, from..from + size).expect("it is queued");
            let receives =
                receiving.receive(socket, &received, to..to + size).expect("it is queued");
            sends.wait_timeout(deadline()).expect("it is sent");
            receives.wait_timeout(deadline()).expect("it arrives");
            let got = received.to_vec().expect("all of it");
            assert!(got[to..to + size] == bytes[from..from + size], "{size} bytes {from} to {to}");
            let around = got[..to].iter().chain(&got[to + size..]);
            assert!(around.clone().all(|byte| *byte == 0xA5), "{size} bytes, beside them");
        }
    }
}

#[test]
fn a_reset_in_the_middle_of_a_large_send() {
    if !peer::can_reset("queue_endings::a_reset_in_the_middle_of_a_large_send") {
        return;
    }
    let net = net();
    let served = peer::Peer::serve(|mut stream| {
        peer::receive(&mut stream, 0, 10_000);
        peer::reset(stream);
    });
    let (queue, socket) = (queue(&net), connected(&net, served.address));
    let bytes = gpu().buffer::<u8>(32 << 20).expect("memory");
    bytes.write(0, &peer::bytes(SEED, 0, 10_000)).expect("in bounds");
    let mut batch = Batch::new();
    batch.send(socket, &bytes, ..).expect("in bounds");
    batch.send(socket, &bytes, ..1).expect("in bounds");
    batch.receive(socket, &bytes, ..1).expect("in bounds");
    let done = queue.post(&batch).expect("it is queued");
    served.result();
    let errno = failure(&done);
    assert!(matches!(errno, Errno::ECONNRESET | Errno::EPIPE), "{errno}");
    let statuses = done.statuses();
    assert_eq!(statuses[1], Some(Err(Errno::ECANCELED)));
    assert!(matches!(statuses[2], Some(Err(_))), "nothing comes any more: {:?}", statuses[2]);
}

#[test]
fn a_socket_that_is_closed_under_operations() {
    let net = net();
    let silent = silent_peer();
    let (first, second) = (queue(&net), queue(&net));
    let socket = connected(&net, silent.address);
    let bytes = gpu().buffer::<u8>(64).expect("memory");
    let started = gpu().flags::<u64>(1).expect("memory");
    let mut batch = Batch::new();
    batch.write(&started, 0, 1).expect("it is there");
    batch.receive(socket, &bytes, ..).expect("in bounds");
    batch.receive(socket, &bytes, ..).expect("in bounds");
    let done = first.post(&batch).expect("it is queued");
    assert!(eventually(|| started.load(0) == 1));
    std::thread::sleep(5 * MS);
    close(&net, socket);
    done.wait_timeout(deadline()).expect_err("it is closed");
    assert_eq!(done.statuses(), [Some(Ok(())), Some(Err(Errno::EBADF)), Some(Err(Errno::EBADF))]);
    assert_eq!(failure(&second.send(socket, &bytes, ..1).expect("it is queued")), Errno::EBADF);
    assert_eq!(failure(&second.send(socket, &bytes, ..0).expect("it is queued")), Errno::EBADF);
}

#[test]
fn operations_on_other_handles_fail() {
    let net = net();
    let queue = queue(&net).timeout(timeout());
    let bytes = gpu().buffer::<u8>(5000).expect("memory");
    let (flags, mut script) = (flags(), Script::new());
    script.poller_in(0).give_handle(0, 0).wait_flag(1).poller_close();
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    let poller = Handle(started.until(&flags, 0));
    let (listener, _) = net.listen(any_port()).expect("a port");
    // Its ring holds events, for which a receive waits as long as it may.
    let received = Batch::new().timeout(20 * MS).receive(poller, &bytes, ..).cloned();
    failure(&queue.post(&received.expect("in bounds")).expect("it is queued"));
    assert_eq!(failure(&queue.send(poller, &bytes, ..).expect("queued")), Errno::ENOTCONN);
    let begin = Instant::now();
    let garbage =
        [Handle::NONE, Handle(u64::MAX), Handle::new(200, 7, 1), Handle::new(0, 999_999, 1)];
    for handle in [listener].into_iter().chain(garbage) {
        for length in [1, 300, 5000] {
            for send in [true, false] {
                let done = match send {
                    true => queue.send(handle, &bytes, ..length),
                    false => queue.receive(handle, &bytes, ..length),
                };
                let errno = failure(&done.expect("it is queued"));
                assert_ne!(errno, Errno::ETIMEDOUT, "{handle:?}, {length} bytes, send {send}");
            }
        }
    }
    assert!(begin.elapsed() < soon(), "none of them waits: {:?}", begin.elapsed());
    flags.set(1, 1);
    started.finish();
}

/// A handle of before that has the same place must not make a failed socket look well again.
#[test]
fn a_socket_s_mark_is_its_own() {
    let net = net_builder().sockets(4).build().expect("a net");
    let (queue, silent) = (queue(&net), silent_peer());
    let bytes = gpu().buffer::<u8>(8).expect("memory");
    let old = connected(&net, silent.address);
    close(&net, old);
    // The place is used again, sooner or later.
    let mut tries = 0;
    let new = loop {
        let new = connected(&net, silent.address);
        if (new.shard(), new.slot()) == (old.shard(), old.slot()) {
            break new;
        }
        close(&net, new);
        tries += 1;
        assert!(tries < 100, "the place stays free");
    };
    let mut batch = Batch::new().timeout(scaled_time(30 * MS));
    batch.receive(new, &bytes, ..).expect("in bounds");
    batch.receive(old, &bytes, ..).expect("in bounds");
    batch.receive(new, &bytes, ..).expect("in bounds");
    let done = queue.post(&batch).expect("it is queued");
    done.wait_timeout(deadline()).expect_err("nobody sends");
    let wanted = [Errno::ETIMEDOUT, Errno::EBADF, Errno::ECANCELED].map(|errno| Some(Err(errno)));
    assert_eq!(done.statuses(), wanted);
    // And one that never was does not spoil a socket that is well.
    let well = connected(&net, peer::echo_server());
    let never = Handle::new(well.shard() + 128, well.slot(), well.generation());
    for handle in [never, Handle::new(well.shard(), well.slot() + 512, well.generation())] {
        assert_eq!(failure(&queue.send(handle, &bytes, ..).expect("queued")), Errno::EBADF);
    }
    queue.send(well, &bytes, ..).expect("queued").wait_timeout(deadline()).expect("it is sent");
}

#[test]
fn an_operation_leaves_a_socket_its_timeouts() {
    let net = net();
    let (queue, socket) = (queue(&net), connected(&net, peer::echo_server()));
    let bytes = gpu().buffer::<u8>(300).expect("memory");
    let options = [(SocketOption::ReceiveTimeout, 7_654_321), (SocketOption::SendTimeout, 98_765)];
    let (mut set, mut get) = (Script::new(), Script::new());
    set.given(0, socket);
    get.given(0, socket);
    for (option, ns) in options {
        set.set(0, option, ns * 1_000_000);
        get.get(0, option, ns as i64 * 1_000_000);
    }
    Job::blocks(32).script(&set).run(&net);
    let mut batch = Batch::new();
    batch.send(socket, &bytes, ..).expect("in bounds");
    batch.receive(socket, &bytes, ..).expect("in bounds");
    queue.post(&batch).expect("it is queued").wait_timeout(deadline()).expect("all arrive");
    let late =
        Batch::new().timeout(20 * MS).receive(socket, &bytes, ..).expect("in bounds").clone();
    assert_eq!(failure(&queue.post(&late).expect("it is queued")), Errno::ETIMEDOUT);
    Job::blocks(32).script(&get).run(&net);
}

/// Bytes of operations of different queues may come in any order, but all of them do, once.
#[test]
fn two_queues_send_on_one_socket_at_once() {
    const POSTS: usize = 60;
    const BYTES: usize = 3000;
    let net = net();
    let served = peer::Peer::serve(|mut stream| {
        let mut counts = [0_usize; 3];
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = std::io::Read::read(&mut stream, &mut buffer) {
            buffer[..count].iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        }
        counts
    });
    let socket = connected(&net, served.address);
    std::thread::scope(|scope| {
        for value in [1_u8, 2] {
            let queue = queue(&net);
            scope.spawn(move || {
                let bytes = gpu().buffer::<u8>(BYTES).expect("memory");
                bytes.write(0, &[value; BYTES]).expect("in bounds");
                let posts: Vec<_> = (0..POSTS)
                    .map(|_| queue.send(socket, &bytes, ..).expect("it is queued"))
                    .collect();
                posts.iter().for_each(|post| post.wait_timeout(deadline()).expect("it is sent"));
            });
        }
    });
    close(&net, socket);
    assert_eq!(served.result(), [0, POSTS * BYTES, POSTS * BYTES]);
}

#[test]
fn launches_of_a_graph_are_numbered_in_order() {
    let net = net();
    let queue = queue(&net);
    let count = gpu().flags::<u64>(1).expect("memory");
    let mut batch = Batch::new();
    batch.write(&count, 0, 1).expect("it is there");
    let numbers = gpu().buffer::<u32>(1).expect("memory");
    let graph = queue
        .graph(|graph| {
            graph.launch(step, Shape::new(1, 32), (&numbers,))?.post(&batch)?;
            Ok(())
        })
        .expect("a graph");
    let sum = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let launch = graph.launch().expect("it is queued");
                    sum.fetch_add(launch.into(), Ordering::Relaxed);
                    graph.wait_launch(launch, deadline()).expect("it is written");
                    assert!(graph.statuses()[0].0 >= launch);
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), (1..=100).sum::<u64>());
    assert_eq!(graph.statuses(), [(100, Ok(()))]);
}

#[test]
fn a_net_that_goes_while_threads_post() {
    raise_file_limit();
    for round in 0..8 {
        let net = net();
        let silent = silent_peer();
        let socket = connected(&net, silent.address);
        let shared = Arc::new(queue(&net));
        let mut queues: Vec<Arc<StreamQueue>> = vec![Arc::clone(&shared), shared];
        queues.extend((0..2).map(|_| Arc::new(queue(&net))));
        let threads: Vec<_> = queues
            .into_iter()
            .enumerate()
            .map(|(at, queue)| {
                std::thread::spawn(move || {
                    let bytes = gpu().buffer::<u8>(64).expect("memory");
                    let numbers = gpu().buffer::<u32>(64).expect("memory");
                    let mut batch = Batch::new();
                    match at {
                        // This one waits.
                        0 => batch.receive(socket, &bytes, ..).expect("in bounds"),
                        _ => batch.send(socket, &bytes, ..).expect("in bounds"),
                    };
                    let mut last = None;
                    let error = loop {
                        match queue.post(&batch) {
                            Ok(done) => last = Some(done),
                            Err(StreamError::Limit(StreamLimit::Kernels { .. })) => {
                                std::thread::sleep(MS);
                            }
                            Err(error) => break error,
                        }
                        match queue.launch(step, Shape::new(1, 32), (&numbers,)) {
                            Ok(()) | Err(StreamError::Limit(StreamLimit::Kernels { .. })) => {}
                            Err(error) => break error,
                        }
                    };
                    assert!(matches!(error, StreamError::Closed(_)), "{error}");
                    let last =
                        last.map(|done| (done.wait_timeout(deadline()).err(), done.is_finished()));
                    assert!(last.is_none_or(|(_, done)| done), "what is queued ends");
                    assert!(queue.stream().wait(deadline()).expect("nothing faults"));
                })
            })
            .collect();
        std::thread::sleep(round * 3 * MS);
        // It does not give up a stream: so few kernels may wait there that they end in time.
        std::thread::spawn(move || drop_in_order(net)).join().expect("it goes");
        threads.into_iter().for_each(|thread| thread.join().expect("it returns"));
    }
}

/// Each thing is dropped at any time while operations wait, in orders drawn from a number.
#[test]
fn everything_goes_in_any_order() {
    raise_file_limit();
    let silent = silent_peer();
    for order in 0..60_u64 {
        let net = net();
        let stream = gpu().stream().expect("a stream");
        let queue = net.queue(&stream).expect("a queue").timeout(scaled_time(30 * MS));
        let socket = connected(&net, silent.address);
        let bytes = gpu().buffer::<u8>(64).expect("memory");
        let words = gpu().flags::<u64>(2).expect("memory");
        let mut batch = Batch::new();
        batch.wait(&words, 0, Condition::Equal, 1).expect("it is there");
        batch.receive(socket, &bytes, ..).expect("in bounds");
        batch.write(&words, 1, 1).expect("it is there");
        let prepared = queue.prepare(&batch).expect("memory");
        let done = queue.post(&batch).expect("it is queued");
        let later = queue.post(&batch).expect("it is queued");
        let graph = queue.graph(|graph| graph.post(&batch).map(drop)).expect("a graph");
        graph.launch().expect("it is queued");
        // The language has it go before its queue.
        drop(graph);
        let mut things: Vec<Box<dyn Any>> = vec![
            Box::new(net),
            Box::new(queue),
            Box::new(stream),
            Box::new(bytes),
            Box::new(words),
            Box::new(batch),
            Box::new(prepared),
            Box::new(later),
        ];
        let mut drawn = order.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D;
        while !things.is_empty() {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            drop(things.swap_remove((drawn >> 33) as usize % things.len()));
        }
        done.wait_timeout(deadline()).expect_err("nobody sends or sets anything");
        assert!(done.is_finished(), "order {order}: {done:?}");
    }
}
