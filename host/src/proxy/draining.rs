//! The sockets of a net that drain: closed by the host, and not free yet. What becomes of them is decided in
//! [`drain`](super::drain).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread::Thread;

use gpunet_device::Handle;

use super::running::RunningLaunch;

/// A socket that is closed and not free yet.
pub(crate) struct Draining {
    pub(super) handle: Handle,
    /// The launches that ran when it was closed.
    pub(super) users: Vec<RunningLaunch>,
    /// Looked at from then on.
    pub(super) due_ns: u64,
    /// It was closed for groups, or is being made and could not be yet.
    pub(super) looked_at: bool,
    /// Groups find it closed.
    pub(super) seen_closed: bool,
    /// Its shard waits to be notified that groups find it closed.
    pub(super) notifies: bool,
    /// Since when all looks have found it closed, with no group inside.
    pub(super) quiet_ns: Option<u64>,
}

/// The sockets of a net that drain.
#[derive(Default)]
pub(crate) struct Drain {
    pub(super) sockets: Mutex<Vec<Draining>>,
    /// How many drain.
    pub(super) count: AtomicUsize,
    /// Those that a kernel has closed at the same time: it has their locks, for good.
    pub(super) left: Mutex<Vec<Handle>>,
    /// Signalled when all sockets that drain by now are closed for the groups that use them.
    waiting: Mutex<Vec<mpsc::Sender<()>>>,
    /// Who calls `step`.
    pub(super) thread: OnceLock<Thread>,
}

impl Drain {
    pub(super) fn sockets(&self) -> MutexGuard<'_, Vec<Draining>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread's sleep.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Whether no socket drains.
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Has a socket drained whose descriptor was withdrawn. False: no launch runs, and it is free. `notifies`: its
    /// shard wants to know when groups find it closed.
    pub(crate) fn begin(&self, handle: Handle, users: Vec<RunningLaunch>, notifies: bool) -> bool {
        if users.is_empty() {
            return false;
        }
        self.sockets().push(Draining {
            handle,
            users,
            due_ns: 0,
            looked_at: false,
            seen_closed: false,
            notifies,
            quiet_ns: None,
        });
        self.count.fetch_add(1, Ordering::AcqRel);
        self.wake();
        true
    }

    /// A kernel has closed a socket that drains. It is freed by the next step, which has no copy into its
    /// record on the way.
    pub(crate) fn left_by_kernel(&self, handle: Handle) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        self.wake();
    }

    pub(super) fn waiting(&self) -> MutexGuard<'_, Vec<mpsc::Sender<()>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `done` notified once calls on all sockets that drain by now fail: at once where there are none.
    pub(crate) fn notify_when_closed(&self, done: mpsc::Sender<()>) {
        // Also those that a step has in its hands at this moment.
        if !self.is_idle() {
            self.waiting().push(done);
            self.wake();
        } else {
            // Whoever asked may have stopped waiting.
            let _ = done.send(());
        }
    }
}
