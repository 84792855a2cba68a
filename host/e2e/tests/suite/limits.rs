//! Limits of a net's policy: sockets, bytes a second, bytes in flight.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gpunet_device::calls::{MSG_DONTWAIT, POLLIN};
use gpunet_e2e::{
    Domain, Errno, Job, Peer, Script, SocketAddr, SocketOption, about, any_port, drop_in_order,
    eventually, flags, is_local, net_builder, peer, scaled, scaled_time, skip, slowness, timeout,
};
use gpunet_host::{Net, Policy, Task};

const MS: Duration = Duration::from_millis(1);
/// A net whose policy limits bytes has none.
const NOT_COUNTED: &str = "nobody counts the bytes of p2p streams";

/// Bytes a second that this machine could move several times over.
fn rate() -> u64 {
    scaled(2_000_000)
}

fn limited(policy: Policy) -> Net {
    net_builder().policy(policy).linger(MS).build().expect("a net")
}

/// The kernel's next connection.
fn accept(listener: &peer::Listener) -> peer::Stream {
    listener.accept().expect("the kernel connects")
}

/// Measures for a second how many bytes something has counted, after the first burst.
fn rate_of(bytes: impl Fn() -> u64) -> f64 {
    std::thread::sleep(150 * MS);
    let (begin, first) = (Instant::now(), bytes());
    std::thread::sleep(1000 * MS);
    (bytes() - first) as f64 / begin.elapsed().as_secs_f64()
}

/// How much of what is allowed has to be used in one of some seconds. A machine that is too slow may
/// stay far below, but it does not stand still.
fn least_share() -> f64 {
    if slowness() > 4 { 0.1 } else { 0.9 }
}

/// Whether not much less than is allowed was used; it is never more.
fn is_kept(share: f64) -> bool {
    println!("{share} of what is allowed");
    assert!(share <= 1.1, "{share} of what is allowed");
    share >= least_share()
}

/// Never more than is allowed, and in one of some seconds not much less.
fn keeps_the_rate(mut measure: impl FnMut() -> f64) {
    // A busy machine may not use its whole grant.
    assert!(
        eventually(|| is_kept(measure() / rate() as f64)),
        "less than is allowed, all the time"
    );
}

#[test]
fn what_is_no_rate_is_noticed() {
    assert!(is_kept(1.0) && is_kept(least_share() + 0.01));
    assert!(!is_kept(0.0), "a stream that stands still");
    assert!(std::panic::catch_unwind(|| is_kept(1.2)).is_err(), "a stream that nobody holds back");
}

#[test]
fn a_rate_is_kept_when_receiving() {
    if is_local() {
        return skip("limits::a_rate_is_kept_when_receiving", NOT_COUNTED);
    }
    let net = limited(Policy::open().max_rate(rate()));
    let listener = peer::Listener::bind(any_port()).expect("a port");
    let address = listener.address();
    let mut script = Script::new();
    script
        .stream_with_rings(0, address, 64 << 10)
        .recv_all(0, 1 << 40, 16 << 10)
        .errno(Errno::ECANCELED);
    let started = Job::blocks(32).script(&script).start(&net);
    let mut stream = accept(&listener);
    let sender = std::thread::spawn(move || {
        let mut at = 0;
        while stream.write_all(&peer::bytes(gpunet_e2e::script::SEED, at, 100_000)).is_ok() {
            at += 100_000;
        }
    });
    keeps_the_rate(|| {
        let rate = rate_of(|| net.statistics().received_bytes);
        println!("{rate}: {:?} {:?}", net.dump(), net.statistics());
        rate
    });
    assert!(net.statistics().throttled > 0);
    started.launch().abort();
    started.finish();
    drop(net);
    sender.join().expect("it ends with the connection");
}

#[test]
fn two_sockets_share_a_rate() {
    if is_local() {
        return skip("limits::two_sockets_share_a_rate", NOT_COUNTED);
    }
    let net = limited(Policy::open().max_rate(rate()));
    let counts = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let (mut job, mut peers) = (Job::blocks(32), Vec::new());
    for count in &counts {
        let count = Arc::clone(count);
        let peer = Peer::serve(move |mut stream| {
            let mut piece = vec![0; 64 << 10];
            while let Ok(bytes @ 1..) = stream.read(&mut piece) {
                count.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        });
        let mut script = Script::new();
        script
            .stream_with_rings(0, peer.address, 64 << 10)
            .send_all(0, 1 << 40, 16 << 10)
            .errno(Errno::ECANCELED);
        job = job.script(&script);
        peers.push(peer);
    }
    let started = job.start(&net);
    let got = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    let mut share = 0.0;
    let is_shared = || {
        let before = got();
        let rate = rate_of(|| net.statistics().sent_bytes);
        let [one, other] = [got()[0] - before[0], got()[1] - before[1]];
        share = one as f64 / (one + other) as f64;
        // In a second in which both together had all of it.
        is_kept(rate / self::rate() as f64) && (0.3..0.7).contains(&share)
    };
    assert!(eventually(is_shared), "the first one's share was {share} in the end");
    started.launch().abort();
    started.finish();
    assert!(eventually(|| net.statistics().sockets == 0));
}

#[test]
fn two_proxy_threads_share_a_rate() {
    if is_local() {
        return skip("limits::two_proxy_threads_share_a_rate", NOT_COUNTED);
    }
    let builder = net_builder().linger(MS).proxy_threads(2);
    let net = builder.policy(Policy::open().max_rate(rate())).build().expect("a net");
    let server = peer::echo_server();
    let mut job = Job::blocks(32);
    for _ in 0..4 {
        let mut script = Script::new();
        script.stream(0, server);
        for _ in 0..1000 {
            script.send(0, 10_000).recv_all(0, 10_000, 10_000);
        }
        script.any();
        job = job.script(&script);
    }
    let started = job.start(&net);
    keeps_the_rate(|| rate_of(|| net.statistics().received_bytes + net.statistics().sent_bytes));
    started.launch().abort();
    let _ = started.end();
}

#[test]
fn calls_that_a_limit_delays_keep_their_time_outs() {
    if is_local() {
        return skip("limits::calls_that_a_limit_delays_keep_their_time_outs", NOT_COUNTED);
    }
    // The first KiB goes, and nothing after it.
    let net = limited(Policy::open().max_rate(0));
    let limit = 300 * MS;
    let peer = Peer::serve(|mut stream| {
        peer::receive(&mut stream, 0, 1024);
        peer::send(&mut stream, 0, 100);
        // What is unsent when the time to linger is over was cut off, and that shows.
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        assert!(ended.is_err(), "it looks like all there is: {ended:?}");
        peer::check(&rest, gpunet_e2e::script::SEED, 1024);
    });
    let mut script = Script::new();
    script.stream_with_rings(0, peer.address, 64 << 10);
    script.send_timeout(0, limit).receive_timeout(0, limit);
    // The ring takes 64 KiB more.
    script.send(0, 1 << 20).between(64 << 10, 66 << 10);
    script.send(0, 10).errno(Errno::ETIMEDOUT).takes(about(limit));
    script.send(0, 10).flags(MSG_DONTWAIT).errno(Errno::EAGAIN);
    script.recv(0, 10).errno(Errno::ETIMEDOUT).takes(about(limit));
    script.recv(0, 10).flags(MSG_DONTWAIT).errno(Errno::EAGAIN).close(0);
    Job::blocks(32).script(&script).run(&net);
    peer.result();
    assert_eq!(net.statistics().sent_bytes, 1024);
    assert_eq!(net.statistics().received_bytes, 0);
}

#[test]
fn an_end_is_seen_although_no_bytes_may_move() {
    if is_local() {
        return skip("limits::an_end_is_seen_although_no_bytes_may_move", NOT_COUNTED);
    }
    if !peer::can_reset("limits::an_end_is_seen_although_no_bytes_may_move") {
        return;
    }
    // Nothing moves but the first KiB, which goes to the first script.
    let (net, flags) = (limited(Policy::open().max_rate(0)), flags());
    let listeners = [(); 4].map(|()| peer::Listener::bind(any_port()).expect("a port"));
    let addresses: [SocketAddr; 4] = listeners.each_ref().map(peer::Listener::address);
    let mut scripts = vec![Script::new(); 4];
    scripts[0]
        .stream_with_rings(0, addresses[0], 64 << 10)
        .send(0, 20_000)
        .set_flag(0)
        .wait_flag(4);
    scripts[1].wait_flag(0).stream(0, addresses[1]).set_flag(1).recv(0, 10).expect(0);
    scripts[2].wait_flag(0).stream(0, addresses[2]).set_flag(2);
    scripts[2].recv(0, 10).errno(Errno::ECONNRESET);
    scripts[3].wait_flag(0).stream(0, addresses[3]).poll_set(0, 0, POLLIN).set_flag(3);
    scripts[3].poll(1, -1, 1).recv(0, 10).expect(0);
    let mut job = Job::blocks(32).flags(&flags);
    for script in &scripts {
        job = job.script(script);
    }
    let started = job.start(&net);
    let [sink, ends, resets, polled] = listeners.each_ref().map(accept);
    for flag in 0..4 {
        started.until(&flags, flag);
    }
    assert!(eventually(|| net.statistics().sent_bytes == 1024));
    drop((ends, polled));
    peer::reset(resets);
    // Bytes do not come, and are no end of the stream.
    flags.set(4, 1);
    started.finish();
    assert_eq!(net.statistics().sent_bytes, 1024);
    drop(sink);
}

#[test]
fn bytes_in_flight_wait_for_who_reads_them() {
    if is_local() {
        return skip("limits::bytes_in_flight_wait_for_who_reads_them", NOT_COUNTED);
    }
    let (limit, ring) = (16_384, 65_536);
    let net = limited(Policy::open().max_in_flight(limit));
    let flags = flags();
    let peer = Peer::serve(move |mut stream| {
        peer::send(&mut stream, 0, ring);
        peer::receive_rest(&mut stream, 0)
    });
    let mut script = Script::new();
    script.stream_with_rings(0, peer.address, 64 << 10).set_flag(0).wait_flag(1);
    script.recv_all(0, ring as u64, 4096).expect(ring as i64).send(0, 10).close(0);
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    let read = || net.dump().expect("the proxy answers")[0].to_be_read;
    let came = eventually(|| read() >= limit - 4096);
    assert!(came, "{:?} {:?}", net.dump(), net.statistics());
    std::thread::sleep(50 * MS);
    assert!(read() <= limit, "{} bytes of at most {limit}", read());
    assert!(net.statistics().throttled > 0);
    flags.set(1, 1);
    started.finish();
    assert_eq!(peer.result(), 10);
    assert!(eventually(|| net.statistics().sockets == 0));
}

#[test]
fn what_nobody_reads_does_not_starve_other_sockets() {
    if is_local() {
        return skip("limits::what_nobody_reads_does_not_starve_other_sockets", NOT_COUNTED);
    }
    let net = limited(Policy::open().max_in_flight(8192));
    let loud = Peer::serve(|mut stream| {
        let _ = stream.write_all(&[1; 200_000]);
    });
    let server = peer::echo_server();
    let mut script = Script::new();
    script.stream_with_rings(0, loud.address, 64 << 10).sleep(50 * MS);
    script.stream(1, server).send(1, 3000).recv_all(1, 3000, 3000).close(1);
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn sent_bytes_that_the_peer_does_not_take_are_in_flight() {
    if is_local() {
        return skip("limits::sent_bytes_that_the_peer_does_not_take_are_in_flight", NOT_COUNTED);
    }
    let limit = 20_000;
    let net = limited(Policy::open().max_in_flight(limit));
    let (listener, address) = peer::narrow_listener();
    let mut script = Script::new();
    script.stream_with_rings(0, address, 64 << 10).send_timeout(0, 300 * MS);
    script.send(0, 1 << 20).between(1, (1 << 20) - 1).set_flag(0).wait_flag(1);
    let flags = flags();
    let started = Job::blocks(32).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    let sent = net.dump().expect("the proxy answers")[0].sent;
    // What the peer's system has acknowledged is no longer on its way.
    assert!(sent <= limit + (64 << 10), "{sent} bytes were sent");
    flags.set(1, 1);
    started.finish();
    drop(listener);
}

#[test]
fn closing_and_aborting_while_throttled() {
    if is_local() {
        return skip("limits::closing_and_aborting_while_throttled", NOT_COUNTED);
    }
    let net = limited(Policy::open().max_rate(10_000));
    let (server, flags) = (peer::echo_server(), flags());
    let mut closing = Script::new();
    closing
        .stream_with_rings(0, server, 64 << 10)
        .send(0, 50_000)
        .close(0)
        .stream(0, server)
        .send(0, 1000)
        .close(0);
    let mut waiting = Script::new();
    waiting.stream(0, server).set_flag(0).send_all(0, 1 << 30, 4096).errno(Errno::ECANCELED);
    waiting.close(0);
    let job = Job::blocks(32).script(&closing).script(&waiting);
    let started = job.flags(&flags).start(&net);
    started.until(&flags, 0);
    std::thread::sleep(100 * MS);
    started.launch().abort();
    let (ended, _) = started.end();
    ended.expect("the kernel ends");
    // What is unsent has the linger time, and no more.
    assert!(eventually(|| net.statistics().sockets == 0));
    // The limits know of nothing that is left behind.
    let mut script = Script::new();
    script.stream(0, server).send(0, 100).recv_all(0, 100, 100).close(0);
    Job::blocks(32).script(&script).run(&net);
    drop_in_order(net);
}

#[test]
fn a_socket_beyond_the_limit_is_refused() {
    let net = limited(Policy::open().max_sockets(2));
    let (listener, address) = net.listen(any_port()).expect("the program is not asked");
    let mut script = Script::new();
    script.given(0, listener).receive_timeout(0, 200 * MS).socket(1, Domain::V4).poller();
    script.socket(2, Domain::V4).errno(Errno::EACCES);
    // A peer waits until there is room for it.
    script.accept(0, 2).errno(Errno::ETIMEDOUT).close(1).receive_timeout(0, timeout());
    script.accept(0, 2).socket(1, Domain::V4).errno(Errno::EACCES).close(2);
    // One that travels by RDMA counts until it has disconnected.
    script.sleep(scaled_time(50 * MS));
    script.socket(1, Domain::Unix).set(1, SocketOption::Detached, 1).poller_close();
    let _peer = peer::connect(address);
    // It is accepted before the kernel runs, and has to go first.
    assert!(eventually(|| net.statistics().accepted == 1));
    let mut first = Script::new();
    first.given(0, listener).accept(0, 1).close(1);
    Job::blocks(32).script(&first).run(&net);
    let started = Job::blocks(32).script(&script).start(&net);
    std::thread::sleep(100 * MS);
    let _second = peer::connect(address);
    started.finish();
    assert_eq!(net.statistics().denied, 2);
}
