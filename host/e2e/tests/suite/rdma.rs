//! What only RDMA has: placements, peers that are killed or send something else, and nets that go
//! both ways. Where the suite goes by TCP, nothing of this runs.

mod transports;
mod untrusted_peer;

use std::io::Read as _;
use std::process::Command;
use std::time::Duration;

use gpunet_device::calls::MSG_DONTWAIT;
use gpunet_e2e::{
    Domain, Errno, Job, Peer, Script, SocketOption, about, any_port, at_once, deadline, eventually,
    flags, is_cuda, is_rdma, net, net_builder, peer, scaled_time, skip, soon, transport,
};
use gpunet_host::{AdapterReport, Placement, Placements, Policy, TransportChoice};
use gpunet_support::testing::share_limits;
use rsocket_shim::load::Libraries;

use untrusted_peer::is_rejected;

const MS: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_millis(400);

/// Names the address that a process of [`a_peer_that_is_killed`] connects to.
const VICTIM: &str = "GPUNET_TEST_VICTIM";

/// Whether there is RDMA to be tested.
fn has_rdma(test: &str) -> bool {
    if !is_rdma() {
        skip(&format!("rdma::{test}"), "the suite goes by TCP");
    }
    is_rdma()
}

/// What the device at hand makes of the rings of a net that allows every placement.
fn what_the_device_takes() -> AdapterReport {
    let net = net_builder().placements(Placements::ALL).build().expect("a net");
    let mut script = Script::new();
    script.stream(0, peer::echo_server()).send(0, 5000).recv_all(0, 5000, 1000);
    script.get(0, SocketOption::Placement, 0).any();
    let placed = script.mark();
    script.close(0);
    let finished = Job::blocks(32).script(&script).run(&net);
    let mut adapters = net.rdma_adapters();
    assert_eq!(adapters.len(), 1, "{adapters:?}");
    let adapter = adapters.remove(0);
    let best = Placement::ALL.into_iter().find(|it| adapter.placements.contains(&it.name()));
    let placed = finished.result(0, placed);
    assert_eq!(best.map(|best| best as i64), Some(placed), "{adapter:?}");
    adapter
}

#[test]
fn a_placement_that_is_refused_is_passed_over() {
    if !has_rdma("a_placement_that_is_refused_is_passed_over") {
        return;
    }
    let adapter = what_the_device_takes();
    assert_eq!(adapter.placements.len() + adapter.refused.len(), Placement::ALL.len());
    assert!(adapter.refused.iter().all(|(_, why)| !why.is_empty()), "{adapter:?}");
    if !is_cuda() {
        // The emulated GPU's memory is ordinary pages, and no driver exports those.
        assert_eq!(adapter.placements, ["peer memory", "bounce"]);
        assert_eq!(adapter.refused[0].0, "dma-buf");
    }
}

#[test]
fn a_placement_that_is_refused_and_the_only_one_is_an_error() {
    let name = "a_placement_that_is_refused_and_the_only_one_is_an_error";
    if !has_rdma(name) {
        return;
    }
    let adapter = what_the_device_takes();
    let is_refused = |it: &Placement| !adapter.placements.contains(&it.name());
    let Some(refused) = Placement::ALL.into_iter().find(is_refused) else {
        return skip(&format!("rdma::{name}"), "this device takes every placement");
    };
    let net = net_builder().placements(Placements::only(refused)).build().expect("a net");
    let mut script = Script::new();
    script.socket(0, Domain::V4).connect(0, peer::echo_server()).errno(Errno::ENOBUFS);
    script.takes(at_once());
    // The socket may say otherwise.
    script.set(0, SocketOption::Placement, Placement::Bounce as u64);
    script.connect(0, peer::echo_server()).send(0, 100).recv_all(0, 100, 100).close(0);
    Job::blocks(32).script(&script).run(&net);
    assert_eq!(net.statistics().sockets, 0);
}

#[test]
fn a_peer_that_is_killed() {
    if let Ok(address) = std::env::var(VICTIM) {
        let address: std::net::SocketAddr = address.parse().expect("an address");
        let mut stream = peer::connect(address.into());
        peer::send(&mut stream, 0, 100);
        return std::thread::sleep(deadline());
    }
    if !has_rdma("a_peer_that_is_killed") {
        return;
    }
    let (net, flags) = (net(), flags());
    let (listener, address) = net.listen(any_port()).expect("a port");
    let mut script = Script::new();
    script.given(0, listener).accept(0, 1).recv_all(1, 100, 100).set_flag(0);
    script.recv(1, 10).errno(Errno::ECONNRESET).takes(at_once());
    script.send(1, 10).between(Errno::ECONNRESET.negative(), Errno::EPIPE.negative()).close(1);
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    let program = std::env::current_exe().expect("this program");
    let mut victim = share_limits(&mut Command::new(program))
        .args(["--exact", "rdma::a_peer_that_is_killed"])
        .env(VICTIM, address.to_string())
        .spawn()
        .expect("it starts once more");
    started.until(&flags, 0);
    victim.kill().expect("it runs");
    victim.wait().expect("it was killed");
    started.finish();
    assert!(eventually(|| net.statistics().sockets == 1));
}

#[test]
fn peers_without_rsocket_are_rejected() {
    if !has_rdma("peers_without_rsocket_are_rejected") {
        return;
    }
    let net = net();
    let (listener, address) = net.listen(any_port()).expect("a port");
    let to = address.to_ip().expect("an IP address");
    let mut newer = [0; 40];
    newer[0] = 2;
    assert!(is_rejected(to, &[0xa5; 56]) && is_rejected(to, &[]) && is_rejected(to, &newer));
    assert_eq!(net.statistics().accepted, 0);
    // Others are served as before.
    let mut script = Script::new();
    script.given(0, listener).accept(0, 1).recv_all(1, 100, 100).close(1);
    let started = Job::blocks(32).script(&script).start(&net);
    peer::send(&mut peer::connect(address), 0, 100);
    started.finish();
}

/// No more of them are rejected at once than the proxy has time for: the others, and who comes behind
/// them, are not forgotten.
#[test]
fn many_peers_without_rsocket_keep_nobody_waiting() {
    if !has_rdma("many_peers_without_rsocket_keep_nobody_waiting") {
        return;
    }
    for choice in [TransportChoice::Rdma, TransportChoice::Auto] {
        let net = net_builder().transport(choice).build().expect("a net");
        let (listener, address) = net.listen(any_port()).expect("a port");
        let to = address.to_ip().expect("an IP address");
        // They are all there before the proxy looks.
        net.inject_blindness();
        net.inject_stall(0, scaled_time(500 * MS));
        std::thread::scope(|scope| {
            let ask = || scope.spawn(move || is_rejected(to, &[0xa5; 56]));
            let threads: Vec<_> = (0..40).map(|_| ask()).collect();
            assert!(threads.into_iter().all(|asked| asked.join().expect("it is answered")));
        });
        let mut script = Script::new();
        script.given(0, listener).accept(0, 1).recv_all(1, 100, 100).close(1);
        let started = Job::blocks(32).script(&script).start(&net);
        peer::send(&mut peer::connect(address), 0, 100);
        started.finish();
    }
}

#[test]
fn a_reader_that_rests_stops_the_kernel_and_loses_nothing() {
    if !has_rdma("a_reader_that_rests_stops_the_kernel_and_loses_nothing") {
        return;
    }
    let (net, flags) = (net(), flags());
    let waited = std::sync::Arc::clone(&flags);
    let peer = Peer::serve(move |mut stream| {
        waited.wait(0);
        peer::receive_rest(&mut stream, 0)
    });
    let mut script = Script::new();
    let much = 1 << 20;
    script.stream(0, peer.address).send_timeout(0, LIMIT).send(0, much).between(1, much as i64 - 1);
    let sent = script.mark();
    script.send(0, 10).errno(Errno::ETIMEDOUT).takes(about(LIMIT)).set_flag(0);
    script.close(0);
    let finished = Job::blocks(32).script(&script).flags(&flags).run(&net);
    assert_eq!(i64::try_from(peer.result()), Ok(finished.result(0, sent)));
}

/// Sets the link up or down.
fn set_link(link: &str, to: &str) {
    let done = Command::new("ip").args(["link", "set", link, to]).status();
    assert!(done.expect("there is `ip`").success(), "{link} cannot be set {to}");
}

/// What was received in order, and whether the stream came to its end.
fn receive_while_it_lasts(mut stream: peer::Stream) -> (u64, bool) {
    let (mut room, mut got) = (vec![0; 8192], 0);
    loop {
        match stream.read(&mut room) {
            Ok(0) => return (got, true),
            Ok(bytes) => {
                peer::check(&room[..bytes], gpunet_e2e::script::SEED, got);
                got += bytes as u64;
            }
            Err(_) => return (got, false),
        }
    }
}

/// A device may lose the connection, or carry on; what it must not do is lose bytes without an error.
#[test]
fn a_link_that_goes_down_and_up() {
    let name = "a_link_that_goes_down_and_up";
    if !has_rdma(name) {
        return;
    }
    let Some(link) = transport::link() else {
        return skip(&format!("rdma::{name}"), "GPUNET_LINK names no link that may be set down");
    };
    let (net, flags) = (net(), flags());
    let peer = Peer::serve(receive_while_it_lasts);
    let (turns, length) = (40, 1000);
    let mut script = Script::new();
    script.stream(0, peer.address).send_timeout(0, LIMIT).send(0, length).set_flag(0).wait_flag(1);
    let first = script.mark() + 1;
    for _ in 0..turns {
        script.send(0, length).any().takes(at_once()).sleep(20 * MS);
    }
    script.recv(0, 1).flags(MSG_DONTWAIT).any();
    let end = script.mark();
    script.close(0);
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    // What the connection manager still has to say of earlier connections goes out before: soft-RoCE was
    // seen to make none any more after a link went down just then, for whichever program.
    std::thread::sleep(scaled_time(250 * MS));
    flags.set(1, 1);
    set_link(&link, "down");
    std::thread::sleep(200 * MS);
    set_link(&link, "up");
    let finished = started.finish();
    let sends = (0..turns).map(|turn| finished.result(0, first + 2 * turn));
    let sent = length + sends.clone().filter(|sent| *sent > 0).sum::<i64>() as u64;
    let timed_out = Errno::ETIMEDOUT.negative();
    let failed = sends.clone().any(|sent| sent < 0 && sent != timed_out);
    let (got, ended) = peer.result();
    let error = sends.clone().find(|sent| *sent < 0).unwrap_or(0);
    println!("{sent} bytes sent, {got} received, first error {error}, ended: {ended}");
    // Where it has done neither when the kernel closes, what it still has goes as with any dead link.
    let undecided = finished.result(0, first + 2 * (turns - 1)) == timed_out;
    if failed || undecided || finished.result(0, end) != Errno::EAGAIN.negative() {
        let clear = [Errno::EIO, Errno::ECONNRESET, Errno::EPIPE, Errno::ETIMEDOUT];
        let clear = clear.map(Errno::negative);
        assert!(sends.clone().all(|sent| sent > 0 || clear.contains(&sent)), "{finished:?}");
        assert!(got <= sent);
    } else {
        assert_eq!((got, ended), (sent, true));
    }
    assert!(eventually(|| net.statistics().sockets == 0));
    // With the link, all is as it was.
    let mut script = Script::new();
    script.stream(0, peer::echo_server()).send(0, 5000).recv_all(0, 5000, 1000).close(0);
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn a_net_that_goes_both_ways() {
    if !has_rdma("a_net_that_goes_both_ways") {
        return;
    }
    let net = net_builder().transport(TransportChoice::Auto).build().expect("a net");
    let (listener, address) = net.listen(any_port()).expect("a port");
    let mut server = Script::new();
    server.given(0, listener).accept(0, 1).recv_all(1, 100, 100).send(1, 100).close(1);
    for by_rdma in [true, false] {
        let started = Job::blocks(32).script(&server).start(&net);
        let ip = address.to_ip().expect("an IP address");
        let mut stream = if by_rdma {
            peer::connect(address)
        } else {
            peer::Stream::Tcp(std::net::TcpStream::connect(ip).expect("it listens"))
        };
        peer::send(&mut stream, 0, 100);
        peer::receive(&mut stream, 0, 100);
        started.finish();
    }
    // A peer that takes RDMA gets it; one that does not gets TCP.
    let home = any_port().to_ip().expect("an IP address");
    let tcp = std::net::TcpListener::bind(home).expect("a port");
    let tcp_only = tcp.local_addr().expect("its address").into();
    let mut client = Script::new();
    client.stream(0, peer::echo_server()).send(0, 100).recv_all(0, 100, 100);
    client.get(0, SocketOption::Transport, TransportChoice::Rdma as i64).close(0);
    client.stream(0, tcp_only).get(0, SocketOption::Transport, TransportChoice::Tcp as i64);
    client.send(0, 100).recv_all(0, 100, 100).close(0);
    let started = Job::blocks(32).script(&client).start(&net);
    let mut stream = peer::Stream::Tcp(tcp.accept().expect("the kernel connects").0);
    peer::receive(&mut stream, 0, 100);
    peer::send(&mut stream, 0, 100);
    started.finish();
}

/// A machine without RDMA does not even refuse: here requests come in, and nobody answers.
#[test]
fn a_peer_that_is_silent_by_rdma_gets_tcp() {
    if !has_rdma("a_peer_that_is_silent_by_rdma_gets_tcp") {
        return;
    }
    let net = net_builder().transport(TransportChoice::Auto).build().expect("a net");
    let home = any_port().to_ip().expect("an IP address");
    let tcp = std::net::TcpListener::bind(home).expect("a port");
    let at = tcp.local_addr().expect("its address");
    let libraries = Libraries::load().expect("there is RDMA");
    let silent = rsocket_shim::stream::Listener::bind(libraries, at).expect("the same port");
    silent.listen(4).expect("it listens");
    let mut client = Script::new();
    client.stream(0, at.into()).takes(about(2900 * MS));
    client.get(0, SocketOption::Transport, TransportChoice::Tcp as i64);
    client.send(0, 100).recv_all(0, 100, 100).close(0);
    // Once is enough: the next one does not ask by RDMA again, nor wait for those 3 s.
    client.stream(0, at.into());
    client.send(0, 100).recv_all(0, 100, 100).close(0);
    let started = Job::blocks(32).script(&client).start(&net);
    for _ in 0..2 {
        let mut stream = peer::Stream::Tcp(tcp.accept().expect("the kernel connects").0);
        peer::receive(&mut stream, 0, 100);
        peer::send(&mut stream, 0, 100);
    }
    started.finish();
    assert!(silent.next().expect("it listens").is_some(), "the first one asked");
    assert!(silent.next().expect("it listens").is_none(), "the second one did not");
}

#[test]
fn a_socket_that_was_bound_connects_from_there() {
    if !has_rdma("a_socket_that_was_bound_connects_from_there") {
        return;
    }
    let net = net();
    let mut script = Script::new();
    script.socket(0, Domain::V4).bind(0, any_port());
    let bound = script.keep_name(0);
    script.connect(0, peer::echo_server());
    let connected = script.keep_name(0);
    script.send(0, 100).recv_all(0, 100, 100).close(0);
    let finished = Job::blocks(32).script(&script).run(&net);
    let [bound, connected] = [bound, connected].map(|place| finished.names[0][place]);
    assert_ne!(bound.port(), 0);
    assert_eq!(bound, connected);
}

/// Bytes come by themselves, whatever the limits say; what is held back is reported in time.
#[test]
fn a_stream_under_a_rate_does_not_stall() {
    if !has_rdma("a_stream_under_a_rate_does_not_stall") {
        return;
    }
    let policy = Policy::open().max_rate(400_000);
    let net = net_builder().policy(policy).build().expect("a net");
    let mut script = Script::new();
    script.stream(0, peer::echo_server());
    for _ in 0..20 {
        script.send_all(0, 10_000, 1000).recv_all(0, 10_000, 1000);
    }
    script.close(0);
    Job::blocks(32).script(&script).run(&net);
}

/// While no kernel runs the proxy sleeps, and what a closed socket has still to send needs its peer to
/// wake it.
#[test]
fn what_is_unsent_at_the_end_of_a_kernel_goes_when_the_peer_reads() {
    if !has_rdma("what_is_unsent_at_the_end_of_a_kernel_goes_when_the_peer_reads") {
        return;
    }
    let (net, flags) = (net_builder().linger(deadline()).build().expect("a net"), flags());
    let waited = std::sync::Arc::clone(&flags);
    let peer = Peer::serve(move |mut stream| {
        waited.wait(0);
        let begun = std::time::Instant::now();
        (peer::receive_rest(&mut stream, 0), begun.elapsed())
    });
    let mut script = Script::new();
    // More than the peer's buffers hold, so that the rest is in the ring when the kernel ends.
    let much = 1 << 20;
    script.stream(0, peer.address).send_timeout(0, LIMIT).send(0, much).between(1, much as i64 - 1);
    let sent = script.mark();
    script.close(0);
    let finished = Job::blocks(32).script(&script).flags(&flags).run(&net);
    std::thread::sleep(300 * MS);
    flags.set(0, 1);
    let (came, took) = peer.result();
    assert_eq!(i64::try_from(came), Ok(finished.result(0, sent)));
    assert!(took < soon(), "{took:?}");
}
