//! Streams that blocks keep in mind: small messages on p2p streams, in every shape and in orders
//! of threads that are drawn, by blocks that share a stream, and while it is closed.

use std::time::Duration;

use gpunet_device::calls::{MSG_DONTWAIT, MSG_PEEK, POLLIN, SHUT_WR};
use gpunet_e2e::{
    Errno, Job, Script, Space, any_port, is_cuda, net_builder, net_builder_on, skip, timeout,
};
use gpunet_host::gpu::{EmulatedOptions, Gpu, GpuChoice};
use gpunet_host::{Net, NetError, TransportChoice};
use gpunet_support::pattern::Draw;

/// Each shape of a group in two orders of its threads.
const ROUNDS: u64 = 12;

/// Longer than proxies look for themselves after a poller has begun to watch.
const LATER: Duration = Duration::from_millis(20);

/// A net with p2p streams, and its threads in an order of their own where the GPU is emulated and
/// the seed is odd; none, said aloud, where the GPU has no arenas.
fn net_of(test: &str, seed: u64) -> Option<Net> {
    let builder = if is_cuda() || seed.is_multiple_of(2) {
        net_builder()
    } else {
        let choice = GpuChoice::Emulated(EmulatedOptions::seeded(seed));
        net_builder_on(&Gpu::open(choice).expect("the emulated GPU opens"))
    };
    match builder.transport(TransportChoice::Local).build() {
        Ok(net) => Some(net),
        Err(NetError::Local(reason)) => {
            skip(&format!("kept::{test}"), &reason);
            None
        }
        Err(error) => panic!("a net: {error}"),
    }
}

fn job_of(at: u64) -> Job {
    match at % 6 {
        0 => Job::blocks(32),
        1 => Job::blocks(33),
        2 => Job::blocks(64),
        3 => Job::warps(32),
        4 => Job::blocks((8, 4)),
        _ => Job::blocks((16, 2, 3)),
    }
}

fn shaped(script: &mut Script, dice: &mut Draw) {
    let space = if dice.below(3) == 0 { Space::Shared } else { Space::Global };
    script.space(space).at(16 + dice.below(8) as u32);
}

/// A message from one to the other; it is received in one of many ways.
fn message(from: &mut Script, to: &mut Script, dice: &mut Draw) {
    let length = match dice.below(8) {
        0 => 64,
        1 => 65,
        2 => 1,
        3 => 1 + dice.below(600),
        _ => 1 + dice.below(66),
    };
    let way = dice.below(6);
    match way {
        0 => from.send_all(0, length, 1 + dice.below(length)),
        1 => from.reserve(0, length, length, length),
        _ => from.send(0, length),
    };
    shaped(from, dice);
    match dice.below(8) {
        // No more than fits, whatever has come.
        0 if way != 0 && length > 1 => {
            let fits = 1 + dice.below(length - 1);
            to.recv(0, fits).expect(fits as i64);
            shaped(to, dice);
            to.recv_all(0, length - fits, length)
        }
        1 => to.read_exact(0, length),
        2 => {
            to.recv(0, length).flags(MSG_PEEK);
            shaped(to, dice);
            to.recv_all(0, length, length)
        }
        3 => {
            to.peek(0, length, 0);
            to.recv_all(0, length, length)
        }
        4 => {
            // Whether it is there already is unknown; a peek says when it is.
            to.peek(0, length, 0);
            to.recv(0, length).flags(MSG_DONTWAIT).expect(length as i64)
        }
        _ => to.recv_all(0, length, length + dice.below(100)),
    };
    shaped(to, dice);
}

#[test]
fn messages_of_all_shapes_pass_a_cached_stream() {
    for seed in 0..ROUNDS {
        let Some(net) = net_of("messages_of_all_shapes_pass_a_cached_stream", seed) else { return };
        let mut dice = Draw::new(seed, 0);
        let (listener, address) = net.listen(any_port()).expect("a port");
        let (mut server, mut client) = (Script::new(), Script::new());
        server.given(1, listener).accept(1, 0);
        client.stream(0, address);
        for _ in 0..100 {
            if dice.below(2) == 0 {
                message(&mut client, &mut server, &mut dice);
            } else {
                message(&mut server, &mut client, &mut dice);
            }
        }
        client.shutdown(0, SHUT_WR).recv(0, 1).expect(0).close(0);
        server.recv(0, 1).expect(0).close(0);
        job_of(seed / 2).script(&server).script(&client).run(&net);
        assert_eq!(net.statistics().violations, 0);
    }
}

#[test]
fn blocks_take_turns_on_a_cached_stream() {
    for seed in 0..ROUNDS {
        let Some(net) = net_of("blocks_take_turns_on_a_cached_stream", seed) else { return };
        let mut dice = Draw::new(seed, 0);
        let (listener, address) = net.listen(any_port()).expect("a port");
        let (mut server, mut two) = (Script::new(), [Script::new(), Script::new()]);
        server.given(0, listener).accept(0, 1).echo(1, 256).any().close(1);
        two[0].stream(0, address).give_handle(0, 0);
        two[1].receive_handle(0, 0);
        let mut turn = 0;
        let mut who = 0;
        for _ in 0..60 {
            let script = &mut two[who];
            for _ in 0..1 + dice.below(3) {
                let length = 1 + dice.below(70);
                script.send(0, length);
                shaped(script, &mut dice);
                script.recv_all(0, length, length);
            }
            turn += 1;
            if dice.below(2) == 0 {
                script.set_count(1, turn);
                who = 1 - who;
                two[who].wait_count(1, turn);
            }
        }
        two[who].close(0).set_flag(2);
        two[1 - who].wait_flag(2).send(0, 1).errno(Errno::EBADF);
        two[1 - who].recv(0, 1).errno(Errno::EBADF);
        let job = job_of(seed / 2).script(&server).script(&two[0]).script(&two[1]);
        job.run(&net);
        assert_eq!(net.statistics().violations, 0);
    }
}

/// Nobody waits for the other: what was sent arrives once, and what comes back is taken once.
#[test]
fn blocks_that_do_not_wait_for_each_other() {
    const MESSAGES: u64 = 60;
    for seed in 0..ROUNDS {
        let Some(net) = net_of("blocks_that_do_not_wait_for_each_other", seed) else { return };
        let mut dice = Draw::new(seed, 0);
        let (listener, address) = net.listen(any_port()).expect("a port");
        let (mut server, mut two) = (Script::new(), [Script::new(), Script::new()]);
        server.given(0, listener).accept(0, 1).echo(1, 256).any().close(1);
        let served = server.mark() - 1;
        two[0].stream(0, address).give_handle(0, 0);
        two[1].receive_handle(0, 0);
        let mut total = 0;
        two[0].receive_timeout(0, Duration::from_millis(50));
        for (who, script) in two.iter_mut().enumerate() {
            for _ in 0..MESSAGES {
                let length = 1 + dice.below(66);
                script.send(0, length);
                total += length as i64;
                script.recv(0, 100).seed(0).any();
            }
            script.set_flag(1 + who);
        }
        two[1].wait_flag(1).shutdown(0, SHUT_WR).receive_timeout(0, timeout());
        two[1].recv_all(0, 1 << 20, 100).any().close(0);
        let job = job_of(seed / 2).script(&server).script(&two[0]).script(&two[1]);
        let finished = job.run(&net);
        assert_eq!(finished.result(0, served), total, "seed {seed}");
        assert_eq!(net.statistics().violations, 0);
    }
}
/// One block exchanges small messages while another closes the stream.
#[test]
fn closed_while_it_is_kept() {
    for seed in 0..ROUNDS {
        let Some(net) = net_of("closed_while_it_is_kept", seed) else { return };
        let mut dice = Draw::new(seed, 0);
        let (listener, address) = net.listen(any_port()).expect("a port");
        let (mut server, mut first, mut closer) = (Script::new(), Script::new(), Script::new());
        server.given(0, listener);
        for round in 0..8 {
            server.accept(0, 1).echo(1, 256).any().close(1);
            first.stream(0, address).send(0, 9).recv_all(0, 9, 9).give_handle(0, 3 * round);
            for _ in 0..30 {
                first.send(0, 9).any().recv(0, 9).any();
            }
            first.wait_flag(3 * round + 1).send(0, 9).errno(Errno::EBADF);
            first.recv(0, 9).errno(Errno::EBADF);
            closer.receive_handle(0, 3 * round).sleep(Duration::from_micros(dice.below(2000)));
            closer.close(0).set_flag(3 * round + 1);
        }
        job_of(seed / 2).script(&server).script(&first).script(&closer).run(&net);
        assert_eq!(net.statistics().violations, 0);
    }
}

/// A poller begins to watch a stream that both ends keep, while the other end sends.
#[test]
fn watched_while_it_is_kept() {
    for seed in 0..ROUNDS {
        let Some(net) = net_of("watched_while_it_is_kept", seed) else { return };
        let mut dice = Draw::new(seed, 0);
        let (listener, address) = net.listen(any_port()).expect("a port");
        let (mut server, mut client) = (Script::new(), Script::new());
        server.given(0, listener);
        for _ in 0..10 {
            let length = 1 + dice.below(66);
            server.accept(0, 1);
            client.stream(0, address).poller();
            for _ in 0..3 {
                client.send(0, 9).recv_all(0, 9, 9);
                server.recv_all(1, 9, 9).send(1, 9);
            }
            client.send(0, 9);
            let soon = Duration::from_micros(dice.below(300));
            server.recv_all(1, 9, 9).sleep(if dice.below(3) == 0 { LATER } else { soon });
            server.send(1, length);
            client.sleep(Duration::from_micros(dice.below(300))).poller_add(0, POLLIN, 1);
            for token in 1..=dice.below(3) {
                client.poller_add(0, POLLIN, 10 * token);
                client.sleep(Duration::from_micros(dice.below(300)));
                client.poller_add(0, POLLIN, 1);
            }
            client.poller_wait(4, timeout()).expect(1).event(0, 1, POLLIN);
            client.recv_all(0, length, length).send(0, 9);
            server.recv_all(1, 9, 9).send(1, 9);
            client.poller_wait(4, timeout()).expect(1).event(0, 1, POLLIN);
            client.recv_all(0, 9, 9).close(0).poller_close();
            server.recv(1, 1).expect(0).close(1);
        }
        job_of(seed / 2).script(&server).script(&client).run(&net);
        assert_eq!(net.statistics().violations, 0);
    }
}
