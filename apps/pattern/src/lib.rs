//! Bytes that both ends can make and check: byte `p` of a stream depends on `p` and a seed. Kernels
//! fill and check buffers with all threads of a group; programs compare byte by byte.
//!
//! A library without kernels, so that each kernel crate that uses it exports its own alone.

#![no_std]

use gpunet_device::{Group, SharedBuf};

/// Eight bytes of the pattern, those at `8 * index` and behind it.
#[inline(always)]
pub const fn word(seed: u64, index: u64) -> u64 {
    let mixed = (index ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 29
}

/// The byte at `position`.
#[inline(always)]
pub const fn byte(seed: u64, position: u64) -> u8 {
    (word(seed, position / 8) >> (position % 8 * 8)) as u8
}

/// Eight bytes of the pattern from `position` on, wherever that is: short reads end anywhere.
#[inline(always)]
pub const fn word_at(seed: u64, position: u64) -> u64 {
    let low = word(seed, position / 8);
    match position % 8 * 8 {
        0 => low,
        shift => low >> shift | word(seed, position / 8 + 1) << (64 - shift),
    }
}

/// Fills a buffer with the pattern from `position` on; all threads of the group, without a
/// barrier behind it (calls that send begin with one).
#[inline(always)]
pub fn fill<G: Group>(group: G, buffer: SharedBuf, seed: u64, position: u64) {
    let mut at = group.rank();
    if buffer.as_ptr().addr().is_multiple_of(8) {
        let words = buffer.cast::<u64>();
        while at < words.len() {
            words.set(at, word_at(seed, position + 8 * at as u64));
            at += group.size();
        }
        at = buffer.len() / 8 * 8 + group.rank();
    }
    while at < buffer.len() {
        buffer.set(at, byte(seed, position + at as u64));
        at += group.size();
    }
}

/// Whether this thread's share of a buffer holds the pattern from `position` on.
#[inline(always)]
pub fn holds<G: Group>(group: G, buffer: SharedBuf, seed: u64, position: u64) -> bool {
    let mut same = true;
    let mut at = group.rank();
    if buffer.as_ptr().addr().is_multiple_of(8) {
        let words = buffer.cast::<u64>();
        while at < words.len() {
            same &= words.get(at) == Some(word_at(seed, position + 8 * at as u64));
            at += group.size();
        }
        at = buffer.len() / 8 * 8 + group.rank();
    }
    while at < buffer.len() {
        same &= buffer.get(at) == Some(byte(seed, position + at as u64));
        at += group.size();
    }
    same
}
