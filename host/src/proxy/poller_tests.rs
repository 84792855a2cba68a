//! Pollers of a shard by itself: what is written into their rings, and what is owed.

use std::net::{TcpListener, TcpStream};

use gpunet_device::Handle;
use gpunet_device::abi::layout::Layout;
use gpunet_device::abi::message::Operation;
use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};
use gpunet_device::poller::EVENT_BYTES;

use super::entry::Owner;
use super::hostile_tests::{Bench, RING, counter};
use super::poller::Notice;
use crate::transport;

#[test]
fn a_poller_that_takes_no_events_owes_no_more_than_it_watches() {
    let mut bench = Bench::new();
    let poller = bench.poller();
    let (socket, _far) = bench.stream();
    for token in 0..5000 {
        bench.add(poller, socket, POLLOUT, token);
        bench.turn();
        assert!(bench.watched(poller).1 <= 1, "after {token} times: {:?}", bench.watched(poller));
        bench.ask(Operation::Watch, poller, [socket.0, 0, 0, 0]).expect("both are open");
    }
    bench.is_whole();
}

#[test]
fn a_socket_that_another_poller_watches_is_forgotten_by_the_first() {
    let mut bench = Bench::new();
    let (first, second) = (bench.poller(), bench.poller());
    for _ in 0..100 {
        let (socket, _far) = bench.stream();
        for poller in [first, second] {
            bench.add(poller, socket, POLLOUT, 1);
            bench.turn();
        }
        assert_eq!((bench.watched(first).0, bench.watched(second).0), (0, 1));
        // Who does not watch it cannot end the watch either.
        bench.ask(Operation::Watch, first, [socket.0, 0, 0, 0]).expect("both are open");
        assert!(bench.shard.find(socket).expect("it is open").watchers.get(0).is_some());
        bench.ask(Operation::Close, socket, [0; 4]).expect("it is open");
        bench.turn();
    }
    assert_eq!((bench.watched(first).0, bench.watched(second).0), (0, 0));
    bench.is_whole();
}

#[test]
fn a_poller_is_told_of_connections_that_fill_the_accept_ring() {
    let mut bench = Bench::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (socket, listens) = transport::adopt(listener.into()).expect("a listener");
    assert!(listens);
    let mut made = bench.make(Owner::Host, Some(socket));
    let shared = &bench.shard.context.shared;
    let ring = shared.ring(8, 0).expect("a ring");
    made.start_listening(shared, ring, 1);
    let handle = bench.adopt(made);
    let poller = bench.watcher(handle, POLLIN);
    let _client = std::net::TcpStream::connect(address).expect("it listens");
    bench.shard.ready(handle.0);
    bench.turn();
    assert_eq!(bench.shard.context.counters.accepted.get(), 1);
    assert_eq!(bench.reported(poller), POLLIN);
    for _ in 0..1000 {
        bench.turn();
    }
    assert!(!bench.shard.is_busy(), "it waits for a kernel");
    bench.is_whole();
}

#[test]
fn a_poller_is_told_of_a_failed_send_after_the_peers_end() {
    let mut bench = Bench::new();
    let (socket, far) = bench.stream();
    let poller = bench.watcher(socket, POLLIN);
    far.shutdown(std::net::Shutdown::Write).expect("it is connected");
    bench.shard.ready(socket.0);
    bench.turn();
    bench.turn();
    assert_eq!(bench.reported(poller), POLLIN);
    drop(far);
    bench.turn();
    let index = bench.shard.context.shared.index(socket);
    let tail = bench.shard.find(socket).expect("it is open").channel.send.theirs + 100;
    bench.shard.context.shared.memory.send_tail(index).store_release(counter(tail));
    bench.turn();
    assert_eq!(bench.reported(poller), POLLERR | POLLHUP);
    bench.is_whole();
}

#[test]
fn a_poller_is_told_of_an_end_behind_a_full_ring() {
    let mut bench = Bench::new();
    let (socket, mut far) = bench.stream();
    let poller = bench.watcher(socket, POLLRDHUP);
    std::io::Write::write_all(&mut far, &[1; RING as usize]).expect("the pair holds it");
    bench.shard.ready(socket.0);
    bench.turn();
    bench.turn();
    assert_eq!(bench.shard.schedule.heads_awaited(), 1);
    drop(far);
    bench.read_all(socket);
    bench.turn();
    bench.turn();
    assert!(bench.shard.find(socket).expect("it is open").channel.receive_ended);
    assert_eq!(bench.reported(poller) & POLLRDHUP, POLLRDHUP);
    bench.is_whole();
}

#[test]
fn a_poller_is_told_of_a_shutdown_by_its_own_side() {
    let mut bench = Bench::new();
    let (socket, _far) = bench.stream();
    let poller = bench.watcher(socket, POLLIN | POLLRDHUP);
    bench.ask(Operation::Shutdown, socket, [0; 4]).expect("it is connected");
    bench.turn();
    assert_eq!(bench.reported(poller), POLLIN | POLLRDHUP);
    bench.ask(Operation::Shutdown, socket, [1, 0, 0, 0]).expect("it is connected");
    bench.turn();
    assert_eq!(bench.reported(poller), POLLHUP);
    bench.is_whole();
}

#[test]
fn a_poller_forgets_a_socket_that_the_program_takes_back() {
    let mut bench = Bench::new();
    let (socket, _far) = bench.stream();
    let poller = bench.watcher(socket, POLLIN);
    assert_eq!(bench.watched(poller).0, 0, "nothing has happened on it");
    let (shard, io) = (&mut bench.shard, &mut bench.io);
    shard.notify(poller, Notice { socket, token: 0, events: POLLIN, connections: 0 });
    assert!(shard.release(socket, io).is_ok());
    assert_eq!(bench.watched(poller), (0, 0));
    bench.is_whole();
}

#[test]
fn an_event_in_the_ring_is_withdrawn_when_its_socket_is_gone() {
    let gone: [fn(&mut Bench, Handle, Handle); 4] = [
        |bench, socket, _| {
            bench.ask(Operation::Close, socket, [0; 4]).expect("it is open");
        },
        |bench, socket, poller| {
            bench.ask(Operation::Watch, poller, [socket.0, 0, 0, 0]).expect("both are open");
        },
        |bench, socket, _| {
            let other = bench.poller();
            bench.add(other, socket, POLLOUT, 9);
        },
        |bench, socket, _| {
            let (shard, io) = (&mut bench.shard, &mut bench.io);
            assert!(shard.release(socket, io).is_ok());
        },
    ];
    for (how, gone) in gone.into_iter().enumerate() {
        let mut bench = Bench::new();
        let poller = bench.poller();
        let made = [bench.stream(), bench.stream(), bench.stream()];
        for (token, (socket, _)) in (1..).zip(&made) {
            bench.add(poller, *socket, POLLOUT, token);
        }
        bench.turn();
        assert_eq!(bench.in_ring(poller), [(1, POLLOUT), (2, POLLOUT), (3, POLLOUT)]);
        gone(&mut bench, made[1].0, poller);
        // At once: the kernel has its reply.
        assert_eq!(bench.in_ring(poller), [(1, POLLOUT), (2, 0), (3, POLLOUT)], "way {how}");
        bench.is_whole();
    }
}

#[test]
fn a_socket_that_is_added_again_has_one_event() {
    let mut bench = Bench::new();
    let poller = bench.poller();
    let (socket, far) = bench.stream();
    bench.add(poller, socket, POLLIN | POLLOUT, 1);
    bench.turn();
    drop(far);
    bench.shard.ready(socket.0);
    bench.turn();
    assert_eq!(bench.in_ring(poller), [(1, POLLOUT)], "the rest is owed");
    // All that was in the ring and all that was owed is told anew.
    bench.add(poller, socket, POLLIN | POLLRDHUP, 2);
    assert_eq!(bench.in_ring(poller), [(1, 0)]);
    bench.turn();
    assert_eq!(bench.in_ring(poller), [(1, 0), (2, POLLIN | POLLRDHUP)]);
    bench.reported(poller);
    bench.turn();
    assert_eq!(bench.in_ring(poller), []);
    bench.is_whole();
}

#[test]
fn an_event_that_was_taken_leaves_its_place_to_others() {
    let mut bench = Bench::new();
    let poller = bench.poller();
    let ((first, _a), (second, _b)) = (bench.stream(), bench.stream());
    bench.add(poller, first, POLLOUT, 1);
    bench.turn();
    let ring = bench.shard.find(poller).expect("it is open").channel.receive;
    // Once around.
    for _ in 0..u64::from(ring.location.capacity) / EVENT_BYTES as u64 {
        bench.reported(poller);
        bench.add(poller, second, POLLOUT, 2);
        bench.turn();
    }
    let now = bench.shard.find(poller).expect("it is open").channel.receive;
    assert_eq!(now.ours, ring.ours + u64::from(ring.location.capacity));
    bench.ask(Operation::Close, first, [0; 4]).expect("it is open");
    assert_eq!(bench.in_ring(poller), [(2, POLLOUT)]);
    bench.is_whole();
}

#[test]
fn a_ring_full_of_what_was_withdrawn_is_passed_over() {
    let mut bench = Bench::new();
    let poller = bench.poller();
    let (socket, _far) = bench.stream();
    let capacity = bench.shard.find(poller).expect("it is open").channel.receive.location.capacity;
    let room = u64::from(capacity) / EVENT_BYTES as u64;
    for token in 0..=room {
        bench.add(poller, socket, POLLOUT, token);
        bench.turn();
    }
    assert!(bench.in_ring(poller).iter().all(|(_, events)| *events == 0), "it has no room left");
    assert_eq!(bench.reported(poller), 0);
    bench.turn();
    assert_eq!(bench.in_ring(poller), [(room, POLLOUT)]);
    bench.is_whole();
}

#[test]
fn a_stream_is_no_poller_whoever_says_so() {
    let mut bench = Bench::new();
    let ((stream, _a), (socket, _b)) = (bench.stream(), bench.stream());
    // As from another shard, which cannot know.
    bench.shard.notify(stream, Notice { socket, token: 1, events: POLLOUT, connections: 0 });
    assert_eq!(bench.watched(stream), (0, 0));
}

/// A listener of the program in a shard, and where it listens.
fn listener(bench: &mut Bench) -> (Handle, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (socket, _) = transport::adopt(listener.into()).expect("a listener");
    let mut made = bench.make(Owner::Host, Some(socket));
    let shared = &bench.shard.context.shared;
    let ring = shared.ring(RING, 0).expect("a ring");
    made.start_listening(shared, ring, 16);
    (bench.adopt(made), address)
}

/// Has peers connect, and the shard accept them.
fn connect(bench: &mut Bench, to: (Handle, std::net::SocketAddr), peers: u32) -> Vec<TcpStream> {
    let before = bench.shard.context.counters.accepted.get();
    let peers: Vec<_> = (0..peers).map(|_| TcpStream::connect(to.1).expect("it listens")).collect();
    for _ in 0..1000 {
        if bench.shard.context.counters.accepted.get() == before + peers.len() as u64 {
            break;
        }
        bench.shard.ready(to.0.0);
        bench.turn();
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    assert_eq!(bench.shard.context.counters.accepted.get(), before + peers.len() as u64);
    bench.turn();
    peers
}

/// Takes the events of pollers as kernels do until there are none; how many each has got.
fn events(bench: &mut Bench, pollers: &[Handle]) -> Vec<u32> {
    let mut counts = vec![0; pollers.len()];
    for _ in 0..20 {
        for (poller, count) in pollers.iter().zip(&mut counts) {
            let reported = bench.in_ring(*poller);
            assert!(reported.len() <= 1, "one at a time");
            *count += reported.iter().filter(|(_, events)| *events == POLLIN).count() as u32;
            bench.reported(*poller);
        }
        bench.turn();
    }
    counts
}

#[test]
fn connections_go_to_the_pollers_of_a_listener_in_turn() {
    let mut bench = Bench::with(Layout { shards: 1, socket_slots: 32, request_slots: 4 });
    let listener = listener(&mut bench);
    let pollers = [(); 4].map(|()| bench.poller());
    for (poller, token) in pollers.iter().zip(0..) {
        bench.add(*poller, listener.0, POLLIN, token);
    }
    let _peers = connect(&mut bench, listener, 10);
    assert_eq!(events(&mut bench, &pollers), [3, 3, 2, 2]);
    // Who does not want to know of connections is passed over.
    bench.add(pollers[1], listener.0, POLLHUP, 1);
    let _more = connect(&mut bench, listener, 3);
    let got = events(&mut bench, &pollers);
    assert_eq!((got[1], got.iter().sum::<u32>()), (0, 3), "{got:?}");
    bench.is_whole();
}

#[test]
fn what_a_poller_has_not_delivered_goes_to_the_others() {
    let ends: [fn(&mut Bench, Handle, Handle); 2] = [
        |bench, poller, listener| {
            bench.ask(Operation::Watch, poller, [listener.0, 0, 0, 0]).expect("both are open");
        },
        |bench, poller, _| {
            bench.ask(Operation::Close, poller, [0; 4]).expect("it is open");
        },
    ];
    for end in ends {
        let mut bench = Bench::with(Layout { shards: 1, socket_slots: 32, request_slots: 4 });
        let listener = listener(&mut bench);
        let pollers = [(); 3].map(|()| bench.poller());
        for (poller, token) in pollers.iter().zip(0..) {
            bench.add(*poller, listener.0, POLLIN, token);
        }
        let _peers = connect(&mut bench, listener, 9);
        // The first has three, of which one is in its ring; none was taken.
        end(&mut bench, pollers[0], listener.0);
        let got = events(&mut bench, &pollers[1..]);
        assert_eq!(got.iter().sum::<u32>(), 9, "{got:?}");
        assert!(got.iter().all(|count| *count >= 4), "{got:?}");
        // And those that come later are not told to one that is gone.
        let _more = connect(&mut bench, listener, 4);
        assert_eq!(events(&mut bench, &pollers[1..]), [2, 2]);
        bench.is_whole();
    }
}

#[test]
fn connections_that_nobody_was_told_of_are_told_to_who_comes() {
    let mut bench = Bench::with(Layout { shards: 1, socket_slots: 32, request_slots: 4 });
    let listener = listener(&mut bench);
    let _peers = connect(&mut bench, listener, 5);
    let first = bench.poller();
    bench.add(first, listener.0, POLLIN, 1);
    bench.turn();
    // The last to go leaves them to nobody.
    bench.ask(Operation::Close, first, [0; 4]).expect("it is open");
    bench.turn();
    let others = [bench.poller(), bench.poller()];
    for poller in others {
        bench.add(poller, listener.0, POLLIN, 2);
    }
    assert_eq!(events(&mut bench, &others).iter().sum::<u32>(), 5);
    bench.is_whole();
}
