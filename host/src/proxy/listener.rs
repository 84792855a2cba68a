//! What a listener has beside its socket: which of its connections no kernel has taken yet.

use std::collections::VecDeque;

use gpunet_device::Handle;

use super::counted::Counted;
use super::shared::Shared;

/// See the module.
pub(crate) struct Listener {
    /// How many connections may wait for a kernel; further peers wait in the system's queue.
    pub(super) share: usize,
    /// The handles of those that do; those in the ring may be overwritten by a kernel.
    pending: VecDeque<Handle>,
    /// Of these, so many that were reported to no poller.
    pub(super) unannounced: u32,
    /// Accepting pauses until then, since something ran out.
    pub(super) pause_until_ns: u64,
}

impl Listener {
    pub(super) fn new(share: u32) -> Self {
        Self { share: share as usize, pending: VecDeque::new(), unannounced: 0, pause_until_ns: 0 }
    }

    /// Notes a handle that goes into the accept ring.
    pub(super) fn note(&mut self, shared: &Shared, handle: Handle) {
        shared.waiting().insert(handle.0);
        self.pending.push_back(handle);
    }

    /// Forgets the handles that kernels have taken from the accept ring.
    pub(crate) fn forget_taken(&mut self, ring: &Counted, shared: &Shared) {
        let waiting = (ring.unread() / 8) as usize;
        let taken = self.pending.len().saturating_sub(waiting);
        if taken > 0 {
            let mut waiting = shared.waiting();
            self.pending.drain(..taken).for_each(|handle| {
                waiting.remove(&handle.0);
                shared.pool.accepted(handle);
            });
        }
    }

    /// The handles that no kernel has taken from the accept ring, which wait no longer.
    pub(super) fn drain(&mut self, ring: &Counted, shared: &Shared) -> VecDeque<Handle> {
        self.forget_taken(ring, shared);
        let mut waiting = shared.waiting();
        for handle in &self.pending {
            waiting.remove(&handle.0);
        }
        std::mem::take(&mut self.pending)
    }

    /// Connections that wait for a kernel, as its head says.
    pub(super) fn waiting(&self) -> usize {
        self.pending.len()
    }
}
