//! Stacks of coroutines, kept between launches: mapping one costs more than most kernels' threads.
//!
//! Workers take and return them; the machine owns the pool. Pages are given on first touch, and a
//! guard page below each stack turns an overflow into a fault instead of corruption.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lock::lock;

use corosensei::stack::{DefaultStack, Stack, StackPointer};

/// Stacks that are kept; each holds about 8 KiB of touched pages.
const KEPT: usize = 4096;

/// Stacks that a worker takes from the pool at a time.
const BATCH: usize = 64;

/// Where stacks begin: at so many places of a page in turn, so far apart. If all began at its
/// top, the words in use of all threads of a block would fight for the same few cache lines.
const PLACES: usize = 32;
const APART: usize = 128;

/// A stack that begins somewhere in its last page.
pub(super) struct KernelStack {
    pages: DefaultStack,
    base: StackPointer,
}

impl KernelStack {
    fn new(bytes: usize, number: usize) -> io::Result<Self> {
        // A page more, so that every stack has the bytes asked for.
        let pages = DefaultStack::new(bytes.saturating_add(PLACES * APART))?;
        let top = pages.base().get();
        let base = StackPointer::new(top - number % PLACES * APART).unwrap_or(pages.base());
        Ok(Self { pages, base })
    }
}

// SAFETY: between `base` and the limit lie the guard page and at least the minimum of usable
// bytes, since a page was added for what is left out above; APART keeps the alignment.
unsafe impl Stack for KernelStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.pages.limit()
    }
}

/// The pool.
pub(super) struct Stacks {
    bytes: usize,
    made: AtomicUsize,
    free: Mutex<Vec<KernelStack>>,
}

impl Stacks {
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, made: AtomicUsize::new(0), free: Mutex::new(Vec::new()) }
    }

    fn with_free<R>(&self, f: impl FnOnce(&mut Vec<KernelStack>) -> R) -> R {
        // No code panics under this lock; the stacks of a poisoned one are whole.
        f(&mut lock(&self.free))
    }

    /// A stack from `local`, else from the pool, else a new one.
    pub(super) fn take(&self, local: &mut Vec<KernelStack>) -> io::Result<KernelStack> {
        if local.is_empty() {
            self.with_free(|free| local.extend(free.drain(free.len().saturating_sub(BATCH)..)));
        }
        match local.pop() {
            Some(stack) => Ok(stack),
            None => KernelStack::new(self.bytes, self.made.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Gives a worker's stacks back at its end.
    pub(super) fn give_back(&self, local: Vec<KernelStack>) {
        let surplus: Vec<KernelStack> = self.with_free(|free| {
            let mut local = local;
            let room = KEPT.saturating_sub(free.len()).min(local.len());
            free.extend(local.drain(..room));
            local
        });
        // Unmapped outside the lock.
        drop(surplus);
    }
}
