//! A network of one thread on virtual time: late, short and broken where the seed says so.
//!
//! The proxy's sockets ([`SimulatedSocket`]) and the remote peers of a scene use the same
//! endpoints. Readiness is told by edges, as epoll tells it: whoever does not keep to the rules of
//! edges hangs here, too.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};

use super::Now;
use crate::gpu::SplitMix;
use crate::memory::Window;
use crate::proxy::rounds::Outside;
use crate::proxy::shard::Shard;
use crate::proxy::shared::Readiness;
use crate::transport::{Direction, Moved, Socket};

/// Bytes that are on their way to an endpoint or wait there.
const HOLDS: usize = 3000;

/// One end of a connection, or a listener.
#[derive(Default)]
struct Endpoint {
    peer: Option<usize>,
    /// When they arrive, and the bytes.
    inbox: VecDeque<(u64, Vec<u8>)>,
    /// When the end of the stream arrives, and when a reset does.
    end_at: Option<u64>,
    reset_at: Option<u64>,
    /// When a connect is done, and how.
    connected_at: Option<u64>,
    refused: bool,
    send_ended: bool,
    closed: bool,
    /// A send has found no room.
    wants_room: bool,
    /// For listeners: connections, and when they arrive.
    waiting: Option<VecDeque<(u64, usize)>>,
    address: Option<SocketAddr>,
    /// When something happens that epoll would tell.
    edges: Vec<u64>,
    /// Who is told, and under which key.
    watched: Option<(usize, u64)>,
}

impl Endpoint {
    fn held(&self) -> usize {
        self.inbox.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

/// See the module.
pub(crate) struct Network {
    now_ns: Now,
    random: RefCell<SplitMix>,
    endpoints: RefCell<Vec<Endpoint>>,
    listeners: RefCell<HashMap<u16, usize>>,
    /// Descriptors, which name endpoints to whoever watches.
    descriptors: RefCell<HashMap<i32, usize>>,
    /// Grows with everything that moves.
    pub(crate) moves: Cell<u64>,
    null: OwnedFd,
    /// Delays are drawn up to this.
    latency_ns: u64,
}

std::thread_local! {
    static NETWORK: RefCell<Option<Rc<Network>>> = const { RefCell::new(None) };
}

/// Puts a network in the system's place on this OS thread.
pub(crate) fn set_network(network: Option<Rc<Network>>) {
    NETWORK.with(|cell| *cell.borrow_mut() = network);
}

/// A socket of the network, where there is one.
pub(crate) fn make(domain: Domain) -> Option<Result<Box<dyn Socket>, Errno>> {
    let network = NETWORK.with(|cell| cell.borrow().clone())?;
    let _ = domain;
    let id = network.add(Endpoint::default());
    Some(network.socket(id))
}

fn network() -> Rc<Network> {
    NETWORK.with(|cell| cell.borrow().clone()).expect("a network is set while its sockets live")
}

impl Network {
    pub(crate) fn new(now_ns: Now, mut random: SplitMix) -> std::io::Result<Self> {
        let latency_ns = [1_000, 20_000, 300_000][(random.next() % 3) as usize];
        Ok(Self {
            now_ns,
            random: RefCell::new(random),
            endpoints: RefCell::default(),
            listeners: RefCell::default(),
            descriptors: RefCell::default(),
            moves: Cell::new(0),
            null: OwnedFd::from(std::fs::File::open("/dev/null")?),
            latency_ns,
        })
    }

    fn draw(&self, below: usize) -> usize {
        (self.random.borrow_mut().next() % below.max(1) as u64) as usize
    }

    /// Some time from now.
    fn later(&self) -> u64 {
        self.now_ns.get() + self.random.borrow_mut().next() % self.latency_ns
    }

    fn add(&self, endpoint: Endpoint) -> usize {
        self.endpoints.borrow_mut().push(endpoint);
        self.endpoints.borrow().len() - 1
    }

    fn socket(&self, id: usize) -> Result<Box<dyn Socket>, Errno> {
        let name = self.null.try_clone().map_err(|_| Errno::EMFILE)?;
        self.descriptors.borrow_mut().insert(name.as_raw_fd(), id);
        Ok(Box::new(SimulatedSocket { id, name }))
    }

    fn with<R>(&self, id: usize, f: impl FnOnce(&mut Endpoint) -> R) -> R {
        f(&mut self.endpoints.borrow_mut()[id])
    }

    fn edge(&self, id: usize, at: u64) {
        self.with(id, |endpoint| endpoint.edges.push(at));
    }

    fn moved(&self) {
        self.moves.set(self.moves.get() + 1);
    }

    /// When something will arrive next, if anything will.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let now = self.now_ns.get();
        let endpoints = self.endpoints.borrow();
        let times = endpoints.iter().flat_map(|endpoint| endpoint.edges.iter().copied());
        times.filter(|at| *at > now).min()
    }

    pub(crate) fn listen(&self, id: usize, port: u16) -> Result<(), Errno> {
        if self.listeners.borrow().contains_key(&port) {
            return Err(Errno::EADDRINUSE);
        }
        self.listeners.borrow_mut().insert(port, id);
        self.with(id, |endpoint| endpoint.waiting = Some(VecDeque::new()));
        Ok(())
    }

    /// A listener of a remote peer.
    pub(crate) fn remote_listener(&self, port: u16) -> Result<usize, Errno> {
        let id = self.add(Endpoint::default());
        self.listen(id, port).map(|()| id)
    }

    /// A remote peer connects.
    pub(crate) fn remote_connect(&self, port: u16) -> Option<usize> {
        let id = self.add(Endpoint::default());
        self.connect(id, port).then_some(id)
    }

    /// Whether anybody listens there.
    fn connect(&self, id: usize, port: u16) -> bool {
        let Some(listener) = self.listeners.borrow().get(&port).copied() else {
            let at = self.later();
            self.with(id, |endpoint| {
                endpoint.connected_at = Some(at);
                endpoint.refused = true;
                endpoint.edges.push(at);
            });
            return false;
        };
        let (mine, theirs) = (self.later(), self.later());
        let other = self.add(Endpoint {
            peer: Some(id),
            connected_at: Some(theirs),
            ..Endpoint::default()
        });
        self.with(id, |endpoint| {
            endpoint.peer = Some(other);
            endpoint.connected_at = Some(mine);
            endpoint.edges.push(mine);
        });
        self.with(listener, |endpoint| {
            if let Some(waiting) = &mut endpoint.waiting {
                waiting.push_back((theirs, other));
            }
            endpoint.edges.push(theirs);
        });
        self.moved();
        true
    }

    pub(crate) fn accept(&self, id: usize) -> Option<usize> {
        let now = self.now_ns.get();
        self.with(id, |endpoint| {
            let waiting = endpoint.waiting.as_mut()?;
            // Whoever came first may be on its way longer.
            let first = waiting.iter().position(|(at, _)| *at <= now)?;
            waiting.remove(first).map(|(_, id)| id)
        })
    }

    /// Bytes that have arrived, a part of them; as [`Socket::receive`].
    pub(crate) fn receive(&self, id: usize, most: usize) -> Result<(Vec<u8>, Moved), Errno> {
        let now = self.now_ns.get();
        let (mut arrived, mut ended, mut reset) = (0, false, false);
        self.with(id, |endpoint| {
            let here = endpoint.inbox.iter().take_while(|(at, _)| *at <= now);
            arrived = here.map(|(_, bytes)| bytes.len()).sum();
            let all = arrived == endpoint.held();
            ended = all && endpoint.end_at.is_some_and(|at| at <= now);
            reset = endpoint.reset_at.is_some_and(|at| at <= now);
        });
        if arrived == 0 || most == 0 {
            return match (reset, ended) {
                (true, _) => Err(Errno::ECONNRESET),
                (_, true) => Ok((Vec::new(), Moved::End)),
                _ => Ok((Vec::new(), Moved::Later)),
            };
        }
        // Often all, often less.
        let most = arrived.min(most);
        let count = if self.draw(2) == 0 { most } else { 1 + self.draw(most) };
        let mut bytes = Vec::new();
        let peer = self.with(id, |endpoint| {
            while bytes.len() < count {
                let Some((at, piece)) = endpoint.inbox.pop_front() else { break };
                let (taken, rest) = piece.split_at(piece.len().min(count - bytes.len()));
                bytes.extend_from_slice(taken);
                if !rest.is_empty() {
                    endpoint.inbox.push_front((at, rest.to_vec()));
                }
            }
            endpoint.peer
        });
        if let Some(peer) = peer
            && self.with(peer, |peer| std::mem::take(&mut peer.wants_room))
        {
            self.edge(peer, self.later());
        }
        self.moved();
        let count = bytes.len();
        Ok((bytes, Moved::Bytes(count)))
    }

    /// How many bytes would go now; 0 for none, and then an edge tells when.
    fn room(&self, id: usize) -> Result<usize, Errno> {
        let now = self.now_ns.get();
        let (peer, reset, ended) = self.with(id, |endpoint| {
            (
                endpoint.peer,
                endpoint.reset_at.is_some_and(|at| at <= now),
                endpoint.send_ended || endpoint.closed,
            )
        });
        if reset || ended {
            return Err(if ended { Errno::EPIPE } else { Errno::ECONNRESET });
        }
        let peer = peer.ok_or(Errno::ENOTCONN)?;
        let room = self.with(peer, |peer| HOLDS.saturating_sub(peer.held()));
        if room == 0 {
            self.with(id, |endpoint| endpoint.wants_room = true);
        } else if self.draw(8) == 0 {
            // The system is short of memory for a moment.
            self.edge(id, self.later());
            return Ok(0);
        }
        Ok(room)
    }

    /// Sends a part of the bytes.
    pub(crate) fn send(&self, id: usize, bytes: &[u8]) -> Result<usize, Errno> {
        let room = self.room(id)?.min(bytes.len());
        if room == 0 {
            return Ok(0);
        }
        let count = if self.draw(2) == 0 { room } else { 1 + self.draw(room) };
        self.put(id, &bytes[..count]);
        Ok(count)
    }

    fn put(&self, id: usize, bytes: &[u8]) {
        let Some(peer) = self.with(id, |endpoint| endpoint.peer) else { return };
        let at = self.later();
        let (closed, at) = self.with(peer, |peer| {
            // Bytes stay in order.
            let at = peer.inbox.back().map_or(at, |(last, _)| at.max(*last));
            if !peer.closed {
                peer.inbox.push_back((at, bytes.to_vec()));
                peer.edges.push(at);
            }
            (peer.closed, at)
        });
        if closed {
            // Nobody is there any more.
            self.with(id, |endpoint| {
                endpoint.reset_at.get_or_insert(at);
                endpoint.edges.push(at);
            });
        }
        self.moved();
    }

    /// No more will be sent.
    pub(crate) fn end(&self, id: usize) {
        let (peer, ended) = self.with(id, |endpoint| {
            (endpoint.peer, std::mem::replace(&mut endpoint.send_ended, true))
        });
        let Some(peer) = peer else { return };
        if ended {
            return;
        }
        let at = self.later();
        self.with(peer, |peer| {
            let at = peer.inbox.back().map_or(at, |(last, _)| at.max(*last));
            peer.end_at = Some(at);
            peer.edges.push(at);
        });
        self.moved();
    }

    /// Breaks the connection.
    pub(crate) fn reset(&self, id: usize) {
        let at = self.later();
        let peer = self.with(id, |endpoint| {
            endpoint.closed = true;
            endpoint.send_ended = true;
            endpoint.peer
        });
        if let Some(peer) = peer {
            self.with(peer, |peer| {
                peer.reset_at.get_or_insert(at);
                peer.edges.push(at);
            });
        }
        self.moved();
    }

    /// Closes as a system does: what was not read makes it a reset.
    pub(crate) fn close(&self, id: usize) {
        let (unread, waiting) = self.with(id, |endpoint| {
            (endpoint.held() > 0, endpoint.waiting.take().unwrap_or_default())
        });
        self.listeners.borrow_mut().retain(|_, listener| *listener != id);
        for (_, orphan) in waiting {
            self.reset(orphan);
        }
        if unread {
            self.reset(id);
        } else {
            self.end(id);
        }
        self.with(id, |endpoint| {
            endpoint.closed = true;
            endpoint.watched = None;
            endpoint.inbox.clear();
        });
    }
}

/// What a proxy thread has of the network in place of epoll.
pub(crate) struct SimulatedEpoll {
    pub(crate) shard: usize,
    pub(crate) network: Rc<Network>,
}

impl SimulatedEpoll {
    fn keys(&self) -> Vec<u64> {
        let now = self.network.now_ns.get();
        let mut keys = Vec::new();
        for endpoint in self.network.endpoints.borrow_mut().iter_mut() {
            let Some((shard, key)) = endpoint.watched else { continue };
            let before = endpoint.edges.len();
            if shard == self.shard {
                endpoint.edges.retain(|at| *at > now);
                if endpoint.edges.len() != before {
                    keys.push(key);
                }
            }
        }
        keys
    }

    /// Whether something would end a sleep.
    pub(crate) fn is_ready(&self) -> bool {
        let now = self.network.now_ns.get();
        self.network.endpoints.borrow().iter().any(|endpoint| {
            endpoint.watched.is_some_and(|(shard, _)| shard == self.shard)
                && endpoint.edges.iter().any(|at| *at <= now)
        })
    }

    /// Every socket counts as ready once more: as after a thread that lost its place.
    pub(crate) fn repeat_edges(&self) {
        let now = self.network.now_ns.get();
        for endpoint in self.network.endpoints.borrow_mut().iter_mut() {
            if endpoint.watched.is_some_and(|(shard, _)| shard == self.shard) {
                endpoint.edges.push(now);
            }
        }
    }
}

impl Readiness for SimulatedEpoll {
    fn add(&mut self, descriptor: BorrowedFd<'_>, key: u64) -> Result<(), Errno> {
        let name = descriptor.as_raw_fd();
        let id = self.network.descriptors.borrow().get(&name).copied().ok_or(Errno::EBADF)?;
        let now = self.network.now_ns.get();
        self.network.with(id, |endpoint| {
            endpoint.watched = Some((self.shard, key));
            // What happened before is told at once.
            endpoint.edges.push(now);
        });
        Ok(())
    }

    fn remove(&mut self, descriptor: BorrowedFd<'_>) {
        let name = descriptor.as_raw_fd();
        if let Some(id) = self.network.descriptors.borrow().get(&name).copied() {
            self.network.with(id, |endpoint| {
                endpoint.watched = None;
                endpoint.edges.retain(|at| *at > self.network.now_ns.get());
            });
        }
    }
}

impl Outside for SimulatedEpoll {
    fn look(&mut self, shard: &mut Shard) -> bool {
        let keys = self.keys();
        for key in &keys {
            shard.ready(*key);
        }
        !keys.is_empty()
    }
}

/// A socket of the proxy on the simulated network.
struct SimulatedSocket {
    id: usize,
    /// A descriptor that names it and nothing else.
    name: OwnedFd,
}

impl Drop for SimulatedSocket {
    fn drop(&mut self) {
        let Some(network) = NETWORK.with(|cell| cell.borrow().clone()) else { return };
        network.descriptors.borrow_mut().remove(&self.name.as_raw_fd());
        network.close(self.id);
    }
}

/// Copies between ring memory and bytes, through the bench.
fn fill(window: &Window, bytes: &[u8]) {
    let mut bytes = bytes;
    for (address, length) in window.pieces() {
        let (now, rest) = bytes.split_at(length.min(bytes.len()));
        bytes = rest;
        gpunet_device::simulation::with(|bench| bench.write(address, now));
    }
}

impl Socket for SimulatedSocket {
    fn transport(&self) -> &'static str {
        "simulated"
    }

    fn domain(&self) -> Domain {
        Domain::V4
    }

    fn bind(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        network().with(self.id, |endpoint| endpoint.address = Some(*address));
        Ok(())
    }

    fn listen(&mut self, _backlog: u32) -> Result<(), Errno> {
        let port = network().with(self.id, |endpoint| endpoint.address.map_or(0, |a| a.port()));
        network().listen(self.id, port)
    }

    fn connect(&mut self, address: &SocketAddr) -> Result<bool, Errno> {
        network().connect(self.id, address.port());
        Ok(false)
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        let now = network().now_ns.get();
        network().with(self.id, |endpoint| match endpoint.connected_at {
            Some(at) if at <= now && endpoint.refused => Err(Errno::ECONNREFUSED),
            Some(at) => Ok(at <= now),
            None => Err(Errno::ENOTCONN),
        })
    }

    fn accept(&mut self) -> Result<Option<Box<dyn Socket>>, Errno> {
        match network().accept(self.id) {
            Some(id) => network().socket(id).map(Some),
            None => Ok(None),
        }
    }

    fn receive(&mut self, window: &Window) -> Result<Moved, Errno> {
        let (bytes, moved) = network().receive(self.id, window.len())?;
        fill(window, &bytes);
        Ok(moved)
    }

    fn send(&mut self, window: &Window) -> Result<Moved, Errno> {
        let network = network();
        let room = network.room(self.id)?.min(window.len());
        if room == 0 {
            return Ok(Moved::Later);
        }
        let count = if network.draw(2) == 0 { room } else { 1 + network.draw(room) };
        let mut bytes = window.copy();
        bytes.truncate(count);
        network.put(self.id, &bytes);
        Ok(Moved::Bytes(count))
    }

    fn discard(&mut self) -> Result<Moved, Errno> {
        network().receive(self.id, usize::MAX).map(|(_, moved)| moved)
    }

    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        if direction == Direction::Send {
            network().end(self.id);
        }
        Ok(())
    }

    fn set_option(&mut self, _option: SocketOption, _value: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn option(&self, _option: SocketOption) -> Result<u64, Errno> {
        Ok(0)
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        let address = network().with(self.id, |endpoint| endpoint.address);
        Ok(address.unwrap_or(SocketAddr::v4([127, 0, 0, 1], 1)))
    }

    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        Ok(SocketAddr::v4([127, 0, 0, 1], 1))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.name.as_fd())
    }

    fn into_descriptor(self: Box<Self>) -> Option<OwnedFd> {
        None
    }
}
