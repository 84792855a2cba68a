//! A reader-writer lock in one word of GPU memory. One thread takes it and releases it, also on behalf
//! of a group.
//!
//! ```text
//!   31      30               29 .. 0
//!  ┌───────┬────────────────┬───────────────────┐
//!  │ writer│ writer waiting │ number of readers │
//!  └───────┴────────────────┴───────────────────┘
//! ```

use core::sync::atomic::Ordering;

use super::atomic::AtomicRef;

const WRITER: u32 = 1 << 31;
pub(super) const WRITER_WAITS: u32 = 1 << 30;
/// Room for those that are counted for a moment and find that they cannot come in.
const MOST_READERS: u32 = WRITER_WAITS / 2;

/// A lock in a word of GPU memory that is 0 at first and used for nothing else: many readers, or one
/// writer.
///
/// While a writer waits no new reader comes in, so that readers cannot keep it out; a thread that reads
/// must not read again before it has released. What holders did before they released is visible to
/// those that come in afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwLock(AtomicRef<u32>);

impl RwLock {
    /// The lock in that word.
    #[inline(always)]
    pub const fn new(word: AtomicRef<u32>) -> Self {
        Self(word)
    }

    /// Reads if no writer holds it or waits for it.
    #[inline(always)]
    pub fn try_read(self) -> Option<ReadGuard> {
        // A load first: readers that cannot come in leave the word alone.
        if self.0.load(Ordering::Relaxed) >= MOST_READERS {
            return None;
        }
        self.count_in()
    }

    /// Reads; none if writers hold it for `timeout_ns` nanoseconds (0: tries once).
    #[inline(always)]
    pub fn read(self, timeout_ns: u64) -> Option<ReadGuard> {
        // Mostly it is free: without a load first, which is a trip to GPU memory.
        self.count_in().or_else(|| self.read_later(timeout_ns))
    }

    #[cold]
    #[inline(never)]
    fn read_later(self, timeout_ns: u64) -> Option<ReadGuard> {
        super::wait::until(timeout_ns, || self.try_read())
    }

    /// Adds a reader, unless a writer holds it or waits for it.
    #[inline(always)]
    fn count_in(self) -> Option<ReadGuard> {
        // An addition, in which readers do not fail one another as in a compare-and-exchange. Pairs
        // with the release in `release_write`.
        if self.0.fetch_add(1, Ordering::Acquire) < MOST_READERS {
            return Some(ReadGuard(self));
        }
        self.0.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Writes if nobody holds it.
    #[inline(always)]
    pub fn try_write(self) -> Option<WriteGuard> {
        let now = self.0.load(Ordering::Relaxed);
        // Whoever else waits to write says so again in its next turn.
        let free = now & !WRITER_WAITS == 0;
        // Pairs with the releases in `release_read` and `release_write`.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        (free && self.0.compare_exchange(now, WRITER, acquire, relaxed).is_ok())
            .then(|| WriteGuard(self))
    }

    /// Writes; none if others hold it for `timeout_ns` nanoseconds (0: tries once).
    #[inline(always)]
    pub fn write(self, timeout_ns: u64) -> Option<WriteGuard> {
        // As in `read`.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        match self.0.compare_exchange(0, WRITER, acquire, relaxed) {
            Ok(_) => Some(WriteGuard(self)),
            Err(_) => self.write_later(timeout_ns),
        }
    }

    #[cold]
    #[inline(never)]
    fn write_later(self, timeout_ns: u64) -> Option<WriteGuard> {
        let mut said = false;
        let held = super::wait::until(timeout_ns, || {
            let held = self.try_write();
            if held.is_none()
                && timeout_ns != 0
                && self.0.load(Ordering::Relaxed) & WRITER_WAITS == 0
            {
                self.0.fetch_or(WRITER_WAITS, Ordering::Relaxed);
                said = true;
            }
            held
        });
        if held.is_none() && said {
            // Readers come in again.
            self.0.fetch_and(!WRITER_WAITS, Ordering::Relaxed);
        }
        held
    }

    /// No longer reads. For the thread whose guard was given away with [`ReadGuard::into_raw`].
    #[inline(always)]
    pub fn release_read(self) {
        // Pairs with the acquires of writers.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// No longer writes. For the thread whose guard was given away with [`WriteGuard::into_raw`].
    #[inline(always)]
    pub fn release_write(self) {
        // Pairs with the acquires of readers and writers.
        self.0.fetch_and(!WRITER, Ordering::Release);
    }
}

/// Holds an [`RwLock`] for reading until it goes out of scope.
#[must_use = "the lock is released at once"]
#[derive(Debug)]
pub struct ReadGuard(RwLock);

/// Holds an [`RwLock`] for writing until it goes out of scope.
#[must_use = "the lock is released at once"]
#[derive(Debug)]
pub struct WriteGuard(RwLock);

impl ReadGuard {
    /// The lock, which stays held: [`RwLock::release_read`] ends that.
    #[inline(always)]
    #[must_use = "it stays held"]
    pub fn into_raw(self) -> RwLock {
        let lock = self.0;
        core::mem::forget(self);
        lock
    }
}

impl WriteGuard {
    /// The lock, which stays held: [`RwLock::release_write`] ends that.
    #[inline(always)]
    #[must_use = "it stays held"]
    pub fn into_raw(self) -> RwLock {
        let lock = self.0;
        core::mem::forget(self);
        lock
    }
}

impl Drop for ReadGuard {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.release_read();
    }
}

impl Drop for WriteGuard {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.release_write();
    }
}
