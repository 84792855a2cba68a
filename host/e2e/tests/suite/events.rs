//! What pollers report, and when: the lines of the table in `gpunet_device::poller` that no other test
//! shows.

use std::net::Shutdown;
use std::sync::mpsc;
use std::time::Duration;

use gpunet_device::calls::{POLLHUP, POLLIN, POLLOUT, POLLRDHUP, SHUT_WR};
use gpunet_e2e::{
    Domain, Errno, Job, Peer, Script, SocketOption, any_port, flags, is_local, is_rdma, net, peer,
    skip, timeout,
};

const MS: Duration = Duration::from_millis(1);

/// Edges: what was left makes no event, what comes then does, and adding it again reports all.
#[test]
fn bytes_that_are_left_make_no_event() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    script.stream(0, server).poller().send(0, 100).peek(0, 100, 0);
    script.poller_add(0, POLLIN, 1).poller_wait(4, timeout()).expect(1).event(0, 1, POLLIN);
    script.recv(0, 10).expect(10).poller_wait(4, 50 * MS).errno(Errno::ETIMEDOUT);
    script.send(0, 50).poller_wait(4, timeout()).expect(1).event(0, 1, POLLIN);
    script.recv(0, 10).expect(10).peek(0, 130, 0);
    script.poller_add(0, POLLIN, 2).poller_wait(4, timeout()).expect(1).event(0, 2, POLLIN);
    script.recv_all(0, 130, 64).poller_wait(4, 50 * MS).errno(Errno::ETIMEDOUT);
    script.close(0).poller_close();
    Job::blocks(64).script(&script).run(&net);
}

/// However often something happened: one event while nobody takes it.
#[test]
fn a_socket_has_one_event_at_a_time() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    script.stream(0, server).poller().poller_add(0, POLLIN, 1);
    for message in 1..=5 {
        script.send(0, 10).peek(0, 10 * message, 0);
    }
    script.peek(0, 50, 0).poller_wait(4, timeout()).expect(1).event(0, 1, POLLIN);
    script.recv_all(0, 50, 50);
    if !is_local() {
        // What came while it was in the ring is reported once more, with nothing new to receive.
        script.poller_wait(4, timeout()).expect(1).event(0, 1, POLLIN);
    }
    script.recv(0, 10).flags(gpunet_device::calls::MSG_DONTWAIT).errno(Errno::EAGAIN);
    script.poller_wait(4, 50 * MS).errno(Errno::ETIMEDOUT).close(0).poller_close();
    Job::blocks(64).script(&script).run(&net);
}

/// The end of a peer's bytes is readable; POLLRDHUP comes to those that ask for it.
#[test]
fn an_end_is_reported_as_it_was_asked_for() {
    let net = net();
    for (asked, reported) in [
        (POLLIN, Some(POLLIN)),
        (POLLIN | POLLRDHUP, Some(POLLIN | POLLRDHUP)),
        (POLLRDHUP, Some(POLLRDHUP)),
        // Its own direction is as it was.
        (POLLOUT, None),
    ] {
        let (go, gone) = mpsc::channel();
        let peer = Peer::serve(move |mut stream| {
            let _: Result<(), _> = gone.recv();
            stream.shutdown(Shutdown::Write).expect("it is open");
            peer::receive_rest(&mut stream, 0)
        });
        let flags = flags();
        let mut script = Script::new();
        script.stream(0, peer.address).poller().poller_add(0, asked, 3);
        if asked == POLLOUT {
            script.poller_wait(4, timeout()).expect(1).event(0, 3, POLLOUT);
        }
        script.set_flag(0);
        match reported {
            Some(reported) => script.poller_wait(4, timeout()).expect(1).event(0, 3, reported),
            None => script.poller_wait(4, 100 * MS).errno(Errno::ETIMEDOUT),
        };
        script.recv(0, 1).expect(0).close(0).poller_close();
        let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
        started.until(&flags, 0);
        go.send(()).expect("the peer waits");
        started.finish();
        assert_eq!(peer.result(), 0);
    }
}

/// When both directions are over, POLLHUP comes unasked.
#[test]
fn the_end_of_both_directions_is_reported_unasked() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    script.stream(0, server).poller().send(0, 10).recv_all(0, 10, 10);
    script.poller_add(0, POLLIN, 4).shutdown(0, SHUT_WR);
    script.recv(0, 1).expect(0).poll_set(0, 0, 0).poll(1, -1, 1).found(0, POLLHUP);
    script.poller_add(0, POLLIN, 5);
    script.poller_wait(4, timeout()).expect(1).event(0, 5, POLLIN | POLLHUP);
    script.close(0).poller_close();
    Job::blocks(64).script(&script).run(&net);
}

/// Of a listener's options an accepted socket has those that the table names.
#[test]
fn accepted_sockets_inherit_their_listeners_options() {
    if is_rdma() || is_local() {
        return skip("events::accepted_sockets_inherit_their_listeners_options", "they are TCP's");
    }
    let net = net();
    let timeout = timeout().as_nanos() as i64;
    let mut script = Script::new();
    script.socket(0, Domain::V4);
    for (option, value) in [
        (SocketOption::ReceiveRing, 8192),
        (SocketOption::SendRing, 16_384),
        (SocketOption::KeepAlive, 1),
        (SocketOption::KeepAliveIdle, 77),
        (SocketOption::UserTimeout, 12_345),
        (SocketOption::NoDelay, 0),
        (SocketOption::ReceiveTimeout, 5_000_000_000),
        (SocketOption::SendTimeout, 6_000_000_000),
    ] {
        script.set(0, option, value);
    }
    script.bind(0, any_port()).listen(0, 5);
    let name = script.keep_name(0);
    script.stream_to_kept(1, name).set(0, SocketOption::NonBlocking, 1);
    script.poll_set(0, 0, POLLIN).poll(1, 600_000, 1).accept(0, 2);
    for (option, value) in [
        (SocketOption::ReceiveRing, 8192),
        (SocketOption::SendRing, 16_384),
        (SocketOption::KeepAlive, 1),
        (SocketOption::KeepAliveIdle, 77),
        (SocketOption::UserTimeout, 12_345),
        // As every stream begins, whatever the listener was set to.
        (SocketOption::NoDelay, 1),
        (SocketOption::NonBlocking, 0),
        (SocketOption::ReceiveTimeout, timeout),
        (SocketOption::SendTimeout, timeout),
    ] {
        script.get(2, option, value);
    }
    // Nor is it watched, though the listener is.
    script.poller().poller_add(0, POLLIN, 1).send(1, 10).peek(2, 10, 0);
    script.poller_wait(4, 50 * MS).errno(Errno::ETIMEDOUT);
    script.close(2).close(1).close(0).poller_close();
    Job::blocks(64).script(&script).run(&net);
}

/// A call takes a part of what is there: fewer bytes than the buffer holds, and more follow at once.
#[test]
fn a_short_read_leaves_bytes() {
    if is_local() {
        return skip("events::a_short_read_leaves_bytes", "a p2p stream gives all there is");
    }
    const RING: u64 = 128 << 10;
    let net = gpunet_e2e::net_builder().ring_memory(4 << 20).build().expect("a net");
    let peer = Peer::serve(|mut stream| {
        peer::send(&mut stream, 0, 100_000);
        peer::receive_rest(&mut stream, 0)
    });
    let mut script = Script::new();
    script.stream_with_rings(0, peer.address, RING as u32).poller().peek(0, 100_000, 0);
    script.poller_add(0, POLLIN, 1).poller_wait(4, timeout()).expect(1);
    // At most the larger of 32 KiB and a quarter of the ring.
    script.recv(0, RING).between(1, 32 << 10);
    script.recv(0, RING).flags(gpunet_device::calls::MSG_DONTWAIT).between(1, 32 << 10);
    // And no event for the rest.
    script.poller_wait(4, 50 * MS).errno(Errno::ETIMEDOUT);
    script.close(0).poller_close();
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}
