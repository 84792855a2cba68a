//! What the simulation harness decides in place of the memory. The lowest layers of the device crate call
//! it, so it imports nothing of theirs.

#![allow(
    unsafe_code,
    reason = "a thread-local pointer to the harness, and plain values by address"
)]

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::bug::Bug;

/// A fence of the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// What is read next is no older than what was read.
    Acquire,
    /// What was done is seen before what is stored next.
    Release,
    /// The same, by threads of the same GPU alone.
    GpuRelease,
}

/// What decides, in place of the memory.
pub trait Harness {
    /// A load of the word at that address.
    fn load(&self, at: *mut u64, acquire: bool) -> u64;
    /// A store.
    fn store(&self, at: *mut u64, value: u64, release: bool);
    /// One that releases to threads of the same GPU alone.
    fn store_release_on_gpu(&self, at: *mut u64, value: u64);
    /// A compare-and-exchange, acquiring and releasing; whether it did.
    fn compare_exchange(&self, at: *mut u64, current: u64, new: u64) -> bool;
    /// Sets bits; what was there before. Without an acquire, what the calling thread stores next stands
    /// behind a branch on it.
    fn set(&self, at: *mut u64, bits: u64, acquire: bool) -> u64;
    /// A fence.
    fn fence(&self, fence: Fence);
    /// Reads plain bytes; false where the harness has no say.
    fn read(&self, at: *const u8, into: &mut [MaybeUninit<u8>]) -> bool;
    /// Writes plain bytes; false where the harness has no say.
    fn write(&self, at: *mut u8, from: &[u8]) -> bool;
    /// The bug that is planted.
    fn planted(&self) -> Option<Bug>;
}

std::thread_local! {
    static HARNESS: Cell<Option<NonNull<dyn Harness>>> = const { Cell::new(None) };
}

/// Puts the harness in charge of this OS thread, or nobody.
///
/// # Safety
/// The harness lives until the next call on this OS thread.
pub unsafe fn set_harness(harness: Option<NonNull<dyn Harness>>) {
    HARNESS.with(|cell| cell.set(harness));
}

/// Runs `f` with the harness, if one is in charge.
pub fn with<R>(f: impl FnOnce(&dyn Harness) -> R) -> Option<R> {
    let harness = HARNESS.with(Cell::get)?;
    // SAFETY: `set_harness`'s caller keeps it alive.
    Some(f(unsafe { harness.as_ref() }))
}

/// Reads a plain value through the harness, where it has a say.
///
/// # Safety
/// `from` is valid to read.
pub unsafe fn read<T: Copy>(from: *const T) -> Option<T> {
    with(|harness| {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the bytes of `value`.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast(), size_of::<T>()) };
        // SAFETY: the harness has filled it with the bytes of a `T` that stood there.
        harness.read(from.cast(), bytes).then(|| unsafe { value.assume_init() })
    })
    .flatten()
}

/// Writes a plain value through the harness; false where it has no say.
///
/// # Safety
/// `to` is valid to write, and `T` has no padding.
pub unsafe fn write<T: Copy>(to: *mut T, value: T) -> bool {
    with(|harness| {
        // SAFETY: the bytes of `value`, which has no padding.
        let bytes = unsafe {
            core::slice::from_raw_parts(core::ptr::from_ref(&value).cast(), size_of::<T>())
        };
        harness.write(to.cast(), bytes)
    })
    .unwrap_or(false)
}
