//! What a listener has beside its socket.

use std::collections::VecDeque;

use gpunet_device::Handle;

/// See the module.
#[derive(Default)]
pub(crate) struct Listener {
    /// How many connections may wait for a kernel; further peers wait in the system's queue.
    pub(super) share: usize,
    /// The handles of those that do; those in the ring may be overwritten by a kernel.
    pub(super) pending: VecDeque<Handle>,
    /// Of these, so many that were reported to no poller.
    pub(super) unannounced: u32,
    /// Accepting pauses until then, since something ran out.
    pub(super) pause_until_ns: u64,
}

/// What a listener waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Its next turn: there may be more.
    Again,
    /// Its descriptor.
    Peers,
    /// A kernel that accepts.
    Kernel,
    /// A time, since something ran out.
    Pause(u64),
}
