//! Peers that do not use rsocket, or not as they should: made of verbs alone.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rsocket_shim::stream::{Listener, StreamError};
use rsocket_shim::verbs::{
    Access, Capacity, CompletionChannel, CompletionQueue, EventChannel, EventKind, HostMemory, Id,
    QueuePair, Region, Token,
};
use rsocket_shim::work::{Completion, Target, Write};

use crate::common::{libraries, turn};
use crate::world::{Edges, End, Place, Shape, drive, exchange, timeout};

/// Memory that nobody has registered.
const NOWHERE: Target = Target { address: 0x1000, key: 7, length: 4096 };

/// Private data as a peer sends it that has two entries and its buffer at one place, and 100
/// credits.
fn handshake(at: Target) -> Vec<u8> {
    let mut data = vec![1, 0, 0, 100, 0, 0, 0, 0];
    for length in [2, at.length] {
        data.extend(at.address.to_be_bytes());
        data.extend(at.key.to_be_bytes());
        data.extend(length.to_be_bytes());
    }
    data
}

/// A peer without a protocol.
struct Raw {
    pair: QueuePair,
    id: Id,
    events: EventChannel,
}

impl Raw {
    fn on(id: Id, events: EventChannel, place: &Place) -> Self {
        let capacity = Capacity { writes: 64, receives: 64 };
        let channel = CompletionChannel::open(place.domain.device()).unwrap();
        let queue = CompletionQueue::create(&channel, 128, Token::default()).unwrap();
        let pair = QueuePair::create(&id, &place.domain, queue, capacity).unwrap();
        pair.receive(64).unwrap();
        Self { pair, id, events }
    }

    fn connect(place: &Place, peer: SocketAddr, data: &[u8]) -> Self {
        let events = EventChannel::open(libraries()).unwrap();
        let id = Id::create(&events, Token::default()).unwrap();
        id.resolve_address(Some(place.address), peer, timeout()).unwrap();
        assert!(matches!(event(&events), EventKind::AddressResolved));
        id.resolve_route(timeout()).unwrap();
        assert!(matches!(event(&events), EventKind::RouteResolved));
        let raw = Self::on(id, events, place);
        raw.id.connect(data).unwrap();
        raw
    }

    /// Sends a message that is nothing but immediate data.
    fn send(&self, immediate: u32) {
        let write = Write {
            pieces: Default::default(),
            own: None,
            target: Default::default(),
            immediate: Some(immediate),
        };
        self.pair.write(&write).unwrap();
    }

    /// Waits until that is with the peer.
    fn has_said(&self) {
        let mut done = Vec::new();
        while !done.contains(&Completion::Written(Ok(()))) {
            self.pair.completions().poll(&mut done).unwrap();
            thread::yield_now();
        }
    }
}

fn event(events: &EventChannel) -> EventKind {
    let edges = Edges::new(&[events.as_fd()]);
    loop {
        if let Some(event) = events.next().unwrap() {
            return event.kind;
        }
        edges.wait(timeout());
    }
}

/// Lets a listener look until it has nothing, and says whether it had a request.
fn none_comes(listener: &Listener) -> bool {
    Edges::new(&[listener.descriptor()]).wait(timeout());
    listener.next().unwrap().is_none()
}

#[test]
#[ignore = "needs an RDMA device"]
fn peers_without_rsocket_are_rejected_and_others_are_served() {
    let _turn = turn();
    let place = Place::v4();
    let (listener, address) = place.listen();
    let with = |at: usize, value: u8| {
        let mut data = handshake(NOWHERE);
        data[at] = value;
        data
    };
    let no_buffer = [&handshake(NOWHERE)[..36], &[0; 4]].concat();
    let wrong =
        [b"GET / HTTP/1.1".to_vec(), Vec::new(), with(0, 2), with(3, 0), with(23, 3), no_buffer];
    for data in wrong {
        let raw = Raw::connect(&place, address, &data);
        assert!(none_comes(&listener), "{data:?}");
        assert!(matches!(event(&raw.events), EventKind::Rejected { .. }), "{data:?}");
    }
    let raw = Raw::connect(&place, address, &handshake(NOWHERE));
    Edges::new(&[listener.descriptor()]).wait(timeout());
    assert!(listener.next().unwrap().is_some());
    drop(raw);
    let mut client = place.connect(address, Shape::default());
    let request = crate::world::next_request(&listener, &mut client);
    let mut server = place.accept(request, Shape::default()).unwrap();
    client.will(10, 0);
    server.will(0, 10);
    exchange(&mut client, &mut server);
}

#[test]
#[ignore = "needs an RDMA device"]
fn many_untrusted_peers_are_rejected_in_parts() {
    let _turn = turn();
    let place = Place::v4();
    let (listener, address) = place.listen();
    let raws: Vec<_> = (0..50).map(|_| Raw::connect(&place, address, b"?")).collect();
    // All of them are waiting now.
    thread::sleep(Duration::from_millis(500));
    let (mut parts, begun) = (0, Instant::now());
    loop {
        match listener.next() {
            Ok(request) => assert!(request.is_none(), "none of them has rsocket"),
            Err(error) => {
                assert_eq!(error, StreamError::PeersRejected);
                parts += 1;
                continue;
            }
        }
        if parts >= 2 {
            break;
        }
        assert!(begun.elapsed() < timeout(), "{parts}");
        thread::sleep(Duration::from_millis(10));
    }
    for raw in raws {
        assert!(matches!(event(&raw.events), EventKind::Rejected { .. }));
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_listener_that_does_not_use_rsocket_is_an_error() {
    let _turn = turn();
    let place = Place::v4();
    for (data, errno) in [(b"?".to_vec(), libc::EPROTO), (vec![2; 40], libc::EPROTO)] {
        let events = EventChannel::open(libraries()).unwrap();
        let listener = Id::create(&events, Token::default()).unwrap();
        listener.bind(place.address).unwrap();
        listener.listen(4).unwrap();
        let mut client = place.connect(listener.local_address().unwrap(), Shape::default());
        let edges = Edges::new(&[events.as_fd(), client.stream.descriptor()]);
        let id = loop {
            if let Some(event) = events.next().unwrap() {
                let EventKind::Request { id, .. } = event.kind else { panic!("{event:?}") };
                break id;
            }
            for _ in edges.wait(timeout()) {
                client.look();
            }
        };
        let raw = Raw::on(id, events.clone(), &place);
        raw.id.accept(&data).unwrap();
        drive(&mut [&mut client], |ends| ends[0].error.is_some());
        assert_eq!(client.errno(), Some(errno));
    }
}

/// Memory for a raw peer.
fn memory(place: &Place) -> (Region, Target) {
    let memory = Arc::new(HostMemory::allocate(4096).unwrap());
    let region = Region::register(&place.domain, memory, Access::Target).unwrap();
    let target = region.target(0, 4096).unwrap();
    (region, target)
}

/// An end of ours that a raw peer has connected to.
fn attacked(place: &Place, memory: Target) -> (Raw, End) {
    let (listener, address) = place.listen();
    let raw = Raw::connect(place, address, &handshake(memory));
    Edges::new(&[listener.descriptor()]).wait(timeout());
    let request = listener.next().unwrap().unwrap();
    let mut end = place.accept(request, Shape::new(4096, 0, 0)).unwrap();
    assert!(matches!(event(&raw.events), EventKind::Established { .. }));
    end.step();
    (raw, end)
}

#[test]
#[ignore = "needs an RDMA device"]
fn invalid_messages_are_violations() {
    let _turn = turn();
    let place = Place::v4();
    // Data of no bytes; more than was granted; credits that its queue has not.
    for message in [0, 2049, 0x1fff_ffff, 0x8000_ffff] {
        let (_region, target) = memory(&place);
        let (raw, mut end) = attacked(&place, target);
        raw.send(message);
        // It stays the peer's fault when we receive both that and that it is gone.
        raw.has_said();
        raw.id.disconnect().unwrap();
        thread::sleep(Duration::from_millis(100));
        end.look();
        assert_eq!(end.errno(), Some(libc::EPROTO), "{message:x}: {:?}", end.error);
        assert_eq!(end.stream.arrived(), 0);
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn memory_that_a_peer_does_not_have_is_its_own_loss() {
    let _turn = turn();
    let (_raw, mut end) = attacked(&Place::v4(), NOWHERE);
    end.will(100, 0);
    drive(&mut [&mut end], |ends| ends[0].error.is_some());
    assert_eq!(end.errno(), Some(libc::ECONNRESET), "{:?}", end.error);
    assert_eq!(end.stream.sent(), 0);
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_flood_of_empty_words_harms_nobody() {
    let _turn = turn();
    let place = Place::v4();
    let (_region, target) = memory(&place);
    let (raw, mut end) = attacked(&place, target);
    let mut said = 0;
    let mut done = Vec::new();
    while said < 5000 {
        // The same credits again, which says nothing.
        for _ in 0..20 {
            raw.send(0x8000_0064);
        }
        said += 20;
        done.clear();
        while done.len() < 20 {
            raw.pair.completions().poll(&mut done).unwrap();
            end.look();
            assert_eq!(end.error, None);
        }
    }
    // A disconnect among them is received.
    raw.send(0xe000_0000);
    drive(&mut [&mut end], |ends| ends[0].stream.is_peer_done());
    assert!(end.stream.leave());
}
