//! Runs models: tests of the host crate, where both sides of the protocol are.
//!
//! loom runs a model again and again, through every order in which its threads may act and every
//! older value that a load may give ([`simt::model`](crate::simt::model) has the memory).

use core::cell::Cell;
use core::ptr::NonNull;
use std::string::String;

use crate::simt::emulated::{EmulatedThread, Place, Site, set_current};
pub use crate::simt::model::{Weakness, knows_bytes, knows_words};
use crate::simt::model::{forget_all, set_weakness};
use crate::simt::shape::{Position, Scope};

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static TICK: Cell<u64> = const { Cell::new(1) };
}

/// Runs a model through all orders with at most `preemptions` switches that no thread asked for;
/// how many there were.
pub fn check(
    preemptions: usize,
    weakness: Option<Weakness>,
    model: impl Fn() + Sync + Send + 'static,
) -> u64 {
    set_weakness(weakness);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    let runs = std::sync::Arc::new(core::sync::atomic::AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        become_a_gpu_thread();
        NOW.set(0);
        TICK.set(1);
        forget_all();
        model();
        // Before loom looks for what was not given back.
        forget_all();
    });
    runs.load(core::sync::atomic::Ordering::Relaxed)
}

/// How far the GPU's clock goes with each look at it, from now on.
pub fn set_tick(ns: u64) {
    TICK.set(ns);
}

/// A GPU thread that is a block by itself. All threads of a model that run device code are this.
struct Alone;

#[allow(unsafe_code, reason = "names the thread that runs")]
fn become_a_gpu_thread() {
    static ALONE: Alone = Alone;
    let alone: &'static dyn EmulatedThread = &ALONE;
    // SAFETY: it lives for ever, and nothing writes to it.
    unsafe { set_current(Some(NonNull::from(alone))) };
}

impl EmulatedThread for Alone {
    fn position(&self) -> Position {
        Position { thread: 0, threads: 1, block: 0, blocks: 1 }
    }

    fn place(&self) -> Place {
        Place { thread: [0; 3], block: [0; 3], threads: [1; 3], blocks: [1; 3] }
    }

    fn barrier(&self, _scope: Scope, _site: Site) {}

    fn exchange(&self, _: Scope, _: Site, brought: Option<&[u64]>, into: &mut [u64]) {
        if let Some(brought) = brought {
            into.copy_from_slice(brought);
        }
    }

    fn agree(&self, _: Scope, _: &'static str, _: &[u64], _: Site) {}

    fn pause(&self) {
        loom::thread::yield_now();
    }

    fn progress(&self) {}

    fn now_ns(&self) -> u64 {
        let now = NOW.get().saturating_add(TICK.get());
        NOW.set(now);
        now
    }

    fn shared_memory(&self) -> (*mut u8, usize) {
        (core::ptr::without_provenance_mut(16), 0)
    }

    fn shared_variable(&self, _key: usize, _bytes: usize) -> Result<*mut u8, String> {
        Err(String::from("models have no shared variables"))
    }

    fn scratch(&self) -> *mut u64 {
        // Groups of one share nothing.
        core::ptr::without_provenance_mut(16)
    }

    fn lane_words(&self) -> *mut u64 {
        core::ptr::without_provenance_mut(16)
    }

    fn is_private(&self, _address: *const u8) -> bool {
        false
    }

    fn forbid_unwinding(&self) {}

    fn unwinds(&self) -> bool {
        true
    }

    fn fail(&self, message: String) -> ! {
        panic!("{message}")
    }
}
