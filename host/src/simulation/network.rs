//! A network of one thread on virtual time: late, short and broken where the seed says so.
//!
//! The proxy's sockets (`socket`), the control channels of p2p streams (`control`) and the remote
//! peers of a scene use the same endpoints. Readiness is reported by edges, as epoll does: whoever
//! does not keep to the rules of edges hangs here, too.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;

use super::Now;
use crate::gpu::emulated::random::SplitMix;
use crate::transport::Transferred;

/// Bytes that are on their way to an endpoint or wait there.
const HOLDS: usize = 3000;

/// In a port: that of control channels.
pub(super) const CONTROL: u32 = 1 << 16;

/// One end of a connection, a listener, a set of them or a timer.
#[derive(Default)]
pub(super) struct Endpoint {
    pub(super) peer: Option<usize>,
    /// When they arrive, and the bytes.
    pub(super) arriving: VecDeque<(u64, Vec<u8>)>,
    /// When the end of the stream arrives, and when a reset does.
    pub(super) end_at: Option<u64>,
    pub(super) reset_at: Option<u64>,
    /// When a connect is done, and how.
    pub(super) connected_at: Option<u64>,
    pub(super) refused: bool,
    pub(super) send_ended: bool,
    pub(super) closed: bool,
    /// A send has found no room.
    pub(super) wants_room: bool,
    /// For listeners: connections, and when they arrive.
    pub(super) waiting: Option<VecDeque<(u64, usize)>>,
    pub(super) address: Option<SocketAddr>,
    /// When something happens that epoll would report.
    pub(super) edges: Vec<u64>,
    /// Who is notified, and under which key.
    pub(super) watched: Option<(usize, u64)>,
    /// The set that reports it, and under which key.
    pub(super) set: Option<usize>,
    pub(super) key: u64,
    /// For timers: when.
    pub(super) due_at: Option<u64>,
    /// It is an end of a control channel.
    pub(super) is_channel: bool,
}

impl Endpoint {
    /// Whether a message, the end, a connection or the time of a timer has come.
    fn is_readable(&self, now: u64) -> bool {
        let has_come = |at: Option<u64>| at.is_some_and(|at| at <= now);
        let waits = self.waiting.iter().flatten().any(|(at, _)| *at <= now);
        has_come(self.arriving.front().map(|(at, _)| *at))
            || has_come(self.end_at)
            || has_come(self.reset_at)
            || has_come(self.due_at)
            || waits
    }

    fn held(&self) -> usize {
        self.arriving.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

/// See the module.
pub(crate) struct Network {
    now_ns: Now,
    random: RefCell<SplitMix>,
    pub(super) endpoints: RefCell<Vec<Endpoint>>,
    listeners: RefCell<HashMap<u32, usize>>,
    /// Descriptors, which name endpoints to whoever watches.
    descriptors: RefCell<HashMap<i32, usize>>,
    /// Grows with everything that moves.
    pub(crate) moves: Cell<u64>,
    null: OwnedFd,
    /// Delays are drawn up to this.
    latency_ns: u64,
    /// The ends of p2p streams are on two GPUs.
    pub(super) two_gpus: bool,
}

std::thread_local! {
    static NETWORK: RefCell<Option<Rc<Network>>> = const { RefCell::new(None) };
}

/// Puts a network in the system's place on this OS thread.
pub(crate) fn set_network(network: Option<Rc<Network>>) {
    NETWORK.with(|cell| *cell.borrow_mut() = network);
}

/// The network of this OS thread.
pub(super) fn current() -> Option<Rc<Network>> {
    NETWORK.with(|cell| cell.borrow().clone())
}

/// The same for its sockets.
pub(super) fn network() -> Rc<Network> {
    current().expect("a network is set while its sockets live")
}

impl Network {
    pub(crate) fn new(now_ns: Now, mut random: SplitMix, two_gpus: bool) -> std::io::Result<Self> {
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
            two_gpus,
        })
    }

    pub(super) fn now(&self) -> u64 {
        self.now_ns.get()
    }

    pub(super) fn draw(&self, below: usize) -> usize {
        (self.random.borrow_mut().next() % below.max(1) as u64) as usize
    }

    /// Some time from now.
    pub(super) fn later(&self) -> u64 {
        self.now_ns.get() + self.random.borrow_mut().next() % self.latency_ns
    }

    pub(super) fn add(&self, endpoint: Endpoint) -> usize {
        self.endpoints.borrow_mut().push(endpoint);
        self.endpoints.borrow().len() - 1
    }

    /// A descriptor that names an endpoint.
    pub(super) fn name(&self, id: usize) -> Result<OwnedFd, Errno> {
        let name = self.null.try_clone().map_err(|_| Errno::EMFILE)?;
        self.descriptors.borrow_mut().insert(name.as_raw_fd(), id);
        Ok(name)
    }

    /// The endpoint that a descriptor names.
    pub(super) fn named(&self, name: BorrowedFd<'_>) -> Option<usize> {
        self.descriptors.borrow().get(&name.as_raw_fd()).copied()
    }

    /// A descriptor is about to be closed.
    pub(super) fn forget(&self, name: i32) {
        self.descriptors.borrow_mut().remove(&name);
    }

    /// Has a set report an endpoint.
    pub(super) fn join(&self, set: usize, member: usize, key: u64) {
        let now = self.now();
        self.with(member, |member| {
            member.set = Some(set);
            member.key = key;
            member.edges.push(now);
        });
    }

    /// The keys of a set's members that are readable, up to so many.
    pub(super) fn ready(&self, set: usize, most: usize) -> Vec<u64> {
        let now = self.now();
        let endpoints = self.endpoints.borrow();
        let members = endpoints.iter().filter(|member| member.set == Some(set));
        members.filter(|member| member.is_readable(now)).map(|it| it.key).take(most).collect()
    }

    /// No set reports it any more.
    pub(super) fn leave(&self, member: usize) {
        self.with(member, |member| member.set = None);
    }

    /// A timer that is due so much later.
    pub(super) fn timer(&self, ns: u64) -> usize {
        let at = self.now() + ns;
        self.add(Endpoint { due_at: Some(at), edges: vec![at], ..Endpoint::default() })
    }

    /// Whether a timer is due.
    pub(super) fn is_over(&self, timer: usize) -> bool {
        let now = self.now();
        self.with(timer, |timer| timer.due_at.is_some_and(|at| at <= now))
    }

    pub(super) fn with<R>(&self, id: usize, f: impl FnOnce(&mut Endpoint) -> R) -> R {
        f(&mut self.endpoints.borrow_mut()[id])
    }

    pub(super) fn edge(&self, id: usize, at: u64) {
        self.with(id, |endpoint| endpoint.edges.push(at));
    }

    pub(super) fn progressed(&self) {
        self.moves.set(self.moves.get() + 1);
    }

    /// When something will arrive next, if anything will.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let now = self.now_ns.get();
        let endpoints = self.endpoints.borrow();
        let times = endpoints.iter().flat_map(|endpoint| endpoint.edges.iter().copied());
        times.filter(|at| *at > now).min()
    }

    pub(crate) fn listen(&self, id: usize, port: u32) -> Result<(), Errno> {
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
        self.listen(id, port.into()).map(|()| id)
    }

    /// A remote peer connects.
    pub(crate) fn remote_connect(&self, port: u16) -> Option<usize> {
        let id = self.add(Endpoint::default());
        self.connect(id, port.into()).then_some(id)
    }

    /// Whether anybody listens at a port.
    pub(super) fn has_listener(&self, port: u32) -> bool {
        self.listeners.borrow().contains_key(&port)
    }

    /// The same, and what comes of it for who connects.
    pub(super) fn connect(&self, id: usize, port: u32) -> bool {
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
            is_channel: port & CONTROL != 0,
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
        self.progressed();
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
    pub(crate) fn receive(&self, id: usize, most: usize) -> Result<(Vec<u8>, Transferred), Errno> {
        let now = self.now_ns.get();
        let (mut arrived, mut ended, mut reset) = (0, false, false);
        self.with(id, |endpoint| {
            let here = endpoint.arriving.iter().take_while(|(at, _)| *at <= now);
            arrived = here.map(|(_, bytes)| bytes.len()).sum();
            let all = arrived == endpoint.held();
            ended = all && endpoint.end_at.is_some_and(|at| at <= now);
            reset = endpoint.reset_at.is_some_and(|at| at <= now);
        });
        if arrived == 0 || most == 0 {
            return match (reset, ended) {
                (true, _) => Err(Errno::ECONNRESET),
                (_, true) => Ok((Vec::new(), Transferred::End)),
                _ => Ok((Vec::new(), Transferred::Later)),
            };
        }
        // Often all, often less.
        let most = arrived.min(most);
        let count = if self.draw(2) == 0 { most } else { 1 + self.draw(most) };
        let mut bytes = Vec::new();
        let peer = self.with(id, |endpoint| {
            while bytes.len() < count {
                let Some((at, piece)) = endpoint.arriving.pop_front() else { break };
                let (taken, rest) = piece.split_at(piece.len().min(count - bytes.len()));
                bytes.extend_from_slice(taken);
                if !rest.is_empty() {
                    endpoint.arriving.push_front((at, rest.to_vec()));
                }
            }
            endpoint.peer
        });
        if let Some(peer) = peer
            && self.with(peer, |peer| std::mem::take(&mut peer.wants_room))
        {
            self.edge(peer, self.later());
        }
        self.progressed();
        let count = bytes.len();
        Ok((bytes, Transferred::Bytes(count)))
    }

    /// How many bytes would go now; 0 for none, and then an edge says when.
    pub(super) fn room(&self, id: usize) -> Result<usize, Errno> {
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
        self.deliver(id, &bytes[..count]);
        Ok(count)
    }

    pub(super) fn deliver(&self, id: usize, bytes: &[u8]) {
        let Some(peer) = self.with(id, |endpoint| endpoint.peer) else { return };
        let at = self.later();
        let (closed, at) = self.with(peer, |peer| {
            // Bytes stay in order.
            let at = peer.arriving.back().map_or(at, |(last, _)| at.max(*last));
            if !peer.closed {
                peer.arriving.push_back((at, bytes.to_vec()));
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
        self.progressed();
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
            let at = peer.arriving.back().map_or(at, |(last, _)| at.max(*last));
            peer.end_at = Some(at);
            peer.edges.push(at);
        });
        self.progressed();
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
        self.progressed();
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
            (endpoint.watched, endpoint.set) = (None, None);
            endpoint.arriving.clear();
        });
    }
}
