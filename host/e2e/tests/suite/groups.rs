//! Groups: blocks of every shape, warps, single threads, many at once; buffers in each memory.

use std::io::Read;
use std::net::{TcpListener, TcpStream};

use gpunet_e2e::job::Who;
use gpunet_e2e::{Job, Script, Space, net, net_builder, one_call, peer, timeout};
use gpunet_host::gpu::Dim3;
use gpunet_host::{Shape, Task};

const SIZES: [u64; 9] = [1, 15, 16, 31, 33, 255, 1024, 4097, 9001];

/// A connection of its own, a few sizes each way.
fn conversation(server: gpunet_e2e::SocketAddr, seed: u64, space: Space) -> Script {
    let mut script = Script::new();
    script.stream(0, server);
    for size in SIZES {
        let at = 16 + (size as u32 + seed as u32) % 16;
        script.send(0, size).seed(seed).space(space).at(at);
        script.recv_all(0, size, size).seed(seed).space(space).at(33 - at % 16);
    }
    script.close(0);
    script
}

#[test]
fn blocks_of_every_shape_send_and_receive() {
    let (net, server) = (net(), peer::echo_server());
    let mut shapes: Vec<Dim3> = [1, 31, 32, 33, 256, 1024].map(Dim3::from).to_vec();
    shapes.extend([Dim3::from((16, 16)), Dim3::from((7, 5)), Dim3::from((3, 5, 7))]);
    for shape in shapes {
        for space in [Space::Global, Space::Shared] {
            println!("blocks of {shape}, buffers in {space:?} memory");
            Job::blocks(shape).script(&conversation(server, 1, space)).run(&net);
        }
    }
}

#[test]
fn warps_have_a_connection_each() {
    let (net, server) = (net(), peer::echo_server());
    // Whole warps, a partial last warp, a warp of one thread; two blocks of them.
    for threads in [32, 128, 100, 65, 7] {
        let groups = 2 * 32_u32.max(threads).div_ceil(32);
        let mut job = Job::warps(threads);
        for group in 0..groups {
            let space = if group % 2 == 0 { Space::Global } else { Space::Shared };
            job = job.script(&conversation(server, group.into(), space));
        }
        println!("warps of blocks of {threads}");
        job.run(&net);
    }
}

#[test]
fn threads_have_a_connection_each() {
    let (net, server) = (net(), peer::echo_server());
    // As many as their buffers fit into the shared memory of a block.
    for threads in [1, 20] {
        let mut job = Job::threads(threads);
        for thread in 0..threads {
            let space = if thread % 2 == 0 { Space::Global } else { Space::Shared };
            job = job.script(&conversation(server, thread.into(), space));
        }
        println!("threads of blocks of {threads}");
        job.run(&net);
    }
}

#[test]
fn a_thread_uses_its_own_memory() {
    let (net, server) = (net(), peer::echo_server());
    let mut job = Job::threads(8);
    for thread in 0..8 {
        let mut script = Script::new();
        script.stream(0, server);
        for (turn, size) in (1..=256).step_by(5).enumerate() {
            script.send(0, size).space(Space::Local).at((turn as u32 + thread) % 16);
            // All that comes, into a buffer that is checked on both sides.
            script.peek(0, size, 0);
            script.recv(0, size).space(Space::Local).at(turn as u32 * 7 % 16).expect(size as i64);
        }
        script.close(0);
        job = job.script(&script);
    }
    job.run(&net);
}

#[test]
fn all_threads_of_a_group_bring_the_same_bytes() {
    let (net, server) = (net(), peer::echo_server());
    for who in [Who::Block, Who::Warp] {
        let mut script = Script::new();
        script.stream(0, server);
        for size in [1, 16, 100, 256] {
            script.send(0, size).space(Space::Local).at(3).recv_all(0, size, size);
        }
        script.close(0);
        Job::new(who, 32).script(&script).run(&net);
    }
}

#[test]
fn many_blocks_have_connections_at_once() {
    let net = net_builder().sockets(80).build().expect("a net");
    let server = peer::echo_server();
    let mut job = Job::blocks(64);
    for block in 0..64 {
        job = job.script(&conversation(server, block, Space::Global));
    }
    job.run(&net);
    let statistics = net.statistics();
    // Nobody counts what kernels write to each other.
    let bytes = if gpunet_e2e::is_local() { 0 } else { 64 * SIZES.iter().sum::<u64>() };
    assert_eq!((statistics.sent_bytes, statistics.received_bytes), (bytes, bytes));
    assert_eq!(statistics.connected, 64);
}

#[test]
fn a_block_that_uses_warps_of_another_net() {
    // Groups of different kinds, in kernels that run at the same time.
    let (net, other, server) = (net(), net(), peer::echo_server());
    let blocks = Job::blocks(64).script(&conversation(server, 1, Space::Shared)).start(&net);
    let warps = Job::warps(64).script(&conversation(server, 2, Space::Shared)).start(&other);
    let threads = Job::threads(2).script(&conversation(server, 3, Space::Global)).start(&net);
    for job in [blocks, warps, threads] {
        job.finish();
    }
}

#[test]
fn lanes_that_part_before_a_call_enter_it_together() {
    const ROUNDS: usize = 200;
    for threads in [32, 64, 100, 256] {
        let net = net();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("its address"));
        let (mut far, _) = listener.accept().expect("it connects");
        far.set_read_timeout(Some(timeout())).expect("a limit");
        let handle = net.hand_over(near.expect("it connects")).expect("it is taken");
        let shape = Shape::new(1, threads).shared_memory(threads);
        let launch = net.launch(one_call, shape, (handle, ROUNDS as u64)).expect("it starts");
        let mut bytes = vec![0; ROUNDS * threads as usize + 1];
        far.read_exact(&mut bytes).expect("all rounds");
        launch.wait_timeout(timeout()).expect("it ends");
        for (at, byte) in bytes[..ROUNDS * threads as usize].iter().enumerate() {
            let (round, thread) = (at / threads as usize, at % threads as usize);
            let expected = if thread.is_multiple_of(2) { round as u8 } else { 0 };
            assert_eq!(*byte, expected, "round {round}, thread {thread} of {threads}");
        }
        assert_eq!(bytes.last(), Some(&1), "counts of {threads} threads");
    }
}
