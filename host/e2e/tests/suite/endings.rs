//! How streams end: closed, half-closed, reset, closed with data unsent, closed while used.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::time::Duration;

use gpunet_device::calls::{SHUT_RD, SHUT_RDWR, SHUT_WR};
use gpunet_e2e::{
    Errno, Flags, Folder, Job, Peer, RING, Script, about, any_port, eventually, flags, is_local,
    net, net_builder, peer, scaled, seeded_net, timeout,
};
use gpunet_support::testing::hang_limit;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_peer_that_closes_is_the_rest_and_then_zero() {
    let net = net();
    let peer = Peer::serve(|mut stream| peer::send(&mut stream, 0, 1000));
    let mut script = Script::new();
    script.stream(0, peer.address).recv_all(0, 2000, 300).expect(1000);
    for _ in 0..3 {
        script.recv(0, 10).expect(0);
    }
    script.close(0);
    for threads in [1, 64] {
        Job::blocks(threads).script(&script).run(&net);
        peer.result();
    }
}

#[test]
fn a_peer_that_ends_its_side_can_still_be_sent_to() {
    let net = net();
    let peer = Peer::serve(|mut stream| {
        peer::send(&mut stream, 0, 100);
        stream.shutdown(Shutdown::Write).expect("it is open");
        peer::receive_rest(&mut stream, 0)
    });
    let mut script = Script::new();
    script.stream(0, peer.address).recv_all(0, 200, 200).expect(100).recv(0, 1).expect(0);
    script.send(0, 50_000).recv(0, 1).expect(0).close(0);
    Job::blocks(64).script(&script).run(&net);
    assert_eq!(peer.result(), 50_000);
}

#[test]
fn a_kernel_that_ends_its_side_can_still_receive() {
    let net = net();
    let peer = Peer::serve(|mut stream| {
        let got = peer::receive_rest(&mut stream, 0);
        peer::send(&mut stream, 0, 30_000);
        got
    });
    let mut script = Script::new();
    script.stream(0, peer.address).send(0, 20_000).shutdown(0, SHUT_WR);
    script.recv_all(0, 40_000, 4096).expect(30_000).recv(0, 1).expect(0).close(0);
    Job::blocks(64).script(&script).run(&net);
    assert_eq!(peer.result(), 20_000);
}

#[test]
fn nothing_can_be_sent_after_a_shutdown() {
    let net = net();
    let peer = Peer::serve(|mut stream| peer::receive_rest(&mut stream, 0));
    for how in [SHUT_WR, SHUT_RDWR] {
        let mut script = Script::new();
        script.stream(0, peer.address).send(0, 100).shutdown(0, how);
        script.send(0, 10).errno(Errno::EPIPE).send(0, 10).errno(Errno::EPIPE);
        script.reserve(0, 1, 10, 1).errno(Errno::EPIPE).close(0);
        Job::blocks(64).script(&script).run(&net);
        assert_eq!(peer.result(), 100);
    }
}

#[test]
fn a_listener_that_is_shut_down_listens_no_more() {
    let (net, folder) = (net(), Folder::new("shut"));
    let addresses = [any_port(), any_port(), folder.address("a"), folder.address("b")];
    for (address, how) in addresses.into_iter().zip([SHUT_RD, SHUT_RDWR].into_iter().cycle()) {
        let (listener, address) = net.listen(address).expect("an address");
        let mut script = Script::new();
        script.given(0, listener).shutdown(0, how).accept(0, 1).errno(Errno::EINVAL);
        // Neither by the system nor by another kernel can it be reached.
        script.stream(1, address).errno(Errno::ECONNREFUSED).close(0);
        Job::blocks(32).script(&script).run(&net);
    }
    assert!(eventually(|| net.statistics().sockets == 0));
}

#[test]
fn nothing_comes_after_a_shutdown_of_receiving() {
    let net = net();
    let peer = Peer::serve(|mut stream| peer::receive_rest(&mut stream, 0));
    let mut script = Script::new();
    script.stream(0, peer.address).shutdown(0, SHUT_RD);
    script.recv(0, 10).expect(0).recv(0, 10).expect(0).send(0, 10).close(0);
    Job::blocks(64).script(&script).run(&net);
    assert_eq!(peer.result(), 10);
}

#[test]
fn a_peer_that_resets_is_econnreset() {
    if !peer::can_reset("endings::a_peer_that_resets_is_econnreset") {
        return;
    }
    let net = net();
    let peer = Peer::serve(|mut stream| {
        peer::receive(&mut stream, 0, 10);
        peer::reset(stream);
    });
    let mut script = Script::new();
    script.stream(0, peer.address).send(0, 10);
    script.recv(0, 10).errno(Errno::ECONNRESET).recv(0, 10).errno(Errno::ECONNRESET);
    // From here on the kernel knows: nothing more is taken from it.
    let [reset, broken] = [Errno::ECONNRESET, Errno::EPIPE].map(Errno::negative);
    script.send(0, 10).between(reset, broken);
    let first = script.mark();
    script.send(0, 10).between(reset, broken).close(0);
    let finished = Job::blocks(64).script(&script).run(&net);
    assert!([reset, broken].contains(&finished.result(0, first)));
    peer.result();
    assert_eq!(net.statistics().failed, 1);
}

#[test]
fn bytes_that_came_before_a_reset_can_be_read() {
    if !peer::can_reset("endings::bytes_that_came_before_a_reset_can_be_read") {
        return;
    }
    let (net, flags) = (net(), flags());
    let waited = std::sync::Arc::clone(&flags);
    let peer = Peer::serve(move |mut stream| {
        peer::send(&mut stream, 0, 500);
        // The system forgets what it holds at a reset; these bytes are in the ring by then.
        waited.wait(0);
        peer::reset(stream);
    });
    let mut script = Script::new();
    script.stream(0, peer.address).peek(0, 500, 0).set_flag(0).sleep(100 * MS);
    script.recv_all(0, 500, 100).recv(0, 10).errno(Errno::ECONNRESET).close(0);
    Job::blocks(32).script(&script).flags(&flags).run(&net);
    peer.result();
}

#[test]
fn what_is_unsent_at_a_close_is_sent() {
    // The ring of a p2p stream lies at the peer, who gives twice its own.
    let total = if is_local() { 2 * RING } else { 1 << 20 };
    let net = net_builder().ring(total).build().expect("a net");
    let (listener, address) = peer::narrow_listener();
    for closes in [true, false] {
        let mut script = Script::new();
        script.stream_with_rings(0, address, total).send(0, total.into());
        if closes {
            script.close(0);
        }
        // The kernel is over before the peer has read anything.
        Job::blocks(128).script(&script).run(&net);
        let mut stream = listener.accept().expect("the kernel connected");
        let mut got = 0;
        while got < u64::from(total) {
            let length = 10_000.min(u64::from(total) - got) as usize;
            peer::receive(&mut stream, got, length);
            got += length as u64;
            std::thread::sleep(MS);
        }
        assert_eq!(peer::receive_rest(&mut stream, got), 0);
    }
    assert!(gpunet_e2e::eventually(|| net.statistics().sockets == 0));
    // Nobody counts what kernels write to each other.
    assert!(is_local() || net.statistics().sent_bytes == 2 * u64::from(total));
}

#[test]
fn a_close_does_not_wait_for_a_peer_that_goes_on_sending() {
    let net = net();
    let peer = Peer::serve(|mut stream| {
        // What is unread at a close must not destroy what was sent last.
        let sent = peer::bytes(1, 0, 3000);
        stream.write_all(&sent).expect("the kernel is there");
        peer::receive(&mut stream, 0, 2000);
    });
    let mut script = Script::new();
    script.stream(0, peer.address).peek(0, 3000, 0).seed(1).send(0, 2000).close(0);
    Job::blocks(64).script(&script).run(&net);
    peer.result();
}

#[test]
fn a_close_ends_the_calls_of_other_groups() {
    let net = net();
    let peer = Peer::serve(|mut stream| peer::receive_rest(&mut stream, 0));
    let (_held, nowhere) = peer::black_hole();
    let mut owner = Script::new();
    owner.stream(0, peer.address).give_handle(0, 0);
    owner.listener(1, any_port()).give_handle(1, 1);
    owner.socket(2, gpunet_e2e::Domain::V4).give_handle(2, 2);
    owner.wait_flag(3).wait_flag(4).wait_flag(5).sleep(100 * MS);
    owner.close(0).close(1).close(2);
    let mut reader = Script::new();
    reader.receive_handle(0, 0).set_flag(3).recv(0, 100).errno(Errno::EBADF);
    reader.recv(0, 100).errno(Errno::EBADF).close(0).errno(Errno::EBADF);
    let mut accepter = Script::new();
    accepter.receive_handle(0, 1).set_flag(4).accept(0, 1).errno(Errno::EBADF);
    let mut connecter = Script::new();
    connecter.receive_handle(0, 2).set_flag(5).connect(0, nowhere).errno(Errno::EBADF);
    let job = Job::blocks(32).script(&owner).script(&reader).script(&accepter);
    job.script(&connecter).run(&net);
    peer.result();
}

#[test]
fn a_second_reader_waits_or_gets_an_error() {
    use gpunet_device::calls::MSG_DONTWAIT;
    let net = net();
    let peer = Peer::serve(|mut stream| {
        peer::send(&mut stream, 0, 100);
        peer::receive_rest(&mut stream, 0)
    });
    let mut first = Script::new();
    first.stream(0, peer.address).peek(0, 100, 0).give_handle(0, 0);
    // Held until the other is about to wait, and then for as long as it may take to get there.
    let wait = hang_limit(20 * MS);
    first
        .hold_peek_past(0, 1, wait)
        .wait_flag(3)
        .hold_reserve_past(0, 4, wait)
        .wait_flag(6)
        .close(0);
    let mut second = Script::new();
    second.receive_handle(0, 0).wait_flag(2);
    second.recv(0, 10).flags(MSG_DONTWAIT).errno(Errno::EBUSY);
    second.receive_timeout(0, 50 * MS).recv(0, 10).errno(Errno::ETIMEDOUT);
    second.receive_timeout(0, timeout()).set_flag(1).recv(0, 100).expect(100).takes(about(MS));
    second.set_flag(3).wait_flag(5);
    second.send(0, 10).flags(MSG_DONTWAIT).errno(Errno::EBUSY);
    second.send_timeout(0, 50 * MS).send(0, 10).errno(Errno::ETIMEDOUT);
    second.send_timeout(0, timeout()).set_flag(4).send(0, 10).takes(about(MS)).set_flag(6);
    Job::blocks(32).script(&first).script(&second).run(&net);
    assert_eq!(peer.result(), 10);
}

#[test]
fn groups_that_share_a_stream_get_every_byte_once() {
    let (net, total, groups) = (net(), scaled(200_000) as usize, 6);
    let peer = Peer::serve(move |mut stream| {
        let mut other = stream.try_clone().expect("a second handle");
        let sender = std::thread::spawn(move || {
            other.write_all(&vec![5; total]).expect("the kernel receives");
            other.shutdown(Shutdown::Write).expect("it is open");
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("the kernel sends");
        sender.join().expect("the sender ends well");
        back.len()
    });
    let mut owner = Script::new();
    owner.stream(0, peer.address).give_handle(0, 0);
    for flag in 1..=groups {
        owner.wait_flag(flag);
    }
    owner.close(0);
    let mut job = Job::warps(64).script(&owner);
    for flag in 1..=groups {
        let mut echo = Script::new();
        echo.receive_handle(0, 0).echo(0, 64).set_flag(flag);
        job = job.script(&echo);
    }
    let finished = job.run(&net);
    let echoed: i64 = (1..=groups).map(|group| finished.result(group, 1)).sum();
    assert_eq!(echoed, total as i64);
    assert_eq!(peer.result(), total);
}

#[test]
fn groups_that_send_on_one_stream_overwrite_nothing() {
    let (net, groups, turns, length) = (net(), 4, 60, 1000);
    let total = groups as u64 * turns * length;
    let peer = Peer::serve(move |mut stream| {
        // Slower than the kernel, so that the ring is full most of the time.
        let (mut piece, mut got) = (vec![0; 700], 0);
        loop {
            match stream.read(&mut piece).expect("the kernel sends") {
                0 => return got,
                bytes => got += bytes as u64,
            }
            if got % 5 == 0 {
                std::thread::sleep(MS / 10);
            }
        }
    });
    let mut owner = Script::new();
    owner.socket(0, gpunet_e2e::Domain::V4);
    owner.set(0, gpunet_e2e::SocketOption::SystemSendBuffer, 4096);
    owner.connect(0, peer.address).give_handle(0, 0);
    for flag in 1..=groups {
        owner.wait_flag(flag);
    }
    owner.close(0);
    let mut job = Job::warps(64).script(&owner);
    for flag in 1..=groups {
        let mut sender = Script::new();
        sender.receive_handle(0, 0);
        for _ in 0..turns {
            sender.send(0, length);
        }
        sender.set_flag(flag);
        job = job.script(&sender);
    }
    job.run(&net);
    assert_eq!(peer.result(), total);
    assert_eq!(net.statistics().violations, 0);
}

/// Blocks run on threads of their own, so what one knows of the ring is old when the other has
/// sent since.
#[test]
fn blocks_that_send_on_one_stream_overwrite_nothing() {
    let (net, blocks, turns, length) = (net(), 2, scaled(400), 3000);
    let total = blocks as u64 * turns * length;
    let peer = Peer::serve(move |mut stream| {
        let (mut piece, mut got) = (vec![0; 64 << 10], 0);
        loop {
            match stream.read(&mut piece).expect("the kernel sends") {
                0 => return got,
                bytes => got += bytes as u64,
            }
        }
    });
    let mut owner = Script::new();
    owner.socket(0, gpunet_e2e::Domain::V4);
    owner.connect(0, peer.address).give_handle(0, 0);
    for flag in 1..=blocks {
        owner.wait_flag(flag);
    }
    owner.close(0);
    let mut job = Job::blocks(32).script(&owner);
    for flag in 1..=blocks {
        let mut sender = Script::new();
        sender.receive_handle(0, 0);
        for _ in 0..turns {
            sender.send(0, length);
        }
        sender.set_flag(flag);
        job = job.script(&sender);
    }
    job.run(&net);
    assert_eq!(peer.result(), total);
    assert_eq!(net.statistics().violations, 0);
}

#[test]
fn endings_in_each_order_of_threads() {
    for seed in 0..4 {
        let net = seeded_net(seed);
        let peer = Peer::serve(|mut stream| {
            peer::send(&mut stream, 0, 100);
            peer::receive(&mut stream, 0, 50);
            stream.shutdown(Shutdown::Write).expect("it is open");
            peer::receive_rest(&mut stream, 50)
        });
        let mut owner = Script::new();
        owner.stream(0, peer.address).give_handle(0, 0).recv_all(0, 100, 33).send(0, 50);
        owner.recv(0, 1).expect(0).send(0, 5000).set_flag(1).wait_flag(2);
        owner.close(0).recv(0, 1).errno(Errno::EBADF).wait_flag(3);
        let mut other = Script::new();
        other.receive_handle(0, 0).wait_flag(1).recv(0, 1).expect(0);
        other.listener(1, any_port()).give_handle(1, 4).set_flag(2);
        other.accept(1, 2).errno(Errno::EBADF).set_flag(3);
        let mut third = Script::new();
        third.receive_handle(0, 4).sleep(20 * MS).close(0);
        let job = Job::blocks(33).script(&owner).script(&other).script(&third);
        job.flags(&std::sync::Arc::new(Flags::new(net.gpu()))).run(&net);
        assert_eq!(peer.result(), 5000);
    }
}

#[test]
fn a_stale_handle_names_nothing() {
    let net = net_builder().sockets(2).build().expect("a net");
    let server = peer::echo_server();
    let mut script = Script::new();
    script.stream(0, server).copy(0, 1).send(0, 10).recv_all(0, 10, 10).close(0);
    let bad = |script: &mut Script, register: u32| {
        let bad = Errno::EBADF;
        script.send(register, 5).errno(bad).recv(register, 5).errno(bad);
        script.peek(register, 1, 1).errno(bad).reserve(register, 1, 1, 1).errno(bad);
        script.shutdown(register, SHUT_WR).errno(bad).close(register).errno(bad);
        script.accept(register, 9).errno(bad).listen(register, 1).errno(bad);
        script.bind(register, any_port()).errno(bad).connect(register, server).errno(bad);
        script.peer_name(register, server).errno(bad).socket_name(register, server).errno(bad);
        script.set(register, gpunet_e2e::SocketOption::NoDelay, 1).errno(bad);
        script.set(register, gpunet_e2e::SocketOption::NonBlocking, 1).errno(bad);
        script.get(register, gpunet_e2e::SocketOption::Error, 0).errno(bad);
    };
    bad(&mut script, 1);
    // Also once others have the place; they notice nothing.
    script.stream(0, server).stream(2, server);
    bad(&mut script, 1);
    script.send(0, 10).recv_all(0, 10, 10).send(2, 10).recv_all(2, 10, 10);
    // And for handles that nobody ever gave out.
    for (register, number) in [(3, 0), (4, u64::MAX), (5, 1 << 63), (6, 0x1234_5678), (7, 1)] {
        script.given(register, gpunet_e2e::Handle(number));
        bad(&mut script, register);
    }
    script.send(0, 10).recv_all(0, 10, 10).close(0).close(2);
    Job::blocks(32).script(&script).run(&net);
}

#[test]
fn a_handle_of_an_earlier_kernel_names_nothing() {
    let (net, flags, server) = (net(), flags(), peer::echo_server());
    let mut first = Script::new();
    first.stream(0, server).send(0, 10).recv_all(0, 10, 10).give_handle(0, 0);
    // It is left open, and closed when the kernel ends.
    Job::blocks(32).script(&first).flags(&flags).run(&net);
    assert!(gpunet_e2e::eventually(|| net.statistics().sockets == 0));
    let mut second = Script::new();
    second.receive_handle(0, 0).send(0, 10).errno(Errno::EBADF).recv(0, 10).errno(Errno::EBADF);
    second.reserve(0, 1, 1, 1).errno(Errno::EBADF).close(0).errno(Errno::EBADF);
    Job::blocks(32).script(&second).flags(&flags).run(&net);
}

#[test]
fn nothing_small_can_be_sent_after_a_shutdown_either() {
    let rounds = 2 * scaled(10);
    for round in 0..rounds {
        let net = if round < rounds / 2 { net() } else { seeded_net(round) };
        // Something to receive all the while: what comes reports the send side, too, and may be
        // older than the shutdown.
        let peer = Peer::serve(|mut stream| {
            while stream.write_all(&[1; 7]).is_ok() {
                std::thread::sleep(MS / 50);
            }
        });
        let mut shutter = Script::new();
        shutter.stream(0, peer.address).give_handle(0, 0).send(0, 5);
        shutter.sleep(MS * (round as u32 % 3)).shutdown(0, SHUT_WR);
        shutter.send(0, 5).errno(Errno::EPIPE).wait_flag(1).close(0);
        let mut receiver = Script::new();
        receiver.receive_handle(0, 0).receive_timeout(0, 2 * MS);
        for _ in 0..100 {
            receiver.recv(0, 64).any();
        }
        receiver.set_flag(1);
        Job::blocks(32).script(&shutter).script(&receiver).flags(&flags()).run(&net);
        peer.result();
    }
}

/// One group sends while another ends sending: what a send says was sent arrives, and no more.
#[test]
fn a_send_beside_a_shutdown_returns_what_was_sent() {
    const SENDS: usize = 40;
    let rounds = 2 * scaled(20);
    for round in 0..rounds {
        let net = if round % 2 == 0 { net() } else { seeded_net(round) };
        let peer = Peer::serve(|mut stream| {
            let (mut piece, mut got) = (vec![0; 4096], 0);
            loop {
                match stream.read(&mut piece).expect("the kernel ends in order") {
                    0 => return got,
                    bytes => got += bytes as i64,
                }
            }
        });
        let (mut sender, mut shutter) = (Script::new(), Script::new());
        sender.stream(0, peer.address).give_handle(0, 0).set_flag(1);
        let first = sender.mark() + 1;
        for _ in 0..SENDS {
            // A packet, and by the ring.
            sender.send(0, if round % 4 < 2 { 40 } else { 400 }).any();
        }
        let pause = MS / 10 * (round as u32 % 20);
        shutter.receive_handle(0, 0).wait_flag(1).sleep(pause).shutdown(0, SHUT_WR).set_flag(2);
        sender.wait_flag(2).send(0, 40).errno(Errno::EPIPE).close(0);
        let job = Job::blocks(32).script(&sender).script(&shutter).flags(&flags());
        let finished = job.run(&net);
        let sent: i64 = (first..first + SENDS).map(|step| finished.result(0, step).max(0)).sum();
        assert_eq!(peer.result(), sent, "round {round}");
    }
}
