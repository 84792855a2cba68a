//! What a launch of a scene is to do, and what its groups say of it.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use gpunet_device::{Group, Handle, Net, On, SharedBuf, simt};

use super::grouping::Grouping;
use super::job::Job;
use super::log;
use super::open_streams::OpenStreams;
use super::script::Script;

/// Bytes of shared memory that a block needs, and of it a group that shares the block with others.
pub(crate) const SHARED_BYTES: u32 = 8 << 10;
pub(crate) const GROUP_BYTES: usize = 1 << 10;
/// What blocks that share a socket know of one another.
#[derive(Default)]
pub(crate) struct Common {
    pub(super) handle: AtomicU64,
    /// Bytes sent and received, by the block that sent them.
    pub(super) sent: [AtomicU64; 4],
    pub(super) received: [AtomicU64; 4],
    pub(super) sending: AtomicU64,
    pub(super) receiving: AtomicU64,
}

/// What a launch does.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) net: Net,
    /// How long a call may wait.
    pub(crate) timeout_ns: u64,
    /// How long an accept may.
    pub(crate) accept_ns: u64,
    pub(crate) work: Work,
    pub(crate) grouping: Grouping,
    pub(crate) common: Arc<Common>,
    /// Launches that may still connect to the kernels' own listener.
    pub(crate) callers: Arc<AtomicU64>,
    /// Bytes moved by one call, where the buffer begins, and whether rings are used in place.
    pub(crate) piece: usize,
    pub(crate) offset: usize,
    pub(crate) in_place: bool,
    /// Where a block shares a socket, what part of it also receives by itself, with no barrier in
    /// between.
    pub(crate) alone: Option<Grouping>,
    /// Errors may come: a peer breaks off, or the launch is stopped.
    pub(crate) excused: bool,
    pub(crate) complaints: Arc<Mutex<Vec<String>>>,
}

/// The kinds of work.
#[derive(Clone)]
pub(crate) enum Work {
    /// Accept, and echo each stream to its end, until nobody comes any more.
    Serve { listener: Handle },
    /// Connect to a port and have `total` bytes echoed, `rounds` times.
    Ask { port: u16, total: u64, rounds: u64, first_stream: u64 },
    /// All blocks send on one socket and receive the echo from it, `total` bytes each.
    Share { port: u16, total: u64 },
    /// Accept, and do an end of the script with each stream.
    Answer { listener: Handle, script: Arc<Script> },
    /// Connect to a port and do the other end, so many times.
    Exchange { port: u16, script: Arc<Script>, streams: u64 },
    /// What a launch does that shares sockets with others.
    Job { queue: Arc<OpenStreams>, job: Job },
}

impl Plan {
    /// Any thread complains.
    pub(super) fn complain_alone(&self, text: &str) {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    /// The group's leader complains for all.
    pub(super) fn complain<G: Group>(&self, on: On<G>, text: &str) {
        if on.group().is_leader() {
            self.complain_alone(text);
        }
    }

    /// Makes a call and sees how long it takes: at most its time-out and a fifth, or 50 ms more.
    pub(super) fn timed<G: Group, R>(&self, on: On<G>, name: &str, call: impl FnOnce() -> R) -> R
    where
        R: Debug,
    {
        let begin = simt::now_ns();
        let leads = on.group().is_leader();
        if leads {
            log(format!("calls {name}"));
        }
        let result = call();
        let took = simt::now_ns() - begin;
        if leads {
            log(format!("{name} gives {result:?} after {} us", took / 1000));
        }
        let limit = if name == "accept" { self.accept_ns } else { self.timeout_ns };
        let limit = limit + (limit / 5).max(50_000_000);
        if took > limit {
            self.complain(on, &format!("{name} took {took} ns, its limit is {limit}"));
        }
        result
    }

    /// Which group of its block the calling thread belongs to.
    pub(super) fn member(&self) -> usize {
        let thread = simt::position().thread as usize;
        match self.grouping {
            Grouping::Blocks => 0,
            Grouping::Warps => thread / simt::WARP as usize,
            Grouping::Threads => thread,
        }
    }

    pub(super) fn buffer(&self) -> SharedBuf {
        let start = self.offset + self.member() * GROUP_BYTES;
        let most = if self.grouping == Grouping::Blocks { usize::MAX } else { GROUP_BYTES - 16 };
        simt::shared_memory().slice(start, self.piece.min(most))
    }
}
