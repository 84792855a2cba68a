//! The simulation harness: emulated blocks, the proxy and a simulated network in one OS thread, on
//! virtual time, everything drawn from one seed. Built with the feature `simulation` alone.
//!
//! ```text
//!   scene ──┬─▶ kernels   threads of blocks, turn by turn      ┐
//!           ├─▶ proxies   rounds of the shards, as coroutines  ├─▶ memory   who sees what, when
//!           ├─▶ peers     remote ends of connections           │
//!           ├─▶ program   launches, hand-over and take-back    ┘
//!           └─▶ network   late, short, broken; control channels of p2p streams
//! ```
//!
//! The device code, the shards and their rounds are those of the product, and so is the transport of
//! p2p streams, down to the encoded messages of their control channels. Any access to a shared word
//! may be followed by a switch to somebody else. Checked throughout: bytes are complete and in order,
//! or there is an error where one may come; no call waits beyond its deadline; counters only grow; at
//! the end no socket slot, ring, request slot or memory of a stream is missing.
//!
//! Why it is so: decision 23 of docs/explanation/decisions.md.

mod acts;
mod cast;
mod control;
mod counter;
mod counters;
mod draw;
mod ending;
mod epoll;
mod exchange;
mod group_calls;
mod grouping;
mod history;
mod job;
mod kernels;
mod memory;
mod network;
mod open_streams;
mod owners;
mod passing;
mod peers;
mod plan;
mod play;
mod program;
mod reuse;
mod scene;
mod script;
mod shapes;
mod sharing;
mod socket;
mod supervision;
#[cfg(test)]
mod tests;
mod trace;
mod workers;

use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gpunet_device::Handle;

use crate::gpu::observer::Observer;
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

/// Runs `f` with the memory in charge of this OS thread, if there is one.
fn with_memory<R>(f: impl FnOnce(&SharedMemory) -> R) -> Option<R> {
    let memory = MEMORY.with(Cell::get)?;
    // SAFETY: `Scene` keeps the memory alive while it is set, on this OS thread.
    Some(f(unsafe { memory.as_ref() }))
}

/// Passes what happens on the emulated GPU to the memory in charge.
struct Observing;

impl Observer for Observing {
    fn met(&self, threads: Range<u32>, whole_block: bool) {
        let first = FIRST_ACTOR.with(Cell::get);
        let actors = first + threads.start as usize..first + threads.end as usize;
        with_memory(|memory| memory.meet(actors, whole_block));
    }

    fn read(&self, from: *const u8, into: &mut [u8]) -> bool {
        with_memory(|memory| memory.host_reads(from, into)).is_some()
    }

    fn write(&self, to: *mut u8, from: &[u8]) -> bool {
        with_memory(|memory| memory.host_writes(to, from)).is_some()
    }

    /// What begins there is the inbox of a p2p stream, whose two counters only grow from now on.
    fn mark(&self, at: *mut u8, in_use: bool) {
        let at = at.expose_provenance();
        with_memory(|memory| match in_use {
            true => memory.new_inbox(at),
            false => memory.forget_inbox(at),
        });
    }
}

/// The running thread received something from another, with a release and an acquire that are not
/// part of what is tried here.
fn was_notified() {
    with_memory(|memory| memory.knows_all(memory.current.get()));
}

/// Makes a call on a handle; what the socket has is not to be handed out again meanwhile. `leads`: the
/// running thread does so for its group.
fn inside_call<R>(handle: Handle, leads: bool, call: impl FnOnce() -> R) -> R {
    let note = |begins: bool| {
        if leads {
            with_memory(|memory| {
                memory.reuse.borrow_mut().calls(memory.current.get(), handle, begins);
            });
        }
    };
    note(true);
    let result = call();
    note(false);
    result
}

/// Slot and rings of a socket may be used again.
fn freed(handle: Handle) {
    with_memory(|memory| memory.reuse.borrow_mut().freed(handle));
}

/// Notes what the running thread does, for the trace.
fn log(text: String) {
    with_memory(|memory| memory.trace.log(memory.now_ns.get(), memory.current.get(), text));
}

/// Puts a memory in charge of this OS thread until dropped.
struct InCharge {
    _memory: Rc<SharedMemory>,
}

impl InCharge {
    fn new(memory: Rc<SharedMemory>) -> Self {
        MEMORY.with(|cell| cell.set(Some(NonNull::from(&*memory))));
        let harness: NonNull<dyn gpunet_device::simulation::Harness> = NonNull::from(&*memory);
        // SAFETY: the memory lives as long as this value, whose drop takes it out of charge.
        unsafe { gpunet_device::simulation::set_harness(Some(harness)) };
        Self { _memory: memory }
    }
}

impl Drop for InCharge {
    fn drop(&mut self) {
        // SAFETY: nobody is in charge.
        unsafe { gpunet_device::simulation::set_harness(None) };
        MEMORY.with(|cell| cell.set(None));
    }
}
