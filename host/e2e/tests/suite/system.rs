//! Options, names, the time, lines of text.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use gpunet_e2e::{
    Domain, Folder, Job, Peer, RING, Script, SocketAddr, SocketOption, any_port, deadline,
    eventually, net, net_builder, peer, soon,
};
use gpunet_host::Task;

#[test]
fn options_are_kept() {
    if gpunet_e2e::is_rdma() || gpunet_e2e::is_local() {
        return gpunet_e2e::skip("system::options_are_kept", "they are TCP's");
    }
    let net = net();
    let mut script = Script::new();
    script.stream(0, peer::echo_server());
    script.get(0, SocketOption::NoDelay, 1).set(0, SocketOption::NoDelay, 0);
    script.get(0, SocketOption::NoDelay, 0);
    script.get(0, SocketOption::NonBlocking, 0).set(0, SocketOption::NonBlocking, 1);
    script.get(0, SocketOption::NonBlocking, 1).set(0, SocketOption::NonBlocking, 0);
    let numbers = [
        (SocketOption::ReceiveTimeout, 5_000_000_000),
        (SocketOption::SendTimeout, 6_000_000_000),
        (SocketOption::KeepAlive, 1),
        (SocketOption::KeepAliveIdle, 77),
        (SocketOption::KeepAliveInterval, 33),
        (SocketOption::KeepAliveCount, 4),
        (SocketOption::UserTimeout, 12_345),
        (SocketOption::ReusePort, 1),
        (SocketOption::QuickAck, 1),
        (SocketOption::Detached, 1),
        (SocketOption::Detached, 0),
    ];
    for (option, value) in numbers {
        script.set(0, option, value).get(0, option, value as i64);
    }
    script.set(0, SocketOption::SystemSendBuffer, 50_000);
    // Linux doubles it.
    script.get(0, SocketOption::SystemSendBuffer, 100_000).between(50_000, 100_000);
    script.set(0, SocketOption::SystemReceiveBuffer, 50_000);
    script.get(0, SocketOption::SystemReceiveBuffer, 100_000).between(50_000, 100_000);
    script.get(0, SocketOption::Error, 0).send(0, 99).recv_all(0, 99, 99).close(0);
    script.socket(0, Domain::V6).set(0, SocketOption::V6Only, 1);
    script.get(0, SocketOption::V6Only, 1).close(0);
    Job::blocks(64).script(&script).run(&net);
}

#[test]
fn rings_have_the_size_that_was_asked_for() {
    let net = net_builder().ring_memory(1 << 20).build().expect("a net");
    let ring = i64::from(RING);
    let mut script = Script::new();
    script.socket(0, Domain::V4).get(0, SocketOption::ReceiveRing, ring);
    script.set(0, SocketOption::ReceiveRing, 10_000).set(0, SocketOption::SendRing, 1);
    script.get(0, SocketOption::ReceiveRing, 16_384).get(0, SocketOption::SendRing, ring);
    script.connect(0, peer::echo_server());
    // The one ring of a p2p stream's direction stands for the rings of both ends.
    let more = if gpunet_e2e::is_local() { 2 } else { 1 };
    script.get(0, SocketOption::ReceiveRing, more * 16_384);
    script.get(0, SocketOption::SendRing, more * ring);
    script.send(0, 16_384).peek(0, 16_384, 16_384).expect(16_384).close(0);
    // Accepted sockets have their listener's.
    script.socket(1, Domain::V4).set(1, SocketOption::ReceiveRing, 32_768);
    script.bind(1, any_port()).listen(1, 4);
    let name = script.keep_name(1);
    script.set_flag(0).accept(1, 2).get(2, SocketOption::ReceiveRing, more * 32_768);
    script.peek(2, 30_000, 30_000).close(2).close(1);
    let flags = gpunet_e2e::flags();
    let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    let dump = net.dump().expect("the proxy answers");
    let listening = dump.iter().find(|socket| socket.state == "listener").expect("one listens");
    let at: std::net::SocketAddr =
        listening.local.as_deref().expect("its address").parse().expect("an address");
    let mut stream = peer::connect(at.into());
    peer::send(&mut stream, 0, 30_000);
    let finished = started.finish();
    assert_eq!(finished.names[0][name], at.into());
}

#[test]
fn both_ends_have_their_names() {
    let (net, folder) = (net(), Folder::new("names"));
    let path = folder.path("peer");
    for at in [any_port(), gpunet_e2e::any_port_v6()] {
        let peer = Peer::serve_at(at, |stream| stream.peer_addr().expect("the kernel's address"));
        let mut script = Script::new();
        script.stream(0, peer.address).peer_name(0, peer.address);
        let name = script.keep_name(0);
        script.recv(0, 1).expect(0).close(0);
        let finished = Job::blocks(64).script(&script).run(&net);
        let seen = peer.result().into();
        // With p2p streams the peer sees a relay, and kernels see each other: see `local`.
        assert!(gpunet_e2e::is_local() || finished.names[0][name] == seen);
    }
    let local = Peer::serve_unix(&path, drop);
    let unnamed = SocketAddr::unix(b"").expect("the unnamed address");
    let mine = folder.address("mine");
    let mut script = Script::new();
    script.stream(0, local.address).peer_name(0, local.address).socket_name(0, unnamed).close(0);
    script.socket(0, Domain::Unix).bind(0, mine).socket_name(0, mine);
    script.connect(0, local.address).socket_name(0, mine).close(0);
    Job::blocks(64).script(&script).run(&net);
    for threads in [1, 33] {
        let mut script = Script::new();
        script.socket(0, Domain::V4).bind(0, any_port());
        let name = script.keep_name(0);
        let finished = Job::warps(threads).script(&script).run(&net);
        let name = finished.names[0][name];
        assert_eq!(name.with_port(0), any_port());
        assert_ne!(name.port(), 0);
    }
}

#[test]
fn the_longest_names_are_taken() {
    let (net, folder) = (net(), Folder::new("long"));
    let base = folder.path("").as_os_str().len();
    let name = "n".repeat(107 - base);
    let peer = Peer::serve_unix(&folder.path(&name), drop);
    let mut script = Script::new();
    script.stream(0, peer.address).peer_name(0, peer.address).close(0);
    Job::blocks(32).script(&script).run(&net);
    peer.result();
}

#[test]
fn the_time_is_the_hosts() {
    let net = net();
    let mut script = Script::new();
    script.time().time();
    let now =
        || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64;
    let before = now();
    let finished = Job::blocks(64).script(&script).run(&net);
    let times = [before, finished.result(0, 0), finished.result(0, 1), now()];
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn lines_reach_the_printer() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&lines);
    let net = net_builder()
        .on_print(move |launch, line| {
            taken.lock().expect("no printer panicked").push((launch, line.to_owned()));
        })
        .build()
        .expect("a net");
    let mut script = Script::new();
    // The last two are longer than a line.
    for (letters, printed) in [(0, 0), (1, 1), (26, 26), (208, 208), (209, 208), (250, 208)] {
        script.print(letters, printed);
    }
    let started = Job::blocks(64).script(&script).start(&net);
    let number = started.launch().number();
    started.finish();
    let count = || lines.lock().expect("no printer panicked").len();
    assert!(eventually(|| count() == 6), "{lines:?}");
    let letters: String = ('a'..='z').cycle().take(208).collect();
    let wanted = [0, 1, 26, 208, 208, 208].map(|length| (number, letters[..length].to_owned()));
    assert_eq!(*lines.lock().expect("no printer panicked"), wanted);
    assert_eq!(net.statistics().printed, 6);
}

#[test]
fn a_slow_reader_of_lines_stops_nothing() {
    const BUFFER: u64 = 1024;
    let (gate, opened) = mpsc::channel::<()>();
    let opened = Mutex::new(opened);
    let net = net_builder()
        .on_print(move |_, _| {
            let _ = opened.lock().expect("no printer panicked").recv();
        })
        .build()
        .expect("a net");
    let mut script = Script::new();
    for _ in 0..60 {
        script.print(20, 20);
    }
    // The first line stays with the reader; the kernel that printed it ends, and so do others.
    let mut printed = 0;
    while printed < BUFFER + 100 {
        let started = Job::blocks(32).script(&script).start(&net);
        started.launch().wait_timeout(deadline()).expect("it ends");
        started.finish();
        printed += 60;
    }
    let statistics = net.statistics();
    assert_eq!(statistics.printed, BUFFER + 1, "those that wait, and the one that is read");
    assert_eq!(statistics.print_dropped, printed - statistics.printed);
    // The net goes in bounded time, whatever the reader does.
    let begin = Instant::now();
    drop(net);
    let took = begin.elapsed();
    assert!(took < soon(), "the net took {took:?} to go");
    drop(gate);
}
