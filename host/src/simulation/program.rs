//! The program of a sharing scene: its launches, and the sockets that it has. What it does with them is in
//! `acts.rs`.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};

use gpunet_device::abi::errno::Errno;

use super::job::Job;
use super::open_streams::{self, OpenStreams};
use crate::proxy::message::Released;

/// Connections that may wait for a kernel.
pub(super) const BACKLOG: u32 = 4;

/// When a launch begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Begins {
    /// So long after its act.
    After(u64),
    /// When another one of its act is over, in whose slot it may be.
    Behind(usize),
    /// When another one has ended, while the proxies close what it left.
    During(usize),
}

/// A launch that is to begin.
pub(super) struct Planned {
    pub(super) act: usize,
    pub(super) shape: (u32, u32),
    pub(super) first_actor: usize,
    pub(super) job: Job,
    pub(super) begins: Begins,
    /// It is stopped so long after it has begun.
    pub(super) stops_after: Option<u64>,
    pub(super) piece: u64,
    /// Its number among the kernels, once it has begun.
    pub(super) kernel: Option<usize>,
}

/// What the program is at.
pub(super) enum Stage {
    /// Launches of that act begin and end, since then.
    Act(usize, u64),
    /// No launch runs: what they left goes, until then at the latest.
    Drains(u64),
    /// Sockets come back.
    TakesBack,
}

/// A socket on its way back, or here.
pub(super) enum Back {
    Asked {
        entry: open_streams::Entry,
        answer: mpsc::Receiver<Result<Released, Errno>>,
        deadline_ns: u64,
    },
    Held(Held),
    /// The listener.
    Listener(mpsc::Receiver<Result<Released, Errno>>),
}

/// A stream that the program serves by itself.
pub(super) struct Held {
    pub(super) entry: open_streams::Entry,
    pub(super) socket: OwnedFd,
    pub(super) endpoint: usize,
    pub(super) unsent: VecDeque<u8>,
    /// Pieces until it is handed over again.
    pub(super) pieces: u64,
}

/// Clients of a launch's own listener.
pub(super) struct Callers {
    pub(super) port: u16,
    pub(super) count: u64,
}

/// See the module.
pub(super) struct Program {
    pub(super) queue: Arc<OpenStreams>,
    pub(super) planned: Vec<Planned>,
    pub(super) callers: Option<Callers>,
    /// Remote clients of the program's listener.
    pub(super) clients: u64,
    pub(super) stage: Stage,
    pub(super) backs: Vec<Back>,
    pub(super) stops: Vec<(u64, usize)>,
}

impl Program {
    pub(super) fn new(
        queue: Arc<OpenStreams>,
        planned: Vec<Planned>,
        clients: u64,
        now: u64,
    ) -> Self {
        let (callers, backs, stops) = (None, Vec::new(), Vec::new());
        Self { queue, planned, callers, clients, stage: Stage::Act(0, now), backs, stops }
    }
}
