//! The one module through which shared words are read and written.
//!
//! A [`Word`] is a place in memory that two processors share. Each has one writer (locks, which
//! only the GPU touches, have several and live in GPU memory). What each access becomes:
//!
//! | here | PTX | x86-64 |
//! | --- | --- | --- |
//! | [`Word::load`] | `ld.relaxed.sys` | `mov` |
//! | [`Word::load_two`] | `ld.relaxed.sys.v2` | `mov`, twice |
//! | [`Word::store_two`] | `st.relaxed.sys.v2` | `mov`, twice |
//! | [`Word::load_two_acquire`] | `ld.acquire.sys.v2` | `mov`, twice |
//! | [`Word::load_acquire`] | `ld.acquire.sys` | `mov` |
//! | [`Word::store`] | `st.relaxed.sys` | `mov` |
//! | [`Word::store_release`] | `st.release.sys` | `mov` |
//! | [`Word::store_release_on_gpu`] | `st.release.gpu` | `mov` |
//! | [`Word::compare_exchange`] | `atom.acq_rel.sys.global.cas` | `lock cmpxchg` |
//! | [`Word::set_on_gpu`] | `atom.acquire.gpu.or` | `lock cmpxchg` |
//! | [`Word::set_on_gpu_if`] | `atom.relaxed.gpu.or` | `lock cmpxchg` |
//! | [`Word::replace_on_gpu`] | `atom.relaxed.gpu.cas` | `lock cmpxchg` |
//!
//! A release store on a GPU is a barrier of memory and a store. A release fence is also an acquire there:
//! it invalidates the first-level cache of the whole multiprocessor, with the stack of every thread on it,
//! and so does an acquire load. So the data path has stores that release, and polls without an acquire.
//!
//! There is no fetch-and-add on purpose: for nvptx it compiles to a relaxed, GPU-scoped
//! instruction whatever ordering is asked for. The same holds for the compiler's own fetch-and-or, so
//! ours is written out; it is for words that only the GPU touches.
//!
//! With the feature `loom` every access goes to an atomic of loom's that stands for the address
//! (`model.rs`), and models run the code of both sides through all orders in which they may see one
//! another's words.
//!
//! Why it is so: decision 3 of docs/explanation/decisions.md.

#![allow(unsafe_code, reason = "shared memory is reached through raw pointers, here alone")]

#[cfg(not(feature = "loom"))]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering;

pub use crate::simt::fence::{acquire_fence, release_fence};

/// A shared 64-bit word. Two are equal that are the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(*mut u64);

// SAFETY: every access is atomic.
unsafe impl Send for Word {}
// SAFETY: every access is atomic.
unsafe impl Sync for Word {}

impl Word {
    /// The word at `address`.
    ///
    /// # Safety
    /// `address` is 8-byte aligned and stays valid for atomic access as long as the word is used. On a GPU it is
    /// in memory that all blocks see.
    #[inline(always)]
    pub const unsafe fn at(address: *mut u64) -> Self {
        Self(address)
    }

    /// The simulation harness, where it runs: it decides what is seen of this word, and when.
    #[cfg(feature = "simulation")]
    fn simulated<R>(
        &self,
        f: impl FnOnce(&dyn crate::simulation::harness::Harness) -> R,
    ) -> Option<R> {
        crate::simulation::harness::with(f)
    }

    #[cfg(feature = "loom")]
    fn atomic(&self) -> crate::simt::model::Atomic {
        crate::simt::model::atomic(self.0)
    }

    #[cfg(not(feature = "loom"))]
    #[inline(always)]
    fn atomic(&self) -> &AtomicU64 {
        // SAFETY: `at` promises alignment and validity, and all access goes through atomics.
        unsafe { AtomicU64::from_ptr(self.0) }
    }

    /// Reads, with no order implied.
    #[inline(always)]
    pub fn load(&self) -> u64 {
        #[cfg(feature = "simulation")]
        if let Some(outcome) = self.simulated(|harness| harness.load(self.0, false)) {
            return outcome;
        }
        self.atomic().load(Ordering::Relaxed)
    }

    /// Reads this word and the next, of a place that is aligned to both; what the writers did before their
    /// releases is visible afterwards. Each is whole by itself.
    #[inline(always)]
    pub fn load_two_acquire(&self) -> [u64; 2] {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: `at` promises validity, and callers that the next word is there, aligned.
            unsafe { crate::simt::load_two_acquire(self.0) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            // SAFETY: callers' promise, as above.
            [self.load_acquire(), unsafe { self.offset(1) }.load_acquire()]
        }
    }

    /// Reads this word and the next, of a place that is aligned to both, with no order implied. Each is
    /// whole by itself.
    #[inline(always)]
    pub fn load_two(&self) -> [u64; 2] {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: `at` promises validity, and callers that the next word is there, aligned.
            unsafe { crate::simt::load_two(self.0) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            // SAFETY: callers' promise, as above.
            [self.load(), unsafe { self.offset(1) }.load()]
        }
    }

    /// Writes this word and the next, as [`Self::load_two`] reads them.
    #[inline(always)]
    pub fn store_two(&self, [first, second]: [u64; 2]) {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: `at` promises validity, and callers that the next word is there, aligned.
            unsafe { crate::simt::store_two(self.0, first, second) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            self.store(first);
            // SAFETY: callers' promise, as above.
            unsafe { self.offset(1) }.store(second);
        }
    }

    /// Reads; what the writer did before its release is visible afterwards.
    #[inline(always)]
    pub fn load_acquire(&self) -> u64 {
        #[cfg(feature = "simulation")]
        if let Some(outcome) = self.simulated(|harness| harness.load(self.0, true)) {
            return outcome;
        }
        self.atomic().load(Ordering::Acquire)
    }

    /// Writes, with no order implied.
    #[inline(always)]
    pub fn store(&self, value: u64) {
        #[cfg(feature = "simulation")]
        if let Some(outcome) = self.simulated(|harness| harness.store(self.0, value, false)) {
            return outcome;
        }
        self.atomic().store(value, Ordering::Relaxed);
    }

    /// Writes after everything this thread did before.
    #[inline(always)]
    pub fn store_release(&self, value: u64) {
        #[cfg(feature = "simulation")]
        if let Some(outcome) = self.simulated(|harness| harness.store(self.0, value, true)) {
            return outcome;
        }
        self.atomic().store(value, Ordering::Release);
    }

    /// The same for readers of the same GPU alone: others may see the word before what it stands for.
    #[inline(always)]
    pub fn store_release_on_gpu(&self, value: u64) {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: `at` promises alignment and validity.
            unsafe { crate::simt::store_release_on_gpu(self.0, value) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            #[cfg(feature = "simulation")]
            if let Some(outcome) =
                self.simulated(|harness| harness.store_release_on_gpu(self.0, value))
            {
                return outcome;
            }
            self.store_release(value);
        }
    }

    /// Replaces `current` by `new`; says whether it did.
    #[inline(always)]
    pub fn compare_exchange(&self, current: u64, new: u64) -> bool {
        #[cfg(feature = "simulation")]
        if let Some(outcome) =
            self.simulated(|harness| harness.compare_exchange(self.0, current, new))
        {
            return outcome;
        }
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: `at` promises alignment and validity; no word is in a block's or a thread's own memory.
            unsafe { crate::simt::compare_exchange(self.0, current, new) == current }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        self.atomic().compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Sets `bits` and gives what was there before; acquires. Only for words that no other processor
    /// touches: a GPU's read-modify-write is not atomic against the CPU.
    #[inline(always)]
    pub fn set_on_gpu(&self, bits: u64) -> u64 {
        #[cfg(feature = "simulation")]
        if let Some(outcome) = self.simulated(|harness| harness.set(self.0, bits, true)) {
            return outcome;
        }
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: `at` promises alignment and validity.
            unsafe { crate::simt::set_bits(self.0, bits) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        self.atomic().fetch_or(bits, Ordering::Acquire)
    }

    /// The same where the calling thread is to do it (`mine`), without an acquire on a GPU; what other
    /// threads get means nothing. What the caller stores next stands behind a branch on what was there: a
    /// GPU does not store before it knows its way.
    #[inline(always)]
    pub fn set_on_gpu_if(&self, bits: u64, mine: bool) -> u64 {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: `at` promises alignment and validity.
            unsafe { crate::simt::set_bits_if(self.0, bits, mine) }
        }
        #[cfg(feature = "simulation")]
        if mine && let Some(found) = self.simulated(|harness| harness.set(self.0, bits, false)) {
            return found;
        }
        #[cfg(not(target_arch = "nvptx64"))]
        if mine { self.set_on_gpu(bits) } else { 0 }
    }

    /// Replaces `current` by `new` where the calling thread is to do it (`mine`), with no order
    /// implied; gives `current` if it did, else something different. What other threads get means
    /// nothing. Only for words that no other processor touches, as [`Self::set_on_gpu`].
    #[inline(always)]
    pub fn replace_on_gpu(&self, current: u64, new: u64, mine: bool) -> u64 {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: `at` promises alignment and validity.
            unsafe { crate::simt::replace(self.0, current, new, mine) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        if !mine || self.compare_exchange(current, new) { current } else { !current }
    }

    /// Where it is.
    #[inline(always)]
    pub(crate) fn address(&self) -> u64 {
        self.0.expose_provenance() as u64
    }

    /// The word `index` places further on.
    ///
    /// # Safety
    /// That word lies in the same region.
    #[inline(always)]
    pub const unsafe fn offset(&self, index: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { self.0.add(index) })
    }
}

/// Says that these bytes of a ring are read now. Nothing, but in a model, which finds whether
/// anybody may be writing them.
#[inline(always)]
pub fn reads_bytes(_address: *const u8, _length: usize) {
    #[cfg(feature = "loom")]
    crate::simt::model::reads_bytes(_address, _length);
}

/// Says that these bytes of a ring are written now. Nothing, but in a model, which finds whether
/// anybody may be reading them.
#[inline(always)]
pub fn writes_bytes(_address: *const u8, _length: usize) {
    #[cfg(feature = "loom")]
    crate::simt::model::writes_bytes(_address, _length);
}

/// Reads a byte of a ring, once: the other processor may write it at any time.
///
/// # Safety
/// `from` is valid to read.
#[inline(always)]
pub unsafe fn load_byte(from: *const u8) -> u8 {
    #[cfg(feature = "simulation")]
    // SAFETY: the caller's promise.
    if let Some(byte) = unsafe { crate::simulation::read(from) } {
        return byte;
    }
    // SAFETY: the caller's promise.
    unsafe { from.read_volatile() }
}

/// Writes a byte of a ring, which the other processor may read at any time.
///
/// # Safety
/// `to` is valid to write.
#[inline(always)]
pub unsafe fn store_byte(to: *mut u8, byte: u8) {
    #[cfg(feature = "simulation")]
    // SAFETY: the caller's promise.
    if unsafe { crate::simulation::write(to, byte) } {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { to.write_volatile(byte) }
}

/// `N` consecutive shared words: a request, a reply, a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Words<const N: usize>(Word);

impl<const N: usize> Words<N> {
    /// The words from `address` on.
    ///
    /// # Safety
    /// As for [`Word::at`], for all `N` words.
    #[inline(always)]
    pub const unsafe fn at(address: *mut u64) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Word::at(address) })
    }

    /// The word at `index`.
    ///
    /// # Panics
    /// When `index` is not below `N`.
    #[inline(always)]
    pub const fn get(&self, index: usize) -> Word {
        assert!(index < N);
        // SAFETY: all N words lie in one region (`at`), and index < N.
        unsafe { self.0.offset(index) }
    }

    /// Reads each word once, in no order.
    #[inline(always)]
    pub fn read(&self) -> [u64; N] {
        core::array::from_fn(|index| self.get(index).load())
    }

    /// Writes each word, in no order: publish them with a release elsewhere.
    #[inline(always)]
    pub fn write(&self, words: &[u64; N]) {
        for (index, word) in words.iter().enumerate() {
            self.get(index).store(*word);
        }
    }
}
