//! One socket of a shard: what all sockets have, and the role of each.
//!
//! Counters only grow. What the GPU writes is loaded once and checked against what the proxy
//! itself knows; what makes no sense ends this socket with EPROTO, never more than that.

use gpunet_device::Handle;
use gpunet_device::abi::descriptor::{Kind, Status};
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::STATUS_AT;
use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};

use super::channel::Channel;
use super::listener::Listener;
use super::marks::Marks;
use super::poller::{Poller, Watchers};
use super::statistics::SocketState;
use super::stream::{Stream, StreamPhase};
use crate::memory::Memory;
use crate::settings::config::Config;
use crate::transport::{Endpoint, Rings, TransportNames};

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

/// Who closes a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closer {
    /// A kernel, which has made sure that no group is inside a call on it.
    Kernel,
    /// The host, whoever may be inside.
    Host,
    /// The host, for a net that goes: its memory stays until the last kernel has ended.
    Net,
}

/// What a socket is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Fresh,
    Connecting,
    Open,
    Listening,
    Polling,
    /// Closed by its kernel; goes once what is unsent was sent, or at that time.
    Closing {
        deadline_ns: u64,
    },
}

/// What a socket is.
pub(crate) enum Role {
    /// Neither connected nor listening.
    Fresh,
    Stream(Stream),
    Listener(Box<Listener>),
    Poller(Box<Poller>),
    /// Closed, and no stream: it disconnects where its transport has to, at most until then.
    Leaving {
        deadline_ns: u64,
    },
}

/// Options that shape a socket before it has rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    pub(crate) receive_ring: u32,
    pub(crate) send_ring: u32,
    pub(crate) timeout_ns: u64,
}

impl Wishes {
    /// What the net is set to.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            receive_ring: config.receive_ring,
            send_ring: config.send_ring,
            timeout_ns: config.timeout_ns,
        }
    }
}

/// A socket of a shard.
pub(crate) struct Entry {
    pub(crate) handle: Handle,
    pub(crate) owner: Owner,
    /// The listener that it was accepted from; NONE if it was not.
    pub(super) accepted_from: Handle,
    /// Closed by the host, and groups may still be inside a call on it.
    pub(super) drains: bool,
    /// A p2p stream that drains, and that groups do not find closed yet: its other end, whose kernel answers
    /// by itself, is notified when they do, or then at the latest. They would take the answer for the end of an
    /// open stream.
    pub(super) looks_open_until_ns: Option<u64>,
    /// Whether the net's limits count it as a socket of a kernel.
    pub(crate) counted: bool,
    pub(crate) wishes: Wishes,
    pub(crate) socket: Option<Endpoint>,
    pub(crate) channel: Channel,
    pub(crate) role: Role,
    /// Pollers that want to know what happens on it.
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
            drains: false,
            looks_open_until_ns: None,
            counted: false,
            wishes,
            socket,
            channel: Channel::new(index),
            role: Role::Fresh,
            watchers: Watchers::default(),
            marks: Marks::default(),
        }
    }

    /// Makes it a stream.
    pub(crate) fn start_stream(&mut self, phase: StreamPhase) {
        self.role = Role::Stream(Stream::new(phase));
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
    pub(crate) fn stream(&self) -> Option<&Stream> {
        if let Role::Stream(stream) = &self.role { Some(stream) } else { None }
    }

    /// The same, to be changed.
    pub(crate) fn stream_mut(&mut self) -> Option<&mut Stream> {
        if let Role::Stream(stream) = &mut self.role { Some(stream) } else { None }
    }

    /// Whether its transport moves bytes by itself.
    pub(super) fn places_bytes(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket.places_bytes())
    }

    /// What the descriptor calls it.
    fn kind(&self) -> Kind {
        match &self.role {
            Role::Fresh => Kind::Fresh,
            Role::Stream(_) | Role::Leaving { .. } => Kind::Stream,
            Role::Listener(_) => Kind::Listener,
            Role::Poller(_) => Kind::Poller,
        }
    }

    /// Publishes everything the GPU may read of it; the descriptor last.
    pub(crate) fn publish(&mut self, memory: &Memory) {
        let kind = self.kind();
        self.channel.units_since = self.channel.receive.ours;
        memory.renew_units(self.channel.index, self.channel.units_since);
        self.publish_status(memory);
        self.channel.publish_receive(memory);
        self.channel.publish_send(memory);
        let generation = self.handle.generation();
        self.channel.publish_descriptor(memory, generation, kind, self.wishes.timeout_ns);
    }

    pub(crate) fn publish_status(&self, memory: &Memory) {
        let status = match (self.channel.failure, self.phase()) {
            // What the peer sent before may still come: the socket has failed when all is over.
            (Some(errno), Phase::Open) if !self.channel.receive_ended => {
                Status::new(Status::CONNECTED, errno.0)
            }
            (Some(errno), _) => Status::new(Status::FAILED, errno.0),
            (None, Phase::Connecting) => Status::new(Status::CONNECTING, 0),
            (None, Phase::Open) => Status::new(Status::CONNECTED, 0),
            _ => Status::new(Status::IDLE, 0),
        };
        memory.live(self.channel.index).get(STATUS_AT).store_release(status.0);
    }

    /// What it is ready for, as `gpoll` would say.
    pub(crate) fn readiness(&self) -> u16 {
        let channel = &self.channel;
        let mut events = 0;
        if channel.receive.unread() > 0 || channel.receive_ended {
            events |= POLLIN;
        }
        if self.is_open() || channel.failure.is_some() {
            if channel.receive_ended {
                events |= POLLRDHUP;
            }
            let used = channel.send.theirs - channel.send.ours;
            if used < u64::from(channel.send.location.capacity) || channel.send_ended {
                events |= POLLOUT;
            }
            if channel.receive_ended && channel.send_ended {
                events |= POLLHUP;
            }
        }
        if channel.failure.is_some() {
            events |= POLLERR;
        }
        events
    }

    /// Gives the socket its rings.
    pub(crate) fn attach(&mut self) -> Result<(), Errno> {
        let rings =
            Rings { receive: self.channel.receive.location, send: self.channel.send.location };
        self.socket.as_mut().map_or(Ok(()), |socket| socket.attach(&rings))
    }

    /// For people.
    pub(crate) fn describe(&self) -> SocketState {
        let socket = self.socket.as_ref();
        let (receive, send) = (&self.channel.receive, &self.channel.send);
        SocketState {
            handle: self.handle.0,
            state: match self.phase() {
                Phase::Fresh => "fresh",
                Phase::Connecting => "connecting",
                Phase::Open => "stream",
                Phase::Listening => "listener",
                Phase::Polling => "poller",
                Phase::Closing { .. } => "closing",
            },
            transport: socket.map_or(TransportNames::default(), Endpoint::transport),
            local: socket.and_then(|s| s.local_addr().ok()).map(|address| address.to_string()),
            peer: socket.and_then(|s| s.peer_addr().ok()).map(|address| address.to_string()),
            launch: match self.owner {
                Owner::Launch(launch) => Some(launch),
                Owner::Host | Owner::AnyLaunch => None,
            },
            receive_capacity: receive.location.capacity,
            to_be_read: receive.unread(),
            send_capacity: send.location.capacity,
            to_be_sent: send.theirs - send.ours,
            received: receive.ours - receive.location.base,
            sent: send.ours - send.location.base,
            receive_ended: self.channel.receive_ended,
            send_ended: self.channel.send_ended,
            error: self.channel.failure.map(|errno| errno.to_string()),
        }
    }
}
