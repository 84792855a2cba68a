//! Stream-ordered operations: order and data, batches, words, graphs, operations that kernels run, and
//! everything that can end them.

use std::io::Read as _;
use std::time::{Duration, Instant};

use gpunet_device::Handle;
use gpunet_e2e::queued::{connected, queue, silent_peer};
use gpunet_e2e::{
    Errno, deadline, eventually, gpu, is_cuda, long, net, net_builder, peer, raise_file_limit,
    scaled_time, seeded_net,
};
use gpunet_e2e_kernels::queues::{run_prepared, step};
use gpunet_host::gpu::EmulatedOptions;
use gpunet_host::{
    Batch, Condition, Gpu, GpuChoice, LaunchError, Shape, SocketError, StreamError, StreamLimit,
    Task, WaitError,
};

const MS: Duration = Duration::from_millis(1);

/// What `step` makes of a number.
fn stepped(number: u32) -> u32 {
    number.wrapping_mul(3).wrapping_add(1)
}

#[test]
fn kernels_and_messages_keep_their_order() {
    let net = net();
    let (queue, socket) = (queue(&net), connected(&net, peer::echo_server()));
    for len in [1, 16, 64, 65, 1000, 1024, 5000, 70_000] {
        let sent = gpu().buffer::<u32>(len).expect("memory");
        let received = gpu().buffer::<u32>(len).expect("memory");
        let numbers: Vec<u32> = (0..len as u32).map(|at| at.wrapping_mul(at)).collect();
        sent.write(0, &numbers).expect("in bounds");
        queue.launch(step, Shape::new(2, 64), (&sent,)).expect("it fits");
        let mut exchange = Batch::new();
        // The ring is smaller than the message: both directions have to move.
        for at in (0..len).step_by(1024) {
            let range = at..len.min(at + 1024);
            exchange.send(socket, &sent, range.clone()).expect("in bounds");
            exchange.receive(socket, &received, range).expect("in bounds");
        }
        let done = queue.post(&exchange).expect("it is queued");
        queue.launch(step, Shape::new(1, 32), (&received,)).expect("it fits");
        done.wait_timeout(deadline()).expect("all arrive");
        queue.wait_timeout(deadline()).expect("nothing faults");
        let wanted: Vec<u32> = numbers.iter().map(|number| stepped(stepped(*number))).collect();
        assert_eq!(received.to_vec().expect("all of it"), wanted, "{len} numbers");
    }
}

#[test]
fn batches_of_every_length_run_in_order() {
    let net = net();
    let (queue, socket) = (queue(&net), connected(&net, peer::echo_server()));
    let words = gpu().buffer::<u32>(256).expect("memory");
    for pairs in [1, 2, 7, 8, 15, 16, 64, 127] {
        let numbers: Vec<u32> = (0..256).map(|at| at * 7 + pairs).collect();
        words.write(0, &numbers).expect("in bounds");
        let mut batch = Batch::new();
        for pair in 0..pairs as usize {
            batch.send(socket, &words, pair..=pair).expect("in bounds");
            batch.receive(socket, &words, 128 + pair..129 + pair).expect("in bounds");
        }
        let done = queue.post(&batch).expect("it is queued");
        assert_eq!(done.len(), 2 * pairs as usize);
        done.wait_timeout(deadline()).expect("all arrive");
        let got = words.to_vec().expect("all of it");
        let pairs = pairs as usize;
        assert_eq!(got[128..128 + pairs], numbers[..pairs], "{pairs} pairs");
    }
    let mut batch = Batch::new();
    for _ in 0..255 {
        batch.send(socket, &words, ..0).expect("there is room");
    }
    let refused = batch.send(socket, &words, ..0).expect_err("it is full");
    assert!(
        matches!(refused, StreamError::Limit(StreamLimit::Operations { possible: 255, .. })),
        "{refused}"
    );
    queue.post(&batch).expect("it is queued").wait_timeout(deadline()).expect("nothing is sent");
    queue.post(&Batch::new()).expect("nothing").wait_timeout(deadline()).expect("nothing fails");
    let beyond =
        Batch::new().send(socket, &words, 200..300).expect_err("it is too long").to_string();
    assert!(beyond.contains("of 256 elements"), "{beyond}");
}

#[test]
fn words_are_waited_for_and_written() {
    let net = net();
    let queue = queue(&net);
    let (narrow, wide) = (gpu().flags::<u32>(8).expect("memory"), gpu().flags(8).expect("memory"));
    let on_gpu = gpu().buffer::<u64>(2).expect("memory");
    // What each waits for: a value that does not hold, one that does.
    let cases = [
        (Condition::GreaterOrEqual, u32::MAX - 1, u32::MAX - 2, 3),
        (Condition::Equal, 7, 8, 7),
        (Condition::And, 0b110, 0b1001, 0b1100),
        (Condition::Nor, u32::MAX - 4, u32::MAX, u32::MAX - 5),
    ];
    for (condition, value, before, after) in cases {
        narrow.store(0, before);
        let (value64, before64) = (value as i32 as u64, before as i32 as u64);
        wide.store(0, before64);
        on_gpu.write(0, &[before64, 0]).expect("in bounds");
        let mut batch = Batch::new();
        batch.write(&narrow, 1, 1).expect("it is there");
        batch.wait(&narrow, 0, condition, value).expect("it is there");
        batch.write(&narrow, 1, 2).expect("it is there");
        batch.wait(&wide, 0, condition, value64).expect("it is there");
        batch.write(&wide, 1, 3).expect("it is there");
        batch.wait(&on_gpu, 0, condition, value64).expect("it is there");
        batch.write(&on_gpu, 1, 4).expect("it is there");
        let done = queue.post(&batch).expect("it is queued");
        assert!(eventually(|| narrow.load(1) == 1), "{condition:?}");
        std::thread::sleep(5 * MS);
        assert_eq!(done.statuses()[1..], [None; 6], "{condition:?} waits");
        narrow.store(0, after);
        assert!(eventually(|| narrow.load(1) == 2), "{condition:?}");
        std::thread::sleep(5 * MS);
        assert_eq!(done.status(3), None, "{condition:?} waits");
        wide.store(0, after as i32 as u64);
        assert!(eventually(|| wide.load(1) == 3), "{condition:?}");
        on_gpu.write(0, &[after as i32 as u64]).expect("in bounds");
        done.wait_timeout(deadline()).expect("all hold");
        assert_eq!(on_gpu.to_vec().expect("all of it")[1], 4);
        wide.store(1, 0);
        narrow.store(1, 0);
    }
    let refused = Batch::new().write(&narrow, 8, 0).expect_err("there is none").to_string();
    assert!(refused.contains("of 8 words"), "{refused}");
}

#[test]
fn a_deadline_ends_an_operation_and_later_ones_of_the_socket() {
    let net = net();
    let (queue, silent) = (queue(&net), silent_peer());
    let (quiet, echoing) = (connected(&net, silent.address), connected(&net, peer::echo_server()));
    let bytes = gpu().buffer::<u8>(64).expect("memory");
    let never = gpu().flags::<u64>(1).expect("memory");
    let mut batch = Batch::new().timeout(scaled_time(50 * MS));
    batch.receive(quiet, &bytes, ..8).expect("in bounds");
    batch.receive(quiet, &bytes, ..8).expect("in bounds");
    batch.send(quiet, &bytes, ..8).expect("in bounds");
    batch.wait(&never, 0, Condition::Equal, 1).expect("it is there");
    batch.send(echoing, &bytes, ..8).expect("in bounds");
    batch.receive(echoing, &bytes, ..8).expect("in bounds");
    let begin = Instant::now();
    let done = queue.post(&batch).expect("it is queued");
    let failed = done.wait_timeout(deadline()).expect_err("nobody sends");
    let errno = Errno::ETIMEDOUT;
    assert!(
        matches!(failed, WaitError::Operation { index: 0, errno: it } if it == errno),
        "{failed}"
    );
    assert!(begin.elapsed() >= scaled_time(100 * MS), "both deadlines pass");
    let wanted = [
        Some(Err(Errno::ETIMEDOUT)),
        // The direction is of no more use ...
        Some(Err(Errno::ECANCELED)),
        // ... the other one is, and so is everything else.
        Some(Ok(())),
        Some(Err(Errno::ETIMEDOUT)),
        Some(Ok(())),
        Some(Ok(())),
    ];
    assert_eq!(done.statuses(), wanted);
    // On another queue as well, at once.
    let (other, begin) = (gpunet_e2e::queued::queue(&net), Instant::now());
    let failed = other.receive(quiet, &bytes, ..1).expect("it is queued").wait_timeout(deadline());
    assert!(
        matches!(failed, Err(WaitError::Operation { errno: Errno::ECANCELED, .. })),
        "{failed:?}"
    );
    assert!(begin.elapsed() < deadline() / 2);
    other
        .receive(Handle::NONE, &bytes, ..1)
        .expect("it is queued")
        .wait_timeout(deadline())
        .expect_err("none");
}

#[test]
fn a_peer_that_goes_in_the_middle_of_a_batch() {
    let net = net();
    let served = peer::Peer::serve(|mut stream| {
        for _ in 0..40 {
            peer::send(&mut stream, 0, 100);
        }
        // Not a whole message.
        peer::send(&mut stream, 0, 50);
    });
    let (queue, socket) = (queue(&net), connected(&net, served.address));
    let (bytes, count) = (gpu().buffer::<u8>(100).expect("memory"), 100);
    let mut batch = Batch::new();
    for _ in 0..count {
        batch.receive(socket, &bytes, ..).expect("in bounds");
    }
    let done = queue.post(&batch).expect("it is queued");
    served.result();
    let failed = done.wait_timeout(deadline()).expect_err("the peer is gone");
    assert!(matches!(failed, WaitError::Operation { index: 40, .. }), "{failed}");
    let statuses = done.statuses();
    assert_eq!(statuses[..40], [Some(Ok(())); 40]);
    assert_eq!(statuses[40], Some(Err(Errno::EPIPE)));
    assert_eq!(statuses[41..], [Some(Err(Errno::ECANCELED)); 59]);
    queue.wait_timeout(deadline()).expect("nothing faults");
}

#[test]
fn a_graph_runs_again_and_again() {
    let net = net();
    let (queue, socket) = (queue(&net), connected(&net, peer::echo_server()));
    let numbers = gpu().buffer::<u32>(100).expect("memory");
    let mut exchange = Batch::new();
    exchange.send(socket, &numbers, ..).expect("in bounds");
    exchange.receive(socket, &numbers, ..).expect("in bounds");
    let graph = queue
        .graph(|graph| {
            graph.launch(step, Shape::new(1, 64), (&numbers,))?;
            graph.post(&exchange)?.post(&exchange)?;
            Ok(())
        })
        .expect("a graph");
    let mut wanted = 0;
    for run in 1..=20 {
        assert_eq!(graph.launch().expect("it is queued"), run);
        wanted = stepped(wanted);
        if run % 5 == 0 {
            graph.wait_launch(run, deadline()).expect("all arrive");
            assert!(graph.statuses().iter().all(|status| *status == (run, Ok(()))), "{graph:?}");
            assert_eq!(numbers.to_vec().expect("all of it"), [wanted; 100]);
        }
    }
    graph.wait_launch(21, 20 * MS).expect_err("it was not launched");
    assert!(graph.is_finished(), "its last launch is done");
    queue.wait().expect("nothing faults");
    assert!(queue.is_finished());
}

/// One that fails early leaves others to run, which use memory of the program.
#[test]
fn a_graph_is_finished_when_all_its_operations_are() {
    let net = net();
    let queue = queue(&net);
    let flags = gpu().flags::<u64>(1).expect("memory");
    let (mut fails, mut waits) = (Batch::new().timeout(MS), Batch::new());
    fails.wait(&flags, 0, Condition::Equal, 7).expect("it is there");
    waits.wait(&flags, 0, Condition::Equal, 1).expect("it is there");
    let graph = queue
        .graph(|graph| {
            graph.post(&fails)?.post(&waits)?;
            Ok(())
        })
        .expect("a graph");
    assert_eq!(graph.launch().expect("it is queued"), 1);
    let failed = || graph.statuses()[0] == (1, Err(Errno::ETIMEDOUT));
    assert!(eventually(failed), "{graph:?}");
    let waited = graph.wait_timeout(20 * MS).expect_err("the second waits");
    assert!(matches!(waited, WaitError::StillRunning { operation: Some(1), .. }), "{waited}");
    assert!(!graph.is_finished());
    flags.store(0, 1);
    let waited = graph.wait_timeout(deadline()).expect_err("the first has failed");
    let failed = matches!(waited, WaitError::Operation { index: 0, errno: Errno::ETIMEDOUT });
    assert!(failed, "{waited}");
    assert!(graph.is_finished());
}

#[test]
fn a_kernel_runs_operations_that_were_prepared() {
    let net = net();
    let (queue, socket) = (queue(&net), connected(&net, peer::echo_server()));
    let (sent, received) =
        (gpu().buffer::<u8>(600).expect("m"), gpu().buffer::<u8>(600).expect("m"));
    let (results, flags) = (gpu().buffer::<i64>(6).expect("m"), gpu().flags::<u64>(2).expect("m"));
    sent.write(0, &peer::bytes(7, 0, 600)).expect("in bounds");
    // Time enough for an answer also on a busy machine; the last wait takes all of it, three times.
    let mut batch = Batch::new().timeout(scaled_time(1000 * MS));
    batch.send(socket, &sent, ..).expect("in bounds");
    batch.receive(socket, &received, ..).expect("in bounds");
    batch.write(&flags, 0, 5).expect("it is there");
    batch.wait(&flags, 0, Condition::GreaterOrEqual, 5).expect("it is there");
    batch.wait(&flags, 1, Condition::Equal, 1).expect("it is there");
    let prepared = queue.prepare(&batch).expect("memory");
    assert!(!prepared.is_finished(), "no kernel has run them");
    assert!(prepared.statuses().iter().all(|(runs, _)| *runs == 0));
    results.write(0, &[1; 6]).expect("in bounds");
    let launch = net.launch(run_prepared, Shape::new(1, 64), (&prepared, &results, 3_u32));
    launch.expect("it starts").wait_timeout(deadline()).expect("it ends");
    let (late, none) = (Errno::ETIMEDOUT.negative(), Errno::EINVAL.negative());
    assert_eq!(results.to_vec().expect("all of it"), [0, 0, 0, 0, late, none]);
    assert_eq!(received.to_vec().expect("all of it"), peer::bytes(7, 0, 600));
    let failed = prepared.wait_runs(3, deadline()).expect_err("nobody sets the flag");
    assert!(
        matches!(failed, WaitError::Operation { index: 4, errno: Errno::ETIMEDOUT }),
        "{failed}"
    );
    assert!(prepared.statuses().iter().all(|(runs, _)| *runs == 3));
}

#[test]
fn order_and_data_whatever_the_interleaving() {
    // Each seed is a GPU of its own, in the order that it draws.
    let seeds = long::count("GPUNET_QUEUE_SEEDS", if is_cuda() { 2 } else { 30 }, 1000);
    for seed in 0..seeds {
        let net = seeded_net(seed);
        let gpu = net.gpu().clone();
        let (queue, socket) = (queue(&net), connected(&net, peer::echo_server()));
        let len = 1 + (seed as usize * 97) % 900;
        let (sent, received) =
            (gpu.buffer::<u32>(len).expect("m"), gpu.buffer::<u32>(len).expect("m"));
        let numbers: Vec<u32> = (0..len as u32).map(|at| at ^ seed as u32).collect();
        sent.write(0, &numbers).expect("in bounds");
        let mut exchange = Batch::new();
        exchange.send(socket, &sent, ..).expect("in bounds");
        exchange.receive(socket, &received, ..).expect("in bounds");
        let mut posts = Vec::new();
        for _ in 0..3 {
            queue.launch(step, Shape::new(1, 32), (&sent,)).expect("it fits");
            posts.push(queue.post(&exchange).expect("it is queued"));
        }
        for post in posts {
            post.wait_timeout(deadline()).expect("all arrive");
        }
        let wanted: Vec<u32> = numbers.iter().map(|it| stepped(stepped(stepped(*it)))).collect();
        assert_eq!(received.to_vec().expect("all of it"), wanted, "seed {seed}");
    }
}

#[test]
fn many_streams_and_sockets_at_once() {
    raise_file_limit();
    let net = net_builder().proxy_threads(2).build().expect("a net");
    let queues: Vec<_> = (0..6).map(|_| queue(&net)).collect();
    let sockets: Vec<_> = (0..6).map(|_| connected(&net, peer::echo_server())).collect();
    let buffers: Vec<_> = (0..6).map(|_| gpu().buffer::<u32>(300).expect("memory")).collect();
    let mut posts = Vec::new();
    for round in 0..5 {
        for (at, queue) in queues.iter().enumerate() {
            queue.launch(step, Shape::new(1, 64), (&buffers[at],)).expect("it fits");
            let mut batch = Batch::new();
            batch.send(sockets[at], &buffers[at], ..).expect("in bounds");
            batch.receive(sockets[at], &buffers[at], ..).expect("in bounds");
            posts.push((round, queue.post(&batch).expect("it is queued")));
        }
    }
    for (round, post) in posts {
        post.wait_timeout(deadline()).unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    let wanted = (0..5).fold(0, |number, _| stepped(number));
    for buffer in &buffers {
        assert_eq!(buffer.to_vec().expect("all of it"), [wanted; 300]);
    }
}

#[test]
fn what_goes_while_operations_are_queued() {
    let silent = silent_peer();
    for what in 0..5 {
        let net = net();
        let (queue, socket) = (queue(&net), connected(&net, silent.address));
        let bytes = gpu().buffer::<u8>(64).expect("memory");
        let mut batch = Batch::new().timeout(scaled_time(200 * MS));
        for _ in 0..3 {
            batch.receive(socket, &bytes, ..).expect("in bounds");
        }
        let done = queue.post(&batch).expect("it is queued");
        let stopped = [Some(Err(Errno::ECANCELED)); 3];
        match what {
            // The buffer, and the queue with its stream.
            0 => drop((bytes, batch, queue)),
            // The net: what waits is stopped.
            1 => {
                drop(net);
                assert_eq!(done.statuses(), stopped);
                let gone = queue.post(&batch).expect_err("it has no net");
                assert!(matches!(gone, StreamError::Closed(_)), "{gone}");
                continue;
            }
            2 => {
                queue.abort();
                done.wait_timeout(deadline()).expect_err("it is stopped");
                assert_eq!(done.statuses(), stopped);
                continue;
            }
            // Nobody asks for the outcome; what comes behind does not wait for it.
            3 => {
                drop(done);
                let later = queue.post(&Batch::new()).expect("it is queued");
                later.wait_timeout(deadline()).expect("there is nothing to do");
                queue.wait_timeout(deadline()).expect("nothing faults");
                continue;
            }
            // All of it.
            _ => {
                drop((net, queue, bytes, batch));
                assert_eq!(done.statuses(), stopped);
                continue;
            }
        }
        done.wait_timeout(deadline()).expect_err("nobody sends");
        let canceled = Some(Err(Errno::ECANCELED));
        assert_eq!(done.statuses(), [Some(Err(Errno::ETIMEDOUT)), canceled, canceled]);
        // The launch of the queue has ended.
        assert!(eventually(|| net
            .take_back(Handle::NONE)
            .is_err_and(|error| { !matches!(error, SocketError::Busy) })));
    }
}

#[test]
fn statuses_are_used_again() {
    let net = net();
    let queue = queue(&net);
    let go = gpu().flags::<u64>(1).expect("memory");
    let mut wait = Batch::new();
    wait.wait(&go, 0, Condition::Equal, 1).expect("it is there");
    let held = queue.post(&wait).expect("it is queued");
    let mut batch = Batch::new();
    for _ in 0..255 {
        batch.write(&go, 0, 1).expect("there is room");
    }
    // Behind one that waits, until none is left.
    let full = loop {
        match queue.post(&batch) {
            Ok(done) => drop(done),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(full, StreamError::Limit(StreamLimit::Operations { possible: 4096, .. })),
        "{full}"
    );
    go.store(0, 1);
    held.wait_timeout(deadline()).expect("it holds");
    queue.wait_timeout(deadline()).expect("nothing faults");
    for _ in 0..20 {
        queue
            .post(&batch)
            .expect("there are some again")
            .wait_timeout(deadline())
            .expect("they are written");
    }
}

#[test]
fn another_gpu_s_streams_and_buffers_are_refused() {
    let net = net();
    let other = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
    let refused = net.queue(&other.stream().expect("a stream")).expect_err("it is elsewhere");
    assert!(matches!(refused, StreamError::Launch(LaunchError::OtherGpu(_))), "{refused}");
    let (queue, bytes) = (queue(&net), other.buffer::<u8>(4).expect("memory"));
    let refused = queue.send(Handle::NONE, &bytes, ..).expect_err("it is elsewhere");
    assert!(matches!(refused, StreamError::Launch(LaunchError::OtherGpu(_))), "{refused}");
    // Words in host memory as well: the other GPU would not keep them for this one's kernels.
    let (words, mut batch) = (other.flags::<u64>(1).expect("memory"), Batch::new());
    batch.write(&words, 0, 1).expect("it is there");
    let refused = queue.post(&batch).expect_err("it is elsewhere");
    assert!(matches!(refused, StreamError::Launch(LaunchError::OtherGpu(_))), "{refused}");
    assert_eq!(words.load(0), 0);
}

#[test]
fn an_idle_queue_lets_the_proxy_sleep() {
    let (net, bytes) = (net(), gpu().buffer::<u8>(10).expect("memory"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = std::net::TcpStream::connect(listener.local_addr().expect("its address"));
    let socket = net.hand_over(near.expect("it listens")).expect("it is taken");
    let (mut far, _) = listener.accept().expect("it connected");
    let queue = queue(&net);
    queue
        .send(socket, &bytes, ..)
        .expect("it is queued")
        .wait_timeout(deadline())
        .expect("it goes");
    far.read_exact(&mut [0; 10]).expect("it arrives");
    queue.wait_timeout(deadline()).expect("nothing faults");
    let mut turns = 0;
    let is_idle = || {
        let before = net.statistics().turns;
        std::thread::sleep(100 * MS);
        turns = net.statistics().turns - before;
        turns < 500
    };
    assert!(eventually(is_idle), "{turns} turns of the proxy in 100 ms");
    queue
        .send(socket, &bytes, ..)
        .expect("it is queued")
        .wait_timeout(deadline())
        .expect("it goes");
    // But it knows of the socket.
    assert!(matches!(net.take_back(socket), Err(SocketError::Busy)));
    drop(queue);
    assert!(eventually(|| net.take_back(socket).is_ok()));
}
