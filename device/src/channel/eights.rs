//! Messages in words of eight bytes, one for each lane at a time.

#![allow(unsafe_code, reason = "loads from and stores into callers' buffers")]

use crate::simt;

/// Whether a message can be moved in words of eight bytes: where it lies and how long it is.
#[inline(always)]
pub(super) fn is_in_eights(address: usize, length: usize) -> bool {
    (address | length).is_multiple_of(8)
}

/// Up to eight bytes of the `left` that follow, the first one lowest.
///
/// # Safety
/// `from` is valid for `left` bytes.
#[inline(always)]
pub(super) unsafe fn load_eight(from: *const u8, left: u32) -> u64 {
    if left >= 8 && from.addr().is_multiple_of(8) {
        // SAFETY: the caller's promise, and aligned.
        return u64::from_le(unsafe { from.cast::<u64>().read() });
    }
    let (mut at, mut eight) = (0, 0);
    // Counted: the bytes. A loop, since it is rare, and would be long without.
    while at < left.min(8) {
        // SAFETY: the caller's promise.
        eight |= u64::from(unsafe { from.add(at as usize).read() }) << (8 * at);
        at = simt::opaque_half(at + 1);
    }
    eight
}

/// Stores up to eight bytes into the `left` that follow.
///
/// # Safety
/// `to` is valid for `left` bytes.
#[inline(always)]
pub(super) unsafe fn store_eight(to: *mut u8, eight: u64, left: u32) {
    if left >= 8 && to.addr().is_multiple_of(8) {
        // SAFETY: the caller's promise, and aligned.
        return unsafe { to.cast::<u64>().write(eight.to_le()) };
    }
    let (mut at, mut rest) = (0, eight);
    // Counted: the bytes. A loop, since it is rare, and would be long without.
    while at < left.min(8) {
        // SAFETY: the caller's promise.
        unsafe { to.add(at as usize).write(rest as u8) };
        rest >>= 8;
        at = simt::opaque_half(at + 1);
    }
}

/// As [`load_eight`], with all bytes on their way at once, in more instructions: for short packets, where that pays
/// (decision 9 of docs/explanation/decisions.md).
///
/// # Safety
/// As [`load_eight`].
#[inline(always)]
pub(super) unsafe fn load_eight_at_once(from: *const u8, left: u32) -> u64 {
    if left >= 8 || !from.addr().is_multiple_of(8) {
        // SAFETY: the caller's promise.
        return unsafe { load_eight(from, left) };
    }
    let (two_at, one_at) = (left & 4, left & 6);
    let (mut four, mut two, mut one) = (0, 0, 0);
    // SAFETY: the caller's promise; each begins where those before it end, and is aligned.
    unsafe {
        if left & 4 != 0 {
            four = u32::from_le(from.cast::<u32>().read());
        }
        if left & 2 != 0 {
            two = u16::from_le(from.add(two_at as usize).cast::<u16>().read());
        }
        if left & 1 != 0 {
            one = from.add(one_at as usize).read();
        }
    }
    u64::from(four) | u64::from(two) << (8 * two_at) | u64::from(one) << (8 * one_at)
}

/// As [`store_eight`], in at most three stores.
///
/// # Safety
/// As [`store_eight`].
#[inline(always)]
pub(super) unsafe fn store_eight_at_once(to: *mut u8, eight: u64, left: u32) {
    if left >= 8 || !to.addr().is_multiple_of(8) {
        // SAFETY: the caller's promise.
        return unsafe { store_eight(to, eight, left) };
    }
    let (two_at, one_at) = (left & 4, left & 6);
    // SAFETY: the caller's promise; each begins where those before it end, and is aligned.
    unsafe {
        if left & 4 != 0 {
            to.cast::<u32>().write((eight as u32).to_le());
        }
        if left & 2 != 0 {
            let two = (eight >> (8 * two_at)) as u16;
            to.add(two_at as usize).cast::<u16>().write(two.to_le());
        }
        if left & 1 != 0 {
            to.add(one_at as usize).write((eight >> (8 * one_at)) as u8);
        }
    }
}

#[cfg(test)]
mod tests;
