//! One socket of a shard: what all sockets have, and the role of each.
//!
//! Counters only grow. What the GPU writes is loaded once and checked against what the proxy
//! itself knows; what makes no sense ends this socket with EPROTO, never more than that.

use gpunet_device::Handle;
use gpunet_device::abi::descriptor::Kind;
use gpunet_device::abi::errno::Errno;
use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};

use super::channel::Channel;
use super::context::Context;
use super::counted::Counted;
use super::endings::Connection;
use super::listener::Listener;
use super::poller::Poller;
use super::pump::Pump;
use super::schedule::Marks;
use super::shared::Shared;
use super::stream::{Stream, StreamPhase};
use super::watchers::Watchers;
use crate::memory::Memory;
use crate::settings::config::Config;
use crate::transport::{Carrier, Direction, Endpoint, RingSizes, Rings};

/// Who a socket belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The program.
    Host,
    /// Accepted from a listener of the program: closed when no launch runs any more.
    AnyLaunch,
    /// A launch: closed when it ends.
    Launch(u32),
}

/// What a socket is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Neither connected nor listening.
    Fresh,
    /// A stream that is being connected.
    Connecting,
    /// A stream.
    Open,
    /// A listener.
    Listening,
    /// A poller.
    Polling,
    /// Closed by its kernel; goes once what is unsent was sent, or at that time.
    Closing { deadline_ns: u64 },
}

/// What a socket is.
pub(crate) enum Role {
    /// Neither connected nor listening.
    Fresh,
    /// Connected, about to be, or closed.
    Stream(Stream),
    /// It has an accept ring.
    Listener(Box<Listener>),
    /// It has a ring of events.
    Poller(Box<Poller>),
    /// Closed, and no stream: it disconnects where its transport has to, at most until then.
    Leaving { deadline_ns: u64 },
}

/// A socket that the host has closed while launches run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drains {
    /// No group is inside a call on it, or the host has not closed it.
    No,
    /// Groups may be inside a call on it.
    Inside,
    /// The same of a p2p stream, and groups do not find it closed yet: its other end, whose kernel answers
    /// by itself, is notified when they do, or then at the latest. They would take the answer for the end of an
    /// open stream.
    LooksOpen { until_ns: u64 },
    /// Groups find it closed.
    LooksClosed,
}

/// Options that shape a socket before it has rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    pub(crate) rings: RingSizes,
    pub(crate) timeout_ns: u64,
}

impl Wishes {
    /// What the net is set to.
    pub(crate) fn of(config: &Config) -> Self {
        let rings = RingSizes { receive: config.ring, send: config.ring };
        Self { rings, timeout_ns: config.timeout_ns }
    }
}

/// A socket of a shard.
pub(crate) struct Entry {
    pub(crate) handle: Handle,
    pub(crate) owner: Owner,
    /// The listener that it was accepted from; NONE if it was not.
    pub(super) accepted_from: Handle,
    /// Whether groups may still be inside a call on it, after the host has closed it.
    pub(super) drains: Drains,
    /// Since when nothing of it was sent, of one that is closing.
    pub(super) silent_since_ns: u64,
    /// Whether a kernel has bound it, as the net's policy lets it. A transport may bind it as well, when it
    /// connects.
    pub(super) bound: bool,
    /// Whether the net's limits count it as a socket of a kernel.
    pub(crate) counted: bool,
    pub(crate) wishes: Wishes,
    pub(crate) socket: Option<Endpoint>,
    pub(crate) channel: Channel,
    pub(crate) role: Role,
    /// Pollers that watch it.
    pub(crate) watchers: Watchers,
    /// Where it stands in the shard's schedule.
    pub(super) marks: Marks,
}

impl Entry {
    pub(crate) fn new(
        handle: Handle,
        index: usize,
        owner: Owner,
        wishes: Wishes,
        socket: Option<Endpoint>,
    ) -> Self {
        Self {
            handle,
            owner,
            accepted_from: Handle::NONE,
            drains: Drains::No,
            silent_since_ns: 0,
            bound: false,
            counted: false,
            wishes,
            socket,
            channel: Channel::new(handle, index),
            role: Role::Fresh,
            watchers: Watchers::default(),
            marks: Marks::default(),
        }
    }

    /// Makes it a stream, or a stream that is further.
    pub(crate) fn start_stream(&mut self, phase: StreamPhase) {
        match &mut self.role {
            Role::Stream(stream) => stream.phase = phase,
            role => *role = Role::Stream(Stream::new(phase)),
        }
        self.channel.endings.connection = match phase {
            StreamPhase::Connecting => Connection::Begun,
            StreamPhase::Open => Connection::Made,
            StreamPhase::Closing { .. } => Connection::None,
        };
    }

    /// Makes it a listener with that accept ring, whose peers wait in the system's queue beyond its share.
    pub(crate) fn start_listening(&mut self, shared: &Shared, ring: Counted, share: u32) {
        self.channel.receive = ring;
        shared.pool.reserve_share(self.handle, share);
        self.role = Role::Listener(Box::new(Listener::new(share)));
    }

    /// Closes it: its handle is dead, and it goes once it has nothing left to do, or at that time.
    pub(super) fn start_leaving(&mut self, now_ns: u64, deadline_ns: u64) {
        self.silent_since_ns = now_ns;
        match self.role {
            Role::Stream(_) => self.start_stream(StreamPhase::Closing { deadline_ns }),
            _ => self.role = Role::Leaving { deadline_ns },
        }
    }

    /// What it is doing.
    pub(crate) fn phase(&self) -> Phase {
        match &self.role {
            Role::Fresh => Phase::Fresh,
            Role::Stream(stream) => match stream.phase {
                StreamPhase::Connecting => Phase::Connecting,
                StreamPhase::Open => Phase::Open,
                StreamPhase::Closing { deadline_ns } => Phase::Closing { deadline_ns },
            },
            Role::Listener(_) => Phase::Listening,
            Role::Poller(_) => Phase::Polling,
            Role::Leaving { deadline_ns } => Phase::Closing { deadline_ns: *deadline_ns },
        }
    }

    /// Whether it is a connected stream.
    pub(crate) fn is_open(&self) -> bool {
        self.phase() == Phase::Open
    }

    /// Whether it was closed.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.phase(), Phase::Closing { .. })
    }

    /// Its role as a stream.
    pub(crate) fn stream(&mut self) -> Option<&mut Stream> {
        if let Role::Stream(stream) = &mut self.role { Some(stream) } else { None }
    }

    /// What moves its bytes, of a stream that is connected.
    pub(crate) fn pump<'a>(&'a mut self, context: &'a Context) -> Option<Pump<'a>> {
        let (Role::Stream(stream), Some(socket)) = (&mut self.role, &mut self.socket) else {
            return None;
        };
        Some(Pump::new(&mut self.channel, stream, socket.carrier_mut()?, context))
    }

    /// Publishes everything the GPU may read of it; the descriptor last.
    pub(crate) fn publish(&mut self, memory: &Memory) {
        let kind = match &self.role {
            Role::Fresh => Kind::Fresh,
            Role::Stream(_) | Role::Leaving { .. } => Kind::Stream,
            Role::Listener(_) => Kind::Listener,
            Role::Poller(_) => Kind::Poller,
        };
        self.channel.publish(memory, kind, self.wishes.timeout_ns);
    }

    /// What it is ready for, as `gpoll` would say.
    pub(crate) fn readiness(&self) -> u16 {
        let (channel, endings) = (&self.channel, &self.channel.endings);
        let mut events = 0;
        if channel.receive.unread() > 0 || endings.receive {
            events |= POLLIN;
        }
        if self.is_open() || endings.failure.is_some() {
            if endings.receive {
                events |= POLLRDHUP;
            }
            let used = channel.send.theirs - channel.send.ours;
            if used < u64::from(channel.send.location.capacity) || endings.send {
                events |= POLLOUT;
            }
            if endings.receive && endings.send {
                events |= POLLHUP;
            }
        }
        if endings.failure.is_some() {
            events |= POLLERR;
        }
        events
    }

    /// Gives the transport the socket's rings.
    pub(crate) fn attach(&mut self) -> Result<(), Errno> {
        let rings =
            Rings { receive: self.channel.receive.location, send: self.channel.send.location };
        self.socket.as_mut().map_or(Ok(()), |socket| socket.attach(&rings))
    }

    /// Uses the rings that its stream has brought. Whether it has brought any.
    pub(crate) fn use_brought_rings(&mut self, memory: &Memory) -> bool {
        let carrier = self.socket.as_mut().and_then(Endpoint::carrier_mut);
        let Some(Carrier::Kernels(peer)) = carrier else { return false };
        let brought = peer.rings();
        brought.map(|rings| self.channel.use_rings(memory, rings)).is_some()
    }

    /// Gives slot, rings and what limits count back: the one place where that happens. The system's
    /// socket closes with the entry.
    pub(crate) fn give_back(&mut self, shared: &Shared) {
        (shared.on_free)(self.handle);
        shared.memory.withdraw_descriptor(self.channel.index);
        self.channel.release(shared);
        let limits = &shared.policy.limits;
        if let Some(stream) = self.stream() {
            let flying = std::mem::take(&mut stream.flow.flying);
            for direction in [Direction::Receive, Direction::Send] {
                limits.land(direction, flying[direction as usize]);
            }
        }
        if std::mem::take(&mut self.counted) {
            limits.release_socket();
        }
        shared.pool.free_handle(self.handle);
    }
}
