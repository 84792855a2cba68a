//! The accesses themselves: words, 16-byte lines, fences, and copies made of them. A trait, so that
//! a test can record what reaches the memory, and in which order; [`Cpu`] is the processor.
//!
//! The GPU and other threads read and write the same bytes at any time. So a word is a relaxed atomic,
//! which the compiler neither tears nor repeats, and a line is an instruction of its own: safe code
//! that shares a view has no data race, whatever it stores.

#![allow(unsafe_code, reason = "raw loads and stores")]

use std::sync::atomic::{self, Ordering, compiler_fence, fence};

use crate::caching::Caching;

/// A line: the widest store that every x86-64 has.
pub(crate) type Line = [u64; 2];
pub(crate) const LINE: usize = size_of::<Line>();

/// Words that are loaded and stored whole: `u8`, `u16`, `u32`, `u64`.
pub trait Word: Copy + Send + Sync + 'static + sealed::Sealed {}

mod sealed {
    /// How a word reaches memory: relaxed.
    pub trait Sealed: Sized {
        /// # Safety
        /// `to` is aligned and valid.
        unsafe fn store(self, to: *mut Self);
        /// # Safety
        /// `from` is aligned and valid.
        unsafe fn load(from: *const Self) -> Self;
    }
}

macro_rules! words {
    ($($word:ty: $atomic:ident)*) => { $(
        impl sealed::Sealed for $word {
            #[inline(always)]
            unsafe fn store(self, to: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { atomic::$atomic::from_ptr(to) }.store(self, Ordering::Relaxed);
            }
            #[inline(always)]
            unsafe fn load(from: *const Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { atomic::$atomic::from_ptr(from.cast_mut()) }.load(Ordering::Relaxed)
            }
        }
        impl Word for $word {}
    )* };
}
words!(u8: AtomicU8 u16: AtomicU16 u32: AtomicU32 u64: AtomicU64);

/// What reaches the memory.
pub(crate) trait Bus {
    /// # Safety
    /// `to` is aligned and valid.
    unsafe fn store<T: Word>(&self, to: *mut T, value: T);
    /// # Safety
    /// `from` is aligned and valid.
    unsafe fn load<T: Word>(&self, from: *const T) -> T;
    /// # Safety
    /// `to` is aligned and valid.
    unsafe fn store_line(&self, to: *mut Line, line: Line, caching: Caching);
    /// # Safety
    /// `from` is aligned and valid.
    unsafe fn load_line(&self, from: *const Line, caching: Caching) -> Line;
    /// No later store passes an earlier one; combined ones leave the processor.
    fn store_fence(&self);
    /// No later load passes an earlier one.
    fn load_fence(&self);
}

/// The processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu;

impl Bus for Cpu {
    #[inline(always)]
    unsafe fn store<T: Word>(&self, to: *mut T, value: T) {
        // SAFETY: the caller's promise.
        unsafe { value.store(to) }
    }

    #[inline(always)]
    unsafe fn load<T: Word>(&self, from: *const T) -> T {
        // SAFETY: the caller's promise.
        unsafe { T::load(from) }
    }

    #[inline(always)]
    unsafe fn store_line(&self, to: *mut Line, line: Line, caching: Caching) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's promise; every x86-64 has both. The fence that a streaming store
        // wants comes at the end of the copy.
        unsafe {
            use std::arch::{asm, x86_64::_mm_loadu_si128};
            let value = _mm_loadu_si128((&raw const line).cast());
            match caching {
                Caching::WriteCombining => {
                    asm!("movntdq [{}], {}", in(reg) to, in(xmm_reg) value, options(nostack, preserves_flags));
                }
                _ => {
                    asm!("movdqa [{}], {}", in(reg) to, in(xmm_reg) value, options(nostack, preserves_flags));
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = caching;
            let to = to.cast::<u64>();
            // SAFETY: the caller's promise, for both halves.
            unsafe {
                self.store(to, line[0]);
                self.store(to.add(1), line[1]);
            }
        }
    }

    #[inline(always)]
    unsafe fn load_line(&self, from: *const Line, caching: Caching) -> Line {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::{asm, x86_64::_mm_storeu_si128};
            let mut line = [0; 2];
            // SAFETY: the caller's promise; the streaming load, which takes a whole cache line of
            // combining memory across the bus at once, only where the processor has it.
            unsafe {
                let value;
                if caching == Caching::WriteCombining && std::is_x86_feature_detected!("sse4.1") {
                    asm!("movntdqa {}, [{}]", out(xmm_reg) value, in(reg) from, options(nostack, readonly, preserves_flags));
                } else {
                    asm!("movdqa {}, [{}]", out(xmm_reg) value, in(reg) from, options(nostack, readonly, preserves_flags));
                }
                _mm_storeu_si128((&raw mut line).cast(), value);
            }
            line
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = caching;
            let from = from.cast::<u64>();
            // SAFETY: the caller's promise, for both halves.
            unsafe { [self.load(from), self.load(from.add(1))] }
        }
    }

    #[inline(always)]
    fn store_fence(&self) {
        // The compiler moves nothing across it, relaxed words included.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 has it.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
        #[cfg(not(target_arch = "x86_64"))]
        fence(Ordering::SeqCst);
        compiler_fence(Ordering::SeqCst);
    }

    #[inline(always)]
    fn load_fence(&self) {
        compiler_fence(Ordering::SeqCst);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 has it.
        unsafe {
            std::arch::x86_64::_mm_lfence();
        }
        #[cfg(not(target_arch = "x86_64"))]
        fence(Ordering::SeqCst);
    }
}

impl Caching {
    /// Keeps what this thread stores later behind what it has stored, and sends that on its way:
    /// a store fence where stores are combined, elsewhere nothing. For who stores through an
    /// address ([`View::as_ptr`](crate::View::as_ptr)), before a flag and after it.
    #[inline(always)]
    pub fn store_fence(self) {
        if self == Self::WriteCombining {
            Cpu.store_fence();
        }
    }
}

/// Stores a flag after everything that this thread stored before, and sends it on its way.
///
/// # Safety
/// `to` is aligned and valid.
#[inline(always)]
pub(crate) unsafe fn store_release<B: Bus, T: Word>(
    bus: &B,
    to: *mut T,
    value: T,
    caching: Caching,
) {
    if caching == Caching::WriteCombining {
        // Stores to combining memory leave in any order, release or not.
        bus.store_fence();
        // SAFETY: the caller's promise.
        unsafe { bus.store(to, value) };
        // And they leave when the buffer is wanted for others, if nobody asks.
        bus.store_fence();
    } else {
        fence(Ordering::Release);
        // SAFETY: the caller's promise.
        unsafe { bus.store(to, value) };
    }
}

/// Loads a flag before everything that this thread loads afterwards.
///
/// # Safety
/// `from` is aligned and valid.
#[inline(always)]
pub(crate) unsafe fn load_acquire<B: Bus, T: Word>(bus: &B, from: *const T, caching: Caching) -> T {
    // SAFETY: the caller's promise.
    let value = unsafe { bus.load(from) };
    if caching == Caching::WriteCombining {
        // Loads of combining memory may be made early.
        bus.load_fence();
    } else {
        fence(Ordering::Acquire);
    }
    value
}

/// How an access of up to 8 bytes is made: as wide as alignment and what is left allow.
fn width(address: usize, left: usize) -> usize {
    let aligned = 1 << address.trailing_zeros().min(3);
    let fits = 1 << left.ilog2().min(3);
    aligned.min(fits)
}

/// Copies to the memory: aligned accesses, lines in the middle. On combining memory all of it has
/// left the processor's buffers, in order, before anything that is stored later.
///
/// # Safety
/// `to` is valid for writes of `from.len()` bytes.
pub(crate) unsafe fn copy_in<B: Bus>(bus: &B, to: *mut u8, from: &[u8], caching: Caching) {
    let head = (to.addr().wrapping_neg() % LINE).min(from.len());
    let lines = (from.len() - head) / LINE;
    let (first, rest) = from.split_at(head);
    let (middle, last) = rest.split_at(lines * LINE);
    // SAFETY: three pieces of the range that the caller promises; the middle is aligned.
    unsafe {
        words_in(bus, to, first);
        let mut at = to.add(head).cast::<Line>();
        for line in middle.chunks_exact(LINE) {
            bus.store_line(at, line.as_ptr().cast::<Line>().read_unaligned(), caching);
            at = at.add(1);
        }
        words_in(bus, at.cast(), last);
    }
    if caching == Caching::WriteCombining {
        bus.store_fence();
    }
}

/// # Safety
/// As for [`copy_in`].
unsafe fn words_in<B: Bus>(bus: &B, mut to: *mut u8, mut from: &[u8]) {
    while !from.is_empty() {
        let width = width(to.addr(), from.len());
        let source = from.as_ptr();
        // SAFETY: `width` says what is aligned and left at both ends.
        unsafe {
            match width {
                1 => bus.store(to, source.read()),
                2 => bus.store(to.cast(), source.cast::<u16>().read_unaligned()),
                4 => bus.store(to.cast(), source.cast::<u32>().read_unaligned()),
                _ => bus.store(to.cast(), source.cast::<u64>().read_unaligned()),
            }
            to = to.add(width);
        }
        from = &from[width..];
    }
}

/// Copies from the memory: aligned accesses, lines in the middle, not before what was loaded before.
///
/// # Safety
/// `from` is valid for reads of `into.len()` bytes.
pub(crate) unsafe fn copy_out<B: Bus>(bus: &B, from: *const u8, into: &mut [u8], caching: Caching) {
    if caching == Caching::WriteCombining {
        // What this thread stored there must be there, and earlier loads be done.
        bus.store_fence();
        bus.load_fence();
    }
    let head = (from.addr().wrapping_neg() % LINE).min(into.len());
    let lines = (into.len() - head) / LINE;
    let (first, rest) = into.split_at_mut(head);
    let (middle, last) = rest.split_at_mut(lines * LINE);
    // SAFETY: three pieces of the range that the caller promises; the middle is aligned.
    unsafe {
        words_out(bus, from, first);
        let mut at = from.add(head).cast::<Line>();
        for line in middle.chunks_exact_mut(LINE) {
            line.as_mut_ptr().cast::<Line>().write_unaligned(bus.load_line(at, caching));
            at = at.add(1);
        }
        words_out(bus, at.cast(), last);
    }
}

/// # Safety
/// As for [`copy_out`].
unsafe fn words_out<B: Bus>(bus: &B, mut from: *const u8, mut into: &mut [u8]) {
    while !into.is_empty() {
        let width = width(from.addr(), into.len());
        let target = into.as_mut_ptr();
        // SAFETY: `width` says what is aligned and left at both ends.
        unsafe {
            match width {
                1 => target.write(bus.load(from)),
                2 => target.cast::<u16>().write_unaligned(bus.load(from.cast())),
                4 => target.cast::<u32>().write_unaligned(bus.load(from.cast())),
                _ => target.cast::<u64>().write_unaligned(bus.load(from.cast())),
            }
            from = from.add(width);
        }
        into = &mut into[width..];
    }
}

#[cfg(test)]
mod tests;
