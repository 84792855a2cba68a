//! What the shards of a net share: memory, pool, settings, and the ways to one another.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::MAX_LAUNCHES;

use super::counted::Counted;
use super::drain::Drain;
use super::message::Message;
use crate::memory::Memory;
use crate::pool::{Account, Pool};
use crate::settings::config::Config;
use crate::settings::policy::Policy;
use crate::transport::{RingRegion, Transports};

/// Which launches of a net run, from before their kernel starts until it has ended. A slot's number
/// grows when a launch takes it and when it ends: odd while one runs.
#[derive(Debug)]
pub(crate) struct RunningLaunches([AtomicU64; MAX_LAUNCHES as usize]);

/// A launch that ran when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningLaunch {
    slot: u32,
    number: u64,
}

impl Default for RunningLaunches {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; MAX_LAUNCHES as usize])
    }
}

impl RunningLaunches {
    /// Notes that a launch runs, or no longer does.
    pub(crate) fn set(&self, launch: u32, runs: bool) {
        let Some(number) = self.0.get(launch as usize) else { return };
        if self.runs(launch) != runs {
            // Release and acquire: who is told that a launch has ended finds it so here.
            number.fetch_add(1, Ordering::AcqRel);
        }
        // Pairs with the fence in `all`: the kernel, which starts behind this one, finds withdrawn what was
        // closed without it.
        fence(Ordering::SeqCst);
    }

    fn number(&self, launch: u32) -> u64 {
        self.0.get(launch as usize).map_or(0, |number| number.load(Ordering::Acquire))
    }

    /// Whether a launch runs.
    pub(crate) fn runs(&self, launch: u32) -> bool {
        !self.number(launch).is_multiple_of(2)
    }

    /// Whether any launch runs.
    pub(crate) fn any_runs(&self) -> bool {
        (0..MAX_LAUNCHES).any(|launch| self.runs(launch))
    }

    /// All that run now, for who has withdrawn a descriptor: any other launch finds that it is.
    pub(crate) fn all(&self) -> Vec<RunningLaunch> {
        // The descriptor before the numbers: neither a release nor an acquire orders a store and a later
        // load of another word.
        fence(Ordering::SeqCst);
        let launches =
            (0..MAX_LAUNCHES).map(|slot| RunningLaunch { slot, number: self.number(slot) });
        launches.filter(|launch| !launch.number.is_multiple_of(2)).collect()
    }

    /// Whether one that ran still does.
    pub(crate) fn still_runs(&self, launch: RunningLaunch) -> bool {
        self.number(launch.slot) == launch.number
    }
}

/// What the shards of a net have in common.
pub(crate) struct Shared {
    pub(crate) memory: Memory,
    pub(crate) pool: Pool,
    pub(crate) config: Config,
    pub(crate) policy: Policy,
    pub(crate) transports: Transports,
    pub(crate) queues: Vec<MessageQueue>,
    pub(crate) launches: RunningLaunches,
    /// Sockets that the host has closed under launches that run.
    pub(crate) drain: Drain,
    /// Accepted connections that no kernel has taken yet, by handle. They belong to no launch.
    pub(crate) waiting: Mutex<HashSet<u64>>,
    /// Where lines that kernels print go.
    pub(crate) printer: Mutex<std::sync::mpsc::SyncSender<(u32, String)>>,
    /// Is told of each socket whose slot and rings may be used again from now on: for who checks that no
    /// kernel is inside a call on it.
    pub(crate) on_free: fn(Handle),
}

impl Shared {
    /// A handle's slot in the net's tables.
    pub(crate) fn index(&self, handle: Handle) -> usize {
        let slots = self.memory.layout().socket_slots as usize;
        handle.shard() as usize * slots + handle.slot() as usize
    }

    /// A ring in host memory whose counters begin behind the GPU's `word`.
    pub(crate) fn ring(&self, capacity: u32, word: u64) -> Result<Counted, Errno> {
        self.ring_in(Account::Own, RingRegion::Host, capacity, word)
    }

    /// The same in some memory, on some account.
    pub(crate) fn ring_in(
        &self,
        account: Account,
        region: RingRegion,
        capacity: u32,
        word: u64,
    ) -> Result<Counted, Errno> {
        let location =
            self.pool.allocate_ring(account, region, capacity, Counted::base_after(word))?;
        Ok(Counted::new(location, word))
    }

    /// The accepted connections that no kernel has taken yet.
    pub(crate) fn waiting(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to a shard and wakes it.
    pub(crate) fn tell(&self, shard: usize, message: Message) {
        if let Some(queue) = self.queues.get(shard) {
            // A shard that is gone has closed everything it had.
            if queue.sender.send(message).is_ok() {
                queue.wake();
            }
        }
    }
}

/// The way into a shard.
pub(crate) struct MessageQueue {
    pub(crate) sender: Sender<Message>,
    pub(crate) waker: std::os::fd::OwnedFd,
}

impl MessageQueue {
    /// Ends the thread's sleep.
    pub(crate) fn wake(&self) {
        // It fails only when the counter is at its limit, and then the thread is awake.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }
}

/// What the thread does for the shard: wait for descriptors.
pub(crate) trait Readiness {
    /// Reports what happens on the descriptor from now on, edge by edge, under the key.
    fn add(&mut self, descriptor: BorrowedFd<'_>, key: u64) -> Result<(), Errno>;
    /// No longer.
    fn remove(&mut self, descriptor: BorrowedFd<'_>);
}
