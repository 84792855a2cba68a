//! A shard's turns with one connection: resting, epoll, and the net's limits.

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use gpunet_device::Handle;
use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::layout::Layout;

use super::control::Control;
use super::entry::Owner;
use super::rounds::{Next, Rounds};
use super::shard::Shard;
use super::tests::{BASE, Harness, NoEpoll, RING, empty_shard, write};
use super::visit::STREAM_BACK_OFF_NS;
use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};
use crate::memory::{ControlMemory, HostControl, Memory};
use crate::settings::config::Pacing;
use crate::settings::policy::Policy;

/// A shard with one connection that has received `one_way` bytes, and its peer.
fn shard(one_way: u64, io: &mut NoEpoll) -> (Shard, UnixStream, Handle) {
    shard_with(Policy::open(), one_way, io)
}

/// The same under a policy.
fn shard_with(policy: Policy, one_way: u64, io: &mut NoEpoll) -> (Shard, UnixStream, Handle) {
    let Harness { mut shard, mut connection, peer } = Harness::under(policy);
    connection.stream().expect("a stream").one_way = one_way;
    let handle = connection.handle;
    shard.adopt(connection, io);
    (shard, peer, handle)
}

#[test]
fn bytes_that_come_while_a_socket_backs_off_are_received_afterwards() {
    let mut io = NoEpoll::default();
    let (mut shard, mut peer, handle) = shard(Pacing::USUAL.stream_bytes, &mut io);
    let received = |shard: &Shard| shard.sockets.context.counters.received_bytes.get();
    for round in 0..3 {
        let begin = round * 2 * STREAM_BACK_OFF_NS;
        // Nothing is there, so the socket backs off.
        shard.turn(begin, &mut io);
        write(&mut peer, &[1; 10]);
        shard.ready(handle.0);
        for _ in 0..1000 {
            shard.turn(begin + STREAM_BACK_OFF_NS / 2, &mut io);
        }
        assert_eq!(received(&shard), 10 * round, "it backs off");
        shard.turn(begin + STREAM_BACK_OFF_NS, &mut io);
        assert_eq!(received(&shard), 10 * (round + 1));
    }
}

/// Bytes come in so many turns in a row that epoll is spared; the shard after it.
fn busy(io: &mut NoEpoll) -> (Shard, UnixStream, Handle) {
    let (mut shard, mut peer, handle) = shard(0, io);
    assert!(io.watches);
    shard.ready(handle.0);
    for _ in 0..Pacing::USUAL.often {
        assert!(io.watches);
        write(&mut peer, &[1]);
        shard.turn(0, io);
    }
    assert!(!io.watches, "it is busy enough");
    (shard, peer, handle)
}

#[test]
fn epoll_watches_a_busy_socket_again_once_it_is_quiet() {
    let mut io = NoEpoll::default();
    let (mut shard, _peer, _) = busy(&mut io);
    let mut turns = 0;
    while shard.is_busy() && turns < 10_000 {
        shard.turn(0, &mut io);
        turns += 1;
    }
    assert!(io.watches, "after {turns} turns");
}

#[test]
fn epoll_watches_a_busy_socket_again_before_the_thread_sleeps() {
    let mut io = NoEpoll::default();
    let (mut shard, _peer, _) = busy(&mut io);
    shard.watch_before_sleep(&mut io);
    assert!(io.watches);
}

#[test]
fn epoll_watches_a_busy_socket_again_when_its_peer_does_not_read() {
    let mut io = NoEpoll::default();
    let (mut shard, mut peer, handle) = busy(&mut io);
    let tail =
        shard.sockets.context.shared.memory.send_tail(shard.sockets.context.shared.index(handle));
    let mut sent = BASE;
    // What a kernel would send, ring by ring, until the pair holds no more.
    for _ in 0..1000 {
        sent += u64::from(RING);
        tail.store_release(Progress::new(sent, 0).0);
        write(&mut peer, &[1]);
        // Received and taken by the kernel, so that the socket stays busy.
        shard.turn(0, &mut io);
        let received = BASE + shard.sockets.context.counters.received_bytes.get();
        shard
            .sockets
            .context
            .shared
            .memory
            .receive_head(shard.sockets.context.shared.index(handle))
            .store_release(Progress::new(received, 0).0);
        if io.watches {
            return;
        }
    }
    panic!("nothing says when the socket can be written to");
}

#[test]
fn a_limited_shard_moves_what_time_brings() {
    let mut io = NoEpoll::default();
    let rate = 100_000;
    let (mut shard, mut peer, handle) = shard_with(Policy::open().max_rate(rate), 0, &mut io);
    let index = shard.sockets.context.shared.index(handle);
    let received = |shard: &Shard| shard.sockets.context.counters.received_bytes.get();
    let mut written = 0_u64;
    shard.ready(handle.0);
    for turn in 0..10_000 {
        // A tenth of a millisecond each; the peer is always ahead, the kernel reads everything.
        while written < received(&shard) + 5_000 {
            write(&mut peer, &[1; 1000]);
            written += 1000;
        }
        shard.turn(turn * 100_000, &mut io);
        shard
            .sockets
            .context
            .shared
            .memory
            .receive_head(index)
            .store_release(Progress::new(BASE + received(&shard), 0).0);
    }
    let moved = received(&shard);
    assert!((95_000..=106_000).contains(&moved), "{moved} bytes in a second");
    // With no time passing, what is left in the bucket moves, and then nothing.
    let (moved, now) = (received(&shard), 10_000 * 100_000);
    for _ in 0..100 {
        shard.turn(now, &mut io);
    }
    assert!(received(&shard) <= moved + 5_000);
    let moved = received(&shard);
    for _ in 0..100 {
        shard.turn(now, &mut io);
    }
    assert_eq!(received(&shard), moved);
}

#[test]
fn bytes_in_flight_are_counted_until_they_are_read() {
    let mut io = NoEpoll::default();
    let policy = Policy::open().max_in_flight(2000);
    let (mut shard, mut peer, handle) = shard_with(policy, 0, &mut io);
    let index = shard.sockets.context.shared.index(handle);
    write(&mut peer, &[1; 4000]);
    shard.ready(handle.0);
    let mut turns = |shard: &mut Shard, from: u64| {
        for turn in 0..20 {
            shard.turn(from + turn * 1_000_000, &mut io);
        }
        shard.sockets.context.counters.received_bytes.get()
    };
    let first = turns(&mut shard, 0);
    assert!((1500..=2000).contains(&first), "{first}");
    assert!(shard.sockets.context.counters.throttled.get() > 0);
    shard
        .sockets
        .context
        .shared
        .memory
        .receive_head(index)
        .store_release(Progress::new(BASE + first, 0).0);
    let second = turns(&mut shard, 1 << 30);
    assert!((first + 1500..=first + 2000).contains(&second), "{second}");
    shard
        .sockets
        .context
        .shared
        .memory
        .receive_head(index)
        .store_release(Progress::new(BASE + second, 0).0);
    assert_eq!(turns(&mut shard, 1 << 31), 4000);
}

/// Rounds of a second without a kernel; how often the thread slept.
fn quiet_second(shard: &mut Shard, io: &mut NoEpoll) -> u64 {
    let (control, mut rounds, mut now) = (Control::default(), Rounds::default(), 1 << 40);
    let (end, before) = (now + 1_000_000_000, shard.sockets.context.counters.sleeps.get());
    while now < end {
        now += match rounds.round(shard, &control, now, io) {
            Next::Sleep(ns) => ns,
            _ => 1000,
        };
    }
    shard.sockets.context.counters.sleeps.get() - before
}

#[test]
fn a_socket_that_waits_for_a_kernel_lets_its_thread_sleep() {
    let mut io = NoEpoll::default();
    let policy = Policy::open().max_in_flight(2000);
    let (mut shard, mut peer, handle) = shard_with(policy, 0, &mut io);
    write(&mut peer, &[1; 4000]);
    shard.ready(handle.0);
    let sleeps = quiet_second(&mut shard, &mut io);
    assert!(!shard.sockets.schedule.throttle.is_empty(), "it waits");
    assert!(sleeps < 50, "{sleeps} sleeps in a second");
}

/// Kernels ask the first thread for sockets: it polls for them, and threads that have none cost next to nothing.
#[test]
fn threads_without_sockets_sleep_while_kernels_run() {
    let sleeps = |id: usize| {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let layout = Layout { shards: 2, socket_slots: 2, request_slots: 1 };
        let control = HostControl::new(&gpu, &layout, ControlMemory::Host).expect("words");
        let memory = Memory::new(&gpu, layout, control, RING as usize, false, None, 1);
        let first = empty_shard(memory.expect("memory"), RING.into(), Policy::open());
        let shared = Arc::clone(&first.sockets.context.shared);
        let (_sender, queue) = mpsc::channel();
        let (mut shard, mut io) =
            (Shard::new(id, shared, Arc::default(), queue), NoEpoll::default());
        let (control, mut rounds, mut now) = (Control::default(), Rounds::default(), 1 << 40);
        control.running.store(1, Ordering::Release);
        let (end, mut sleeps) = (now + 1_000_000_000, 0);
        while now < end {
            now += match rounds.round(&mut shard, &control, now, &mut io) {
                Next::Sleep(ns) => {
                    sleeps += 1;
                    ns
                }
                _ => 1000,
            };
        }
        sleeps
    };
    let (first, second) = (sleeps(0), sleeps(1));
    assert!(first > 15_000, "{first} sleeps of the first thread");
    assert!(second < 150, "{second} sleeps of one without sockets");
}

#[test]
fn a_thread_that_sleeps_loses_none_of_the_rate() {
    let mut io = NoEpoll::default();
    let rate = 3000;
    let (mut shard, mut peer, handle) = shard_with(Policy::open().max_rate(rate), 0, &mut io);
    write(&mut peer, &[1; RING as usize]);
    shard.ready(handle.0);
    // The burst is there at once; what time brings comes a quarter of it at a time.
    quiet_second(&mut shard, &mut io);
    let received = shard.sockets.context.counters.received_bytes.get();
    assert!((rate + 1024 - 256..=rate + 1024).contains(&received), "{received}");
}

#[test]
fn a_limited_socket_whose_ring_is_full_waits_once() {
    let mut io = NoEpoll::default();
    let (mut shard, mut peer, handle) = shard_with(Policy::open().max_rate(40_000), 0, &mut io);
    write(&mut peer, &[1; 2 * RING as usize]);
    for turn in 0..200 {
        shard.ready(handle.0);
        shard.turn(turn * 1_000_000, &mut io);
    }
    assert_eq!(shard.sockets.context.counters.received_bytes.get(), u64::from(RING));
    assert_eq!(shard.sockets.schedule.heads.awaited, 1);
}

#[test]
fn a_launch_that_begins_while_the_last_one_ends_keeps_what_it_accepted() {
    let mut io = NoEpoll::default();
    let (mut shard, _peer, handle) = shard(0, &mut io);
    let is_open = |shard: &mut Shard| shard.find(handle).is_some_and(|it| it.is_open());
    shard.find(handle).expect("it was adopted").owner = Owner::AnyLaunch;
    // The supervisor found launch 0 to be the last one; then launch 1 began.
    shard.sockets.context.shared.launches.set(1, true);
    shard.launch_ended(0, true, 0);
    assert!(is_open(&mut shard));
    shard.sockets.context.shared.launches.set(1, false);
    shard.launch_ended(1, true, 0);
    assert!(!is_open(&mut shard));
}
