//! Verbs and the connection manager on a real RDMA device, two ends in one process.
//!
//! Needs an RDMA device with an IPv4 and an IPv6 address, soft-RoCE suffices, and the programs
//! `ip` and `rdma`. Run with `--ignored`.

#![allow(unsafe_code, reason = "poll on descriptors")]

#[path = "../common/mod.rs"]
mod common;
mod world;

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gpunet_support::testing::hang_limit;
use rsocket_shim::stock::{Readiness, StockSocket};
use rsocket_shim::verbs::{
    Access, Capacity, CompletionChannel, CompletionQueue, Device, Domain, EventChannel, EventKind,
    Id, LinkLayer, Memory, MemoryKind, Place, PortState, QueuePair, Region, Token, Transport,
    VerbsError, devices,
};
use rsocket_shim::work::{Completion, Fault, Piece, Target, Write};

use common::{descriptors, libraries, resources, turn, v4, v6};
use world::{
    CAPACITY, CLIENT, Connected, End, RECEIVES, RING, SERVER, connect, event, listen, request,
    resolved,
};

#[test]
#[ignore = "needs an RDMA device"]
fn devices_are_listed_with_their_ports() {
    let _turn = turn();
    let listed = devices(libraries()).unwrap();
    println!("{listed:?}");
    let name = Device::at(libraries(), v4()).unwrap().name().to_owned();
    let device = listed.iter().find(|device| device.name == name).unwrap();
    assert_eq!(device.transport, Transport::InfiniBand);
    assert_eq!(device.ports[0].number, 1);
    assert_eq!(device.ports[0].state, PortState::Active);
    assert_ne!(device.ports[0].link_layer, LinkLayer::Unknown);
}

#[test]
#[ignore = "needs an RDMA device"]
fn addresses_without_rdma_have_no_device() {
    let _turn = turn();
    let (one, same) = (Device::at(libraries(), v4()), Device::at(libraries(), v6()));
    assert!(one.unwrap() == same.unwrap());
    for nowhere in ["192.0.2.1:0", "0.0.0.0:0", "[2001:db8::1]:0"] {
        let nowhere: SocketAddr = nowhere.parse().unwrap();
        let error = Device::at(libraries(), nowhere).err().unwrap();
        assert_eq!(error, VerbsError::NoDeviceAt(nowhere));
    }
}

/// Writes from one end to the other in every form, and looks at what arrives.
fn exchange(from: &mut End, to: &mut End) {
    let text: Vec<u8> = (0..RING).map(|index| (index * 7 % 251) as u8).collect();
    assert!(from.source_memory.write(0, &text));
    let target = |offset, length| to.sink.target(offset, length).unwrap();
    let piece = |offset, length| from.source.piece(offset, length).unwrap();
    let none = Piece::default();
    let writes = [
        // One piece; two pieces, as where a ring wraps; one that has only the second.
        ([piece(0, 1000), none], None, target(0, 1000), Some(0x0000_03e8)),
        ([piece(8000, 192), piece(0, 808)], None, target(1000, 1000), Some(0xe000_0001)),
        ([none, piece(10, 5)], None, target(2000, 5), Some(5)),
        // A grant; a credit alone, whose target means nothing; a keepalive, which nobody sees.
        ([none; 2], Some(*b"sixteen bytes ok"), target(3000, 16), Some(0x8000_0180)),
        ([none; 2], None, Target { address: 1, key: 2, length: 0 }, Some(0x9fff_ffff)),
        ([none; 2], None, target(0, 0), None),
        ([piece(50, 50), none], None, target(4000, 50), None),
    ];
    for (pieces, own, target, immediate) in writes {
        from.pair.write(&Write { pieces, own, target, immediate }).unwrap();
        assert_eq!(from.completion(), Completion::Written(Ok(())));
        if let Some(immediate) = immediate {
            assert_eq!(to.completion(), Completion::Received(Ok(immediate)));
            to.pair.receive(1).unwrap();
        }
    }
    assert!(to.is_quiet() && from.is_quiet());
    let arrived = |offset, length| {
        let mut bytes = vec![0; length];
        assert!(to.sink_memory.read(offset, &mut bytes));
        bytes
    };
    assert_eq!(arrived(0, 1000), text[..1000]);
    assert_eq!(arrived(1000, 1000), [&text[8000..], &text[..808]].concat());
    assert_eq!(arrived(2000, 6), [&text[10..15], &[0]].concat());
    assert_eq!(arrived(3000, 17), b"sixteen bytes ok\0");
    assert_eq!(arrived(4000, 50), text[50..100]);
}

#[test]
#[ignore = "needs an RDMA device"]
fn writes_arrive_both_ways() {
    let _turn = turn();
    for local in [v4(), v6()] {
        let mut connected = connect(local);
        exchange(&mut connected.client, &mut connected.server);
        exchange(&mut connected.server, &mut connected.client);
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn no_wake_up_is_lost() {
    let _turn = turn();
    let Connected { client, server, events: _events, listener: _listener } = connect(v4());
    const ROUNDS: u32 = 1000;
    // Each side on a thread of its own, which sleeps whenever there is nothing.
    let play = |mut end: End, serves: bool| {
        move || {
            let target = Target::default();
            let mut next = 0;
            let mut written = 0;
            if serves {
                end.pair.write(&End::nothing(target, Some(0))).unwrap();
            }
            while next < ROUNDS || written < ROUNDS {
                match end.completion() {
                    Completion::Received(immediate) => {
                        assert_eq!(immediate, Ok(next));
                        next += 1;
                        end.pair.receive(1).unwrap();
                        let reply = if serves { next } else { next - 1 };
                        if reply < ROUNDS {
                            end.pair.write(&End::nothing(target, Some(reply))).unwrap();
                        }
                    }
                    Completion::Written(done) => {
                        done.unwrap();
                        written += 1;
                    }
                }
            }
            end
        }
    };
    let (one, other) = (thread::spawn(play(client, true)), thread::spawn(play(server, false)));
    let (_one, _other) = (one.join().unwrap(), other.join().unwrap());
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_request_can_be_rejected() {
    let _turn = turn();
    let device = Device::at(libraries(), v4()).unwrap();
    let events = EventChannel::open(libraries()).unwrap();
    let (_listener, address) = listen(&events, v4());
    let client = End::on(resolved(&events, v4(), address), &device, CLIENT);
    client.id.connect(b"?").unwrap();
    let (id, _) = request(&events);
    id.reject(b"not today").unwrap();
    let next = event(&events);
    assert_eq!(next.token, CLIENT);
    let EventKind::Rejected { data, .. } = next.kind else { panic!("{next:?}") };
    assert!(data.starts_with(b"not today\0"), "{data:?}");
}

#[test]
#[ignore = "needs an RDMA device"]
fn dropped_requests_and_silent_ports_are_rejections() {
    let _turn = turn();
    let device = Device::at(libraries(), v4()).unwrap();
    let events = EventChannel::open(libraries()).unwrap();
    let (listener, address) = listen(&events, v4());
    let client = End::on(resolved(&events, v4(), address), &device, CLIENT);
    client.id.connect(b"?").unwrap();
    drop(request(&events));
    assert!(matches!(event(&events).kind, EventKind::Rejected { .. }));
    drop((client, listener));
    let client = End::on(resolved(&events, v4(), address), &device, CLIENT);
    client.id.connect(b"?").unwrap();
    let next = event(&events);
    assert!(matches!(next.kind, EventKind::Rejected { .. }), "{next:?}");
}

/// Takes all receives of an end that is over.
fn flushed(end: &mut End) {
    for _ in 0..RECEIVES {
        assert_eq!(end.completion(), Completion::Received(Err(Fault::Flushed)));
    }
    assert!(end.is_quiet());
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_disconnect_gives_everything_back() {
    let _turn = turn();
    let Connected { mut client, mut server, events, listener: _listener } = connect(v4());
    client.id.disconnect().unwrap();
    let next = event(&events);
    assert!(matches!(next.kind, EventKind::Disconnected), "{next:?}");
    assert_eq!(next.token, SERVER);
    server.id.disconnect().unwrap();
    let next = event(&events);
    assert!(matches!(next.kind, EventKind::Disconnected), "{next:?}");
    assert_eq!(next.token, CLIENT);
    flushed(&mut client);
    flushed(&mut server);
    client.pair.write(&End::nothing(Target::default(), None)).unwrap();
    assert_eq!(client.completion(), Completion::Written(Err(Fault::Flushed)));
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_flush_gives_everything_back() {
    let _turn = turn();
    let mut connected = connect(v4());
    connected.client.pair.flush().unwrap();
    flushed(&mut connected.client);
}

#[test]
#[ignore = "needs an RDMA device"]
fn writes_outside_the_peers_memory_are_refused() {
    let _turn = turn();
    let Connected { mut client, server, .. } = connect(v4());
    let mut target = server.sink.target(0, 8).unwrap();
    target.address += RING as u64;
    let pieces = [client.source.piece(0, 8).unwrap(), Piece::default()];
    let write = Write { pieces, own: None, target, immediate: Some(8) };
    client.pair.write(&write).unwrap();
    let mut refused = None;
    while refused.is_none() {
        if let Completion::Written(done) = client.completion() {
            refused = Some(done);
        }
    }
    assert_eq!(refused, Some(Err(Fault::Refused)));
}

#[test]
#[ignore = "needs an RDMA device"]
fn misuse_is_an_error() {
    let _turn = turn();
    let device = Device::at(libraries(), v4()).unwrap();
    let events = EventChannel::open(libraries()).unwrap();
    let id = Id::create(&events, CLIENT).unwrap();
    let domain = Domain::allocate(&device).unwrap();
    let channel = CompletionChannel::open(&device).unwrap();
    let queue = || CompletionQueue::create(&channel, 64, Token(0)).unwrap();
    assert_eq!(id.connect(b""), Err(VerbsError::NoQueuePair));
    assert_eq!(id.accept(&[0; 500]), Err(VerbsError::PrivateData { given: 500, limit: 196 }));
    assert_eq!(id.disconnect(), Err(VerbsError::NoDeviceYet));
    assert_eq!(id.resolve_route(world::resolve()), Err(VerbsError::NoDeviceYet));
    assert!(id.reject(b"").is_err());
    assert_eq!((id.local_address(), id.peer_address()), (None, None));
    let unbound = QueuePair::create(&id, &domain, queue(), CAPACITY).err().unwrap();
    assert!(matches!(unbound, VerbsError::OtherDevice { .. }));
    id.bind(v4()).unwrap();
    assert!(id.bind(v4()).is_err());
    let large = Capacity { writes: 1000, receives: 1 };
    let small = QueuePair::create(&id, &domain, queue(), large).err().unwrap();
    assert!(matches!(small, VerbsError::SmallQueue { needs: 1001, .. }));
    let pair = QueuePair::create(&id, &domain, queue(), CAPACITY).unwrap();
    assert!(QueuePair::create(&id, &domain, queue(), CAPACITY).is_err());
    assert!(id.accept(b"").is_err());
    let full = (0..1000).find_map(|_| pair.receive(1).err()).unwrap();
    assert_eq!(full.errno(), Some(libc::ENOMEM));
    let other = Id::create(&events, SERVER).unwrap();
    let taken = id.local_address().unwrap();
    assert_eq!(other.bind(taken).unwrap_err().errno(), Some(libc::EADDRINUSE));
    assert!(CompletionQueue::create(&channel, u32::MAX, Token(0)).is_err());
}

#[test]
#[ignore = "needs an RDMA device"]
fn a_region_knows_its_borders() {
    let _turn = turn();
    let Connected { client, .. } = connect(v4());
    let region = &client.source;
    assert_eq!(region.length(), RING);
    assert!(region.piece(RING, 0).is_some() && region.piece(RING - 1, 1).is_some());
    assert!(region.piece(RING, 1).is_none() && region.target(usize::MAX, 1).is_none());
}

/// A descriptor that claims to be memory of a GPU.
struct Exported(File);

// SAFETY: the descriptor stays open until the drop; there is no memory that could go away.
unsafe impl Memory for Exported {
    fn place(&self) -> Place<'_> {
        let buffer: BorrowedFd<'_> = self.0.as_fd();
        Place::DmaBuf { buffer, offset: 0, address: 0, length: 4096 }
    }
}

/// An address where nothing is.
struct Nowhere;

// SAFETY: there is no memory at all, which registering finds out.
unsafe impl Memory for Nowhere {
    fn place(&self) -> Place<'_> {
        Place::Peer { address: 4096, length: 4096 }
    }
}

#[test]
#[ignore = "needs an RDMA device"]
fn memory_that_a_device_cannot_take_is_refused() {
    let _turn = turn();
    let device = Device::at(libraries(), v4()).unwrap();
    let domain = Domain::allocate(&device).unwrap();
    let exported = Arc::new(Exported(File::open("/dev/null").unwrap()));
    let refused = Region::register(&domain, exported, Access::Target).err().unwrap();
    println!("{refused}");
    assert_eq!(refused.kind, MemoryKind::DmaBuf);
    // Of soft-RoCE; a device that knows dma-buf finds that this is none.
    let expected = if device.name().starts_with("rxe") { libc::EOPNOTSUPP } else { libc::EINVAL };
    assert_eq!(refused.errno, expected);
    let refused = Region::register(&domain, Arc::new(Nowhere), Access::Target).err().unwrap();
    println!("{refused}");
    assert_eq!((refused.kind, refused.errno), (MemoryKind::Peer, libc::EFAULT));
}

#[test]
#[ignore = "needs an RDMA device"]
fn nothing_leaks() {
    let _turn = turn();
    drop(connect(v4()));
    let (before, held) = (descriptors(), resources());
    println!("{before} descriptors; {held}");
    for round in 0..200 {
        let mut connected = connect(if round % 2 == 0 { v4() } else { v6() });
        if round % 5 == 0 {
            exchange(&mut connected.client, &mut connected.server);
        }
        if round % 3 == 0 {
            connected.client.id.disconnect().unwrap();
        }
        // In several orders: what something is made of may be dropped before it.
        let Connected { client, server, events, listener } = connected;
        match round % 4 {
            0 => drop((client, server, listener, events)),
            1 => drop((events, listener, server, client)),
            2 => {
                let End { pair, id, channel, source, sink, .. } = client;
                drop((channel, id, events, listener, source));
                drop((sink, pair, server));
            }
            _ => {
                let End { pair, id, .. } = server;
                drop((id, client, pair, listener, events));
            }
        }
    }
    assert_eq!(descriptors(), before);
    // Ids fade for a while after their connections.
    let (mut left, begun) = (resources(), Instant::now());
    while left != held && begun.elapsed() < hang_limit(Duration::from_secs(1)) {
        thread::sleep(Duration::from_millis(100));
        left = resources();
    }
    assert_eq!(left, held);
}

#[test]
#[ignore = "needs an RDMA device"]
fn ids_that_are_dropped_half_way_leak_nothing() {
    let _turn = turn();
    let address = v4();
    drop(connect(address));
    let before = descriptors();
    for round in 0..200 {
        let events = EventChannel::open(libraries()).unwrap();
        let (listener, peer) = listen(&events, address);
        match round % 4 {
            // With an event that nobody took.
            0 => {
                let id = Id::create(&events, CLIENT).unwrap();
                id.resolve_address(Some(address), peer, world::resolve()).unwrap();
                world::wait(events.as_raw_fd(), "event");
            }
            1 => drop(resolved(&events, address, peer)),
            // With a request that nobody took, the listener first.
            2 => {
                let device = Device::at(libraries(), address).unwrap();
                let client = End::on(resolved(&events, address, peer), &device, CLIENT);
                client.id.connect(b"?").unwrap();
                world::wait(events.as_raw_fd(), "request");
                drop(listener);
            }
            // With a request that was taken and not answered.
            _ => {
                let device = Device::at(libraries(), address).unwrap();
                let client = End::on(resolved(&events, address, peer), &device, CLIENT);
                client.id.connect(b"?").unwrap();
                let (id, _) = request(&events);
                drop(End::on(id, &device, SERVER));
            }
        }
    }
    assert_eq!(descriptors(), before);
}

#[test]
#[ignore = "needs an RDMA device"]
fn stock_sockets_exchange_bytes() {
    let _turn = turn();
    let listener = StockSocket::new(libraries(), v4()).unwrap();
    listener.bind(v4()).unwrap();
    listener.listen(4).unwrap();
    let address = listener.local_address().unwrap();
    let server = thread::spawn(move || {
        let (socket, peer) = listener.accept().unwrap();
        assert_eq!(socket.peer_address().unwrap(), peer);
        let mut room = [0; 64];
        let length = socket.receive(&mut room).unwrap();
        assert_eq!(socket.send(&room[..length]).unwrap(), length);
        assert_eq!(socket.receive(&mut room).unwrap(), 0);
    });
    let socket = StockSocket::new(libraries(), v4()).unwrap();
    socket.set_rdma(rsocket_shim::stock::RDMA_RQSIZE, 64).unwrap();
    socket.connect(address).unwrap();
    assert_eq!(socket.peer_address().unwrap(), address);
    assert_eq!(socket.send(b"stock").unwrap(), 5);
    let wanted = Readiness { readable: true, ..Readiness::default() };
    assert!(socket.poll(wanted, Some(world::resolve())).unwrap().readable);
    let mut room = [0; 64];
    socket.set_nonblocking(true).unwrap();
    let length = socket.receive(&mut room).unwrap();
    assert_eq!(&room[..length], b"stock");
    let nothing = socket.receive(&mut room).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    assert!(socket.take_error().unwrap().is_none());
    socket.shutdown(std::net::Shutdown::Both).unwrap();
    socket.close().unwrap();
    server.join().unwrap();
}
