//! Copies between rings and buffers by all threads of a group.
//!
//! The ring's side is always reached with aligned 16-byte accesses (it lies across PCIe or is
//! read by the CPU); the buffer's side with the widest that its alignment allows. Each thread
//! keeps several loads in flight: one alone would leave the link idle. Counts are 32 bits wide, as
//! a GPU's registers are.

#![allow(unsafe_code, reason = "the copy loops")]

use crate::abi::word::{reads_bytes, writes_bytes};
use crate::simt::{self, load_line, load_plain, store_line, store_plain};

/// 16 bytes, moved by one instruction.
type Line = [u64; 2];

/// Loads a thread has in flight: a ring is across PCIe, or was just written by another processor of
/// the GPU.
const IN_FLIGHT: u32 = 8;

/// Copies `length` bytes from a ring, thread `rank` of `size` doing its share.
///
/// # Safety
/// Both ranges are valid for their access and do not overlap.
#[inline(always)]
pub(crate) unsafe fn from_ring(
    rank: u32,
    size: u32,
    ring: *const u8,
    buffer: *mut u8,
    length: u32,
) {
    reads_bytes(ring, length as usize);
    // SAFETY: the caller's promise.
    unsafe {
        if ring.addr() % 16 == buffer.addr() % 16 {
            aligned(rank, size, ring, buffer, length);
        } else {
            unaligned_from_ring(rank, size, ring, buffer, length);
        }
    }
}

/// Copies `length` bytes into a ring, thread `rank` of `size` doing its share.
///
/// # Safety
/// Both ranges are valid for their access and do not overlap.
#[inline(always)]
pub(crate) unsafe fn to_ring(rank: u32, size: u32, buffer: *const u8, ring: *mut u8, length: u32) {
    writes_bytes(ring, length as usize);
    // SAFETY: the caller's promise.
    unsafe {
        if ring.addr() % 16 == buffer.addr() % 16 {
            aligned(rank, size, buffer, ring, length);
        } else {
            unaligned_to_ring(rank, size, buffer, ring, length);
        }
    }
}

// Each of these is a function of its own, so that the usual case, where lines of both ranges begin at
// the same bytes, does not pay for the registers of the others.

/// Bytes before the first line at or behind an address, and lines from there on.
#[inline(always)]
fn lines_of(address: usize, length: u32) -> (u32, u32) {
    let head = ((address as u32).wrapping_neg() % 16).min(length);
    (head, (length - head) / 16)
}

#[inline(never)]
unsafe fn aligned(rank: u32, size: u32, from: *const u8, to: *mut u8, length: u32) {
    let (head, lines) = lines_of(from.addr(), length);
    // SAFETY: all offsets below stay under `length`.
    unsafe {
        let (first, first_to) = (from.add(head as usize), to.add(head as usize));
        let (first, first_to) = (first.cast::<Line>(), first_to.cast::<Line>());
        let load = |at: u32| load_line(first.add(at as usize));
        share(rank, size, lines, load, |at, line| store_line(first_to.add(at as usize), line));
        edges(rank, size, from, to, head, head + 16 * lines, length);
    }
}

#[inline(never)]
unsafe fn unaligned_from_ring(rank: u32, size: u32, ring: *const u8, buffer: *mut u8, length: u32) {
    let (head, lines) = lines_of(ring.addr(), length);
    // SAFETY: all offsets below stay under `length`.
    unsafe {
        let (from, to) = (ring.add(head as usize).cast::<Line>(), buffer.add(head as usize));
        let load = |at: u32| load_line(from.add(at as usize));
        match to.addr() % 8 {
            0 => share(rank, size, lines, load, |at, line| store_words(to, at, line)),
            4 => share(rank, size, lines, load, |at, line| store_halves(to, at, line)),
            _ => share(rank, size, lines, load, |at, line| store_bytes(to, at, line)),
        }
        edges(rank, size, ring, buffer, head, head + 16 * lines, length);
    }
}

#[inline(never)]
unsafe fn unaligned_to_ring(rank: u32, size: u32, buffer: *const u8, ring: *mut u8, length: u32) {
    let (head, lines) = lines_of(ring.addr(), length);
    // SAFETY: all offsets below stay under `length`.
    unsafe {
        let (from, to) = (buffer.add(head as usize), ring.add(head as usize).cast::<Line>());
        let store = |at: u32, line: Line| store_line(to.add(at as usize), line);
        match from.addr() % 8 {
            0 => share(rank, size, lines, |at| load_words(from, at), store),
            4 => share(rank, size, lines, |at| load_halves(from, at), store),
            _ => share(rank, size, lines, |at| load_bytes(from, at), store),
        }
        edges(rank, size, buffer, ring, head, head + 16 * lines, length);
    }
}

/// The thread's share of `lines`, several loads before their stores. Written out: arrays of them ended
/// up in local memory with one compiler or another.
#[inline(always)]
fn share(rank: u32, size: u32, lines: u32, load: impl Fn(u32) -> Line, store: impl Fn(u32, Line)) {
    let mut at = rank;
    // Counted: the lines, several at a time.
    while at + (IN_FLIGHT - 1) * size < lines {
        // From one to the next, so that few addresses are in registers at a time.
        let mut next = at;
        let mut load_next = || {
            let line = load(next);
            next = simt::opaque_half(next + size);
            line
        };
        let (a, b, c, d) = (load_next(), load_next(), load_next(), load_next());
        let (e, f, g, h) = (load_next(), load_next(), load_next(), load_next());
        let mut store_next = |line: Line| {
            store(at, line);
            at = simt::opaque_half(at + size);
        };
        store_next(a);
        store_next(b);
        store_next(c);
        store_next(d);
        store_next(e);
        store_next(f);
        store_next(g);
        store_next(h);
    }
    // Counted: the rest of them.
    while at < lines {
        store(at, load(at));
        at += size;
    }
}

// Line `at` of a buffer that is aligned to 8, to 4, or to no more than 1 byte, piece by piece: a plain
// copy of so many bytes goes through local memory.

#[inline(always)]
unsafe fn load_words(from: *const u8, at: u32) -> Line {
    let from = from.wrapping_add(16 * at as usize).cast::<u64>();
    // SAFETY: the caller's promise: 16 bytes, aligned.
    unsafe { [from.read(), from.add(1).read()] }
}

#[inline(always)]
unsafe fn store_words(to: *mut u8, at: u32, [low, high]: Line) {
    let to = to.wrapping_add(16 * at as usize).cast::<u64>();
    // SAFETY: the caller's promise: 16 bytes, aligned.
    unsafe {
        to.write(low);
        to.add(1).write(high);
    }
}

#[inline(always)]
unsafe fn load_halves(from: *const u8, at: u32) -> Line {
    let from = from.wrapping_add(16 * at as usize).cast::<u32>();
    // SAFETY: the caller's promise: 16 bytes, aligned.
    let half = |index: usize| u64::from(unsafe { from.add(index).read() });
    [half(0) | half(1) << 32, half(2) | half(3) << 32]
}

#[inline(always)]
unsafe fn store_halves(to: *mut u8, at: u32, [low, high]: Line) {
    let to = to.wrapping_add(16 * at as usize).cast::<u32>();
    // SAFETY: the caller's promise: 16 bytes, aligned.
    unsafe {
        to.write(low as u32);
        to.add(1).write((low >> 32) as u32);
        to.add(2).write(high as u32);
        to.add(3).write((high >> 32) as u32);
    }
}

#[inline(always)]
unsafe fn load_bytes(from: *const u8, at: u32) -> Line {
    let from = from.wrapping_add(16 * at as usize);
    // SAFETY: the caller's promise: 16 bytes.
    let byte = |index: usize| u64::from(unsafe { from.add(index).read() }) << (8 * (index % 8));
    let four = |index: usize| byte(index) | byte(index + 1) | byte(index + 2) | byte(index + 3);
    [four(0) | four(4), four(8) | four(12)]
}

#[inline(always)]
unsafe fn store_bytes(to: *mut u8, at: u32, [low, high]: Line) {
    let to = to.wrapping_add(16 * at as usize);
    // Counted: the bytes.
    for index in 0..8 {
        // SAFETY: the caller's promise: 16 bytes.
        unsafe {
            to.add(index).write((low >> (8 * index)) as u8);
            to.add(8 + index).write((high >> (8 * index)) as u8);
        }
    }
}

/// The bytes before the first line and behind the last.
#[inline(always)]
unsafe fn edges(
    rank: u32,
    size: u32,
    from: *const u8,
    to: *mut u8,
    head: u32,
    tail: u32,
    length: u32,
) {
    let mut at = rank;
    // Counted: the bytes before the first line.
    while at < head {
        // SAFETY: the caller's promise: below `length`.
        unsafe { store_plain(to.add(at as usize), load_plain(from.add(at as usize))) };
        at += size;
    }
    at = tail + rank;
    // Counted: the bytes behind the last.
    while at < length {
        // SAFETY: as above.
        unsafe { store_plain(to.add(at as usize), load_plain(from.add(at as usize))) };
        at += size;
    }
}
