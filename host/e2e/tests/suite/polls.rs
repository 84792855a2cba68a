//! Waiting for several sockets: `gpoll`.

use std::time::Duration;

use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDHUP, SHUT_WR};
use gpunet_e2e::{
    Domain, Errno, Handle, Job, Peer, Script, any_port, flags, net, net_builder, peer,
};

const MS: Duration = Duration::from_millis(1);
const LONG: i64 = 600_000;

/// A peer that sends so many bytes and then waits for the kernel to close.
fn sender(bytes: usize) -> Peer<u64> {
    Peer::serve(move |mut stream| {
        peer::send(&mut stream, 0, bytes);
        peer::receive_rest(&mut stream, 0)
    })
}

#[test]
fn a_poll_reports_what_was_asked_for() {
    let (net, peer) = (net(), sender(10));
    let mut script = Script::new();
    script.stream(0, peer.address).poll_set(0, 0, POLLIN).poll(1, LONG, 1).found(0, POLLIN);
    script.poll_set(0, 0, POLLOUT).poll(1, LONG, 1).found(0, POLLOUT);
    script.poll_set(0, 0, POLLIN | POLLOUT).poll(1, LONG, 1).found(0, POLLIN | POLLOUT);
    // Nothing was asked for, and nothing is wrong.
    script.poll_set(0, 0, 0).poll(1, 0, 0).found(0, 0).poll(1, 50, 0).found(0, 0);
    script.recv_all(0, 10, 10);
    script.poll_set(0, 0, POLLIN).poll(1, 0, 0).found(0, 0);
    script.poll_set(0, 0, POLLIN | POLLOUT).poll(1, LONG, 1).found(0, POLLOUT).close(0);
    for threads in [1, 33, 256] {
        Job::blocks(threads).script(&script).run(&net);
        peer.result();
    }
    Job::warps(32).script(&script).run(&net);
    Job::threads(1).script(&script).run(&net);
}

#[test]
fn a_poll_waits_for_what_comes() {
    let net = net();
    let peer = Peer::serve(|mut stream| {
        std::thread::sleep(100 * MS);
        peer::send(&mut stream, 0, 1);
        peer::receive_rest(&mut stream, 0)
    });
    let mut script = Script::new();
    // Without a limit.
    script.stream(0, peer.address).poll_set(0, 0, POLLIN).poll(1, -1, 1);
    script.found(0, POLLIN).close(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn a_peer_that_hangs_up_polls_as_hung_up() {
    let net = net();
    let peer = Peer::serve(|mut stream| peer::send(&mut stream, 0, 5));
    let mut script = Script::new();
    script.stream(0, peer.address).peek(0, 100, 0).expect(5);
    let all = POLLIN | POLLOUT | POLLRDHUP;
    script.poll_set(0, 0, all).poll(1, LONG, 1).found(0, all);
    script.poll_set(0, 0, POLLRDHUP).poll(1, LONG, 1).found(0, POLLRDHUP);
    script.recv_all(0, 5, 5).poll_set(0, 0, POLLIN).poll(1, LONG, 1).found(0, POLLIN);
    // Both directions are over: reported unasked.
    script.shutdown(0, SHUT_WR);
    script.poll_set(0, 0, 0).poll(1, LONG, 1).found(0, POLLHUP);
    script.poll_set(0, 0, all).poll(1, LONG, 1).found(0, all | POLLHUP).close(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn a_failed_socket_polls_as_an_error() {
    if !peer::can_reset("polls::a_failed_socket_polls_as_an_error") {
        return;
    }
    let net = net();
    let peer = Peer::serve(|mut stream| {
        peer::receive(&mut stream, 0, 1);
        peer::reset(stream);
    });
    let mut script = Script::new();
    script.stream(0, peer.address).send(0, 1).poll_set(0, 0, 0).poll(1, LONG, 1);
    script.found(0, POLLERR | POLLHUP);
    script.poll_set(0, 0, POLLIN | POLLOUT).poll(1, LONG, 1);
    script.found(0, POLLIN | POLLOUT | POLLERR | POLLHUP);
    script.recv(0, 1).errno(Errno::ECONNRESET).close(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn a_bad_handle_polls_as_invalid() {
    let net = net();
    let mut script = Script::new();
    script.given(1, Handle(u64::MAX)).given(2, Handle::NONE);
    script.socket(0, Domain::V4).copy(0, 3).close(0);
    for (place, register) in [1, 2, 3].into_iter().enumerate() {
        script.poll_set(place as u64, register, POLLIN);
    }
    script.poll(3, LONG, 3);
    for place in 0..3 {
        script.found(place, POLLNVAL);
    }
    // Without a connection there is nothing to wait for.
    script.socket(0, Domain::V4).poll_set(0, 0, POLLIN | POLLOUT).poll(1, LONG, 1);
    script.found(0, POLLOUT | POLLHUP);
    Job::blocks(64).script(&script).run(&net);
}

#[test]
fn a_listener_with_a_connection_polls_as_readable() {
    let net = net();
    let (listener, address) = net.listen(any_port()).expect("a port");
    let flags = flags();
    let mut script = Script::new();
    script.given(0, listener).poll_set(0, 0, POLLIN | POLLOUT).poll(1, 0, 0).found(0, 0);
    script.set_flag(0).poll(1, LONG, 1).found(0, POLLIN).accept(0, 1);
    script.poll(1, 0, 0).found(0, 0).close(1);
    let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    let mut stream = peer::connect(address);
    assert_eq!(peer::receive_rest(&mut stream, 0), 0);
    started.finish();
}

#[test]
fn a_poll_counts_the_sockets_that_are_ready() {
    let net = net_builder().sockets(64).build().expect("a net");
    let peer = Peer::serve({
        let mut count = 0;
        // Every seventh connection gets a byte; all stay open until the kernel closes them.
        let mut open = Vec::new();
        move |mut stream| {
            if count % 7 == 3 {
                peer::send(&mut stream, 0, 1);
            }
            count += 1;
            open.push(stream);
        }
    });
    let mut script = Script::new();
    for register in 0..50 {
        script.stream(register, peer.address);
    }
    for register in 0..50 {
        if register % 7 == 3 {
            script.peek(register, 1, 0);
        }
        script.poll_set(register.into(), register, POLLIN);
    }
    script.poll(50, LONG, 7);
    for register in 0..50 {
        script.found(register, if register % 7 == 3 { POLLIN } else { 0 });
    }
    // Just the first ones.
    script.poll(3, 0, 0).poll(4, LONG, 1).poll(0, 20, 0);
    for threads in [1, 32, 128] {
        Job::blocks(threads).script(&script).run(&net);
        for _ in 0..50 {
            peer.result();
        }
        // The peer counts on: make it a multiple of seven again.
        for _ in 0..6 {
            drop(peer::connect(peer.address));
            peer.result();
        }
    }
}

#[test]
fn a_socket_stays_writable_while_small_messages_go_out() {
    let net = net();
    let mut sender = Script::new();
    sender.stream(0, peer::echo_server()).give_handle(0, 0);
    for _ in 0..200 {
        sender.send(0, 10).recv_all(0, 10, 64);
    }
    sender.wait_flag(1).close(0);
    let mut watcher = Script::new();
    watcher.receive_handle(0, 0).poll_set(0, 0, POLLOUT);
    for _ in 0..1500 {
        watcher.poll(1, 0, 1);
    }
    watcher.set_flag(1);
    Job::blocks(64).script(&sender).script(&watcher).flags(&flags()).run(&net);
}
