//! What the launches of a sharing scene, and the program, know of one another: streams that nobody
//! serves at the moment, handles that are dead, and who has ended. Programs pass handles on in memory
//! of their own, with a release and an acquire; here that is a value on the host.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpunet_device::Handle;

/// A stream that is passed on between two calls, with nothing received that was not sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) handle: Handle,
    /// The kernel's end of a conversation that it has begun; of any other an echo is wanted.
    pub(crate) asks: Option<Asks>,
    /// It is such a conversation, though it may be over.
    pub(crate) converses: bool,
    /// It belongs to the program, and outlives all launches.
    pub(crate) detached: bool,
}

/// How far a conversation is whose bytes kernels draw and check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asks {
    pub(crate) number: u64,
    pub(crate) at: u64,
    pub(crate) total: u64,
}

impl Entry {
    /// A stream of a remote client, which wants an echo.
    pub(crate) fn echo(handle: Handle) -> Self {
        Self { handle, asks: None, converses: false, detached: false }
    }

    /// As words, for a group's leader to broadcast; all 0: none.
    pub(crate) fn to_words(entry: Option<Self>) -> [u64; 5] {
        let Some(entry) = entry else { return [0; 5] };
        let asks = entry.asks.unwrap_or(Asks { number: 0, at: 0, total: 0 });
        [entry.handle.0, asks.number, asks.at, asks.total, u64::from(entry.detached)]
    }

    /// From such words.
    pub(crate) fn from_words([handle, number, at, total, detached]: [u64; 5]) -> Option<Self> {
        let asks = (number != 0).then_some(Asks { number, at, total });
        let (handle, converses, detached) = (Handle(handle), asks.is_some(), detached != 0);
        (handle != Handle::NONE).then_some(Self { handle, asks, converses, detached })
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct OpenStreams {
    queue: Mutex<VecDeque<Entry>>,
    /// Handles of sockets that are closed, or were given back to the program.
    pub(crate) dead: Mutex<Vec<Handle>>,
    /// Handles that launches leave to their end.
    pub(crate) left: Mutex<Vec<Handle>>,
    /// Streams that are to be served to their end, and conversations among them.
    pub(crate) unfinished: AtomicU64,
    pub(crate) conversations: AtomicU64,
    /// Connections that kernels have taken from the program's listener.
    pub(crate) accepted: AtomicU64,
    /// The program's listener.
    pub(crate) listener: AtomicU64,
    /// The next token of a poller: none is used twice.
    tokens: AtomicU64,
    /// The handle that two launches use at the same time; `FAILED`: there is none.
    pub(crate) shared: AtomicU64,
    /// The launch that only uses it has all its bytes.
    pub(crate) used: AtomicBool,
    /// The launch that owns it ends while the other uses it.
    pub(crate) owner_ends: AtomicBool,
    /// The launch that owns it has sent all that it sends.
    pub(crate) owner_sent: AtomicBool,
    /// When the end of the launch that owns it was complete.
    pub(crate) owner_over_at: AtomicU64,
}

/// In place of a handle.
pub(crate) const FAILED: u64 = u64::MAX;

impl OpenStreams {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a stream to whoever comes.
    pub(crate) fn send(&self, entry: Entry) {
        self.queue().push_back(entry);
    }

    /// Takes one that `wanted` says yes to.
    pub(crate) fn receive(&self, wanted: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let mut queue = self.queue();
        let at = queue.iter().position(wanted)?;
        queue.remove(at)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.queue().len()
    }

    /// A stream was served to its end.
    pub(crate) fn finish(&self) {
        self.unfinished.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether all were, or all conversations.
    pub(crate) fn is_over(&self, conversations: bool) -> bool {
        let left = if conversations { &self.conversations } else { &self.unfinished };
        left.load(Ordering::Relaxed) == 0
    }

    /// A token that no poller has had.
    pub(crate) fn token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed) + 100
    }

    /// Dead handles, as many as a worker tries.
    pub(crate) fn dead_handle(&self, at: usize) -> u64 {
        let dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        dead.get(at).map_or(0, |handle| handle.0)
    }

    /// A launch leaves a socket to its end.
    pub(crate) fn leave(&self, handle: Handle) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    /// All launches have ended: what they left open is closed.
    pub(crate) fn close_left(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        self.dead.lock().unwrap_or_else(PoisonError::into_inner).append(&mut left);
    }
}
