//! P2P streams between kernels, as they differ from others: who becomes one, names,
//! memory. What becomes of bytes and endings is the same suite as TCP's (`GPUNET_TRANSPORT=local`),
//! killed processes are in `killed`, untrusted peers in `untrusted_peers`.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use gpunet_device::calls::{MSG_DONTWAIT, POLLIN, SHUT_WR};
use gpunet_e2e::attack::{announced_twice, count_spoiled};
use gpunet_e2e::{
    Domain, Errno, Folder, Job, RING, Script, SocketAddr, SocketOption, any_port, any_port_v6,
    at_once, flags, net_builder, scaled, skip, timeout,
};
use gpunet_host::{Net, NetError, Policy, Transport, TransportChoice};

/// A net that goes so; none, said aloud, where this GPU has no arenas.
fn net_by(test: &str, choice: TransportChoice) -> Option<Net> {
    match net_builder().transport(choice).build() {
        Ok(net) => Some(net),
        Err(NetError::Local(reason)) => {
            skip(&format!("local::{test}"), &reason);
            None
        }
        Err(error) => panic!("a net: {error}"),
    }
}

const LOCAL: i64 = TransportChoice::Local as i64;
const TCP: i64 = TransportChoice::Tcp as i64;

#[test]
fn both_ends_have_names() {
    let Some(net) = net_by("both_ends_have_names", TransportChoice::Local) else { return };
    let folder = Folder::new("p2p-names");
    for at in [any_port(), any_port_v6(), folder.address("listener")] {
        let (listener, address) = net.listen(at).expect("it listens");
        let flags = flags();
        let (mut server, mut client) = (Script::new(), Script::new());
        server.given(0, listener).accept(0, 1).get(1, SocketOption::Transport, LOCAL);
        server.socket_name(1, address).set_flag(0).wait_flag(2).close(1);
        client.stream(0, address).get(0, SocketOption::Transport, LOCAL).peer_name(0, address);
        client.set_flag(1).wait_flag(2).close(0);
        let job = Job::blocks(32).script(&server).script(&client).flags(&flags);
        let started = job.start(&net);
        started.until(&flags, 0);
        started.until(&flags, 1);
        let dump = net.dump().expect("the proxy answers");
        let streams: Vec<_> = dump.iter().filter(|socket| socket.state == "stream").collect();
        assert_eq!(streams.len(), 2);
        let [one, other] = [streams[0], streams[1]];
        assert_eq!([one.transport.all(), other.transport.all()], [[Transport::P2p]; 2]);
        assert_eq!((&one.local, &one.peer), (&other.peer, &other.local));
        flags.set(2, 1);
        started.finish();
    }
    // A client that is bound is called by that name.
    let mine = folder.address("mine");
    let (listener, address) = net.listen(folder.address("other")).expect("it listens");
    let (mut server, mut client) = (Script::new(), Script::new());
    server.given(0, listener).accept(0, 1).peer_name(1, mine).close(1);
    client.socket(0, Domain::Unix).bind(0, mine).connect(0, address).socket_name(0, mine);
    client.recv(0, 1).expect(0).close(0);
    Job::blocks(32).script(&server).script(&client).run(&net);
}

#[test]
fn a_short_send_that_does_not_wait_knows_all_the_space_there_is() {
    let name = "a_short_send_that_does_not_wait_knows_all_the_space_there_is";
    let Some(net) = net_by(name, TransportChoice::Local) else { return };
    // The sender has seen that there is space for so much, and the peer has taken everything since.
    const SEEN: u64 = 100;
    for threads in [1, 32, 64] {
        let (listener, address) = net.listen(any_port()).expect("a port");
        let (flags, mut server, mut client) = (flags(), Script::new(), Script::new());
        // A p2p ring has the bytes of both ends' rings.
        let first = 2 * u64::from(RING) - SEEN;
        server.given(0, listener).accept(0, 1).wait_flag(0).recv_all(1, first, 256).set_flag(1);
        server.recv_all(1, 256, 256).close(1);
        client.stream(0, address).send_all(0, first, 256).set_flag(0).wait_flag(1);
        client.send(0, 256).flags(MSG_DONTWAIT).expect(256).close(0);
        Job::blocks(threads).script(&server).script(&client).flags(&flags).run(&net);
    }
}

#[test]
fn kernels_of_one_machine_find_each_other_by_themselves() {
    let name = "kernels_of_one_machine_find_each_other_by_themselves";
    let Some(near) = net_by(name, TransportChoice::Auto) else { return };
    if net_by(name, TransportChoice::Local).is_none() {
        return;
    }
    let far = net_by(name, TransportChoice::Auto).expect("as the first");
    let limited = net_builder().transport(TransportChoice::Auto);
    let limited = limited.policy(Policy::open().max_rate(1 << 40)).build().expect("a net");
    let plain = net_by(name, TransportChoice::Tcp).expect("the system has TCP");
    // Where bytes are counted they go the next way, and where TCP was asked for by TCP.
    let next = if near.without_rdma().is_none() { TransportChoice::Rdma as i64 } else { TCP };
    for (server, by) in [(&far, LOCAL), (&limited, next), (&plain, TCP)] {
        let (listener, address) = server.listen(any_port()).expect("a port");
        let (mut serving, mut client) = (Script::new(), Script::new());
        serving.given(0, listener).accept(0, 1);
        if by == LOCAL {
            serving.get(1, SocketOption::Transport, by);
        }
        serving.echo(1, 1000).expect(9000).close(1);
        client.stream(0, address).get(0, SocketOption::Transport, by);
        client.send(0, 9000).recv_all(0, 9000, 1000).close(0);
        let started = Job::blocks(64).script(&serving).start(server);
        let calling = Job::blocks(64).script(&client).start(&near);
        started.finish();
        calling.finish();
    }
    // A listener takes both.
    let (listener, address) = far.listen(any_port()).expect("a port");
    let mut serving = Script::new();
    serving.given(0, listener);
    for _ in 0..3 {
        serving.accept(0, 1).echo(1, 100).close(1);
    }
    let started = Job::blocks(32).script(&serving).start(&far);
    let mut client = Script::new();
    client.stream(0, address).send(0, 300).recv_all(0, 300, 300).close(0);
    Job::blocks(32).script(&client).run(&near);
    let ip = address.to_ip().expect("an IP address");
    let mut stream = std::net::TcpStream::connect(ip).expect("it listens");
    stream.set_read_timeout(Some(timeout())).expect("time-outs can be set");
    stream.write_all(b"abc").expect("it is open");
    stream.read_exact(&mut [0; 3]).expect("it comes back");
    drop(stream);
    Job::blocks(32).script(&client).run(&near);
    started.finish();
}

#[test]
fn names_of_streams_accepted_at_any_address() {
    let name = "names_of_streams_accepted_at_any_address";
    let Some(net) = net_by(name, TransportChoice::Local) else { return };
    for (anywhere, called, mapped) in
        [("0.0.0.0:0", "127.0.0.1", "127.0.0.1"), ("[::]:0", "127.0.0.1", "::ffff:127.0.0.1")]
    {
        let anywhere: std::net::SocketAddr = anywhere.parse().expect("an address");
        let (listener, bound) = net.listen(anywhere).expect("a port");
        let port = bound.to_ip().expect("an IP address").port();
        let at = |ip: &str| {
            SocketAddr::from(std::net::SocketAddr::new(ip.parse().expect("an address"), port))
        };
        let (mut server, mut client) = (Script::new(), Script::new());
        server.given(0, listener).accept(0, 1).socket_name(1, at(mapped)).close(1).close(0);
        client.stream(0, at(called)).peer_name(0, at(called)).recv(0, 1).expect(0).close(0);
        Job::blocks(32).script(&server).script(&client).run(&net);
    }
}

#[test]
fn a_p2p_stream_without_ring_memory_is_refused() {
    let Some(net) = net_by("a_p2p_stream_without_ring_memory_is_refused", TransportChoice::Local)
    else {
        return;
    };
    let (listener, address) = net.listen(any_port()).expect("a port");
    let mut server = Script::new();
    server.given(0, listener).accept(0, 1).echo(1, 100).expect(100).close(1);
    let mut client = Script::new();
    // More than all arenas of a small net may have; the listener's side is well.
    client.stream_with_rings(0, address, 256 << 20).errno(Errno::ENOBUFS);
    client.socket(0, Domain::V4).set(0, SocketOption::ReceiveRing, 256 << 20);
    client.connect(0, address).errno(Errno::ENOBUFS).close(0);
    client.stream_with_rings(0, address, RING).send(0, 100).recv_all(0, 100, 100).close(0);
    Job::blocks(32).script(&server).script(&client).run(&net);
    assert!(gpunet_e2e::eventually(|| net.statistics().sockets == 1));
}

#[test]
fn other_addresses_have_no_p2p_stream() {
    let Some(net) = net_by("other_addresses_have_no_p2p_stream", TransportChoice::Local) else {
        return;
    };
    let folder = Folder::new("p2p-nowhere");
    std::fs::write(folder.path("file"), "").expect("a file");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let tcp: SocketAddr = tcp.local_addr().expect("its address").into();
    let mut script = Script::new();
    for (domain, address, errno) in [
        // A listener of the system, but of no kernel.
        (Domain::V4, tcp, Errno::ECONNREFUSED),
        (Domain::V4, SocketAddr::v4([192, 0, 2, 1], 9), Errno::ENETUNREACH),
        (Domain::Unix, folder.address("file"), Errno::ECONNREFUSED),
        (Domain::Unix, folder.address("nothing"), Errno(2)),
        (Domain::V6, tcp, Errno::EAFNOSUPPORT),
        (Domain::V4, folder.address("file"), Errno::EAFNOSUPPORT),
    ] {
        script.socket(0, domain).connect(0, address).errno(errno).close(0);
    }
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn one_stream_after_the_other_is_watched_in_the_same_places() {
    let name = "one_stream_after_the_other_is_watched_in_the_same_places";
    if net_by(name, TransportChoice::Local).is_none() {
        return;
    }
    // Room for a poller and a stream, and for a listener and a stream.
    let small = || net_builder().transport(TransportChoice::Local).sockets(2).build();
    let (near, far) = (small().expect("as the first"), small().expect("as the first"));
    let (listener, address) = far.listen(any_port()).expect("a port");
    let (mut server, mut client) = (Script::new(), Script::new());
    server.given(0, listener);
    client.poller();
    for length in [10, 10, 3000, 3000, 10, 10] {
        server.accept(0, 1).recv_all(1, 1, 1);
        // Longer than proxies look for themselves after a poller has begun to watch.
        server.sleep(Duration::from_millis(20)).send(1, length);
        server.recv(1, 1).expect(0).close(1);
        client.stream(0, address).poller_add(0, POLLIN, 3).send(0, 1);
        client.poller_wait(1, timeout()).expect(1).event(0, 3, POLLIN);
        client.recv_all(0, length, length).close(0);
    }
    let serving = Job::blocks(32).script(&server).start(&far);
    Job::blocks(32).script(&client).run(&near);
    serving.finish();
    assert_eq!(near.statistics().violations + far.statistics().violations, 0);
}

/// More streams than a wait takes events, and other streams in their places.
#[test]
fn a_poller_finds_each_of_its_streams() {
    let name = "a_poller_finds_each_of_its_streams";
    let Some(net) = net_by(name, TransportChoice::Local) else { return };
    const STREAMS: u32 = 8;
    for job in [Job::blocks(48), Job::warps(64), Job::threads(1)] {
        let (listener, address) = net.listen(any_port()).expect("a port");
        let (mut server, mut client) = (Script::new(), Script::new());
        server.given(0, listener);
        client.poller();
        for turn in 0..3 {
            for register in 0..STREAMS {
                server.accept(0, 1 + register);
                client.stream(register, address).poller_add(register, POLLIN, register.into());
            }
            for register in 0..STREAMS {
                server.send(1 + register, 100 * (turn + 1));
            }
            for register in 0..STREAMS {
                client.peek(register, 100 * (turn + 1), 0);
            }
            client.poller_wait(3, timeout()).expect(3).poller_wait(3, timeout()).expect(3);
            client
                .poller_wait(3, timeout())
                .expect(2)
                .poller_wait(3, Duration::from_millis(20))
                .errno(Errno::ETIMEDOUT);
            // What is left makes no event, what is new does, and so does adding it again.
            client.poller_remove(2).poller_add(3, POLLIN, 33);
            client.poller_wait(3, timeout()).expect(1).event(0, 33, POLLIN);
            // None of the entries that stay is passed over while others are removed.
            for register in [0, 1, 4, 5, 6] {
                client.poller_remove(register);
            }
            client.send(7, 1).poller_wait(3, timeout()).expect(1).event(0, 7, POLLIN);
            client.send(3, 1).poller_wait(3, timeout()).expect(1).event(0, 33, POLLIN);
            for register in [7, 3] {
                server.recv_all(1 + register, 1, 1).send(1 + register, 10);
            }
            client.recv_all(7, 10, 10).recv_all(3, 10, 10);
            for register in 0..STREAMS {
                client.recv_all(register, 100 * (turn + 1), 100).close(register);
                server.recv(1 + register, 1).expect(0).close(1 + register);
            }
        }
        client.poller_close();
        server.close(0);
        job.script(&server).script(&client).run(&net);
    }
}

/// A block keeps in mind where the stream stands that it used last. Others use it, too.
#[test]
fn a_stream_that_is_kept_in_mind_is_shared() {
    let name = "a_stream_that_is_kept_in_mind_is_shared";
    let Some(net) = net_by(name, TransportChoice::Local) else { return };
    let jobs: [fn() -> Job; 3] = [|| Job::blocks(32), || Job::blocks(96), || Job::warps(32)];
    for job in jobs {
        let (listener, address) = net.listen(any_port()).expect("a port");
        let (mut server, mut first, mut second) = (Script::new(), Script::new(), Script::new());
        server.given(0, listener).accept(0, 1).echo(1, 256).any().close(1).close(0);
        first.stream(0, address);
        for _ in 0..20 {
            first.send(0, 10).recv_all(0, 10, 10);
        }
        first.give_handle(0, 1).wait_flag(2);
        // The second has moved both sides.
        first.send(0, 10).recv_all(0, 10, 10).send(0, 10).recv_all(0, 10, 10);
        first.set_flag(3).wait_flag(4);
        // It has waited for bytes that did not come, and longer messages go another way.
        first.send(0, 10).recv_all(0, 10, 10).send(0, 300).recv_all(0, 300, 300);
        first.send(0, 64).recv_all(0, 64, 7).set_flag(5).wait_flag(6);
        // It has ended sending, and then closed the stream.
        first.send(0, 10).errno(Errno::EPIPE).recv(0, 10).expect(0).set_flag(7).wait_flag(8);
        first.send(0, 10).errno(Errno::EBADF).recv(0, 10).errno(Errno::EBADF);
        second.receive_handle(0, 1);
        for _ in 0..3 {
            second.send(0, 20).recv_all(0, 20, 20);
        }
        second.set_flag(2).wait_flag(3).receive_timeout(0, Duration::from_millis(20));
        second.recv(0, 10).errno(Errno::ETIMEDOUT).receive_timeout(0, timeout()).set_flag(4);
        second.wait_flag(5).shutdown(0, SHUT_WR).set_flag(6).wait_flag(7).close(0).set_flag(8);
        job().script(&server).script(&first).script(&second).run(&net);
    }
}

/// One launch connects and one accepts; others, which begin once the memory of the stream is there,
/// use it. So every access can be checked by a tool that knows what memory a kernel began with.
#[test]
fn a_stream_is_used_by_later_launches() {
    const SERVED: usize = 1;
    const CONNECTED: usize = 2;
    const OVER: usize = 3;
    let name = "a_stream_is_used_by_later_launches";
    let Some(server) = net_by(name, TransportChoice::Local) else { return };
    let client = net_by(name, TransportChoice::Local).expect("as the first");
    let jobs: [fn() -> Job; 3] = [|| Job::blocks(64), || Job::warps(32), || Job::threads(1)];
    for job in jobs {
        let flags = flags();
        let (listener, address) = server.listen(any_port()).expect("a port");
        let (mut accepts, mut connects) = (Script::new(), Script::new());
        accepts.given(0, listener).accept(0, 1).give_handle(1, SERVED).wait_flag(OVER);
        connects.stream(0, address).give_handle(0, CONNECTED).wait_flag(OVER);
        let first = job().script(&accepts).flags(&flags).start(&server);
        let second = job().script(&connects).flags(&flags).start(&client);
        first.until(&flags, SERVED);
        second.until(&flags, CONNECTED);
        let (mut serves, mut calls) = (Script::new(), Script::new());
        serves.receive_handle(1, SERVED).echo(1, 1000).any().shutdown(1, SHUT_WR).close(1);
        calls.receive_handle(0, CONNECTED);
        for length in [10, 10, 1, 63, 64, 64, 65, 300, 4000, 10, 10] {
            calls.send(0, length).recv_all(0, length, length);
        }
        calls.shutdown(0, SHUT_WR).recv(0, 1).expect(0).close(0);
        let echo = job().script(&serves).flags(&flags).start(&server);
        job().script(&calls).flags(&flags).run(&client);
        echo.finish();
        flags.set(OVER, 1);
        first.finish();
        second.finish();
    }
}

/// A group ends sending while another sends, or waits for space: what that says was sent is all that
/// arrives, and once it has the end nothing more is sent.
#[test]
fn a_shutdown_beside_a_send() {
    let Some(net) = net_by("a_shutdown_beside_a_send", TransportChoice::Local) else { return };
    for round in 0..scaled(90) {
        let (listener, address) = net.listen(any_port()).expect("a port");
        let (mut server, mut sender, mut shutter) = (Script::new(), Script::new(), Script::new());
        server.given(0, listener).accept(0, 1);
        sender.stream(0, address).give_handle(0, 0);
        shutter.receive_handle(0, 0);
        let waits = round % 3 == 0;
        if waits {
            // The other end begins to read just then.
            server.wait_flag(1).sleep(Duration::from_micros(5 * round));
            shutter.sleep(Duration::from_millis(20));
        } else {
            shutter.sleep(Duration::from_micros(30 * round));
        }
        let mut steps = Vec::new();
        for at in 0..30 {
            // More than fits, and small messages behind it; longer ones; or small ones that are
            // answered, so that the block keeps the stream in mind.
            let length = match round % 3 {
                0 if at == 0 => 20_000,
                1 => 300,
                _ => 9,
            };
            sender.send(0, length).any();
            steps.push((sender.mark(), length as i64));
            if round % 3 == 2 {
                sender.recv(0, 9).any();
            }
        }
        shutter.set_flag(1).shutdown(0, SHUT_WR).takes(at_once());
        shutter.set_flag(2);
        sender.wait_flag(2).send(0, 9).errno(Errno::EPIPE).close(0);
        match round % 3 {
            2 => server.echo(1, 256).any(),
            _ => server.recv_all(1, 1 << 20, 4096).any(),
        };
        let got = server.mark();
        server.recv(1, 1).expect(0).close(1).close(0);
        let job = Job::blocks(if round % 2 == 0 { 32 } else { 64 });
        let finished = job.script(&server).script(&sender).script(&shutter).run(&net);
        let mut sent = 0;
        let mut over = false;
        for (step, length) in steps {
            let result = finished.result(1, step);
            assert!(!over || result == Errno::EPIPE.negative(), "round {round}: {result}");
            over = result < length;
            sent += result.max(0);
        }
        assert_eq!(finished.result(0, got), sent, "round {round}");
    }
}

#[test]
fn a_packet_that_is_announced_under_two_lengths() {
    let name = "a_packet_that_is_announced_under_two_lengths";
    let Some(net) = net_by(name, TransportChoice::Local) else { return };
    let peer = net_by(name, TransportChoice::Local).expect("as the first");
    // By the first warp alone, and by several.
    for (threads, lengths) in [(32, [8, 256]), (64, [8, 2000]), (128, [16, 4000])] {
        let received = announced_twice(&net, &peer, threads, lengths);
        assert_eq!(received.unsent, 0, "{threads} threads: {received:?}");
        // The last announcement may have been the longer one, whose bytes never come.
        let ended = [0, Errno::ECONNRESET.0 as u64].contains(&received.error);
        assert!(ended, "{threads} threads: {received:?}");
        assert!(received.packets > 10 && received.bytes > 80, "{threads} threads: {received:?}");
    }
}

#[test]
fn a_count_of_what_was_received_that_its_peer_spoils() {
    let name = "a_count_of_what_was_received_that_its_peer_spoils";
    let Some(net) = net_by(name, TransportChoice::Local) else { return };
    let peer = net_by(name, TransportChoice::Local).expect("as the first");
    assert_eq!(count_spoiled(&net, &peer), (2, 0, true));
}
