//! The accesses that floors are made of, as single instructions: 16 bytes at once where a condition holds, without
//! a branch, so that several of them are in flight; and barriers of whole warps. On the emulated GPU ordinary
//! atomics: a packet's number is stored after its bytes and loaded before them.

#![allow(unsafe_code, reason = "assembly, and memory that two blocks share")]

use gpunet_device::{SharedBuf, simt};

#[cfg(not(target_arch = "nvptx64"))]
use host as backend;
#[cfg(target_arch = "nvptx64")]
use nvptx as backend;

pub(super) use backend::{
    barrier, load_acquire, load_line_if, load_packet_if, loads_first, store_line_if,
    store_packet_if, store_release,
};

/// The calling thread's place in its block.
#[inline(always)]
pub(super) fn thread() -> u32 {
    simt::position().thread
}

/// Threads of the block.
#[inline(always)]
pub(super) fn threads() -> u32 {
    simt::position().threads
}

/// Memory of a block's own, by words of 8 bytes and lines of 16, aligned to these. Whatever reads or writes beyond
/// its end has a condition that does not hold.
pub(super) trait Own: Copy {
    /// The one of these two that this is: shared memory, or GPU memory.
    fn choose(near: SharedBuf, far: SharedBuf) -> SharedBuf;
    /// This memory, from its beginning.
    fn at(memory: SharedBuf) -> Self;
    /// The line with that number.
    fn load_line_if(self, yes: bool, at: u32) -> [u64; 2];
    /// See `load_line_if`.
    fn store_line_if(self, yes: bool, at: u32, line: [u64; 2]);
}

/// Shared memory, which has instructions of its own: an address that may be of any memory takes longer.
#[derive(Clone, Copy)]
pub(super) struct Near(backend::NearAddress);

/// GPU memory.
#[derive(Clone, Copy)]
pub(super) struct Far(*mut u8);

impl Near {
    /// The word with that number.
    #[inline(always)]
    pub(super) fn load_word_if(self, yes: bool, at: u32) -> u64 {
        // SAFETY: as the caller's condition says, inside the block's own memory. So below.
        unsafe { backend::load_near_word_if(yes, self.0, at) }
    }

    /// See `load_word_if`.
    #[inline(always)]
    pub(super) fn store_word_if(self, yes: bool, at: u32, word: u64) {
        // SAFETY: as above.
        unsafe { backend::store_near_word_if(yes, self.0, at, word) };
    }
}

impl Own for Near {
    #[inline(always)]
    fn choose(near: SharedBuf, _: SharedBuf) -> SharedBuf {
        near
    }

    #[inline(always)]
    fn at(memory: SharedBuf) -> Self {
        Self(backend::near(memory.as_ptr()))
    }

    #[inline(always)]
    fn load_line_if(self, yes: bool, at: u32) -> [u64; 2] {
        // SAFETY: as above.
        unsafe { backend::load_near_line_if(yes, self.0, at) }
    }

    #[inline(always)]
    fn store_line_if(self, yes: bool, at: u32, line: [u64; 2]) {
        // SAFETY: as above.
        unsafe { backend::store_near_line_if(yes, self.0, at, line) };
    }
}

impl Own for Far {
    #[inline(always)]
    fn choose(_: SharedBuf, far: SharedBuf) -> SharedBuf {
        far
    }

    #[inline(always)]
    fn at(memory: SharedBuf) -> Self {
        Self(memory.as_ptr())
    }

    #[inline(always)]
    fn load_line_if(self, yes: bool, at: u32) -> [u64; 2] {
        // SAFETY: as above.
        unsafe { load_line_if::<false>(yes, self.0, at) }
    }

    #[inline(always)]
    fn store_line_if(self, yes: bool, at: u32, line: [u64; 2]) {
        // SAFETY: as above.
        unsafe { store_line_if(yes, self.0, at, line) };
    }
}

/// On a GPU.
#[cfg(target_arch = "nvptx64")]
mod nvptx {
    use core::arch::asm;

    /// An address in shared memory.
    pub(super) type NearAddress = u32;

    unsafe extern "C" {
        #[link_name = "llvm.nvvm.barrier.cta.sync.all"]
        fn barrier_cta_sync(barrier: u32);
        #[link_name = "llvm.nvvm.bar.warp.sync"]
        fn bar_warp_sync(mask: u32);
    }

    /// Waits for all threads of the block, whose warps are whole.
    #[inline(always)]
    pub(crate) fn barrier() {
        // SAFETY: all threads of the block call it.
        unsafe {
            barrier_cta_sync(0);
            // Lanes that came from different ways go on as one warp.
            bar_warp_sync(u32::MAX);
        }
    }

    /// Has all loads before it begin before any store after it. For ptxas, which would else store to shared memory
    /// what has come before it loads the rest: a warp's barrier, at which loads do not wait.
    #[inline(always)]
    pub(crate) fn loads_first() {
        // SAFETY: all threads of the block call it.
        unsafe { bar_warp_sync(u32::MAX) };
    }

    /// The address of shared memory for its own instructions.
    #[inline(always)]
    pub(super) fn near(generic: *mut u8) -> NearAddress {
        let address: u64;
        // SAFETY: converts an address.
        unsafe {
            asm!("cvta.to.shared.u64 {}, {};", out(reg64) address, in(reg64) generic,
                options(nostack, nomem, pure));
        }
        address as u32
    }

    /// An instruction where a condition holds.
    macro_rules! predicated {
        ($before:literal, $instruction:expr, $yes:expr, $($operand:tt)*) => {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    concat!("{{ .reg .pred %yes; setp.ne.u32 %yes, {yes}, 0; ", $before),
                    concat!("@%yes ", $instruction, "; }}"),
                    yes = in(reg32) u32::from($yes), $($operand)* options(nostack));
            }
        };
    }

    /// A packet: its bytes and its number, or the number that is awaited where the condition does not hold.
    ///
    /// # Safety
    /// If `yes`, the packet is valid to read.
    #[inline(always)]
    pub(crate) unsafe fn load_packet_if(
        yes: bool,
        from: *const u8,
        at: u32,
        number: u64,
    ) -> [u64; 2] {
        let (payload, tag): (u64, u64);
        let from = from.wrapping_add(16 * at as usize);
        predicated!("mov.u64 {payload}, 0; mov.u64 {tag}, {number};",
            "ld.relaxed.sys.global.v2.u64 {{{payload}, {tag}}}, [{from}]", yes,
            payload = out(reg64) payload, tag = out(reg64) tag, number = in(reg64) number,
            from = in(reg64) from,);
        [payload, tag]
    }

    /// Writes a packet.
    ///
    /// # Safety
    /// If `yes`, the packet is valid to write.
    #[inline(always)]
    pub(crate) unsafe fn store_packet_if(
        yes: bool,
        to: *mut u8,
        at: u32,
        payload: u64,
        number: u64,
    ) {
        let to = to.wrapping_add(16 * at as usize);
        predicated!("", "st.relaxed.sys.global.v2.u64 [{to}], {{{payload}, {number}}}", yes,
            payload = in(reg64) payload, number = in(reg64) number, to = in(reg64) to,);
    }

    /// 16 bytes that another block or the CPU has written, past the first-level cache.
    ///
    /// # Safety
    /// If `yes`, they are valid to read.
    #[inline(always)]
    pub(crate) unsafe fn load_line_if<const SYSTEM: bool>(
        yes: bool,
        from: *const u8,
        at: u32,
    ) -> [u64; 2] {
        let (low, high): (u64, u64);
        let from = from.wrapping_add(16 * at as usize);
        if SYSTEM {
            predicated!("mov.u64 {low}, 0; mov.u64 {high}, 0;",
                "ld.relaxed.sys.global.v2.u64 {{{low}, {high}}}, [{from}]", yes,
                low = out(reg64) low, high = out(reg64) high, from = in(reg64) from,);
        } else {
            predicated!("mov.u64 {low}, 0; mov.u64 {high}, 0;",
                "ld.relaxed.gpu.global.v2.u64 {{{low}, {high}}}, [{from}]", yes,
                low = out(reg64) low, high = out(reg64) high, from = in(reg64) from,);
        }
        [low, high]
    }

    /// Writes 16 bytes, before a release.
    ///
    /// # Safety
    /// If `yes`, they are valid to write.
    #[inline(always)]
    pub(crate) unsafe fn store_line_if(yes: bool, to: *mut u8, at: u32, line: [u64; 2]) {
        let to = to.wrapping_add(16 * at as usize);
        predicated!("", "st.global.v2.u64 [{to}], {{{low}, {high}}}", yes,
            low = in(reg64) line[0], high = in(reg64) line[1], to = in(reg64) to,);
    }

    /// # Safety
    /// If `yes`, the word is valid to read.
    #[inline(always)]
    pub(super) unsafe fn load_near_word_if(yes: bool, from: NearAddress, at: u32) -> u64 {
        let word: u64;
        predicated!("mov.u64 {word}, 0;", "ld.shared.u64 {word}, [{from}]", yes,
            word = out(reg64) word, from = in(reg32) from + 8 * at,);
        word
    }

    /// # Safety
    /// If `yes`, the word is valid to write.
    #[inline(always)]
    pub(super) unsafe fn store_near_word_if(yes: bool, to: NearAddress, at: u32, word: u64) {
        predicated!("", "st.shared.u64 [{to}], {word}", yes,
            word = in(reg64) word, to = in(reg32) to + 8 * at,);
    }

    /// # Safety
    /// If `yes`, the line is valid to read.
    #[inline(always)]
    pub(super) unsafe fn load_near_line_if(yes: bool, from: NearAddress, at: u32) -> [u64; 2] {
        let (low, high): (u64, u64);
        predicated!("mov.u64 {low}, 0; mov.u64 {high}, 0;",
            "ld.shared.v2.u64 {{{low}, {high}}}, [{from}]", yes,
            low = out(reg64) low, high = out(reg64) high, from = in(reg32) from + 16 * at,);
        [low, high]
    }

    /// # Safety
    /// If `yes`, the line is valid to write.
    #[inline(always)]
    pub(super) unsafe fn store_near_line_if(yes: bool, to: NearAddress, at: u32, line: [u64; 2]) {
        predicated!("", "st.shared.v2.u64 [{to}], {{{low}, {high}}}", yes,
            low = in(reg64) line[0], high = in(reg64) line[1], to = in(reg32) to + 16 * at,);
    }

    /// Reads a flag; what its writer did before its release is visible afterwards.
    #[inline(always)]
    pub(crate) fn load_acquire<const SYSTEM: bool>(flag: *mut u64) -> u64 {
        let number: u64;
        // SAFETY: a word of the buffer of flags, in GPU memory or pinned memory. So below.
        unsafe {
            if SYSTEM {
                asm!("ld.acquire.sys.global.u64 {}, [{}];", out(reg64) number, in(reg64) flag,
                    options(nostack));
            } else {
                asm!("ld.acquire.gpu.global.u64 {}, [{}];", out(reg64) number, in(reg64) flag,
                    options(nostack));
            }
        }
        number
    }

    /// Writes a flag after everything that threads did before the last barrier.
    #[inline(always)]
    pub(crate) fn store_release<const SYSTEM: bool>(flag: *mut u64, number: u64) {
        // SAFETY: as above.
        unsafe {
            if SYSTEM {
                asm!("st.release.sys.global.u64 [{}], {};", in(reg64) flag, in(reg64) number,
                    options(nostack));
            } else {
                asm!("st.release.gpu.global.u64 [{}], {};", in(reg64) flag, in(reg64) number,
                    options(nostack));
            }
        }
    }
}

/// The same on the emulated GPU. Each word is an atomic.
#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use core::sync::atomic::AtomicU64;
    use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    use gpunet_device::simt;

    /// An address in shared memory.
    pub(super) type NearAddress = *mut u8;

    pub(crate) fn barrier() {
        simt::block_barrier();
    }

    pub(crate) const fn loads_first() {}

    pub(super) const fn near(generic: *mut u8) -> NearAddress {
        generic
    }

    /// # Safety
    /// It is valid, and reached by atomics alone while others reach it.
    unsafe fn word<'a>(memory: *const u8, index: usize) -> &'a AtomicU64 {
        // SAFETY: the caller's promise.
        unsafe { AtomicU64::from_ptr(memory.cast_mut().cast::<u64>().add(index)) }
    }

    pub(crate) unsafe fn load_packet_if(
        yes: bool,
        from: *const u8,
        at: u32,
        number: u64,
    ) -> [u64; 2] {
        if !yes {
            return [0, number];
        }
        let at = 2 * at as usize;
        // SAFETY: the caller's promise. Acquire: pairs with the release in `store_packet_if`, before the bytes.
        let tag = unsafe { word(from, at + 1) }.load(Acquire);
        // SAFETY: as above.
        [unsafe { word(from, at) }.load(Relaxed), tag]
    }

    pub(crate) unsafe fn store_packet_if(
        yes: bool,
        to: *mut u8,
        at: u32,
        payload: u64,
        number: u64,
    ) {
        if yes {
            let at = 2 * at as usize;
            // SAFETY: the caller's promise. Release: pairs with the acquire in `load_packet_if`.
            unsafe {
                word(to, at).store(payload, Relaxed);
                word(to, at + 1).store(number, Release);
            }
        }
    }

    pub(crate) unsafe fn load_line_if<const SYSTEM: bool>(
        yes: bool,
        from: *const u8,
        at: u32,
    ) -> [u64; 2] {
        // SAFETY: the caller's promise.
        unsafe { load_near_line_if(yes, from.cast_mut(), at) }
    }

    pub(crate) unsafe fn store_line_if(yes: bool, to: *mut u8, at: u32, line: [u64; 2]) {
        // SAFETY: the caller's promise.
        unsafe { store_near_line_if(yes, to, at, line) };
    }

    pub(super) unsafe fn load_near_word_if(yes: bool, from: NearAddress, at: u32) -> u64 {
        // SAFETY: the caller's promise.
        if yes { unsafe { word(from, at as usize) }.load(Relaxed) } else { 0 }
    }

    pub(super) unsafe fn store_near_word_if(yes: bool, to: NearAddress, at: u32, value: u64) {
        if yes {
            // SAFETY: the caller's promise.
            unsafe { word(to, at as usize) }.store(value, Relaxed);
        }
    }

    pub(super) unsafe fn load_near_line_if(yes: bool, from: NearAddress, at: u32) -> [u64; 2] {
        // SAFETY: the caller's promise.
        [0, 1].map(|half| unsafe { load_near_word_if(yes, from, 2 * at + half) })
    }

    pub(super) unsafe fn store_near_line_if(yes: bool, to: NearAddress, at: u32, line: [u64; 2]) {
        for (half, value) in line.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { store_near_word_if(yes, to, 2 * at + half as u32, value) };
        }
    }

    pub(crate) fn load_acquire<const SYSTEM: bool>(flag: *mut u64) -> u64 {
        // SAFETY: a word of the buffer of flags. So below.
        unsafe { word(flag.cast(), 0) }.load(Acquire)
    }

    pub(crate) fn store_release<const SYSTEM: bool>(flag: *mut u64, number: u64) {
        // SAFETY: as above.
        unsafe { word(flag.cast(), 0) }.store(number, Release);
    }
}
