//! Shared memory as a model has it: an atomic of loom's for each word, a cell of loom's for each
//! byte of a ring. [`abi::model`](crate::abi::model) runs models.
//!
//! loom's threads are coroutines of one OS thread, so what is thread-local here is shared by all threads of a
//! model. A [`Weakness`] makes one kind of access weaker than the code asks for: with it, a model must
//! find something, or it could not fail.

use core::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};

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
}

/// Whether this is left out now.
pub(crate) fn lacks(weakness: Weakness) -> bool {
    WEAKNESS.get() == Some(weakness)
}

/// Makes one kind of access weaker from now on, or none.
pub(crate) fn set_weakness(weakness: Option<Weakness>) {
    WEAKNESS.set(weakness);
}

/// Forgets all words and bytes.
pub(crate) fn forget_all() {
    MEMORY.with_borrow_mut(|memory| *memory = Memory::default());
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
