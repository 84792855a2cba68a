//! Accesses to memory for which the compiler has no instruction, or a wider one than is needed.

#![allow(unsafe_code, reason = "assembly")]

use core::arch::asm;

/// Sets bits of a word of GPU memory and acquires; what stood there.
///
/// # Safety
/// `at` is 8-byte aligned, valid, and in global memory.
#[inline(always)]
pub(crate) unsafe fn set_bits(at: *mut u64, bits: u64) -> u64 {
    let old: u64;
    // SAFETY: the caller's promise. The compiler's own comes out relaxed.
    unsafe {
        asm!("atom.acquire.gpu.global.or.b64 {}, [{}], {};", out(reg64) old, in(reg64) at,
            in(reg64) bits, options(nostack));
    }
    old
}

/// The same in threads that are `mine`, with no order implied; 0 in the others. Without a branch, behind
/// which the warp would wait for the answer, as it would for an acquire.
///
/// # Safety
/// As [`set_bits`].
#[inline(always)]
pub(crate) unsafe fn set_bits_if(at: *mut u64, bits: u64, mine: bool) -> u64 {
    let old: u64;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .pred %mine;",
            "setp.ne.u32 %mine, {mine}, 0;",
            "mov.u64 {old}, 0;",
            "@%mine atom.relaxed.gpu.global.or.b64 {old}, [{at}], {bits}; }}",
            old = out(reg64) old, at = in(reg64) at, bits = in(reg64) bits,
            mine = in(reg32) u32::from(mine), options(nostack));
    }
    old
}

/// Replaces a word if it is `current`, after everything the thread has seen and done, and acquires; what was
/// there.
///
/// # Safety
/// As [`set_bits`].
#[inline(always)]
pub(crate) unsafe fn compare_exchange(at: *mut u64, current: u64, new: u64) -> u64 {
    let old: u64;
    // SAFETY: the caller's promise. The compiler's own is also made for a thread's own memory, where it is
    // another fifteen instructions.
    unsafe {
        asm!("atom.acq_rel.sys.global.cas.b64 {}, [{}], {}, {};", out(reg64) old, in(reg64) at,
            in(reg64) current, in(reg64) new, options(nostack));
    }
    old
}

/// Reads two words at once, each whole by itself.
///
/// # Safety
/// As [`set_bits`], for both, and aligned to 16 bytes.
#[inline(always)]
pub(crate) unsafe fn load_two_acquire(at: *const u64) -> [u64; 2] {
    let (low, high): (u64, u64);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.acquire.sys.global.v2.u64 {{{}, {}}}, [{}];", out(reg64) low, out(reg64) high,
            in(reg64) at, options(nostack));
    }
    [low, high]
}

/// Reads two words at once, each whole by itself, with no order implied.
///
/// # Safety
/// As [`load_two_acquire`].
#[inline(always)]
pub(crate) unsafe fn load_two(at: *const u64) -> [u64; 2] {
    let (low, high): (u64, u64);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.relaxed.sys.global.v2.u64 {{{}, {}}}, [{}];", out(reg64) low, out(reg64) high,
            in(reg64) at, options(nostack));
    }
    [low, high]
}

/// Writes two words at once, each whole by itself, with no order implied.
///
/// # Safety
/// As [`load_two_acquire`].
#[inline(always)]
pub(crate) unsafe fn store_two(at: *mut u64, low: u64, high: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.relaxed.sys.global.v2.u64 [{}], {{{}, {}}};", in(reg64) at, in(reg64) low,
            in(reg64) high, options(nostack));
    }
}

/// Writes a word of GPU memory after everything the thread has seen and done, for threads of this GPU.
///
/// # Safety
/// As [`set_bits`].
#[inline(always)]
pub(crate) unsafe fn store_release_on_gpu(at: *mut u64, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.release.gpu.global.u64 [{}], {};", in(reg64) at, in(reg64) value, options(nostack));
    }
}

/// In threads that are `mine`, replaces a word of GPU memory if it is `current`; what was there, and
/// 0 in the others. Without a branch, behind which the warp would wait for the answer.
///
/// # Safety
/// As [`set_bits`].
#[inline(always)]
pub(crate) unsafe fn replace(at: *mut u64, current: u64, new: u64, mine: bool) -> u64 {
    let old: u64;
    // SAFETY: the caller's promise. The compiler's own comes out wider.
    unsafe {
        asm!(
            "{{ .reg .pred %mine;",
            "setp.ne.u32 %mine, {mine}, 0;",
            "mov.u64 {old}, 0;",
            "@%mine atom.relaxed.gpu.global.cas.b64 {old}, [{at}], {current}, {new}; }}",
            old = out(reg64) old, at = in(reg64) at, current = in(reg64) current,
            new = in(reg64) new, mine = in(reg32) u32::from(mine), options(nostack));
    }
    old
}

/// Loads 16 bytes by that instruction if `yes`. The compiler does not make one of two loads.
macro_rules! load_line_if {
    ($load:literal, $yes:expr, $from:expr) => {{
        let (low, high): (u64, u64);
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "{{ .reg .pred %yes; setp.ne.u32 %yes, {yes}, 0;",
                concat!("@%yes ", $load, " {{{low}, {high}}}, [{from}]; }}"),
                low = out(reg64) low, high = out(reg64) high, from = in(reg64) $from,
                yes = in(reg32) u32::from($yes), options(nostack, readonly));
        }
        [low, high]
    }};
}

/// # Safety
/// As [`crate::simt::load_line_if`].
#[inline(always)]
pub(crate) unsafe fn load_line_if(yes: bool, from: *const [u64; 2]) -> [u64; 2] {
    load_line_if!("ld.v2.u64", yes, from)
}

/// Relaxed, which passes the first-level cache by.
///
/// # Safety
/// As [`crate::simt::load_ring_line_if`].
#[inline(always)]
pub(crate) unsafe fn load_ring_line_if(yes: bool, from: *const [u64; 2]) -> [u64; 2] {
    load_line_if!("ld.relaxed.gpu.global.v2.u64", yes, from)
}

/// # Safety
/// As [`crate::simt::store_line_if`].
#[inline(always)]
pub(crate) unsafe fn store_line_if(yes: bool, to: *mut [u64; 2], line: [u64; 2]) {
    let [low, high] = line;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .pred %yes; setp.ne.u32 %yes, {yes}, 0;",
            "@%yes st.v2.u64 [{to}], {{{low}, {high}}}; }}",
            to = in(reg64) to, low = in(reg64) low, high = in(reg64) high,
            yes = in(reg32) u32::from(yes), options(nostack));
    }
}
