//! Pollers of a shard by itself: what is written into their rings, and what is owed.

use std::net::{TcpListener, TcpStream};

use gpunet_device::Handle;
use gpunet_device::abi::layout::Layout;
use gpunet_device::abi::message::Operation;
use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};
use gpunet_device::poller::EVENT_BYTES;

use super::entry::Owner;
use super::hostile_tests::{Harness, RING, counter};
use super::watchers::Notice;
use crate::transport;

#[test]
fn a_poller_that_takes_no_events_owes_no_more_than_it_watches() {
    let mut harness = Harness::new();
    let poller = harness.poller();
    let (socket, _far) = harness.stream();
    for token in 0..5000 {
        harness.add(poller, socket, POLLOUT, token);
        harness.turn();
        assert!(
            harness.watched(poller).1 <= 1,
            "after {token} times: {:?}",
            harness.watched(poller)
        );
        harness.ask(Operation::Watch, poller, [socket.0, 0, 0, 0]).expect("both are open");
    }
    harness.is_whole();
}

#[test]
fn a_socket_that_another_poller_watches_is_forgotten_by_the_first() {
    let mut harness = Harness::new();
    let (first, second) = (harness.poller(), harness.poller());
    for _ in 0..100 {
        let (socket, _far) = harness.stream();
        for poller in [first, second] {
            harness.add(poller, socket, POLLOUT, 1);
            harness.turn();
        }
        assert_eq!((harness.watched(first).0, harness.watched(second).0), (0, 1));
        // Who does not watch it cannot end the watch either.
        harness.ask(Operation::Watch, first, [socket.0, 0, 0, 0]).expect("both are open");
        assert!(harness.shard.find(socket).expect("it is open").watchers.get(0).is_some());
        harness.ask(Operation::Close, socket, [0; 4]).expect("it is open");
        harness.turn();
    }
    assert_eq!((harness.watched(first).0, harness.watched(second).0), (0, 0));
    harness.is_whole();
}

#[test]
fn a_poller_is_notified_of_connections_that_fill_the_accept_ring() {
    let mut harness = Harness::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (socket, listens) = transport::adopt(listener.into()).expect("a listener");
    assert!(listens);
    let mut made = harness.make(Owner::Host, Some(socket));
    let shared = &harness.shard.sockets.context.shared;
    let ring = shared.ring(8, 0).expect("a ring");
    made.start_listening(shared, ring, 1);
    let handle = harness.adopt(made);
    let poller = harness.watcher(handle, POLLIN);
    let _client = std::net::TcpStream::connect(address).expect("it listens");
    harness.shard.ready(handle.0);
    harness.turn();
    assert_eq!(harness.shard.sockets.context.counters.accepted.get(), 1);
    assert_eq!(harness.reported(poller), POLLIN);
    for _ in 0..1000 {
        harness.turn();
    }
    assert!(!harness.shard.is_busy(), "it waits for a kernel");
    harness.is_whole();
}

#[test]
fn a_poller_is_notified_of_a_failed_send_after_the_peers_end() {
    let mut harness = Harness::new();
    let (socket, far) = harness.stream();
    let poller = harness.watcher(socket, POLLIN);
    far.shutdown(std::net::Shutdown::Write).expect("it is connected");
    harness.shard.ready(socket.0);
    harness.turn();
    harness.turn();
    assert_eq!(harness.reported(poller), POLLIN);
    drop(far);
    harness.turn();
    let index = harness.shard.sockets.context.shared.index(socket);
    let tail = harness.shard.find(socket).expect("it is open").channel.send.theirs + 100;
    harness.shard.sockets.context.shared.memory.send_tail(index).store_release(counter(tail));
    harness.turn();
    assert_eq!(harness.reported(poller), POLLERR | POLLHUP);
    harness.is_whole();
}

#[test]
fn a_poller_is_notified_of_an_end_behind_a_full_ring() {
    let mut harness = Harness::new();
    let (socket, mut far) = harness.stream();
    let poller = harness.watcher(socket, POLLRDHUP);
    std::io::Write::write_all(&mut far, &[1; RING as usize]).expect("the pair holds it");
    harness.shard.ready(socket.0);
    harness.turn();
    harness.turn();
    assert_eq!(harness.shard.sockets.schedule.heads.awaited, 1);
    drop(far);
    harness.read_all(socket);
    harness.turn();
    harness.turn();
    assert!(harness.shard.find(socket).expect("it is open").channel.endings.receive);
    assert_eq!(harness.reported(poller) & POLLRDHUP, POLLRDHUP);
    harness.is_whole();
}

#[test]
fn a_poller_is_notified_of_a_shutdown_by_its_own_end() {
    let mut harness = Harness::new();
    let (socket, _far) = harness.stream();
    let poller = harness.watcher(socket, POLLIN | POLLRDHUP);
    harness.ask(Operation::Shutdown, socket, [0; 4]).expect("it is connected");
    harness.turn();
    assert_eq!(harness.reported(poller), POLLIN | POLLRDHUP);
    harness.ask(Operation::Shutdown, socket, [1, 0, 0, 0]).expect("it is connected");
    harness.turn();
    assert_eq!(harness.reported(poller), POLLHUP);
    harness.is_whole();
}

#[test]
fn a_poller_forgets_a_socket_that_the_program_takes_back() {
    let mut harness = Harness::new();
    let (socket, _far) = harness.stream();
    let poller = harness.watcher(socket, POLLIN);
    assert_eq!(harness.watched(poller).0, 0, "nothing has happened on it");
    let shard = &mut harness.shard;
    shard.notify(poller, Notice { socket, token: 0, events: POLLIN, connections: 0 });
    assert!(shard.closing(0, |closing| closing.release(socket)).is_ok());
    assert_eq!(harness.watched(poller), (0, 0));
    harness.is_whole();
}

#[test]
fn an_event_in_the_ring_is_withdrawn_when_its_socket_is_gone() {
    let gone: [fn(&mut Harness, Handle, Handle); 4] = [
        |harness, socket, _| {
            harness.ask(Operation::Close, socket, [0; 4]).expect("it is open");
        },
        |harness, socket, poller| {
            harness.ask(Operation::Watch, poller, [socket.0, 0, 0, 0]).expect("both are open");
        },
        |harness, socket, _| {
            let other = harness.poller();
            harness.add(other, socket, POLLOUT, 9);
        },
        |harness, socket, _| {
            let shard = &mut harness.shard;
            assert!(shard.closing(0, |closing| closing.release(socket)).is_ok());
        },
    ];
    for (how, gone) in gone.into_iter().enumerate() {
        let mut harness = Harness::new();
        let poller = harness.poller();
        let made = [harness.stream(), harness.stream(), harness.stream()];
        for (token, (socket, _)) in (1..).zip(&made) {
            harness.add(poller, *socket, POLLOUT, token);
        }
        harness.turn();
        assert_eq!(harness.in_ring(poller), [(1, POLLOUT), (2, POLLOUT), (3, POLLOUT)]);
        gone(&mut harness, made[1].0, poller);
        // At once: the kernel has its reply.
        assert_eq!(harness.in_ring(poller), [(1, POLLOUT), (2, 0), (3, POLLOUT)], "way {how}");
        harness.is_whole();
    }
}

#[test]
fn a_socket_that_is_added_again_has_one_event() {
    let mut harness = Harness::new();
    let poller = harness.poller();
    let (socket, far) = harness.stream();
    harness.add(poller, socket, POLLIN | POLLOUT, 1);
    harness.turn();
    drop(far);
    harness.shard.ready(socket.0);
    harness.turn();
    assert_eq!(harness.in_ring(poller), [(1, POLLOUT)], "the rest is owed");
    // All that was in the ring and all that was owed is reported anew.
    harness.add(poller, socket, POLLIN | POLLRDHUP, 2);
    assert_eq!(harness.in_ring(poller), [(1, 0)]);
    harness.turn();
    assert_eq!(harness.in_ring(poller), [(1, 0), (2, POLLIN | POLLRDHUP)]);
    harness.reported(poller);
    harness.turn();
    assert_eq!(harness.in_ring(poller), []);
    harness.is_whole();
}

#[test]
fn an_event_that_was_taken_leaves_its_place_to_others() {
    let mut harness = Harness::new();
    let poller = harness.poller();
    let ((first, _a), (second, _b)) = (harness.stream(), harness.stream());
    harness.add(poller, first, POLLOUT, 1);
    harness.turn();
    let ring = harness.shard.find(poller).expect("it is open").channel.receive;
    // Once around.
    for _ in 0..u64::from(ring.location.capacity) / EVENT_BYTES as u64 {
        harness.reported(poller);
        harness.add(poller, second, POLLOUT, 2);
        harness.turn();
    }
    let now = harness.shard.find(poller).expect("it is open").channel.receive;
    assert_eq!(now.ours, ring.ours + u64::from(ring.location.capacity));
    harness.ask(Operation::Close, first, [0; 4]).expect("it is open");
    assert_eq!(harness.in_ring(poller), [(2, POLLOUT)]);
    harness.is_whole();
}

#[test]
fn a_ring_full_of_what_was_withdrawn_is_passed_over() {
    let mut harness = Harness::new();
    let poller = harness.poller();
    let (socket, _far) = harness.stream();
    let capacity =
        harness.shard.find(poller).expect("it is open").channel.receive.location.capacity;
    let room = u64::from(capacity) / EVENT_BYTES as u64;
    for token in 0..=room {
        harness.add(poller, socket, POLLOUT, token);
        harness.turn();
    }
    assert!(harness.in_ring(poller).iter().all(|(_, events)| *events == 0), "it has no room left");
    assert_eq!(harness.reported(poller), 0);
    harness.turn();
    assert_eq!(harness.in_ring(poller), [(room, POLLOUT)]);
    harness.is_whole();
}

#[test]
fn a_stream_is_no_poller_whoever_says_so() {
    let mut harness = Harness::new();
    let ((stream, _a), (socket, _b)) = (harness.stream(), harness.stream());
    // As from another shard, which cannot know.
    harness.shard.notify(stream, Notice { socket, token: 1, events: POLLOUT, connections: 0 });
    assert_eq!(harness.watched(stream), (0, 0));
}

/// A listener of the program in a shard, and where it listens.
fn listener(harness: &mut Harness) -> (Handle, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (socket, _) = transport::adopt(listener.into()).expect("a listener");
    let mut made = harness.make(Owner::Host, Some(socket));
    let shared = &harness.shard.sockets.context.shared;
    let ring = shared.ring(RING, 0).expect("a ring");
    made.start_listening(shared, ring, 16);
    (harness.adopt(made), address)
}

/// Has peers connect, and the shard accept them.
fn connect(
    harness: &mut Harness,
    to: (Handle, std::net::SocketAddr),
    peers: u32,
) -> Vec<TcpStream> {
    let before = harness.shard.sockets.context.counters.accepted.get();
    let peers: Vec<_> = (0..peers).map(|_| TcpStream::connect(to.1).expect("it listens")).collect();
    let begun = std::time::Instant::now();
    while begun.elapsed() < gpunet_support::testing::hang_limit(std::time::Duration::from_secs(1)) {
        if harness.shard.sockets.context.counters.accepted.get() == before + peers.len() as u64 {
            break;
        }
        harness.shard.ready(to.0.0);
        harness.turn();
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    assert_eq!(harness.shard.sockets.context.counters.accepted.get(), before + peers.len() as u64);
    harness.turn();
    peers
}

/// Takes the events of pollers as kernels do until there are none; how many each has got.
fn events(harness: &mut Harness, pollers: &[Handle]) -> Vec<u32> {
    let mut counts = vec![0; pollers.len()];
    for _ in 0..20 {
        for (poller, count) in pollers.iter().zip(&mut counts) {
            let reported = harness.in_ring(*poller);
            assert!(reported.len() <= 1, "one at a time");
            *count += reported.iter().filter(|(_, events)| *events == POLLIN).count() as u32;
            harness.reported(*poller);
        }
        harness.turn();
    }
    counts
}

#[test]
fn connections_go_to_the_pollers_of_a_listener_in_turn() {
    let mut harness = Harness::with(Layout { shards: 1, socket_slots: 32, request_slots: 4 });
    let listener = listener(&mut harness);
    let pollers = [(); 4].map(|()| harness.poller());
    for (poller, token) in pollers.iter().zip(0..) {
        harness.add(*poller, listener.0, POLLIN, token);
    }
    let _peers = connect(&mut harness, listener, 10);
    assert_eq!(events(&mut harness, &pollers), [3, 3, 2, 2]);
    // Who does not want to know of connections is passed over.
    harness.add(pollers[1], listener.0, POLLHUP, 1);
    let _more = connect(&mut harness, listener, 3);
    let got = events(&mut harness, &pollers);
    assert_eq!((got[1], got.iter().sum::<u32>()), (0, 3), "{got:?}");
    harness.is_whole();
}

#[test]
fn what_a_poller_has_not_delivered_goes_to_the_others() {
    let ends: [fn(&mut Harness, Handle, Handle); 2] = [
        |harness, poller, listener| {
            harness.ask(Operation::Watch, poller, [listener.0, 0, 0, 0]).expect("both are open");
        },
        |harness, poller, _| {
            harness.ask(Operation::Close, poller, [0; 4]).expect("it is open");
        },
    ];
    for end in ends {
        let mut harness = Harness::with(Layout { shards: 1, socket_slots: 32, request_slots: 4 });
        let listener = listener(&mut harness);
        let pollers = [(); 3].map(|()| harness.poller());
        for (poller, token) in pollers.iter().zip(0..) {
            harness.add(*poller, listener.0, POLLIN, token);
        }
        let _peers = connect(&mut harness, listener, 9);
        // The first has three, of which one is in its ring; none was taken.
        end(&mut harness, pollers[0], listener.0);
        let got = events(&mut harness, &pollers[1..]);
        assert_eq!(got.iter().sum::<u32>(), 9, "{got:?}");
        assert!(got.iter().all(|count| *count >= 4), "{got:?}");
        // And those that come later are not reported to one that is gone.
        let _more = connect(&mut harness, listener, 4);
        assert_eq!(events(&mut harness, &pollers[1..]), [2, 2]);
        harness.is_whole();
    }
}

#[test]
fn connections_that_nobody_was_notified_of_are_reported_to_who_comes() {
    let mut harness = Harness::with(Layout { shards: 1, socket_slots: 32, request_slots: 4 });
    let listener = listener(&mut harness);
    let _peers = connect(&mut harness, listener, 5);
    let first = harness.poller();
    harness.add(first, listener.0, POLLIN, 1);
    harness.turn();
    // The last to go leaves them to nobody.
    harness.ask(Operation::Close, first, [0; 4]).expect("it is open");
    harness.turn();
    let others = [harness.poller(), harness.poller()];
    for poller in others {
        harness.add(poller, listener.0, POLLIN, 2);
    }
    assert_eq!(events(&mut harness, &others).iter().sum::<u32>(), 5);
    harness.is_whole();
}
