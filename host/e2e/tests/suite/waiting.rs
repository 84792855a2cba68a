//! Not waiting and not waiting for ever: non-blocking sockets and time-outs.

use std::io::Read as _;
use std::ops::Range;
use std::time::Duration;

use gpunet_device::calls::{MSG_DONTWAIT, POLLERR, POLLHUP, POLLIN, POLLOUT, SOCK_NONBLOCK};
use gpunet_e2e::faults::{self, Row};
use gpunet_e2e::{
    Domain, Errno, Finished, Job, Peer, RING, Script, SocketOption, about, any_port, at_once,
    flags, is_local, is_rdma, net, net_builder, peer,
};
use gpunet_host::Task;

const MS: Duration = Duration::from_millis(1);

/// How long the calls of these tests wait.
const LIMIT: Duration = Duration::from_millis(400);

/// That, and none that is longer.
fn about_the_limit() -> Range<Duration> {
    about(LIMIT)
}

/// Records how long the script's call waited.
fn row(test: &str, call: &'static str, finished: &Finished, place: usize) {
    faults::measure(&format!("waiting::{test}"), || {
        vec![Row::of_op("the call's own time-out", call, LIMIT, finished, (0, place))]
    });
}

#[test]
fn a_socket_that_does_not_wait() {
    let net = net();
    let peer = Peer::serve(|mut stream| {
        peer::receive(&mut stream, 0, 10);
        peer::send(&mut stream, 0, 10);
        peer::receive_rest(&mut stream, 10)
    });
    let mut script = Script::new();
    script.stream(0, peer.address).set(0, SocketOption::NonBlocking, 1);
    script.recv(0, 10).errno(Errno::EAGAIN).takes(at_once());
    script.peek(0, 1, 1).errno(Errno::EAGAIN);
    script.send(0, 10).poll_set(0, 0, POLLIN).poll(1, 600_000, 1).recv(0, 10).between(1, 10);
    script.set(0, SocketOption::NonBlocking, 0).close(0);
    script.listener(1, any_port()).set(1, SocketOption::NonBlocking, 1);
    script.accept(1, 2).errno(Errno::EAGAIN).takes(at_once()).close(1);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn a_nonblocking_call_does_not_wait() {
    let net = net_builder().linger(MS).build().expect("a net");
    let (_listener, address) = peer::narrow_listener();
    let mut script = Script::new();
    script.stream(0, address);
    script.recv(0, 10).flags(MSG_DONTWAIT).errno(Errno::EAGAIN);
    // As much as fits: more than nothing, less than all. By RDMA nothing but rings holds bytes.
    let much = if is_rdma() { 1 << 20 } else { 32 << 20 };
    script.send(0, much).flags(MSG_DONTWAIT).between(1, much as i64 - 1);
    script.send_timeout(0, LIMIT).send(0, much).between(i64::from(i32::MIN), much as i64 - 1);
    script.send(0, 10).flags(MSG_DONTWAIT).errno(Errno::EAGAIN);
    script.poll_set(0, 0, POLLOUT).poll(1, 0, 0);
    Job::blocks(256).script(&script).run(&net);
}

#[test]
fn a_nonblocking_connect_does_not_wait() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    script.socket_of(0, 2, 1 | SOCK_NONBLOCK, 0).connect(0, server);
    script.between(Errno::EINPROGRESS.negative(), 0);
    let began = script.mark();
    script.poll_set(0, 0, POLLOUT).poll(1, 600_000, 1).found(0, POLLOUT);
    script.get(0, SocketOption::Error, 0).connect(0, server).errno(Errno::EISCONN);
    script.set(0, SocketOption::NonBlocking, 0).send(0, 99).recv_all(0, 99, 99).close(0);
    let finished = Job::blocks(64).script(&script).run(&net);
    assert!([Errno::EINPROGRESS.negative(), 0].contains(&finished.result(0, began)));
}

#[test]
fn a_refusal_that_was_not_waited_for() {
    let net = net();
    let (_held, closed) = peer::closed_port();
    let mut script = Script::new();
    script.socket_of(0, 2, 1 | SOCK_NONBLOCK, 0).connect(0, closed);
    script.between(Errno::EINPROGRESS.negative(), Errno::ECONNREFUSED.negative());
    script.poll_set(0, 0, POLLIN | POLLOUT).poll(1, 600_000, 1);
    if is_local() {
        // The connect itself has said so, as that of a UNIX socket.
        script.found(0, POLLOUT | POLLHUP).get(0, SocketOption::Error, 0).close(0);
    } else {
        script.found(0, POLLIN | POLLOUT | POLLERR | POLLHUP);
        script.get(0, SocketOption::Error, Errno::ECONNREFUSED.0.into()).close(0);
    }
    Job::blocks(64).script(&script).run(&net);
}

#[test]
fn a_connect_that_hangs() {
    let (net, (_held, nowhere)) = (net(), peer::black_hole());
    let mut script = Script::new();
    script.socket_of(0, 2, 1 | SOCK_NONBLOCK, 0).connect(0, nowhere).errno(Errno::EINPROGRESS);
    script.connect(0, nowhere).errno(Errno::EALREADY);
    script.poll_set(0, 0, POLLIN | POLLOUT).poll(1, 100, 0).found(0, 0).close(0);
    script.socket(0, Domain::V4).send_timeout(0, LIMIT);
    script.connect(0, nowhere).errno(Errno::ETIMEDOUT).takes(about_the_limit());
    let wait = script.mark();
    // A call that timed out leaves nothing behind.
    script.close(0).stream(0, peer::echo_server()).send(0, 9).recv_all(0, 9, 9).close(0);
    let finished = Job::blocks(64).script(&script).run(&net);
    row("a_connect_that_hangs", "gconnect", &finished, wait);
    assert!(gpunet_e2e::eventually(|| net.statistics().sockets == 0));
}

#[test]
fn a_receive_that_takes_too_long() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    script.stream(0, server).receive_timeout(0, LIMIT);
    script.recv(0, 10).errno(Errno::ETIMEDOUT).takes(about_the_limit());
    let receive = script.mark();
    script.peek(0, 1, 1).errno(Errno::ETIMEDOUT).takes(about_the_limit());
    let peek = script.mark();
    // Enough for half of what is looked for.
    script.send(0, 10).peek(0, 20, 0).errno(Errno::ETIMEDOUT).recv_all(0, 10, 10).close(0);
    for threads in [1, 64] {
        Job::blocks(threads).script(&script).run(&net);
    }
    let finished = Job::warps(32).script(&script).run(&net);
    row("a_receive_that_takes_too_long", "grecv", &finished, receive);
    row("a_receive_that_takes_too_long", "Stream::peek", &finished, peek);
}

#[test]
fn a_send_that_takes_too_long() {
    let net = net_builder().linger(MS).build().expect("a net");
    let (_listener, address) = peer::narrow_listener();
    let mut script = Script::new();
    script.socket(0, Domain::V4).set(0, SocketOption::SystemSendBuffer, 4096);
    script.connect(0, address).send_timeout(0, LIMIT);
    // Some goes, then the peer takes no more.
    script.send(0, 4 << 20).between(1, (4 << 20) - 1);
    script.send(0, 10).errno(Errno::ETIMEDOUT).takes(about_the_limit());
    let send = script.mark();
    script.send_all(0, 10, 10).errno(Errno::ETIMEDOUT);
    script.reserve(0, u64::from(RING), u64::from(RING), 1);
    script.errno(Errno::ETIMEDOUT).takes(about_the_limit());
    let reserve = script.mark();
    let finished = Job::blocks(64).script(&script).run(&net);
    row("a_send_that_takes_too_long", "gsend", &finished, send);
    row("a_send_that_takes_too_long", "Stream::reserve", &finished, reserve);
}

#[test]
fn an_accept_that_takes_too_long() {
    let net = net();
    let mut script = Script::new();
    script.listener(0, any_port()).receive_timeout(0, LIMIT);
    script.accept(0, 1).errno(Errno::ETIMEDOUT).takes(about_the_limit());
    let wait = script.mark();
    let finished = Job::blocks(64).script(script.close(0)).run(&net);
    row("an_accept_that_takes_too_long", "gaccept", &finished, wait);
}

#[test]
fn polls_that_take_too_long() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    let ms = i64::try_from(LIMIT.as_millis()).expect("it is short");
    script.stream(0, server).poll_set(0, 0, POLLIN).poll(1, ms, 0).takes(about_the_limit());
    let poll = script.mark();
    script.found(0, 0).poller().poller_add(0, POLLIN, 1);
    script.poller_wait(4, LIMIT).errno(Errno::ETIMEDOUT).takes(about_the_limit());
    let wait = script.mark();
    let finished = Job::blocks(64).script(script.close(0)).run(&net);
    row("polls_that_take_too_long", "gpoll", &finished, poll);
    row("polls_that_take_too_long", "Poller::wait", &finished, wait);
}

#[test]
fn the_time_out_of_the_net() {
    let net = net_builder().timeout(LIMIT).build().expect("a net");
    let mut script = Script::new();
    script.stream(0, peer::echo_server());
    script.recv(0, 10).errno(Errno::ETIMEDOUT).takes(about_the_limit());
    script.get(0, SocketOption::ReceiveTimeout, LIMIT.as_nanos() as i64).close(0);
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn a_close_gives_up_on_a_group_that_holds_the_ring() {
    let (net, flags) = (net(), flags());
    let peer = Peer::serve(|mut stream| {
        peer::send(&mut stream, 0, 10);
        peer::receive_rest(&mut stream, 0)
    });
    let mut holder = Script::new();
    holder.stream(0, peer.address).give_handle(0, 0).peek(0, 10, 0);
    holder.hold_peek_past(0, 3, Duration::ZERO).recv(0, 10).expect(10).set_flag(2);
    let mut closer = Script::new();
    closer.receive_handle(0, 0).wait_flag(4);
    closer.close(0).errno(Errno::EBUSY).takes(about(1500 * MS)).set_flag(3);
    closer.wait_flag(2).send(0, 10).close(0).close(0).errno(Errno::EBADF);
    Job::blocks(32).script(&holder).script(&closer).flags(&flags).run(&net);
    assert_eq!(peer.result(), 10);
}

#[test]
fn a_launch_that_is_stopped_while_no_call_waits() {
    const BYTES: usize = 200_000;
    let net = net();
    let peer = Peer::serve(|mut stream| {
        peer::send(&mut stream, 0, BYTES);
        let mut piece = vec![0; 64 << 10];
        while let Ok(1..) = stream.read(&mut piece) {}
    });
    for threads in [1, 32, 64] {
        let (flags, mut script) = (flags(), Script::new());
        script.stream_with_rings(0, peer.address, 1 << 18).peek(0, BYTES as u64, 0);
        script.set_flag(0).wait_flag(1);
        script.recv_all(0, BYTES as u64, 64).errno(Errno::ECANCELED);
        script.send_all(0, BYTES as u64, 64).errno(Errno::ECANCELED).close(0);
        let started = Job::blocks(threads).script(&script).flags(&flags).start(&net);
        started.until(&flags, 0);
        started.launch().abort();
        flags.set(1, 1);
        started.finish();
    }
}
