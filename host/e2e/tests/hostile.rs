//! What a hostile reviewer tried.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use gpunet_device::calls::{SHUT_RD, SHUT_RDWR, SHUT_WR};
use gpunet_e2e::{
    Domain, Errno, Folder, Job, Script, SocketOption, about, any_port, at_once, deadline,
    eventually, flags, is_local, is_rdma, net, net_builder, peer, scaled, scaled_time,
};
use gpunet_host::Task;

const MS: Duration = Duration::from_millis(1);

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("it listens");
    let (far, _) = listener.accept().expect("it connected");
    (near, far)
}

#[test]
fn sending_nothing_into_a_full_ring_does_not_wait() {
    let net = net();
    let (near, far) = UnixStream::pair().expect("a pair");
    let handle = net.hand_over(near).expect("it is taken");
    let mut script = Script::new();
    script.given(0, handle).set(0, SocketOption::NonBlocking, 1);
    // Until the system's buffer is full, and then the ring.
    for _ in 0..200 {
        script.send(0, 4096).any().sleep(MS);
    }
    script.send(0, 4096).any();
    script.send(0, 1).errno(Errno::EAGAIN);
    script.send(0, 0).expect(0);
    script.send(0, 1).errno(Errno::EAGAIN);
    Job::blocks(32).script(&script).run(&net);
    drop(far);
}

#[test]
fn connections_that_wait_outlive_a_kernel_that_did_not_accept_them() {
    for threads in [1, 3] {
        let net = net_builder().proxy_threads(threads).build().expect("a net");
        let (listener, address) = net.listen(any_port()).expect("a port");
        let mut far = peer::connect(address);
        assert!(eventually(|| net.statistics().accepted == 1));
        let mut first = Script::new();
        first.sleep(MS);
        Job::blocks(32).script(&first).run(&net);
        let mut second = Script::new();
        second.given(0, listener).accept(0, 1).send(1, 10).close(1);
        Job::blocks(32).script(&second).run(&net);
        peer::receive(&mut far, 0, 10);
        // By RDMA, and behind a listener of p2p streams, there is nothing to give back.
        let stays = is_rdma() || is_local();
        if !stays {
            drop(net.take_back(listener).expect("it comes back"));
        }
        let left = u64::from(stays);
        assert!(eventually(|| net.statistics().sockets == left));
    }
}

#[test]
fn a_shutdown_of_receiving_does_not_wait_for_a_sender() {
    let (net, flags) = (net(), flags());
    let (near, far) = UnixStream::pair().expect("a pair");
    let handle = net.hand_over(near).expect("it is taken");
    let mut sender = Script::new();
    sender.given(0, handle).set_flag(0).send(0, 1 << 20).any();
    let mut other = Script::new();
    other.given(0, handle).wait_flag(0).sleep(50 * MS);
    other.shutdown(0, SHUT_RD).takes(at_once()).set_flag(1);
    let started = Job::blocks(32).script(&sender).script(&other).flags(&flags).start(&net);
    // The other end does not read until the shutdown is over.
    started.until(&flags, 1);
    drop(far);
    started.finish();
}

#[test]
fn a_shutdown_ends_a_send_that_waits() {
    let (net, flags) = (net(), flags());
    let (near, far) = UnixStream::pair().expect("a pair");
    let handle = net.hand_over(near).expect("it is taken");
    let mut sender = Script::new();
    sender.given(0, handle).set_flag(0).send(0, 1 << 20).any();
    let mut other = Script::new();
    other.given(0, handle).wait_flag(0).sleep(50 * MS);
    other.shutdown(0, SHUT_RDWR).takes(at_once()).set_flag(1);
    let started = Job::blocks(32).script(&sender).script(&other).flags(&flags).start(&net);
    // The other end does not read until the shutdown is over.
    started.until(&flags, 1);
    drop(far);
    started.finish();
}

/// The other end begins to read just then.
#[test]
fn a_shutdown_loses_nothing_of_a_send_that_waits() {
    for round in 0..scaled(30) as u32 {
        let (net, flags) = (net(), flags());
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let handle = net.hand_over(near).expect("it is taken");
        let mut sender = Script::new();
        sender.given(0, handle).set_flag(0).send(0, 600_000).any();
        let sent = sender.mark();
        let mut other = Script::new();
        other.given(0, handle).wait_flag(0).sleep(60 * MS).set_flag(1).shutdown(0, SHUT_WR);
        let started = Job::blocks(32).script(&sender).script(&other).flags(&flags).start(&net);
        started.until(&flags, 1);
        std::thread::sleep(MS / 50 * round);
        let mut got = Vec::new();
        far.read_to_end(&mut got).expect("the kernel ends in order");
        let sent = started.finish().result(0, sent).max(0);
        assert_eq!(got.len() as i64, sent, "round {round}");
    }
}

#[test]
fn a_socket_that_failed_does_not_stay() {
    let net = net();
    let (near, far) = tcp_pair();
    let handle = net.hand_over(near).expect("it is taken");
    peer::reset_tcp(far);
    assert!(eventually(|| net.statistics().failed == 1));
    let _ = net.take_back(handle).expect_err("it failed");
    assert!(eventually(|| net.statistics().sockets == 0), "{:?}", net.statistics());
}

#[test]
fn the_longest_timeouts_are_taken() {
    let net = net();
    let mut script = Script::new();
    script.sleep(MS);
    let started = Job::blocks(32).script(&script).start(&net);
    started.launch().wait_timeout(Duration::MAX).expect("it ends");
}

#[test]
fn a_printer_that_panics_does_not_hold_the_kernel_up() {
    let net = net_builder().on_print(|_, _| panic!("no terminal")).build().expect("a net");
    let mut script = Script::new();
    script.print(10, 10).sleep(50 * MS);
    let started = Job::blocks(32).script(&script).start(&net);
    started.launch().wait_timeout(deadline()).expect("it ends");
}

#[test]
fn bytes_that_came_before_a_send_failed_can_be_read() {
    let (net, flags) = (net(), flags());
    let (near, mut far) = UnixStream::pair().expect("a pair");
    let handle = net.hand_over(near).expect("it is taken");
    // More than the ring holds.
    peer::send(&mut far, 0, 20_000);
    drop(far);
    let mut script = Script::new();
    script.given(0, handle).send(0, 10).any().sleep(20 * MS).send(0, 10).any().sleep(20 * MS);
    script.send(0, 10).errno(Errno::EPIPE);
    script.recv_all(0, 20_000, 4096).expect(20_000);
    Job::blocks(32).script(&script).flags(&flags).run(&net);
}

#[test]
fn a_plain_program_reads_what_came_before_a_send_failed() {
    let (mut near, mut far) = UnixStream::pair().expect("a pair");
    peer::send(&mut far, 0, 20_000);
    drop(far);
    assert!(near.write_all(b"x").is_err());
    assert_eq!(peer::receive_rest(&mut near, 0), 20_000);
}

#[test]
fn the_longest_linger_is_taken() {
    let net =
        net_builder().linger(Duration::from_nanos(u64::MAX)).ring(1 << 20).build().expect("a net");
    let (near, mut far) = UnixStream::pair().expect("a pair");
    let handle = net.hand_over(near).expect("it is taken");
    let mut script = Script::new();
    script.given(0, handle).send(0, 1 << 20).close(0);
    Job::blocks(32).script(&script).run(&net);
    std::thread::sleep(50 * MS);
    peer::receive(&mut far, 0, 1 << 20);
}

#[test]
fn a_connect_waits_for_a_unix_listener_with_a_full_queue() {
    if is_local() {
        let name = "hostile: a_connect_waits_for_a_unix_listener_with_a_full_queue";
        return gpunet_e2e::skip(name, "the queue is that of a system socket");
    }
    let net = net();
    let folder = Folder::new("queue");
    let listener =
        socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener.bind(&socket2::SockAddr::unix(folder.path("l")).unwrap()).unwrap();
    listener.listen(1).unwrap();
    let listener = UnixListener::from(listener);
    let mut script = Script::new();
    for register in 0..5 {
        script.stream(register, folder.address("l"));
    }
    let started = Job::blocks(32).script(&script).start(&net);
    std::thread::sleep(300 * MS);
    let server =
        std::thread::spawn(move || (0..5).map(|_| listener.accept().unwrap()).collect::<Vec<_>>());
    started.finish();
    server.join().unwrap();
}

#[test]
fn a_close_while_another_launch_uses_the_socket() {
    let net = net_builder().build().expect("a net");
    let mut bad = 0;
    for _ in 0..scaled(300) {
        let flags = flags();
        let (near, _far) = UnixStream::pair().expect("a pair");
        let handle = net.hand_over(near).expect("it is taken");
        let mut user = Script::new();
        user.given(0, handle).set(0, SocketOption::NonBlocking, 1).set_flag(0);
        for _ in 0..200 {
            user.get(0, SocketOption::NonBlocking, 1).any();
        }
        let mut closer = Script::new();
        closer.given(0, handle).wait_flag(0).get(0, SocketOption::NonBlocking, 1).close(0).any();
        let mark = closer.mark();
        let one = Job::blocks(1).script(&user).flags(&flags).start(&net);
        let two = Job::blocks(1).script(&closer).flags(&flags).start(&net);
        let (_, two) = two.end();
        one.end().0.unwrap();
        if two.result(0, mark) != 0 {
            bad += 1;
            let _ = net.take_back(handle);
        }
    }
    assert_eq!(bad, 0);
}

#[test]
fn a_fresh_socket_that_another_group_tries() {
    let (net, server) = (net(), peer::echo_server());
    for _ in 0..scaled(100) {
        let flags = flags();
        let mut owner = Script::new();
        owner.socket(0, Domain::V4).give_handle(0, 0).connect(0, server);
        owner.send(0, 100).recv_all(0, 100, 100).close(0);
        let mut other = Script::new();
        other.receive_handle(0, 0);
        for _ in 0..300 {
            other.send(0, 0).any();
            other.recv(0, 0).any();
        }
        Job::blocks(1).script(&owner).script(&other).flags(&flags).run(&net);
    }
    assert_eq!(net.statistics().violations, 0);
}

#[test]
fn an_idle_net_sleeps_with_unread_bytes() {
    let net = net();
    let (near, mut far) = UnixStream::pair().expect("a pair");
    let _handle = net.hand_over(near).expect("it is taken");
    far.write_all(&[0; 10_000]).expect("the system holds it");
    let mut sleeps = 0;
    let is_idle = || {
        let before = net.statistics().sleeps;
        std::thread::sleep(300 * MS);
        sleeps = net.statistics().sleeps - before;
        sleeps < 30
    };
    assert!(eventually(is_idle), "{sleeps} sleeps in 300 ms without a kernel");
}

#[test]
fn thousands_of_connections_are_made_one_after_the_other() {
    let net = net_builder().sockets(3).proxy_threads(2).build().expect("a net");
    let server = peer::echo_server();
    let begin = Instant::now();
    for _ in 0..scaled(20) {
        let mut script = Script::new();
        for _ in 0..scaled(100) {
            script.stream(0, server).send(0, 33).recv_all(0, 33, 33).close(0);
        }
        Job::blocks(32).script(&script).run(&net);
    }
    eprintln!("{:?}", begin.elapsed());
    assert!(eventually(|| net.statistics().sockets == 0), "{:?}", net.statistics());
}

#[test]
fn a_timeout_counts_from_the_call() {
    let (hold, limit) = (scaled_time(800 * MS), scaled_time(1000 * MS));
    let waits = || {
        let (net, flags) = (net(), flags());
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let handle = net.hand_over(near).expect("it is taken");
        peer::send(&mut far, 0, 1);
        let mut holder = Script::new();
        holder.given(0, handle).receive_timeout(0, limit).hold_peek_past(0, 0, hold);
        let mut other = Script::new();
        // More than there is: it must wait for its side, and then for bytes.
        other.given(0, handle).wait_flag(1).set_flag(0);
        other.peek(0, 100, 0).errno(Errno::ETIMEDOUT).takes(about(limit));
        let wait = (1, other.mark());
        let finished = Job::blocks(32).script(&holder).script(&other).flags(&flags).run(&net);
        finished.elapsed(wait.0, wait.1)
    };
    // A time-out that counted from the end of the hold would take 1.8 s each time; a machine that is busy may
    // be late.
    assert!(eventually(|| waits() < limit + hold / 2), "it counts from the call");
}

#[test]
fn idle_sleeps_longer_than_the_heartbeat_timeout() {
    let made = net_builder().idle_sleep(2000 * MS).heartbeat_timeout(500 * MS).build();
    let Ok(net) = made else { return };
    let (near, _far) = UnixStream::pair().expect("a pair");
    let handle = net.hand_over(near).expect("it is taken");
    let mut script = Script::new();
    script.given(0, handle).receive_timeout(0, 3000 * MS).recv(0, 1).errno(Errno::ETIMEDOUT);
    Job::blocks(32).script(&script).run(&net);
}
