//! Sockets that several launches use while the one that owns them ends: calls of the others end with
//! EBADF at once, and nothing of the socket belongs to another before they have left it.

use std::sync::Arc;
use std::time::Duration;

use gpunet_device::calls::{MSG_DONTWAIT, POLLIN, POLLNVAL};
use gpunet_e2e::{
    Errno, Flags, Handle, Job, Script, any_port, at_once, eventually, flags, net_builder, peer,
};
use gpunet_host::Net;

const MS: Duration = Duration::from_millis(1);

/// Flags: the handle, the owner may end, the other one is about to wait, the owner has ended, the other one may
/// leave its call, and is inside of it.
const HANDLE: usize = 0;
const END: usize = 1;
const WAITS: usize = 2;
const ENDED: usize = 3;
const LEAVE: usize = 4;
const INSIDE: usize = 5;

/// A net with few sockets: whatever is free is soon another's.
fn small_net() -> Net {
    net_builder().sockets(8).build().expect("a net")
}

/// A launch that connects to an echo server, gives the handle away, and ends when it may.
fn owner(flags: &Arc<Flags>) -> Job {
    let mut script = Script::new();
    script.stream(0, peer::echo_server()).send(0, 10).recv_all(0, 10, 10);
    script.give_handle(0, HANDLE).wait_flag(END);
    Job::blocks(32).script(&script).flags(flags)
}

/// Streams of a launch of their own, as many as the table takes: each byte is checked.
fn others_talk(net: &Net) {
    for _ in 0..4 {
        let mut job = Job::blocks(32);
        for _ in 0..4 {
            let mut script = Script::new();
            script.stream(0, peer::echo_server()).send(0, 3000).recv_all(0, 3000, 700).close(0);
            job = job.script(&script);
        }
        job.run(net);
    }
}

/// Runs `user` beside an owner that ends under it once flag WAITS is set.
fn owner_ends_under(net: &Net, user: &Script) {
    let flags = flags();
    let owner = owner(&flags).start(net);
    let user = Job::blocks(64).script(user).flags(&flags).start(net);
    user.until(&flags, WAITS);
    std::thread::sleep(20 * MS);
    flags.set(END, 1);
    owner.finish();
    flags.set(ENDED, 1);
    others_talk(net);
    user.finish();
    // Its memory is free again, the other launches' ends aside.
    assert!(eventually(|| net.statistics().sockets == 0));
    others_talk(net);
    assert_eq!(net.statistics().violations, 0);
}

#[test]
fn a_receive_ends_when_the_owner_does() {
    let net = small_net();
    let mut user = Script::new();
    user.receive_handle(0, HANDLE).send(0, 40).recv_all(0, 40, 40).set_flag(WAITS);
    // It waits, and has nothing to wait for.
    user.recv(0, 64).errno(Errno::EBADF).takes(at_once());
    user.wait_flag(ENDED);
    for _ in 0..20 {
        user.recv(0, 64).errno(Errno::EBADF).sleep(10 * MS);
    }
    owner_ends_under(&net, &user);
}

#[test]
fn a_receive_gets_nothing_of_peers_that_come_later() {
    let (net, flags) = (small_net(), flags());
    // Of the system's, whatever transport the suite goes by.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    net.hand_over(listener).expect("it is taken");
    let owner = owner(&flags).start(&net);
    let mut user = Script::new();
    user.receive_handle(0, HANDLE).send(0, 40).recv_all(0, 40, 40).set_flag(WAITS);
    user.recv(0, 64).errno(Errno::EBADF);
    let user = Job::blocks(64).script(&user).flags(&flags).start(&net);
    user.until(&flags, WAITS);
    flags.set(END, 1);
    owner.finish();
    // Nobody accepts them, so no kernel looks at the slots that they get.
    let mut peers = Vec::new();
    for _ in 0..16 {
        let mut peer = peer::connect_by_tcp(address);
        peer::send(&mut peer, 0, 64);
        peers.push(peer);
    }
    user.finish();
}

#[test]
fn a_send_fails_once_the_owner_has_ended() {
    let net = small_net();
    let mut user = Script::new();
    user.receive_handle(0, HANDLE).send(0, 40).recv_all(0, 40, 40).set_flag(WAITS).wait_flag(ENDED);
    for _ in 0..20 {
        user.send(0, 40).errno(Errno::EBADF).sleep(10 * MS);
    }
    user.send(0, 3000).errno(Errno::EBADF).reserve(0, 1, 64, 1).errno(Errno::EBADF);
    owner_ends_under(&net, &user);
}

#[test]
fn other_calls_fail_once_the_owner_has_ended() {
    let net = small_net();
    let mut user = Script::new();
    user.receive_handle(0, HANDLE).send(0, 40).recv_all(0, 40, 40).set_flag(WAITS).wait_flag(ENDED);
    user.recv(0, 1).flags(MSG_DONTWAIT).errno(Errno::EBADF).peek(0, 1, 0).errno(Errno::EBADF);
    user.poll_set(0, 0, POLLIN).poll(1, 0, 1).found(0, POLLNVAL);
    user.close(0).errno(Errno::EBADF).send(0, 1).errno(Errno::EBADF);
    owner_ends_under(&net, &user);
}

#[test]
fn a_launch_that_comes_later_finds_nothing() {
    let net = small_net();
    let mut user = Script::new();
    // It has never used the handle.
    user.set_flag(WAITS).wait_flag(ENDED).receive_handle(0, HANDLE);
    user.recv(0, 1).errno(Errno::EBADF).send(0, 1).errno(Errno::EBADF).close(0).errno(Errno::EBADF);
    owner_ends_under(&net, &user);
}

#[test]
fn an_accept_ends_when_the_listeners_owner_does() {
    let (net, flags) = (small_net(), flags());
    let mut first = Script::new();
    first.listener(0, any_port()).give_handle(0, HANDLE).wait_flag(END);
    let mut second = Script::new();
    second.receive_handle(0, HANDLE).set_flag(WAITS).accept(0, 1).errno(Errno::EBADF);
    second.wait_flag(ENDED).accept(0, 1).errno(Errno::EBADF);
    let owner = Job::blocks(32).script(&first).flags(&flags).start(&net);
    let user = Job::blocks(32).script(&second).flags(&flags).start(&net);
    user.until(&flags, WAITS);
    std::thread::sleep(20 * MS);
    flags.set(END, 1);
    owner.finish();
    flags.set(ENDED, 1);
    user.finish();
    assert!(eventually(|| net.statistics().sockets == 0));
}

#[test]
fn nothing_is_used_again_while_a_launch_is_inside() {
    let (net, flags) = (small_net(), flags());
    let owner = owner(&flags).start(&net);
    // It keeps space of the send ring open, computes, and commits when others would have it.
    let mut second = Script::new();
    second.receive_handle(0, HANDLE).send(0, 40).recv_all(0, 40, 40);
    second
        .hold_reserve_past(0, LEAVE, Duration::ZERO)
        .any()
        .recv(0, 1)
        .errno(Errno::EBADF)
        .wait_flag(ENDED);
    let user = Job::blocks(64).script(&second).flags(&flags).start(&net);
    user.until(&flags, INSIDE);
    let before = net.statistics().sockets;
    flags.set(END, 1);
    owner.finish();
    // Longer than one that nobody is inside would be kept.
    std::thread::sleep(300 * MS);
    assert_eq!(net.statistics().sockets, before, "a group is inside a call on it");
    others_talk(&net);
    flags.set(LEAVE, 1);
    // Freed though the launch that used it goes on.
    assert!(eventually(|| net.statistics().sockets == before - 1));
    flags.set(ENDED, 1);
    user.finish();
    assert_eq!(net.statistics().violations, 0);
}

#[test]
fn a_server_that_never_ends_keeps_nothing_of_short_launches() {
    let (net, done) = (small_net(), flags());
    let mut server = Script::new();
    server.set_flag(WAITS).wait_flag(END);
    let server = Job::blocks(32).script(&server).flags(&done).start(&net);
    server.until(&done, WAITS);
    for round in 0..3 {
        // Left open, and twice as many in all as the table has.
        let mut job = Job::blocks(32);
        for _ in 0..6 {
            let mut script = Script::new();
            script.stream(0, peer::echo_server()).send(0, 100).recv_all(0, 100, 100);
            job = job.script(&script);
        }
        job.run(&net);
        assert!(eventually(|| net.statistics().sockets == 0), "round {round}");
    }
    done.set(END, 1);
    server.finish();
}

#[test]
fn a_detached_socket_outlives_its_launch() {
    let (net, flags) = (small_net(), flags());
    let mut first = Script::new();
    first.stream(0, peer::echo_server()).send(0, 10).recv_all(0, 10, 10);
    first.set(0, gpunet_e2e::SocketOption::Detached, 1).give_handle(0, HANDLE);
    let mut second = Script::new();
    second.receive_handle(0, HANDLE).set_flag(WAITS).wait_flag(ENDED);
    second.send(0, 300).recv_all(0, 300, 300).close(0);
    let user = Job::blocks(32).script(&second).flags(&flags).start(&net);
    Job::blocks(32).script(&first).flags(&flags).run(&net);
    user.until(&flags, WAITS);
    std::thread::sleep(200 * MS);
    flags.set(ENDED, 1);
    user.finish();
    let handle = Handle(flags.get(HANDLE));
    assert!(net.take_back(handle).is_err(), "it was closed");
}
