//! The simulation bench: emulated blocks, the proxy and a simulated network in one OS thread, on
//! virtual time, everything drawn from one seed. Built with the feature `simulation` alone.
//!
//! ```text
//!   scene ──┬─▶ kernels   threads of blocks, turn by turn      ┐
//!           ├─▶ proxies   rounds of the shards, as coroutines  ├─▶ memory   who sees what, when
//!           ├─▶ peers     remote ends of connections           ┘
//!           └─▶ network   late, short, broken
//! ```
//!
//! The device code, the shards and their rounds are those of the product. Any access to a shared
//! word may be followed by a switch to somebody else. Checked throughout: bytes are complete and
//! in order, or there is an error where one may come; no call waits beyond its deadline; counters
//! only grow; at the end no place, ring or slot is missing.

mod kernels;
mod memory;
pub(crate) mod network;
mod peers;
mod scene;
#[cfg(test)]
mod tests;
mod trace;

use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory::SharedMemory;

/// Virtual time, shared by all.
#[derive(Clone, Default)]
pub(crate) struct Now(Arc<AtomicU64>);

impl Now {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

std::thread_local! {
    static MEMORY: Cell<Option<NonNull<SharedMemory>>> = const { Cell::new(None) };
    /// The first actor of the launch whose thread runs.
    static FIRST_ACTOR: Cell<usize> = const { Cell::new(0) };
}

/// The emulated GPU tells that these threads of the running launch have met at a barrier.
pub(crate) fn met(threads: Range<usize>, whole_block: bool) {
    if let Some(memory) = MEMORY.with(Cell::get) {
        let first = FIRST_ACTOR.with(Cell::get);
        // SAFETY: `Scene` keeps the memory alive while it is set, on this OS thread.
        let memory = unsafe { memory.as_ref() };
        memory.meet(first + threads.start..first + threads.end, whole_block);
    }
}

/// The running thread was told something by another, with a release and an acquire that are not
/// part of what is tried here.
fn was_told() {
    if let Some(memory) = MEMORY.with(Cell::get) {
        // SAFETY: as in `met`.
        let memory = unsafe { memory.as_ref() };
        memory.knows_all(memory.current.get());
    }
}

/// Notes what the running thread does, for the trace.
fn say(text: String) {
    if let Some(memory) = MEMORY.with(Cell::get) {
        // SAFETY: as in `met`.
        let memory = unsafe { memory.as_ref() };
        memory.trace.say(memory.now_ns.get(), memory.current.get(), text);
    }
}

/// Puts a memory in charge of this OS thread until dropped.
struct InCharge {
    _memory: Rc<SharedMemory>,
}

impl InCharge {
    fn new(memory: Rc<SharedMemory>) -> Self {
        MEMORY.with(|cell| cell.set(Some(NonNull::from(&*memory))));
        let bench: NonNull<dyn gpunet_device::simulation::Bench> = NonNull::from(&*memory);
        // SAFETY: the memory lives as long as this value, whose drop takes it out of charge.
        unsafe { gpunet_device::simulation::set_bench(Some(bench)) };
        Self { _memory: memory }
    }
}

impl Drop for InCharge {
    fn drop(&mut self) {
        // SAFETY: nobody is in charge.
        unsafe { gpunet_device::simulation::set_bench(None) };
        MEMORY.with(|cell| cell.set(None));
    }
}
