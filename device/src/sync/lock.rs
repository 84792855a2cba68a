//! A spin lock in one word of GPU memory. One thread takes it and releases it.

use core::sync::atomic::Ordering;

use super::atomic::AtomicRef;

const FREE: u32 = 0;
const HELD: u32 = 1;

/// A lock in a word of GPU memory that is 0 at first and used for nothing else.
///
/// One thread holds it, not a group; all threads of a warp may wait for it at a time. It is not fair,
/// and a thread that takes it twice waits for itself. What the holder did before it released the lock
/// is visible to the next holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock(AtomicRef<u32>);

impl Lock {
    /// The lock in that word.
    #[inline(always)]
    pub const fn new(word: AtomicRef<u32>) -> Self {
        Self(word)
    }

    /// Takes it if it is free.
    #[inline(always)]
    pub fn try_lock(self) -> Option<Guard> {
        // Pairs with the release in `release`.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        self.0.compare_exchange(FREE, HELD, acquire, relaxed).is_ok().then(|| Guard(self))
    }

    /// Takes it; none if it is not free within `timeout_ns` nanoseconds (0: tries once).
    #[inline(always)]
    pub fn lock(self, timeout_ns: u64) -> Option<Guard> {
        super::wait::until(timeout_ns, || {
            // A load first: those that wait do not take the word from the holder.
            if self.is_held() { None } else { self.try_lock() }
        })
    }

    /// Whether somebody holds it now.
    #[inline(always)]
    pub fn is_held(self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }

    /// Releases it. For the thread that took it and gave the guard away with [`Guard::into_raw`]; a
    /// lock that another holds would be free for a second one.
    #[inline(always)]
    pub fn release(self) {
        // Pairs with the acquire in `try_lock`.
        self.0.store(FREE, Ordering::Release);
    }
}

/// Holds a [`Lock`] until it goes out of scope.
#[must_use = "the lock is released at once"]
#[derive(Debug)]
pub struct Guard(Lock);

impl Guard {
    /// The lock, which stays held: [`Lock::release`] ends that.
    #[inline(always)]
    #[must_use = "it stays held"]
    pub fn into_raw(self) -> Lock {
        let lock = self.0;
        core::mem::forget(self);
        lock
    }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.release();
    }
}
