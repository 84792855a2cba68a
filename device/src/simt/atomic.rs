//! What a backend supplies for [`crate::sync`]: loads, stores and read-modify-writes of a word, with
//! the scope and the ordering that the caller names.

#![allow(unsafe_code, reason = "raw words")]

pub(crate) use core::sync::atomic::Ordering;

/// A read-modify-write with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// The operand takes the word's place.
    Swap,
    /// The sum, wrapping.
    Add,
    /// The bits of both.
    And,
    /// The bits of either.
    Or,
    /// The bits of one of them.
    Xor,
    /// The larger.
    Max,
    /// The smaller.
    Min,
}

/// A number of 32 or 64 bits as atomics work on it. `system` is the scope: all of the system, or this
/// GPU. `load` and `store` get an ordering that they may have; see [`for_load`], [`for_store`].
pub trait Atomic: Copy + Eq {
    /// # Safety
    /// `at` is aligned, valid, and in global or shared memory. So for all of them.
    unsafe fn load(at: *mut Self, system: bool, order: Ordering) -> Self;
    /// # Safety
    /// As [`Self::load`].
    unsafe fn store(at: *mut Self, value: Self, system: bool, order: Ordering);
    /// What was there before.
    ///
    /// # Safety
    /// As [`Self::load`].
    unsafe fn fetch(at: *mut Self, with: Fetch, value: Self, system: bool, order: Ordering)
    -> Self;
    /// What was there before: `current` if `new` is there now.
    ///
    /// # Safety
    /// As [`Self::load`].
    unsafe fn compare_exchange(
        at: *mut Self,
        current: Self,
        new: Self,
        system: bool,
        success: Ordering,
        failure: Ordering,
    ) -> Self;
    /// The number that, added, takes this one away.
    fn negated(self) -> Self;
}

/// The ordering of a load: one that only a store can have is the strongest instead, so that no
/// ordering panics.
#[inline(always)]
pub(crate) const fn for_load(order: Ordering) -> Ordering {
    match order {
        Ordering::Relaxed | Ordering::Acquire => order,
        _ => Ordering::SeqCst,
    }
}

/// The ordering of a store, likewise.
#[inline(always)]
pub(crate) const fn for_store(order: Ordering) -> Ordering {
    match order {
        Ordering::Relaxed | Ordering::Release => order,
        _ => Ordering::SeqCst,
    }
}
