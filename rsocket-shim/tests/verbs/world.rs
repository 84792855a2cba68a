//! What the tests of this folder stand on: two ends of a connection in one process. All waits are on descriptors and end with a failure.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use gpunet_support::testing::hang_limit;
use rsocket_shim::verbs::{
    Access, Capacity, CompletionChannel, CompletionQueue, Device, Domain, Event, EventChannel,
    EventKind, HostMemory, Id, QueuePair, Region, Token,
};
use rsocket_shim::work::{Completion, Target, Write};

use crate::common::libraries;

pub(crate) const LISTENER: Token = Token(1);
pub(crate) const CLIENT: Token = Token(2);
pub(crate) const SERVER: Token = Token(3);

/// Bytes of each end's two regions.
pub(crate) const RING: usize = 8192;
/// Receives that each end posts before it connects.
pub(crate) const RECEIVES: u32 = 40;
/// For a resolution by the connection manager.
pub(crate) fn resolve() -> Duration {
    hang_limit(Duration::from_millis(500))
}

/// Waits until something can be read from a descriptor.
pub(crate) fn wait(descriptor: RawFd, what: &str) {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    let limit = hang_limit(Duration::from_secs(2));
    let limit_ms = i32::try_from(limit.as_millis()).expect("some minutes");
    // SAFETY: one entry, which is written during the call.
    let ready = unsafe { libc::poll(&raw mut poll, 1, limit_ms) };
    assert_eq!(ready, 1, "no {what} within {limit:?}");
}

/// Takes the next event of a channel.
pub(crate) fn event(channel: &EventChannel) -> Event {
    loop {
        if let Some(event) = channel.next().unwrap() {
            return event;
        }
        wait(channel.as_raw_fd(), "event");
    }
}

/// One end of a connection, with memory to send from and memory for the peer to write.
pub(crate) struct End {
    pub(crate) pair: QueuePair,
    pub(crate) channel: CompletionChannel,
    pub(crate) source: Region,
    pub(crate) source_memory: Arc<HostMemory>,
    pub(crate) sink: Region,
    pub(crate) sink_memory: Arc<HostMemory>,
    pub(crate) id: Id,
    /// What is done and was not asked for yet.
    done: Vec<Completion>,
}

pub(crate) const CAPACITY: Capacity = Capacity { writes: 20, receives: RECEIVES };

impl End {
    /// An end on an id that has come to a device, with receives posted.
    pub(crate) fn on(id: Id, device: &Device, token: Token) -> Self {
        assert!(id.is_on(device));
        let domain = Domain::allocate(device).unwrap();
        let channel = CompletionChannel::open(device).unwrap();
        let queue = CompletionQueue::create(&channel, 64, token).unwrap();
        let pair = QueuePair::create(&id, &domain, queue, CAPACITY).unwrap();
        pair.receive(RECEIVES).unwrap();
        let memory = || Arc::new(HostMemory::allocate(RING).unwrap());
        let (source_memory, sink_memory) = (memory(), memory());
        let source = Region::register(&domain, source_memory.clone(), Access::Source).unwrap();
        let sink = Region::register(&domain, sink_memory.clone(), Access::Target).unwrap();
        Self { pair, channel, source, source_memory, sink, sink_memory, id, done: Vec::new() }
    }

    /// The next completion, waited for as a program does it that sleeps when there is none.
    pub(crate) fn completion(&mut self) -> Completion {
        while self.done.is_empty() {
            if self.pair.completions().poll_or_arm(&mut self.done).unwrap() == 0 {
                wait(self.channel.as_raw_fd(), "completion");
                while self.channel.next().unwrap().is_some() {}
            }
        }
        self.done.remove(0)
    }

    /// Whether nothing is done that was not asked for.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.pair.completions().poll(&mut self.done).unwrap();
        self.done.is_empty()
    }

    /// A write of nothing.
    pub(crate) fn nothing(target: Target, immediate: Option<u32>) -> Write {
        Write { pieces: Default::default(), own: None, target, immediate }
    }
}

/// Two ends, connected over an address of this machine.
pub(crate) struct Connected {
    pub(crate) client: End,
    pub(crate) server: End,
    pub(crate) events: EventChannel,
    pub(crate) listener: Id,
}

/// A listening id on any port, and where it listens.
pub(crate) fn listen(events: &EventChannel, local: SocketAddr) -> (Id, SocketAddr) {
    let listener = Id::create(events, LISTENER).unwrap();
    listener.bind(local).unwrap();
    listener.listen(4).unwrap();
    let address = listener.local_address().unwrap();
    assert_eq!(address.ip(), local.ip());
    assert_ne!(address.port(), 0);
    (listener, address)
}

/// An id with its route to `peer` resolved.
pub(crate) fn resolved(events: &EventChannel, local: SocketAddr, peer: SocketAddr) -> Id {
    let id = Id::create(events, CLIENT).unwrap();
    id.resolve_address(Some(local), peer, resolve()).unwrap();
    let next = event(events);
    assert_eq!(next.token, CLIENT);
    assert!(matches!(next.kind, EventKind::AddressResolved), "{next:?}");
    id.resolve_route(resolve()).unwrap();
    let next = event(events);
    assert!(matches!(next.kind, EventKind::RouteResolved), "{next:?}");
    id
}

/// The request that comes next, with its private data.
pub(crate) fn request(events: &EventChannel) -> (Id, Vec<u8>) {
    let next = event(events);
    assert_eq!(next.token, LISTENER);
    let EventKind::Request { id, data } = next.kind else { panic!("no request: {next:?}") };
    (id, data)
}

/// Connects both ends, and looks at the private data both ways.
pub(crate) fn connect(local: SocketAddr) -> Connected {
    let device = Device::at(libraries(), local).unwrap();
    let events = EventChannel::open(libraries()).unwrap();
    let (listener, address) = listen(&events, local);
    let client = End::on(resolved(&events, local, address), &device, CLIENT);
    client.id.connect(b"from the client").unwrap();
    let (id, data) = request(&events);
    assert!(data.starts_with(b"from the client\0"), "{data:?}");
    assert_eq!(id.local_address(), Some(address));
    assert_eq!(id.peer_address(), client.id.local_address());
    assert_eq!(client.id.peer_address(), Some(address));
    id.set_token(SERVER);
    let server = End::on(id, &device, SERVER);
    server.id.accept(b"from the server").unwrap();
    let mut established = Vec::new();
    while established.len() < 2 {
        let next = event(&events);
        let EventKind::Established { data } = next.kind else { panic!("{next:?}") };
        if next.token == CLIENT {
            assert!(data.starts_with(b"from the server\0"), "{data:?}");
        }
        established.push(next.token.0);
    }
    established.sort_unstable();
    assert_eq!(established, [CLIENT.0, SERVER.0]);
    Connected { client, server, events, listener }
}
