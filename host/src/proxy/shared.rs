//! What the shards of a net share: memory, pool, settings, and the ways to one another.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard};

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;

use super::counted::Counted;
use super::drain::Drain;
use super::message::Message;
use super::running::RunningLaunches;
use crate::lock::lock;
use crate::memory::Memory;
use crate::pool::{Account, Pool};
use crate::settings::config::Config;
use crate::settings::policy::Policy;
use crate::transport::{RingRegion, Transports};

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
    /// Is notified of each socket whose slot and rings may be used again from now on: for who checks that no
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
        lock(&self.waiting)
    }

    /// Sends a message to a shard and wakes it.
    pub(crate) fn send(&self, shard: usize, message: Message) {
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
