//! Pollers: the proxy reports which of many sockets are ready.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use gpunet_device::calls::{POLLHUP, POLLIN, POLLOUT, POLLRDHUP, SOCK_NONBLOCK};
use gpunet_e2e::{
    Domain, Errno, Flags, Job, Peer, Script, SocketAddr, SocketOption, about, any_port, flags,
    is_local, net, net_builder, peer, scaled, scaled_time, seeded_net, timeout,
};
use gpunet_host::Net;

const MS: Duration = Duration::from_millis(1);

#[test]
fn tokens_come_with_events() {
    let (net, server) = (net(), peer::echo_server());
    let token = 0x1234_5678_9ABC;
    let mut script = Script::new();
    script.stream(0, server).poller().poller_add(0, POLLIN, token);
    script.poller_wait(4, 50 * MS).errno(Errno::ETIMEDOUT);
    script.send(0, 10).poller_wait(4, timeout()).expect(1).event(0, token, POLLIN);
    script.recv_all(0, 10, 10);
    // Nothing has happened since.
    script.poller_wait(4, 50 * MS).errno(Errno::ETIMEDOUT);
    // Adding it again changes what it is called and what is looked for.
    script.poller_add(0, POLLOUT, 7).poller_wait(4, timeout()).expect(1).event(0, 7, POLLOUT);
    script.poller_add(0, POLLIN, 8);
    script.send(0, 10).poller_wait(4, timeout()).expect(1).event(0, 8, POLLIN);
    script.recv_all(0, 10, 10).close(0).poller_close();
    for threads in [1, 64] {
        Job::blocks(threads).script(&script).run(&net);
    }
    Job::warps(40).script(&script).run(&net);
    Job::threads(1).script(&script).run(&net);
}

#[test]
fn what_was_there_before_it_was_added() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    script.stream(0, server).send(0, 10).peek(0, 10, 0).poller();
    script.poller_add(0, POLLIN | POLLOUT, 1);
    script.poller_wait(4, timeout()).expect(1).event(0, 1, POLLIN | POLLOUT);
    Job::blocks(64).script(&script).run(&net);
}

#[test]
fn nothing_comes_of_what_was_removed_or_closed() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    script.stream(0, server).stream(1, server).stream(2, server).poller();
    for register in 0..3 {
        script.poller_add(register, POLLIN, register.into());
    }
    script.poller_remove(0).send(0, 10).peek(0, 10, 0);
    script.close(1);
    script.poller_wait(4, 100 * MS).errno(Errno::ETIMEDOUT);
    script.send(2, 10).poller_wait(4, timeout()).expect(1).event(0, 2, POLLIN);
    script.poller_add(1, POLLIN, 1).errno(Errno::EBADF);
    script.poller_remove(1).errno(Errno::EBADF);
    Job::blocks(64).script(&script).run(&net);
}

#[test]
fn events_that_wait_are_dropped_when_the_socket_is_removed() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    script.stream(0, server).stream(1, server).poller();
    script.poller_add(0, POLLIN, 5).poller_remove(0).send(0, 10).peek(0, 10, 0);
    script.poller_add(1, POLLIN, 6).send(1, 10);
    script.poller_wait(4, timeout()).expect(1).event(0, 6, POLLIN);
    Job::blocks(64).script(&script).run(&net);
}

/// Runs a script in groups of all kinds, one after the other.
fn in_each_group(script: &Script, net: &Net) {
    for job in [Job::blocks(1), Job::blocks(64), Job::warps(40), Job::threads(1)] {
        job.script(script).run(net);
    }
}

// A stream that can be sent on has an event in the ring before the next request is answered.

/// The proxy reports what a poller found in the turn after the request. Each of these takes a turn.
fn until_reported(script: &mut Script) {
    for _ in 0..4 {
        script.socket(9, Domain::V4).close(9);
    }
}

#[test]
fn events_of_sockets_that_are_gone_are_left_out() {
    let (net, server) = (net(), peer::echo_server());
    let mut script = Script::new();
    script.poller().stream(6, server);
    // The first of the ring's 256 places was the ninth; they begin anew in the third turn below, in
    // the middle of a wait.
    for _ in 8..256 - (2 * 7 + 3) {
        script.poller_add(6, POLLOUT, 6).poller_wait(1, timeout()).expect(1);
    }
    script.close(6);
    for _ in 0..4 {
        for register in 0..6 {
            script.stream(register, server).poller_add(register, POLLOUT, register.into());
        }
        script.close(0).poller_remove(2).poller_add(3, POLLOUT, 33).close(5);
        until_reported(&mut script);
        if is_local() {
            // Kernel to kernel they come in no order.
            script.poller_wait(8, timeout()).expect(3).poller_remove(1);
        } else {
            // One by one, and all at once.
            script.poller_wait(1, timeout()).expect(1).event(0, 1, POLLOUT);
            script.poller_remove(1).poller_wait(8, timeout()).expect(2);
            script.event(0, 4, POLLOUT).event(1, 33, POLLOUT);
        }
        for register in [1, 2, 3, 4] {
            script.close(register);
        }
    }
    script.poller_wait(8, 50 * MS).errno(Errno::ETIMEDOUT).poller_close();
    in_each_group(&script, &net);
}

#[test]
fn threads_see_what_was_withdrawn_though_others_copied_it() {
    let server = peer::echo_server();
    let mut script = Script::new();
    script.poller();
    for register in 0..3 {
        script.stream(register, server).poller_add(register, POLLOUT, register.into());
    }
    // The proxy reports the last one a moment after it was added.
    script.sleep(scaled_time(20 * MS));
    until_reported(&mut script);
    script.poller_wait(4, timeout()).expect(3).poller_remove(1).poller_remove(2);
    // The first of 256 places was the ninth. The last wait's third event is in the first one: the
    // thread that copies it is not the one that looks at it.
    for _ in 8 + 3..254 {
        script.poller_add(0, POLLOUT, 0).poller_wait(4, timeout()).expect(1);
    }
    for register in 0..3 {
        script.poller_add(register, POLLOUT, register.into());
    }
    script.poller_remove(2).poller_wait(4, timeout()).expect(2);
    for seed in 0..4 {
        Job::blocks(64).script(&script).run(&seeded_net(seed));
    }
}

#[test]
fn a_wait_that_finds_only_events_of_sockets_that_are_gone_waits_on() {
    const LIMIT: Duration = Duration::from_millis(200);
    let (net, server) = (net(), peer::echo_server());
    let late = Peer::serve(|mut stream| {
        peer::receive(&mut stream, 0, 10);
        std::thread::sleep(50 * MS);
        peer::send(&mut stream, 0, 10);
        peer::receive_rest(&mut stream, 10)
    });
    let mut script = Script::new();
    for (most, limit) in [(1, timeout()), (4, Duration::ZERO)] {
        script.poller().stream(3, late.address).poller_add(3, POLLIN, 3);
        for late in [false, true] {
            for register in 0..3 {
                script.stream(register, server).poller_add(register, POLLOUT, register.into());
            }
            script.close(0).poller_remove(1).poller_add(2, POLLIN, 2);
            if late {
                script.send(3, 10).poller_wait(most, limit).expect(1).event(0, 3, POLLIN);
            } else {
                let limits = about(LIMIT);
                script.poller_wait(most, LIMIT).errno(Errno::ETIMEDOUT).takes(limits);
            }
            script.close(1).close(2);
        }
        script.recv_all(3, 10, 10).close(3).poller_close();
    }
    in_each_group(&script, &net);
}

#[test]
fn a_deadline_holds_though_what_comes_late_was_withdrawn() {
    const LIMIT: Duration = Duration::from_millis(400);
    let (net, server) = (net(), peer::echo_server());
    let (mut waiting, mut holding) = (Script::new(), Script::new());
    waiting.stream(0, server).poller_in(1).poller_add(0, POLLOUT, 5).poller_remove(0);
    waiting.give_handle(1, 0).sleep(50 * MS);
    waiting.poller_wait(4, LIMIT).errno(Errno::ETIMEDOUT).takes(about(LIMIT));
    // Has the ring meanwhile, so that most of the time is over when the wait gets there.
    holding.receive_handle(1, 0).hold_peek(1, 300 * MS).any();
    let flags = flags();
    Job::blocks(64).script(&waiting).script(&holding).flags(&flags).run(&net);
}

#[test]
fn a_socket_that_is_watched_before_it_is_connected() {
    // The listener has no room before the client watches.
    let (net, server) = (net(), net_builder().sockets(2).build().expect("a net"));
    let (listener, address) = server.listen(any_port()).expect("a port");
    let mut serving = Script::new();
    serving.given(0, listener).socket(1, Domain::V4).set_flag(0).wait_flag(1).sleep(50 * MS);
    serving.close(1).accept(0, 1);
    for _ in 0..20 {
        serving.sleep(MS).send(1, 100).recv_all(1, 100, 100);
    }
    serving.recv(1, 1).expect(0).close(1);
    let mut script = Script::new();
    script.wait_flag(0).socket_of(0, 2, 1 | SOCK_NONBLOCK, 0).connect(0, address);
    script.between(Errno::EINPROGRESS.negative(), 0);
    script.poller().poller_add(0, POLLIN, 5).set_flag(1);
    for _ in 0..20 {
        script.poller_wait(4, timeout()).expect(1).event(0, 5, POLLIN);
        script.set(0, SocketOption::NonBlocking, 0).recv_all(0, 100, 100).send(0, 100);
    }
    script.close(0);
    let flags = flags();
    let started = Job::blocks(32).script(&serving).flags(&flags).start(&server);
    Job::blocks(64).script(&script).flags(&flags).run(&net);
    started.finish();
}

#[test]
fn a_peer_that_closes_and_a_listener() {
    let net = net();
    let (listener, address) = net.listen(any_port()).expect("a port");
    let peer = Peer::serve(drop);
    let flags = flags();
    let mut script = Script::new();
    script.given(0, listener).poller().poller_add(0, POLLIN, 100).set_flag(0);
    script.poller_wait(1, timeout()).expect(1).event(0, 100, POLLIN).accept(0, 1);
    script.poller_remove(0).stream(2, peer.address);
    script.poller_add(2, POLLRDHUP, 2).poller_wait(4, timeout()).expect(1).event(0, 2, POLLRDHUP);
    script.recv(2, 1).expect(0).close(2).close(1).poller_close();
    let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    let mut stream = peer::connect(address);
    assert_eq!(peer::receive_rest(&mut stream, 0), 0);
    started.finish();
    peer.result();
}

#[test]
fn a_reset_is_reported_unasked() {
    if !peer::can_reset("pollers::a_reset_is_reported_unasked") {
        return;
    }
    let net = net();
    let (go, gone) = std::sync::mpsc::channel();
    let peer = Peer::serve(move |stream| {
        let _: Result<(), _> = gone.recv();
        peer::reset(stream);
    });
    let flags = flags();
    let mut script = Script::new();
    script.stream(0, peer.address).poller().poller_add(0, POLLOUT, 3);
    script.poller_wait(4, timeout()).expect(1).event(0, 3, POLLOUT).set_flag(0);
    script.poller_wait(4, timeout()).expect(1);
    let hung_up = i64::from(POLLHUP | gpunet_device::calls::POLLERR);
    script.event(0, 3, 0).between(3 << 16 | hung_up, 3 << 16 | hung_up | i64::from(POLLOUT));
    script.recv(0, 1).errno(Errno::ECONNRESET);
    let started = Job::blocks(64).script(&script).flags(&flags).start(&net);
    started.until(&flags, 0);
    go.send(()).expect("the peer waits");
    started.finish();
    peer.result();
}

/// Has a kernel serve so many connections, each for several rounds of messages of various sizes.
fn serve_many(net: &Net, blocks: u64, connections: u64, rounds: u64, threads: u32) {
    let rounds = scaled(rounds);
    let (listener, address) = net.listen(any_port()).expect("a port");
    let each = connections / blocks;
    let mut script = Script::new();
    script.given(0, listener).poller().poller_accept(0, 1, each, POLLIN | POLLRDHUP);
    script.poller_serve(each, 1024).poller_close();
    let mut job = Job::blocks(threads);
    for _ in 0..blocks {
        job = job.script(&script);
    }
    let flags = Arc::new(Flags::new(net.gpu()));
    let started = job.flags(&flags).start(net);
    let bytes = exchange(address, connections, rounds);
    let finished = started.finish();
    let place = script.mark() - 1;
    let echoed: i64 = (0..blocks as usize).map(|block| finished.result(block, place)).sum();
    assert_eq!(echoed, bytes as i64);
}

/// Opens connections, sends on all, receives on all, several times; how many bytes went.
fn exchange(address: SocketAddr, connections: u64, rounds: u64) -> u64 {
    let mut streams: Vec<_> = (0..connections).map(|_| peer::connect(address)).collect();
    let mut sum = 0;
    for round in 0..rounds {
        let length = |at: usize| (at * 37 + round as usize * 101) % 3000 + 1;
        for (at, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&vec![at as u8; length(at)]).expect("the kernel receives");
        }
        for (at, stream) in streams.iter_mut().enumerate() {
            let mut back = vec![0; length(at)];
            stream.read_exact(&mut back).expect("the kernel sends");
            assert!(back.iter().all(|byte| *byte == at as u8));
            sum += back.len() as u64;
        }
    }
    sum
}

#[test]
fn no_event_is_lost_among_two_hundred_sockets() {
    let net = net_builder().sockets(256).build().expect("a net");
    serve_many(&net, 1, 200, 20, 64);
    assert_eq!(net.statistics().violations, 0);
}

#[test]
fn no_event_is_lost_between_proxy_threads() {
    let net = net_builder().sockets(256).proxy_threads(3).build().expect("a net");
    // A connection by RDMA takes an emulated guest a tenth of a second.
    let connections = if gpunet_e2e::transport::is_rdma() { 40 } else { 120 };
    serve_many(&net, 2, connections, 20, 64);
}

#[test]
fn no_event_is_lost_in_each_order_of_threads() {
    for seed in 0..3 {
        serve_many(&seeded_net(seed), 2, 30, 10, 33);
    }
}

#[test]
fn space_is_reported_after_small_messages_too() {
    let server = peer::echo_server();
    for round in 0..8 {
        let net = if round < 4 { net() } else { seeded_net(round) };
        let mut script = Script::new();
        script.stream(0, server).poller().poller_add(0, POLLOUT, 5).poller_wait(4, 1000 * MS);
        for _ in 0..20 {
            script.send(0, 10).recv_all(0, 10, 64).poller_wait(4, 1000 * MS).expect(1);
        }
        script.close(0);
        Job::blocks(64).script(&script).run(&net);
    }
}

/// Each connection goes to one of the blocks that watch the listener, and to each block as many.
#[test]
fn one_listener_in_the_pollers_of_many_blocks() {
    const BLOCKS: usize = 64;
    const EACH: usize = 4;
    for proxy_threads in [1, 3] {
        let net = net_builder().sockets(256).proxy_threads(proxy_threads).build().expect("a net");
        let (listener, address) = net.listen(any_port()).expect("a port");
        let flags = flags();
        let mut job = Job::blocks(32);
        for block in 0..BLOCKS {
            let mut script = Script::new();
            script.given(0, listener).poller().poller_add(0, POLLIN, 7).set_flag(block);
            for _ in 0..EACH {
                script.poller_wait(1, timeout()).expect(1).event(0, 7, POLLIN);
                script.accept(0, 1).send(1, 10).close(1);
            }
            script.poller_wait(1, 50 * MS).errno(Errno::ETIMEDOUT).poller_close();
            job = job.script(&script);
        }
        let started = job.flags(&flags).start(&net);
        for block in 0..BLOCKS {
            started.until(&flags, block);
        }
        let streams: Vec<_> = (0..BLOCKS * EACH).map(|_| peer::connect(address)).collect();
        for mut stream in streams {
            peer::receive(&mut stream, 0, 10);
        }
        started.finish();
    }
}
