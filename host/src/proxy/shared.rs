//! What the shards of a net share: memory, pool, settings, and the ways to one another.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;

use super::connection::Counted;
use super::message::Message;
use crate::memory::Memory;
use crate::net::config::Config;
use crate::net::policy::Policy;
use crate::pool::Pool;

/// What the shards of a net have in common.
pub(crate) struct Shared {
    pub(crate) memory: Memory,
    pub(crate) pool: Pool,
    pub(crate) config: Config,
    pub(crate) policy: Policy,
    pub(crate) inboxes: Vec<Inbox>,
    /// Accepted connections that no kernel has taken yet, by handle. They belong to no launch.
    pub(crate) waiting: Mutex<HashSet<u64>>,
    /// Where lines that kernels print go.
    pub(crate) printer: Mutex<std::sync::mpsc::SyncSender<(u32, String)>>,
}

impl Shared {
    /// A handle's place in the net's tables.
    pub(crate) fn index(&self, handle: Handle) -> usize {
        let places = self.memory.layout().places as usize;
        handle.shard() as usize * places + handle.place() as usize
    }

    /// A ring whose counters begin behind the GPU's `word`.
    pub(crate) fn ring(&self, capacity: u32, word: u64) -> Result<Counted, Errno> {
        let place = self.pool.take_ring(capacity, Counted::base_after(word))?;
        Ok(Counted::new(place, word))
    }

    /// The accepted connections that no kernel has taken yet.
    pub(crate) fn waiting(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to a shard and wakes it.
    pub(crate) fn tell(&self, shard: usize, message: Message) {
        if let Some(inbox) = self.inboxes.get(shard) {
            // A shard that is gone has closed everything it had.
            if inbox.sender.send(message).is_ok() {
                inbox.wake();
            }
        }
    }
}

/// The way into a shard.
pub(crate) struct Inbox {
    pub(crate) sender: Sender<Message>,
    pub(crate) waker: std::os::fd::OwnedFd,
}

impl Inbox {
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
