//! Bytes there and back.

use std::fs;
use std::thread;
use std::time::Duration;

use rsocket_shim::stream::Next;

use crate::common::turn;
use crate::world::{Edges, End, Place, Shape, drive, exchange, settle};

#[test]
#[ignore = "needs an RDMA device"]
fn bytes_arrive_both_ways_over_ipv4_and_ipv6() {
    let _turn = turn();
    for place in [Place::v4(), Place::v6()] {
        let (mut client, mut server) = place.pair(Shape::default(), Shape::default());
        assert_eq!(client.stream.local_address(), server.stream.peer_address());
        assert_eq!(client.stream.peer_address(), server.stream.local_address());
        assert_eq!(client.stream.local_address().unwrap().ip(), place.address.ip());
        for (there, back) in [(1, 0), (0, 1), (63, 4095), (70_001, 70_001), (0, 300_007)] {
            client.will(there, back);
            server.will(back, there);
            exchange(&mut client, &mut server);
        }
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn rings_of_every_size_wrap() {
    let _turn = turn();
    let place = Place::v4();
    let bases = [(0, 0), (4095, 1), (65_537, (1 << 40) + 12_345)];
    for (capacity, bytes) in [(4096, 300_001), (65_536, 1_000_003), (1 << 20, 5_000_011)] {
        for (index, (send_base, receive_base)) in bases.into_iter().enumerate() {
            let client = Shape::new(capacity, send_base, receive_base);
            let server = Shape::new(capacity, receive_base + 77, send_base + 1001);
            let (mut client, mut server) = place.pair(client, server);
            (client.piece, server.piece) =
                [(u64::MAX, u64::MAX), (997, 5003), (65_001, 333)][index];
            // Pieces that are small make many messages; fewer bytes do.
            let bytes = bytes / (1 + 2 * index as u64);
            client.will(bytes, bytes / 3);
            server.will(bytes / 3, bytes);
            exchange(&mut client, &mut server);
        }
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn rings_of_different_sizes_and_the_smallest_queues_do() {
    let _turn = turn();
    let place = Place::v4();
    let small = Shape::new(4096, 5, 9).queues(16);
    let (mut client, mut server) = place.pair(small, Shape::new(1 << 20, 3, 1));
    client.piece = 10;
    client.will(20_000, 2_000_000);
    server.will(2_000_000, 20_000);
    exchange(&mut client, &mut server);
}

/// One end on a thread of its own, which waits for its own descriptor alone.
fn alone(mut end: End) -> End {
    drive(&mut [&mut end], |ends| {
        assert_eq!(ends[0].error, None);
        ends[0].is_content()
    });
    end
}

#[test]
#[ignore = "needs an RDMA device"]
fn ends_on_two_threads_wake_each_other() {
    let _turn = turn();
    let (mut client, mut server) = Place::v4().pair(Shape::default(), Shape::default());
    client.will(2_000_000, 2_000_000);
    server.will(2_000_000, 2_000_000);
    let server = thread::spawn(move || alone(server));
    let _client = alone(client);
    let _server = server.join().unwrap();
}

#[test]
#[ignore = "needs an RDMA device"]
fn no_wake_up_is_lost_between_question_and_answer() {
    let _turn = turn();
    const ROUNDS: u64 = 1500;
    let (mut client, mut server) = Place::v4().pair(Shape::default(), Shape::default());
    (client.woken, server.woken) = (0, 0);
    // Each answers what it has read: whoever misses one wake-up waits for ever.
    let server = thread::spawn(move || {
        drive(&mut [&mut server], |ends| {
            let end = &mut ends[0];
            assert_eq!(end.error, None);
            end.will(0, end.unread());
            let unanswered = end.receives.count() - end.sends.count();
            end.will(unanswered, 0);
            end.receives.count() == ROUNDS && end.is_content()
        });
        server
    });
    client.will(1, ROUNDS);
    drive(&mut [&mut client], |ends| {
        let end = &mut ends[0];
        assert_eq!(end.error, None);
        if end.receives.count() == end.sends.count() && end.sends.count() < ROUNDS {
            end.will(1, 0);
        }
        end.is_content() && end.receives.count() == ROUNDS
    });
    let server = server.join().unwrap();
    assert!(client.woken > ROUNDS / 2 && server.woken > ROUNDS / 2, "it did not sleep");
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_reader_that_does_not_read_stops_the_sender_and_loses_nothing() {
    let _turn = turn();
    let (mut client, mut server) = Place::v4().pair(Shape::new(65_536, 11, 0), Shape::default());
    client.will(500_000, 0);
    drive(&mut [&mut client, &mut server], |ends| ends[1].unread() == 65_536);
    settle(&mut [&mut client, &mut server]);
    assert_eq!((client.errno(), server.errno()), (None, None));
    // The receiver's ring is full, and nothing beyond it counts as sent.
    assert_eq!((server.unread(), client.stream.sent() - 11), (65_536, 65_536));
    server.will(0, 100);
    settle(&mut [&mut client, &mut server]);
    assert!(client.stream.sent() - 11 <= 65_636);
    server.will(0, 499_900);
    exchange(&mut client, &mut server);
}

/// Calls of read and write that this process has made.
fn reads_and_writes() -> Vec<u64> {
    let counted = fs::read_to_string("/proc/self/io").unwrap();
    let number = |name| counted.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
    ["syscr: ", "syscw: "].map(|name| number(name).unwrap()).to_vec()
}

#[test]
#[ignore = "needs an RDMA device"]
fn an_idle_stream_is_quiet_and_costs_little() {
    let _turn = turn();
    let (mut client, mut server) = Place::v4().pair(Shape::default(), Shape::default());
    client.will(100_000, 100_000);
    server.will(100_000, 100_000);
    exchange(&mut client, &mut server);
    settle(&mut [&mut client, &mut server]);
    for end in [&mut client, &mut server] {
        // Nothing is left that would wake who waits for a level.
        let edges = Edges::new(&[end.stream.descriptor()]);
        assert!(edges.poll(Duration::ZERO).is_empty());
        // The connection manager and completion channels are asked by writes and reads; looking at
        // the count itself reads.
        let (before, one) = (reads_and_writes(), reads_and_writes());
        for _ in 0..1000 {
            assert_eq!(end.stream.flow(), Ok(Next::Wait));
            assert_eq!(end.stream.progress(), Ok(Next::Wait));
        }
        let after = reads_and_writes();
        let looking: Vec<u64> = one.iter().zip(&before).map(|(one, before)| one - before).collect();
        let cost = after.iter().zip(&one).map(|(after, one)| after - one);
        assert_eq!(cost.collect::<Vec<_>>(), looking);
    }
}
