//! How streams come to be, and that nothing of them stays.

use std::thread;
use std::time::{Duration, Instant};

use gpunet_support::testing::hang_limit;
use rsocket_shim::stream::{Stream, StreamError};

use crate::common::{descriptors, resources, turn};
use crate::world::{Edges, End, Place, Shape, drive, exchange, next_request, timeout};

#[test]
#[ignore = "needs an RDMA device"]
fn nobody_who_listens_is_a_refusal() {
    let _turn = turn();
    for place in [Place::v4(), Place::v6()] {
        let (listener, address) = place.listen();
        drop(listener);
        let mut client = place.connect(address, Shape::default());
        drive(&mut [&mut client], |ends| ends[0].error.is_some());
        assert_eq!(client.error, Some(StreamError::Rejected));
        assert_eq!(client.errno(), Some(libc::ECONNREFUSED));
        // It stays what it is.
        assert_eq!(client.stream.progress(), Err(StreamError::Rejected));
        assert_eq!(client.stream.flow(), Err(StreamError::Rejected));
        assert!(client.stream.leave());
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_request_that_is_dropped_is_a_refusal() {
    let _turn = turn();
    let place = Place::v4();
    let (listener, address) = place.listen();
    let mut client = place.connect(address, Shape::default());
    let request = next_request(&listener, &mut client);
    assert_eq!(request.local_address(), Some(address));
    assert_eq!(request.peer_address(), client.stream.local_address());
    drop(request);
    drive(&mut [&mut client], |ends| ends[0].error.is_some());
    assert_eq!(client.errno(), Some(libc::ECONNREFUSED));
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_client_that_gives_up_is_no_connection() {
    let _turn = turn();
    let place = Place::v4();
    let (listener, address) = place.listen();
    let mut client = place.connect(address, Shape::default());
    let request = next_request(&listener, &mut client);
    drop(client);
    // The event is there already, or comes later: it is a reset, or nobody answers.
    let error = match place.accept(request, Shape::default()) {
        Ok(mut server) => {
            drive(&mut [&mut server], |ends| ends[0].error.is_some());
            server.error
        }
        Err(error) => Some(error),
    };
    let errno = error.as_ref().map(StreamError::errno);
    assert!([Some(libc::ECONNRESET), Some(libc::ETIMEDOUT)].contains(&errno), "{error:?}");
}

#[test]
#[ignore = "needs an RDMA device"]
fn queues_that_a_device_does_not_have_are_our_fault() {
    let _turn = turn();
    let place = Place::v4();
    let (listener, address) = place.listen();
    let mut client = place.connect(address, Shape::default());
    let request = next_request(&listener, &mut client);
    let error = place.accept(request, Shape::default().queues(0xFFFE)).err().unwrap();
    assert!(matches!(error, StreamError::Verbs(_)), "{error:?}");
    drive(&mut [&mut client], |ends| ends[0].error.is_some());
    assert_eq!(client.errno(), Some(libc::ECONNREFUSED));
}

#[test]
#[ignore = "needs an RDMA device"]
fn nowhere_is_unreachable() {
    let _turn = turn();
    let place = Place::v4();
    let (buffers, _) = Shape::default().rings(&place);
    let peer = "192.0.2.1:7471".parse().unwrap();
    let made = Stream::connect(&place.domain, None, peer, buffers, Default::default());
    let errno = made.err().map(|error| error.errno());
    assert!(
        [Some(libc::ENETUNREACH), Some(libc::ENODEV), Some(libc::EHOSTUNREACH)].contains(&errno),
        "{errno:?}"
    );
}

#[test]
#[ignore = "needs an RDMA device"]
fn many_connect_at_once() {
    let _turn = turn();
    const MANY: usize = 200;
    let place = Place::v4();
    let shape = Shape::new(4096, 0, 0).queues(16);
    let (listener, address) = place.listen();
    let mut clients: Vec<_> = (0..MANY).map(|_| place.connect(address, shape)).collect();
    let mut servers: Vec<End> = Vec::new();
    while servers.len() < MANY || clients.iter().any(|client| !client.is_open()) {
        let mut descriptors = vec![listener.descriptor()];
        descriptors.extend(clients.iter().map(|client| client.stream.descriptor()));
        for index in Edges::new(&descriptors).wait(timeout()) {
            if let Some(client) = index.checked_sub(1) {
                clients[client].look();
                assert_eq!(clients[client].error, None);
                continue;
            }
            while let Some(request) = listener.next().unwrap() {
                servers.push(place.accept(request, shape).unwrap());
            }
        }
    }
    let mut ends: Vec<&mut End> = clients.iter_mut().chain(&mut servers).collect();
    for end in &mut ends {
        end.will(5000, 5000);
    }
    drive(&mut ends, |ends| {
        for end in ends.iter() {
            assert_eq!(end.error, None);
        }
        ends.iter().all(|end| end.is_content())
    });
}

/// The client's queue pair takes nothing before the client has looked at the answer. What came
/// earlier would come again only after seconds.
#[test]
#[ignore = "needs an RDMA device"]
fn a_server_that_sends_before_the_client_receives() {
    let _turn = turn();
    let place = Place::v4();
    let (listener, address) = place.listen();
    let exchanged_in = || {
        let mut client = place.connect(address, Shape::default());
        let request = next_request(&listener, &mut client);
        let mut server = place.accept(request, Shape::default()).unwrap();
        server.will(100, 0);
        client.will(0, 100);
        server.step();
        thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        exchange(&mut client, &mut server);
        begun.elapsed()
    };
    // A machine that is busy may need as long as bytes that come again, but not most times.
    let fast = (0..9).filter(|_| exchanged_in() < Duration::from_secs(1)).count();
    assert!(fast >= 5, "the client waits for what was sent before, {} times of 9", 9 - fast);
}

#[test]
#[ignore = "needs an RDMA device"]
fn nothing_leaks() {
    let _turn = turn();
    let place = Place::v4();
    let shape = Shape::new(4096, 0, 0);
    let connect = |round: usize| {
        let (mut client, mut server) = place.pair(shape, shape);
        client.will(100, 0);
        server.will(0, 100);
        exchange(&mut client, &mut server);
        match round % 4 {
            0 => drop((client, server)),
            1 => drop((server, client)),
            2 => {
                while !client.stream.leave() {
                    server.look();
                }
                while !server.stream.leave() {}
            }
            _ => {
                // Half-way, and refused.
                let (listener, address) = place.listen();
                let mut half = place.connect(address, shape);
                drop(next_request(&listener, &mut half));
            }
        }
    };
    connect(0);
    let (before, held) = (descriptors(), resources());
    (0..100).for_each(connect);
    assert_eq!(descriptors(), before);
    // Ids fade for a while after their connections.
    let (mut left, begun) = (resources(), Instant::now());
    while left != held && begun.elapsed() < hang_limit(Duration::from_secs(1)) {
        thread::sleep(Duration::from_millis(100));
        left = resources();
    }
    assert_eq!(left, held);
}
