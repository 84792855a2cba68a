//! Nets: several at once, proxy threads, launches refused and aborted, sockets left open.

use std::time::{Duration, Instant};

use gpunet_device::calls::{POLLIN, POLLOUT};
use gpunet_e2e::faults::{self, CALLS, Waiting};
use gpunet_e2e::{
    Domain, Errno, Handle, Job, Peer, Script, any_port, deadline, eventually, flags, is_cuda,
    is_local, is_rdma, net, net_builder, peer, soon, timeout,
};
use gpunet_host::gpu::EmulatedOptions;
use gpunet_host::{
    Gpu, GpuChoice, LaunchError, MemoryError, Net, NetError, Task, TransportChoice, WaitError,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn conversation(server: gpunet_e2e::SocketAddr) -> Script {
    let mut script = Script::new();
    script.stream(0, server);
    for size in [1, 100, 5000] {
        script.send(0, size).recv_all(0, size, size);
    }
    script.close(0);
    script
}

#[test]
fn a_second_net_and_a_second_kernel_while_the_first_waits() {
    let (first, server) = (net(), peer::echo_server());
    let (listener, address) = first.listen(any_port()).expect("a port");
    let mut waiting = Script::new();
    waiting.given(0, listener).accept(0, 1).recv_all(1, 10, 10).close(1);
    let started = Job::blocks(64).script(&waiting).start(&first);
    for _ in 0..3 {
        let second = net();
        Job::blocks(128).script(&conversation(server)).run(&second);
        drop(second);
        Job::blocks(32).script(&conversation(server)).run(&first);
    }
    assert!(!started.launch().is_finished());
    let mut stream = peer::connect(address);
    peer::send(&mut stream, 0, 10);
    started.finish();
}

#[test]
fn several_kernels_and_several_nets() {
    let server = peer::echo_server();
    let nets: Vec<Net> = (0..4).map(|_| net()).collect();
    let script = conversation(server);
    let mut started = Vec::new();
    for _ in 0..3 {
        for net in &nets {
            started.push(Job::blocks(64).script(&script).script(&script).start(net));
            started.push(Job::warps(64).script(&script).script(&script).start(net));
        }
    }
    for job in started {
        job.finish();
    }
    for net in &nets {
        assert_eq!(net.statistics().connected, 12);
        assert!(eventually(|| net.statistics().sockets == 0));
    }
}

#[test]
fn connections_spread_over_proxy_threads() {
    let net = net_builder().proxy_threads(3).sockets(36).build().expect("a net");
    let (flags, server) = (flags(), peer::echo_server());
    let mut script = Script::new();
    for register in 0..12 {
        script.stream(register, server).send(register, 500).recv_all(register, 500, 500);
    }
    script.set_flag(0).wait_flag(1);
    for register in 0..12 {
        script.send(register, 5000).recv_all(register, 5000, 5000).close(register);
    }
    let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    let mut shards = [0; 3];
    let transport = match (is_local(), is_rdma()) {
        (true, _) => TransportChoice::Local,
        (_, true) => TransportChoice::Rdma,
        _ => TransportChoice::Tcp,
    };
    for socket in net.dump().expect("the proxies answer") {
        let [moves] = socket.transport.all() else { panic!("{}", socket.transport) };
        assert_eq!((socket.state, moves.choice()), ("stream", transport));
        let bytes = if is_local() { 0 } else { 500 };
        assert_eq!((socket.received, socket.sent), (bytes, bytes));
        assert_eq!(socket.launch, Some(started.launch().number()));
        assert_eq!(socket.peer, Some(server.to_string()));
        shards[Handle(socket.handle).shard() as usize] += 1;
    }
    assert_eq!(shards, [4; 3]);
    flags.set(1, 1);
    started.finish();
}

#[test]
fn accepted_connections_spread_over_proxy_threads() {
    let net = net_builder().proxy_threads(2).sockets(40).build().expect("a net");
    let (listener, address) = net.listen(any_port()).expect("a port");
    let flags = flags();
    let mut script = Script::new();
    script.given(0, listener);
    for register in 1..=10 {
        script.accept(0, register);
    }
    script.set_flag(0);
    for register in 1..=10 {
        script.echo(register, 999).expect(3000).close(register);
    }
    let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
    let mut streams: Vec<_> = (0..10).map(|_| peer::connect(address)).collect();
    started.until(&flags, 0);
    let dump = net.dump().expect("the proxies answer");
    let on = |shard| {
        let of = |socket: &&gpunet_host::SocketState| Handle(socket.handle).shard() == shard;
        dump.iter().filter(|socket| socket.state == "stream").filter(of).count()
    };
    assert!(on(0) >= 4 && on(1) >= 4, "{} and {}", on(0), on(1));
    for stream in &mut streams {
        peer::send(stream, 0, 3000);
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    }
    for stream in &mut streams {
        assert_eq!(peer::receive_rest(stream, 0), 3000);
    }
    started.finish();
}

#[test]
fn more_kernels_than_run_at_once() {
    if is_cuda() {
        let why = "the GPU is not this test's alone; the tests of the CUDA layer have one like it";
        return gpunet_e2e::skip("nets::more_kernels_than_run_at_once", why);
    }
    let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
    let net = gpunet_e2e::net_builder_on(&gpu).build().expect("a net");
    let (listener, _) = net.listen(any_port()).expect("a port");
    let mut waits = Script::new();
    waits.given(0, listener).accept(0, 1).errno(Errno::ECANCELED);
    let waiting: Vec<_> = (0..32).map(|_| Job::blocks(32).script(&waits).start(&net)).collect();
    let refused = Job::blocks(32).script(&waits).try_start(&net).err();
    assert!(
        matches!(refused, Some(LaunchError::TooManyKernels { running: 32, .. })),
        "{refused:?}"
    );
    // It took no launch's place, and one that ends makes room.
    waiting[0].launch().abort();
    waiting[0].launch().wait_timeout(deadline()).expect("it ends");
    let last = Job::blocks(32).script(&waits).start(&net);
    net.abort();
    waiting.into_iter().chain([last]).for_each(|started| _ = started.finish());
}

#[test]
fn impossible_launches_are_refused() {
    let (net, server) = (net(), peer::echo_server());
    let mut many = Job::blocks(1024);
    for _ in 0..2000 {
        many = many.script(&Script::new());
    }
    let refused = many.try_start(&net).err();
    assert!(matches!(refused, Some(LaunchError::NotResident { asked: 2000, .. })), "{refused:?}");
    let refused = Job::blocks(4096).script(&Script::new()).try_start(&net).err();
    assert!(matches!(refused, Some(LaunchError::Shape(_))), "{refused:?}");
    let refused = Job::blocks(32).try_start(&net).err();
    assert!(matches!(refused, Some(LaunchError::Shape(_))), "{refused:?}");
    let mut large = Script::new();
    large.recv(0, 1 << 20).space(gpunet_e2e::Space::Shared);
    let refused = Job::blocks(32).script(&large).try_start(&net).err();
    assert!(matches!(refused, Some(LaunchError::Shape(_))), "{refused:?}");
    // None of it has harmed the net.
    Job::blocks(64).script(&conversation(server)).run(&net);
    let (handed, _keep) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let handle = net.hand_over(handed).expect("it is taken");
    net.take_back(handle).expect("no launch counts as running");
}

#[test]
fn impossible_nets_are_refused() {
    let builders = [
        net_builder().sockets(0),
        net_builder().sockets(u32::MAX),
        net_builder().ring(0),
        net_builder().ring(u32::MAX),
        net_builder().proxy_threads(0),
        net_builder().proxy_threads(65),
        net_builder().request_slots(0),
        net_builder().ring_memory(0),
        net_builder().ring_memory(u64::MAX),
        net_builder().heartbeat_timeout(Duration::ZERO),
        net_builder().heartbeat_timeout(99 * MS),
        net_builder().heartbeat_timeout(400 * MS).idle_sleep(201 * MS),
    ];
    for (at, builder) in builders.into_iter().enumerate() {
        let refused = builder.build().err();
        assert!(matches!(refused, Some(NetError::Setting(_))), "{at}: {refused:?}");
    }
    let refused = net_builder().ring_memory(1 << 50).build().err();
    assert!(matches!(refused, Some(NetError::Memory(MemoryError::Refused { .. }))), "{refused:?}");
}

/// A net whose calls have no timeout.
fn net_without_timeout() -> Net {
    net_builder().timeout(Duration::ZERO).linger(MS).build().expect("a net")
}

#[test]
fn an_abort_ends_every_wait() {
    for (by_net, fault) in [(false, "Launch::abort"), (true, "Net::abort")] {
        faults::measure("nets::an_abort_ends_every_wait", || {
            let (net, flags) = (net_without_timeout(), flags());
            let mut waiting = Waiting::new(Errno::ECANCELED);
            // A kernel that stops can still close its sockets.
            waiting.scripts.iter_mut().for_each(|script| {
                script.close(0);
            });
            let started = waiting.job(&flags).start(&net);
            let times = faults::times(&started, &flags, CALLS.len(), || {
                assert!(!started.launch().is_finished());
                if by_net { net.abort() } else { started.launch().abort() }
            });
            started.finish();
            // The next kernel of the net is not stopped.
            Job::blocks(32).script(&conversation(peer::echo_server())).run(&net);
            Waiting::rows(fault, Errno::ECANCELED, Duration::ZERO, &times)
        });
    }
}

/// Calls that always find something never wait, and must see an abort all the same.
#[test]
fn an_abort_ends_loops_that_never_wait() {
    let (net, flags) = (net_without_timeout(), flags());
    let server = peer::echo_server();
    let mut polling = Script::new();
    polling.stream(0, server).poll_set(0, 0, POLLOUT).set_flag(0);
    polling.poll_for_ever(1).errno(Errno::ECANCELED).close(0);
    let mut peeking = Script::new();
    peeking.stream(0, server).send(0, 10).set_flag(1);
    peeking.peek_for_ever(0, 10).errno(Errno::ECANCELED).close(0);
    let started = Job::blocks(32).script(&polling).script(&peeking).flags(&flags).start(&net);
    for flag in 0..2 {
        started.until(&flags, flag);
    }
    started.launch().abort();
    started.finish();
}

#[test]
fn a_net_that_goes_while_a_kernel_waits() {
    faults::measure("nets::a_net_that_goes_while_a_kernel_waits", || {
        let (net, flags) = (net_without_timeout(), flags());
        let waiting = Waiting::new(Errno::ECANCELED);
        let started = waiting.job(&flags).start(&net);
        faults::begin(&started, &flags, CALLS.len());
        let kernel = started.detach();
        let times = faults::watch(kernel.launch(), &flags, CALLS.len());
        // A kernel that does not stop is killed, and says so below.
        drop(net);
        assert!(kernel.launch().is_finished());
        let times = times();
        let (ended, finished) = kernel.end();
        ended.expect("the kernel ends by itself");
        finished.check();
        Waiting::rows("the net is dropped", Errno::ECANCELED, Duration::ZERO, &times)
    });
}

#[test]
fn sockets_that_a_kernel_leaves_open_are_closed() {
    let net = net();
    let peer = Peer::serve(|mut stream| peer::receive_rest(&mut stream, 0));
    let mut script = Script::new();
    script.stream(0, peer.address).send(0, 3000).stream(1, peer.address);
    script.socket(2, Domain::V4).listener(3, any_port()).poller();
    // The poller goes out of scope in the kernel; the four others are left.
    Job::blocks(64).script(&script).run(&net);
    assert_eq!((peer.result(), peer.result()), (3000, 0));
    assert!(eventually(|| net.statistics().sockets == 0));
    assert_eq!(net.statistics().closed_for_kernels, 4);
}

#[test]
fn connections_that_no_kernel_accepted_end_with_their_listener() {
    let net = net();
    let (listener, address) = net.listen(any_port()).expect("a port");
    let mut streams: Vec<_> = (0..5).map(|_| peer::connect(address)).collect();
    let mut script = Script::new();
    script.given(0, listener).accept(0, 1).send(1, 10).close(1).close(0);
    Job::blocks(32).script(&script).run(&net);
    for (at, stream) in streams.iter_mut().enumerate() {
        let got = std::io::copy(stream, &mut std::io::sink());
        // Those that nobody accepted see the end, by a close or by a reset.
        assert_eq!(got.unwrap_or(0), if at == 0 { 10 } else { 0 });
    }
    assert!(eventually(|| net.statistics().sockets == 0));
}

#[test]
fn a_wait_that_gives_up_leaves_the_kernel_running() {
    let (net, flags) = (net(), flags());
    let mut script = Script::new();
    script.wait_flag(0);
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    let waited = started.launch().wait_timeout(50 * MS);
    assert!(matches!(waited, Err(WaitError::StillRunning { .. })), "{waited:?}");
    flags.set(0, 1);
    started.finish();
}

#[test]
fn statistics_count_what_happened() {
    let net = net();
    let (listener, address) = net.listen(any_port()).expect("a port");
    let mut before = net.statistics();
    // When the proxy looks for peers it holds a place for the next one.
    let steady = || {
        before = net.statistics();
        before.sockets == 1
    };
    assert!(eventually(steady));
    assert_eq!(before.requests, 0);
    let (mut server, mut client) = (Script::new(), Script::new());
    server.given(0, listener).accept(0, 1).echo(1, 1000).expect(7777).close(1);
    client.stream(0, address).send(0, 7777).shutdown(0, 1).recv_all(0, 8000, 1000).expect(7777);
    client.close(0).close(0).errno(Errno::EBADF).bind(0, any_port()).errno(Errno::EBADF);
    client.socket_of(0, 99, 1, 0).errno(Errno::EAFNOSUPPORT);
    Job::blocks(64).script(&server).script(&client).run(&net);
    assert!(eventually(|| net.statistics().sockets == 1));
    let after = net.statistics();
    assert_eq!((after.accepted, after.connected), (1, 1));
    // Nobody counts what kernels write to each other.
    let bytes = if is_local() { 0 } else { 2 * 7777 };
    assert_eq!((after.sent_bytes, after.received_bytes), (bytes, bytes));
    assert_eq!(after.free_ring_bytes, before.free_ring_bytes);
    assert_eq!((after.refused_requests, after.failed, after.violations), (1, 0, 0));
    assert!(after.requests >= 7 && after.turns > 0);
    let dump = net.dump().expect("the proxy answers");
    assert_eq!(dump.len(), 1);
    assert_eq!((dump[0].handle, dump[0].state), (listener.0, "listener"));
    assert_eq!(dump[0].local, Some(address.to_string()));
}

#[test]
fn a_dump_harms_nothing() {
    // Places that had sockets before, and now have others in every state.
    let net = net_builder().sockets(4).build().expect("a net");
    let (flags, server) = (flags(), peer::echo_server());
    let mut script = Script::new();
    for _ in 0..4 {
        for register in 0..4 {
            script.stream(register, server).send(register, 99).recv_all(register, 99, 99);
        }
        for register in 0..4 {
            script.close(register);
        }
    }
    script.socket(0, Domain::V4).listener(1, any_port()).poller().set_flag(0).wait_flag(1);
    script.connect(0, server).send(0, 99).recv_all(0, 99, 99);
    script.poller_add(0, POLLIN, 1).send(0, 1).poller_wait(1, timeout()).event(0, 1, POLLIN);
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    let mut states: Vec<_> =
        net.dump().expect("the proxy answers").iter().map(|socket| socket.state).collect();
    states.sort_unstable();
    assert_eq!(states, ["fresh", "listener", "poller"]);
    flags.set(1, 1);
    started.finish();
    assert_eq!(net.statistics().violations, 0);
}

#[test]
fn a_gpu_that_runs_kernels_of_nets_that_are_gone() {
    if is_cuda() {
        // A kernel that does not stop would stay for the rest of the process.
        return gpunet_e2e::skip("a_gpu_that_runs_kernels_of_nets_that_are_gone", "emulated only");
    }
    let (net, flags) = (net_without_timeout(), flags());
    let mut sleeping = Script::new();
    sleeping.set_flag(0).sleep(3600 * SECOND);
    let started = Job::blocks(32).script(&sleeping).flags(&flags).start(&net);
    started.until(&flags, 0);
    let kernel = started.detach();
    let begin = Instant::now();
    drop(net);
    // It was asked, for five seconds, and then killed.
    assert!(begin.elapsed() < 5 * SECOND + soon(), "it took {:?}", begin.elapsed());
    let (ended, _) = kernel.end();
    assert!(
        matches!(ended, Err(WaitError::Kernel(gpunet_host::KernelError::Killed { .. }))),
        "{ended:?}"
    );
}
