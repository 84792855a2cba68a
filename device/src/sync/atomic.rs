//! References to words that threads of several blocks change at a time. Any thread calls them.

#![allow(unsafe_code, reason = "hands the address of a word to the backend")]

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use crate::buf::Shared;
use crate::simt::atomic::{Atomic, Fetch, for_load, for_store};
use crate::simt::atomic_fence;

/// A type of word that has atomics: `u32` and `u64`.
pub trait AtomicInteger: Atomic {}

impl AtomicInteger for u32 {}
impl AtomicInteger for u64 {}

/// The threads for which an access is atomic and in order: [`Gpu`] or [`System`].
pub trait MemoryScope: sealed::Sealed + Copy + 'static {
    #[doc(hidden)]
    const SYSTEM: bool;
}

/// The threads of this GPU.
#[derive(Clone, Copy, Debug)]
pub struct Gpu;

/// The threads of this GPU, of the CPU and of other GPUs.
#[derive(Clone, Copy, Debug)]
pub struct System;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Gpu {}
    impl Sealed for super::System {}
}

impl MemoryScope for Gpu {
    const SYSTEM: bool = false;
}

impl MemoryScope for System {
    const SYSTEM: bool = true;
}

/// A word that several threads change at a time, by its address. Two are equal that are the same word.
///
/// The calls are those of `core`'s atomics; [the module](super) has the instructions. An ordering that
/// the call cannot have (a load that releases) is taken for `SeqCst`.
pub struct AtomicRef<T: AtomicInteger, S: MemoryScope = Gpu> {
    at: *mut T,
    scope: PhantomData<S>,
}

impl<T: AtomicInteger, S: MemoryScope> Clone for AtomicRef<T, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: AtomicInteger, S: MemoryScope> Copy for AtomicRef<T, S> {}

impl<T: AtomicInteger, S: MemoryScope> PartialEq for AtomicRef<T, S> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.at, other.at)
    }
}

impl<T: AtomicInteger, S: MemoryScope> Eq for AtomicRef<T, S> {}

impl<T: AtomicInteger, S: MemoryScope> fmt::Debug for AtomicRef<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AtomicRef").field(&self.at).finish()
    }
}

// SAFETY: every access is atomic; `from_ptr`'s caller answers for the address.
unsafe impl<T: AtomicInteger, S: MemoryScope> Send for AtomicRef<T, S> {}
// SAFETY: as above.
unsafe impl<T: AtomicInteger, S: MemoryScope> Sync for AtomicRef<T, S> {}

impl<T: AtomicInteger, S: MemoryScope> AtomicRef<T, S> {
    /// The word at `at`.
    ///
    /// # Safety
    /// It is aligned to its size and stays valid as long as the reference is used. In a kernel it lies
    /// in global or shared memory, not on the thread's stack. Accesses that are not atomic are ordered
    /// with the atomic ones, by a barrier or a lock.
    #[inline(always)]
    pub const unsafe fn from_ptr(at: *mut T) -> Self {
        Self { at, scope: PhantomData }
    }

    /// The same word in another scope.
    #[inline(always)]
    #[must_use]
    pub const fn in_scope<R: MemoryScope>(self) -> AtomicRef<T, R> {
        AtomicRef { at: self.at, scope: PhantomData }
    }

    /// Where it is.
    #[inline(always)]
    pub const fn as_ptr(self) -> *mut T {
        self.at
    }

    /// Its value.
    #[inline(always)]
    pub fn load(self, order: Ordering) -> T {
        // SAFETY: `from_ptr` promises alignment and validity. So below.
        unsafe { T::load(self.at, S::SYSTEM, for_load(order)) }
    }

    /// Sets it.
    #[inline(always)]
    pub fn store(self, value: T, order: Ordering) {
        // SAFETY: as in `load`.
        unsafe { T::store(self.at, value, S::SYSTEM, for_store(order)) }
    }

    /// Sets it to `new` if it is `current`: that value. Otherwise the value that it has, as an error.
    /// It never fails for another reason.
    #[inline(always)]
    pub fn compare_exchange(
        self,
        current: T,
        new: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T> {
        let failure = for_load(failure);
        // SAFETY: as in `load`.
        let old =
            unsafe { T::compare_exchange(self.at, current, new, S::SYSTEM, success, failure) };
        if old == current { Ok(old) } else { Err(old) }
    }

    #[inline(always)]
    fn fetch(self, with: Fetch, value: T, order: Ordering) -> T {
        // SAFETY: as in `load`.
        unsafe { T::fetch(self.at, with, value, S::SYSTEM, order) }
    }

    /// Sets it; the value before.
    #[inline(always)]
    pub fn swap(self, value: T, order: Ordering) -> T {
        self.fetch(Fetch::Swap, value, order)
    }

    /// Adds, wrapping; the value before.
    #[inline(always)]
    pub fn fetch_add(self, value: T, order: Ordering) -> T {
        self.fetch(Fetch::Add, value, order)
    }

    /// Subtracts, wrapping; the value before.
    #[inline(always)]
    pub fn fetch_sub(self, value: T, order: Ordering) -> T {
        self.fetch(Fetch::Add, value.negated(), order)
    }

    /// Keeps the bits of `value`; the value before.
    #[inline(always)]
    pub fn fetch_and(self, value: T, order: Ordering) -> T {
        self.fetch(Fetch::And, value, order)
    }

    /// Sets the bits of `value`; the value before.
    #[inline(always)]
    pub fn fetch_or(self, value: T, order: Ordering) -> T {
        self.fetch(Fetch::Or, value, order)
    }

    /// Inverts the bits of `value`; the value before.
    #[inline(always)]
    pub fn fetch_xor(self, value: T, order: Ordering) -> T {
        self.fetch(Fetch::Xor, value, order)
    }

    /// Sets it to the larger of the two; the value before.
    #[inline(always)]
    pub fn fetch_max(self, value: T, order: Ordering) -> T {
        self.fetch(Fetch::Max, value, order)
    }

    /// Sets it to the smaller of the two; the value before.
    #[inline(always)]
    pub fn fetch_min(self, value: T, order: Ordering) -> T {
        self.fetch(Fetch::Min, value, order)
    }
}

impl<T: AtomicInteger> Shared<T> {
    /// The element at `index` for atomics, in the scope of this GPU; none beyond the end.
    #[inline(always)]
    pub fn atomic(self, index: usize) -> Option<AtomicRef<T>> {
        // SAFETY: in bounds; `Shared::from_raw` promises alignment and validity, and that accesses to
        // an element are ordered.
        (index < self.len()).then(|| unsafe { AtomicRef::from_ptr(self.as_ptr().add(index)) })
    }
}

/// Orders the calling thread's accesses before it with those behind it, for the threads of scope `S`.
/// With `Relaxed` it does nothing.
#[inline(always)]
pub fn fence<S: MemoryScope>(order: Ordering) {
    atomic_fence(S::SYSTEM, order);
}
