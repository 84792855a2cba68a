//! The heap of a test program, counted: what is allocated and not yet freed.
//!
//! Resident memory depends on which pages the allocator keeps and the system has moved in; these
//! counts do not. A test program that asks for them makes [`Counted`] its global allocator:
//!
//! ```
//! #[global_allocator]
//! static HEAP: gpunet_e2e::heap::Counted = gpunet_e2e::heap::Counted;
//!
//! let before = gpunet_e2e::heap::live();
//! let held = vec![0_u8; 1000];
//! assert_eq!(gpunet_e2e::heap::live() - before, 1000);
//! # drop(held);
//! ```

#![allow(unsafe_code, reason = "passes an allocator's calls on to the system's")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static LIVE: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, with a count of live bytes. It counts what was asked for, not what the
/// allocator rounds that up to.
#[derive(Debug)]
pub struct Counted;

/// Bytes that all threads have allocated and not freed; 0 unless [`Counted`] is the allocator.
#[must_use]
pub fn live() -> u64 {
    LIVE.load(Ordering::Relaxed)
}

// SAFETY: every call goes to `System` with the caller's own arguments, and its result goes back
// unchanged; the count is not used for anything that an allocator promises.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps what `alloc` asks for, here as there.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps what `alloc_zeroed` asks for, here as there.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `System` with this layout, by way of the calls above.
        unsafe { System.dealloc(memory, layout) };
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`, and the caller keeps what `realloc` asks of the new size.
        let moved = unsafe { System.realloc(memory, layout, size) };
        if !moved.is_null() {
            LIVE.fetch_add(size as u64, Ordering::Relaxed);
            LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        }
        moved
    }
}
