//! A stream over verbs: the protocol, driven by one queue pair and one id of the connection
//! manager. One thread owns it and calls it; nothing waits.
//!
//! ```text
//!  Stream ── connect ─> resolving ─> asking ─> open ─> over
//!  Listener ─> Request ── accept ────────────> open ─> over
//! ```
//!
//! The rings belong to the caller, and lie where it says: see [`Buffer`]. Bytes move by themselves
//! once [`Stream::offer`] and [`Stream::consumed`] have said how far the kernel is and
//! [`Stream::flow`] has been called; [`Stream::sent`] and [`Stream::arrived`] say how far they
//! have come. [`Stream::descriptor`] is readable when something has happened besides, for
//! [`Stream::progress`] to look at.

mod drive;
mod error;
mod listener;
mod setup;
mod targets;
mod wake;

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

pub use error::StreamError;
pub use listener::{Listener, Request};

use crate::protocol::{Protocol, Ring, Settings, Terms};
use crate::verbs::{Domain, EventChannel, Id, QueuePair, Region, Token};
use crate::work::Completion;
use targets::Targets;
use wake::Wake;

/// How long looking for the peer's device and for the way there may take, each.
const RESOLVE: Duration = Duration::from_secs(2);

/// A ring in registered memory.
#[derive(Clone)]
pub struct Buffer {
    /// The memory, registered in the stream's domain: as a target, if the ring is received into.
    pub region: Arc<Region>,
    /// Where in it the ring begins.
    pub offset: usize,
    /// Bytes, a power of two.
    pub capacity: u32,
    /// The position of the stream's first byte.
    pub base: u64,
}

/// Both rings of a stream.
#[derive(Clone)]
pub struct Buffers {
    /// Bytes that leave.
    pub send: Buffer,
    /// Bytes that arrive.
    pub receive: Buffer,
}

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being made.
    Connecting,
    /// Bytes flow.
    Open,
}

/// When to call a stream again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// When the kernel is further, or the descriptor becomes readable.
    Wait,
    /// Soon: the peer keeps it busy, and others may want their turn.
    Again,
}

/// What a stream has done so far, for measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Writes that were posted.
    pub writes: u64,
    /// Those of them with immediate data.
    pub immediates: u64,
    /// Completions that were taken, of writes and of receives.
    pub completions: u64,
}

enum Stage {
    /// Looking for the peer's device, or for the way there.
    Resolving,
    /// The request or the acceptance was sent to the peer.
    Asking(Line),
    Open(Line, Box<Protocol>),
}

/// What carries bytes.
struct Line {
    pair: QueuePair,
    /// The next completion makes the descriptor readable, or one has.
    armed: bool,
}

/// One end of a connection.
pub struct Stream {
    // Dropped in this order: the queue pair, which writes to memory, first.
    stage: Option<Stage>,
    id: Id,
    channel: EventChannel,
    wake: Wake,
    targets: Targets,
    /// Kept until the queue pair is gone.
    _buffers: Buffers,
    terms: Terms,
    settings: Settings,
    domain: Domain,
    completions: Vec<Completion>,
    work: Work,
    /// The peer's queue pair is known to take what comes. One that we have accepted has it do so
    /// only when it looks at our answer; what is sent before is lost, and sent again by the device
    /// after seconds.
    peer_receives: bool,
    /// The connection manager says that the peer is gone.
    hung_up: bool,
    /// We were asked to leave.
    leaving: bool,
    /// Why it is no longer.
    ended: Option<StreamError>,
}

impl Stream {
    /// Begins to connect, from an address of the domain's device.
    pub fn connect(
        domain: &Domain,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        buffers: Buffers,
        settings: Settings,
    ) -> Result<Self, StreamError> {
        let channel = EventChannel::open(domain.device().libraries())?;
        let id = Id::create(&channel, Token::default())?;
        let stream = Self::new(domain, id, channel, buffers, settings)?;
        stream.id.resolve_address(local, peer, RESOLVE)?;
        Ok(stream)
    }

    fn new(
        domain: &Domain,
        id: Id,
        channel: EventChannel,
        buffers: Buffers,
        settings: Settings,
    ) -> Result<Self, StreamError> {
        let targets = Targets::new(domain)?;
        let terms = Terms::new(
            settings,
            source(&buffers.send).ok_or(StreamError::OutsideRegion)?,
            sink(&buffers.receive).ok_or(StreamError::OutsideRegion)?,
            targets.place(),
        )?;
        let wake = Wake::new(&channel)?;
        Ok(Self {
            stage: Some(Stage::Resolving),
            id,
            channel,
            wake,
            targets,
            _buffers: buffers,
            terms,
            settings,
            domain: domain.clone(),
            completions: Vec::new(),
            work: Work::default(),
            peer_receives: false,
            hung_up: false,
            leaving: false,
            ended: None,
        })
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> State {
        match self.stage {
            Some(Stage::Open(..)) => State::Open,
            _ => State::Connecting,
        }
    }

    /// The kernel has published bytes up to here. This and what follows is nothing to a stream that
    /// is not open yet.
    pub fn offer(&mut self, tail: u64) -> Result<(), StreamError> {
        match &mut self.stage {
            Some(Stage::Open(_, protocol)) => Ok(protocol.offer(tail)?),
            _ => Ok(()),
        }
    }

    /// The kernel has consumed bytes up to here.
    pub fn consumed(&mut self, head: u64) -> Result<(), StreamError> {
        match &mut self.stage {
            Some(Stage::Open(_, protocol)) => Ok(protocol.consumed(head)?),
            _ => Ok(()),
        }
    }

    /// Whether to look what the kernel has consumed: the peer could be granted that.
    #[must_use]
    pub fn wants_head(&self) -> bool {
        self.protocol().is_some_and(Protocol::wants_head)
    }

    /// What has been written: the kernel may overwrite it.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.protocol().map_or(self.terms.send_base(), Protocol::sent)
    }

    /// What has arrived: the kernel may read it.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.protocol().map_or(self.terms.receive_base(), Protocol::arrived)
    }

    /// Whether what has arrived is all there will be.
    #[must_use]
    pub fn is_peer_done(&self) -> bool {
        self.protocol().is_some_and(Protocol::is_peer_done)
    }

    /// Whether it has failed, as [`Self::progress`] has said.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.ended.is_some()
    }

    /// Ends our stream behind what was offered.
    pub fn shutdown_send(&mut self) {
        if let Some(Stage::Open(_, protocol)) = &mut self.stage {
            protocol.shutdown_send();
        }
    }

    /// Ends the connection at once: no device reaches the stream's memory from here on. What is left,
    /// memory that is registered above all, goes with the stream, which may be dropped elsewhere.
    pub fn destroy_queue_pair(&mut self) {
        self.stage = None;
    }

    /// Has the peer's device answer every so often, or no longer; one that is gone shows as an
    /// error.
    pub fn set_keepalive(&mut self, every: Option<Duration>) -> Result<(), StreamError> {
        self.wake.set_timer(every)
    }

    /// What was done so far.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work
    }

    /// Our address, once it is known.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.id.local_address()
    }

    /// The peer's.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.id.peer_address()
    }

    /// Readable when [`Self::progress`] has something to do, each time anew, so that one may wait
    /// for edges.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.descriptor()
    }

    fn protocol(&self) -> Option<&Protocol> {
        match &self.stage {
            Some(Stage::Open(_, protocol)) => Some(protocol),
            _ => None,
        }
    }
}

fn source(buffer: &Buffer) -> Option<Ring> {
    let piece = buffer.region.piece(buffer.offset, buffer.capacity)?;
    Some(ring(buffer, piece.address, piece.key))
}

fn sink(buffer: &Buffer) -> Option<Ring> {
    let target = buffer.region.target(buffer.offset, buffer.capacity)?;
    Some(ring(buffer, target.address, target.key))
}

fn ring(buffer: &Buffer, address: u64, key: u32) -> Ring {
    Ring { address, key, capacity: buffer.capacity.into(), base: buffer.base }
}
