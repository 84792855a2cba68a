//! Shared memory as a model has it: an atomic of loom's for each word, a cell of loom's for each
//! byte of a ring. Models are tests of the host crate, where both sides of the protocol are.
//!
//! loom runs a model again and again, through every order in which its threads may act and every
//! older value that a load may give. Its threads are coroutines of one OS thread, so what is
//! thread-local here is shared by all threads of a model. A [`Weakness`] makes one kind of access
//! weaker than the code asks for: with it, a model must find something, or it could not fail.

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;
use std::collections::HashMap;
use std::rc::Rc;
use std::string::String;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};

use crate::simt::emulated::{EmulatedThread, Place, Site, set_current};
use crate::simt::{Position, Scope};

/// What a planted bug leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Stores with release are relaxed.
    StoreRelease,
    /// Loads with acquire are relaxed.
    LoadAcquire,
    /// Release fences are not there.
    ReleaseFence,
    /// Acquire fences are not there.
    AcquireFence,
    /// Units of packets are taken whatever their tags say.
    Tags,
}

#[derive(Default)]
struct Memory {
    words: HashMap<usize, Rc<AtomicU64>>,
    bytes: HashMap<usize, Rc<UnsafeCell<()>>>,
}

std::thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
    static WEAKNESS: Cell<Option<Weakness>> = const { Cell::new(None) };
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
    WEAKNESS.set(weakness);
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
        MEMORY.with_borrow_mut(|memory| *memory = Memory::default());
        model();
        // Before loom looks for what was not given back.
        MEMORY.with_borrow_mut(|memory| *memory = Memory::default());
    });
    runs.load(core::sync::atomic::Ordering::Relaxed)
}

/// Whether this is left out now.
pub fn lacks(weakness: Weakness) -> bool {
    WEAKNESS.get() == Some(weakness)
}

/// How far the GPU's clock goes with each look at it, from now on.
pub fn set_tick(ns: u64) {
    TICK.set(ns);
}

/// These words exist from now on, with what stands there; before any thread is started.
#[allow(unsafe_code, reason = "reads what a word begins with")]
pub fn knows_words(address: *mut u64, count: usize) {
    MEMORY.with_borrow_mut(|memory| {
        for at in 0..count {
            let address = address.wrapping_add(at);
            // SAFETY: the caller names words of a region, which nobody writes in a model.
            let value = unsafe { address.read() };
            memory.words.insert(address.addr(), Rc::new(AtomicU64::new(value)));
        }
    });
}

/// These bytes of a ring exist from now on; before any thread is started.
pub fn knows_bytes(address: *const u8, count: usize) {
    MEMORY.with_borrow_mut(|memory| {
        for at in 0..count {
            memory.bytes.insert(address.addr() + at, Rc::new(UnsafeCell::new(())));
        }
    });
}

/// The atomic that stands for a word.
///
/// # Panics
/// When the model does not know the word.
pub(crate) fn atomic(address: *mut u64) -> Atomic {
    let found = MEMORY.with_borrow(|memory| memory.words.get(&address.addr()).cloned());
    Atomic(found.expect("a word of the model"))
}

/// A word, as weak as the model wants it.
pub(crate) struct Atomic(Rc<AtomicU64>);

impl Atomic {
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.0.load(if lacks(Weakness::LoadAcquire) { Ordering::Relaxed } else { order })
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, if lacks(Weakness::StoreRelease) { Ordering::Relaxed } else { order });
    }

    pub(crate) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, failure)
    }

    pub(crate) fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.0.fetch_or(bits, order)
    }
}

pub(crate) fn fence(order: Ordering) {
    let weakness = match order {
        Ordering::Acquire => Weakness::AcquireFence,
        _ => Weakness::ReleaseFence,
    };
    if !lacks(weakness) {
        loom::sync::atomic::fence(order);
    }
}

fn each_byte(address: *const u8, length: usize, touch: impl Fn(&UnsafeCell<()>)) {
    for at in 0..length {
        let found = MEMORY.with_borrow(|memory| memory.bytes.get(&(address.addr() + at)).cloned());
        // Others are a thread's own.
        if let Some(cell) = found {
            touch(&cell);
        }
    }
}

pub(crate) fn reads_bytes(address: *const u8, length: usize) {
    each_byte(address, length, |cell| cell.with(|_| ()));
}

pub(crate) fn writes_bytes(address: *const u8, length: usize) {
    each_byte(address, length, |cell| cell.with_mut(|_| ()));
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

    fn scratch(&self, _scope: Scope) -> *mut u64 {
        // Groups of one share nothing.
        core::ptr::without_provenance_mut(16)
    }

    fn lane_words(&self) -> *mut u64 {
        core::ptr::without_provenance_mut(16)
    }

    fn is_private(&self, _address: *const u8) -> bool {
        false
    }
}
