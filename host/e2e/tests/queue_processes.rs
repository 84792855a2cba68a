//! Stream-ordered operations that need a process of their own: one whose hardware has so many queues, and
//! peers that are killed.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use gpunet_e2e::child::{self, Child};
use gpunet_e2e::queued::queue;
use gpunet_e2e::{Errno, deadline, eventually, gpu, is_cuda, net, net_builder_on, soon};
use gpunet_e2e_kernels::queues::step;
use gpunet_host::gpu::EmulatedOptions;
use gpunet_host::{
    Batch, Condition, Gpu, GpuChoice, Shape, StreamError, StreamLimit, Task, WaitError,
};

/// Operations of a batch, of which every other one sends.
const OPERATIONS: usize = 100;
/// Messages that a peer answers before it is killed.
const ANSWERED: usize = 20;
const MESSAGE: usize = 1000;

/// Of a GPU with so many queues, all streams but two may wait.
fn streams_that_wait(gpu: &Gpu, queues: usize) {
    let net = net_builder_on(gpu).build().expect("a net");
    let go = gpu.flags::<u64>(1).expect("memory");
    let mut batch = Batch::new();
    batch.wait(&go, 0, Condition::Equal, 1).expect("it is there");
    let streams: Vec<_> = (0..queues).map(|_| queue(&net)).collect();
    let posts: Vec<_> = streams.iter().map(|queue| queue.post(&batch)).collect();
    for (at, post) in posts.iter().enumerate() {
        match post {
            Ok(_) => assert!(at < queues - 2, "{at} of {queues}"),
            Err(StreamError::Limit(StreamLimit::Streams { streams, possible, .. })) => {
                assert!(at >= queues - 2 && *streams == queues - 2 && possible == streams);
            }
            Err(other) => panic!("{other}"),
        }
    }
    // More on a stream that waits takes nothing more.
    let more = streams[0].post(&batch).expect("it has its queue");
    // Another kernel runs meanwhile.
    let numbers = gpu.buffer::<u32>(10).expect("memory");
    let launch = net.launch(step, Shape::new(1, 32), (&numbers,)).expect("a queue is left");
    launch.wait_timeout(deadline()).expect("it ends");
    go.store(0, 1);
    posts
        .iter()
        .flatten()
        .chain([&more])
        .for_each(|post| post.wait_timeout(deadline()).expect("it holds"));
    let again =
        || streams[queues - 1].post(&batch).map(|post| post.wait_timeout(deadline())).is_ok();
    assert!(eventually(again), "there is room again");
}

/// CUDA has as many queues as the environment says when the driver starts.
#[test]
fn as_many_streams_wait_as_there_are_queues_for() {
    let name = "as_many_streams_wait_as_there_are_queues_for";
    for queues in [7, 8, 31, 32] {
        match child::part() {
            Some(part) => return streams_that_wait(gpu(), part.parse().expect("a number")),
            None if is_cuda() => {
                let variables = [("CUDA_DEVICE_MAX_CONNECTIONS", queues.to_string())];
                child::alone_with(name, &queues.to_string(), "qp", &variables);
            }
            None => {
                let mut options = EmulatedOptions::default();
                options.queues = queues;
                let gpu = Gpu::open(GpuChoice::Emulated(options)).expect("it opens");
                streams_that_wait(&gpu, queues);
            }
        }
    }
}

/// Making a stream would wait for the kernel, so there are some from the start; a stream that is dropped
/// is there again.
#[test]
fn streams_are_made_beside_a_kernel_that_runs() {
    let name = "streams_are_made_beside_a_kernel_that_runs";
    if child::part().is_none() {
        return child::alone(name, "alone", "qs");
    }
    let (net, go) = (net(), gpu().flags::<u64>(1).expect("memory"));
    let mut batch = Batch::new();
    batch.wait(&go, 0, Condition::Equal, 1).expect("it is there");
    let waits = queue(&net);
    let post = waits.post(&batch).expect("it is queued");
    let begin = Instant::now();
    for _ in 0..3 {
        let mut streams = Vec::new();
        for _ in 0..50 {
            match gpu().stream() {
                Ok(stream) => streams.push(stream),
                Err(StreamError::Limit(StreamLimit::WhileRunning { running: 1, possible }))
                    if is_cuda() =>
                {
                    assert_eq!(streams.len() + 1, possible, "one of them waits");
                    break;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(streams.len(), if is_cuda() { 31 } else { 50 });
    }
    assert!(begin.elapsed() < soon(), "it took {:?}", begin.elapsed());
    go.store(0, 1);
    post.wait_timeout(deadline()).expect("it holds");
    assert!(waits.stream().wait(deadline()).expect("nothing faults"));
    let more: Vec<_> = (0..50).map(|_| gpu().stream().expect("no kernel runs")).collect();
    drop(more);
}

/// Answers some messages, and then reads no more.
fn answer_some(address: &str) {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    let mut message = [0; MESSAGE];
    for _ in 0..ANSWERED {
        stream.read_exact(&mut message).expect("a message");
        stream.write_all(&message).expect("it is taken");
    }
    std::thread::sleep(deadline());
}

#[test]
fn a_peer_killed_in_the_middle_of_a_batch_fails_the_rest() {
    let name = "a_peer_killed_in_the_middle_of_a_batch_fails_the_rest";
    if let Some(part) = child::part() {
        return answer_some(&part);
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let peer = Child::start(name, &address.to_string());
    let (stream, _) = listener.accept().expect("the peer comes");
    let net = net();
    let (queue, socket) = (queue(&net), net.hand_over(stream).expect("it is taken"));
    let (sent, got) = (gpu().buffer::<u8>(MESSAGE), gpu().buffer::<u8>(MESSAGE));
    let (sent, got) = (sent.expect("memory"), got.expect("memory"));
    let mut batch = Batch::new();
    for _ in 0..OPERATIONS / 2 {
        batch.send(socket, &sent, ..).expect("in bounds");
        batch.receive(socket, &got, ..).expect("in bounds");
    }
    let done = queue.post(&batch).expect("it is queued");
    let answered = 2 * ANSWERED;
    assert!(eventually(|| done.statuses()[answered - 1].is_some()));
    assert_eq!(done.statuses()[answered + 1], None, "the peer answers no more");
    let begin = Instant::now();
    peer.kill();
    let failed = done.wait_timeout(deadline()).expect_err("the peer is gone");
    assert!(queue.stream().wait(deadline()).expect("nothing faults"), "the stream drains");
    assert!(begin.elapsed() < soon(), "it took {:?}", begin.elapsed());
    // The send was taken; its answer never came. What is missing there ends what would follow it.
    let lost = [Errno::ECONNRESET, Errno::EPIPE];
    let WaitError::Operation { index, errno } = failed else { panic!("{failed}") };
    assert!(index == answered + 1 && lost.contains(&errno), "{index}: {errno}");
    let statuses: Vec<_> =
        done.statuses().into_iter().map(|status| status.expect("done")).collect();
    assert_eq!(statuses.len(), OPERATIONS);
    assert_eq!(statuses[..=answered], vec![Ok(()); answered + 1]);
    for pair in statuses[answered + 2..].chunks(2) {
        assert_eq!(pair[1], Err(Errno::ECANCELED), "a receive behind the one that failed");
    }
    let sends: Vec<_> = statuses[answered + 2..].iter().step_by(2).collect();
    let taken = sends.iter().take_while(|status| status.is_ok()).count();
    let refused = |status: &&Result<(), Errno>| match status {
        Err(errno) => lost.contains(errno) || *errno == Errno::ECANCELED,
        Ok(()) => false,
    };
    assert!(sends[taken..].iter().all(refused), "{sends:?}");
    println!("the stream had drained {:?} after the kill, {failed}", begin.elapsed());
}
