//! A peer made of verbs alone, which says and writes what it likes.

use std::net::SocketAddr;
use std::sync::Arc;

use gpunet_e2e::{any_port, eventually, net, timeout};
use rsocket_shim::load::Libraries;
use rsocket_shim::verbs::{
    Access, Capacity, CompletionChannel, CompletionQueue, Device, Domain as Protection,
    EventChannel, EventKind, HostMemory, Id, QueuePair, Region, Token,
};
use rsocket_shim::work::{Completion, Fault, Target, Write};

use super::has_rdma;

/// Such a peer, connected.
struct UntrustedPeer {
    pair: QueuePair,
    _id: Id,
    /// Memory that it lets others write.
    _region: Region,
    /// Where the listener lets it write first.
    granted: Target,
}

/// Private data as rsocket has it: 100 credits; where the list of two targets is, and data.
fn handshake(at: Target) -> Vec<u8> {
    let mut data = vec![1, 0, 0, 100, 0, 0, 0, 0];
    for length in [2, 64] {
        data.extend(at.address.to_be_bytes());
        data.extend(at.key.to_be_bytes());
        data.extend(u32::to_be_bytes(length));
    }
    data
}

/// The data buffer that private data names.
fn buffer(data: &[u8]) -> Target {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (address, key) = (number(&data[24..32]), number(&data[32..36]) as u32);
    Target { address, key, length: number(&data[36..40]) as u32 }
}

impl UntrustedPeer {
    /// Asks a listener for a connection, with rsocket's private data or other; nothing where it was
    /// rejected.
    fn connect(to: SocketAddr, data: Option<&[u8]>) -> Option<Self> {
        let libraries = Libraries::load().expect("there is RDMA");
        let device = Device::at(libraries, to).expect("its device");
        let domain = Protection::allocate(&device).expect("a domain");
        let memory = Arc::new(HostMemory::allocate(4096).expect("a page"));
        let region = Region::register(&domain, memory, Access::Target).expect("it is registered");
        let own = handshake(region.target(0, 4096).expect("all of it"));
        let channel = EventChannel::open(libraries).expect("a channel");
        let id = Id::create(&channel, Token::default()).expect("an id");
        let limit = timeout();
        id.resolve_address(None, to, limit).expect("it begins");
        let mut pair = None;
        let mut answer = None;
        let answered = eventually(|| {
            while let Some(event) = channel.next().expect("events come") {
                match event.kind {
                    EventKind::AddressResolved => id.resolve_route(limit).expect("it begins"),
                    EventKind::RouteResolved => {
                        let capacity = Capacity { writes: 8, receives: 8 };
                        let done = CompletionChannel::open(&device).expect("a channel");
                        let queue = CompletionQueue::create(&done, 16, Token::default());
                        let queue = queue.expect("a queue");
                        let made = QueuePair::create(&id, &domain, queue, capacity);
                        let made = made.expect("a queue pair");
                        made.receive(8).expect("it takes receives");
                        pair = Some(made);
                        id.connect(data.unwrap_or(&own)).expect("it asks");
                    }
                    EventKind::Rejected { .. } => answer = Some(None),
                    EventKind::Established { data } => answer = Some(Some(buffer(&data))),
                    _ => {}
                }
            }
            answer.is_some()
        });
        assert!(answered, "the listener does not answer");
        let granted = answer.flatten()?;
        pair.map(|pair| Self { pair, _id: id, _region: region, granted })
    }

    /// Writes a few bytes to an address, with the key that it was given; what came of it.
    fn write(&self, address: u64) -> Result<(), Fault> {
        let target = Target { address, length: 16, ..self.granted };
        let own = Some([0xa5; 16]);
        let write = Write { pieces: Default::default(), own, target, immediate: None };
        self.pair.write(&write).expect("it is posted");
        let mut done = Vec::new();
        let mut result = None;
        let _ = eventually(|| {
            self.pair.completions().poll(&mut done).expect("completions come");
            result = result.or(done.drain(..).find_map(|completion| match completion {
                Completion::Written(result) => Some(result),
                Completion::Received(_) => None,
            }));
            result.is_some()
        });
        result.expect("the write completes")
    }
}

/// Whether a peer with such private data is rejected.
pub(super) fn is_rejected(to: SocketAddr, data: &[u8]) -> bool {
    UntrustedPeer::connect(to, Some(data)).is_none()
}

/// The rings of one net lie side by side, and a device would let a peer write wherever its key is good
/// for: into streams of others, or into the handles of accepted connections.
#[test]
fn a_peer_writes_into_its_own_ring_alone() {
    if !has_rdma("a_peer_writes_into_its_own_ring_alone") {
        return;
    }
    let net = net();
    let (_listener, address) = net.listen(any_port()).expect("a port");
    let to = address.to_ip().expect("an IP address");
    let connect = || UntrustedPeer::connect(to, None).expect("it uses rsocket");
    let (one, other) = (connect(), connect());
    // A ring begins at a multiple of its size.
    let ring =
        |untrusted: &UntrustedPeer| untrusted.granted.address & !u64::from(gpunet_e2e::RING - 1);
    assert_eq!(one.write(ring(&one)), Ok(()));
    assert_eq!(one.write(ring(&other)), Err(Fault::Refused), "the ring of another stream");
    let behind = ring(&other) + u64::from(gpunet_e2e::RING);
    assert_eq!(other.write(behind), Err(Fault::Refused), "what lies behind");
}
