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

/// Loads a thread has in flight: from a ring, which is across PCIe or was just written by another
/// processor of the GPU, more than from a buffer.
const FROM_RING: usize = 8;
const TO_RING: usize = 8;

/// Copies `length` bytes from a ring, thread `rank` of `size` doing its share.
///
/// # Safety
/// Both ranges are valid for their access and do not overlap.
#[inline(never)]
pub(crate) unsafe fn from_ring(
    rank: u32,
    size: u32,
    ring: *const u8,
    buffer: *mut u8,
    length: u32,
) {
    reads_bytes(ring, length as usize);
    let head = (ring.addr() as u32).wrapping_neg() % 16;
    let head = head.min(length);
    let lines = (length - head) / 16;
    // SAFETY: all offsets below stay under `length`.
    unsafe {
        let (from, to) = (ring.add(head as usize).cast::<Line>(), buffer.add(head as usize));
        let load = |at: u32| load_line(from.add(at as usize));
        match to.addr() % 16 {
            0 => share::<FROM_RING>(rank, size, lines, load, |at, line| {
                store_line(to.cast::<Line>().add(at as usize), line)
            }),
            8 => share::<FROM_RING>(rank, size, lines, load, |at, line| {
                to.add(16 * at as usize).cast::<Line>().write(line);
            }),
            4 | 12 => share::<FROM_RING>(rank, size, lines, load, |at, line| {
                to.add(16 * at as usize)
                    .cast::<[u32; 4]>()
                    .write(core::mem::transmute::<Line, [u32; 4]>(line));
            }),
            _ => share::<FROM_RING>(rank, size, lines, load, |at, line| {
                to.add(16 * at as usize)
                    .cast::<[u8; 16]>()
                    .write(core::mem::transmute::<Line, [u8; 16]>(line));
            }),
        }
        edges(rank, size, ring, buffer, head, head + 16 * lines, length);
    }
}

/// Copies `length` bytes into a ring, thread `rank` of `size` doing its share.
///
/// # Safety
/// Both ranges are valid for their access and do not overlap.
#[inline(never)]
pub(crate) unsafe fn to_ring(rank: u32, size: u32, buffer: *const u8, ring: *mut u8, length: u32) {
    writes_bytes(ring, length as usize);
    let head = (ring.addr() as u32).wrapping_neg() % 16;
    let head = head.min(length);
    let lines = (length - head) / 16;
    // SAFETY: all offsets below stay under `length`.
    unsafe {
        let (from, to) = (buffer.add(head as usize), ring.add(head as usize).cast::<Line>());
        let store = |at: u32, line: Line| store_line(to.add(at as usize), line);
        match from.addr() % 16 {
            0 => share::<TO_RING>(
                rank,
                size,
                lines,
                |at| load_line(from.cast::<Line>().add(at as usize)),
                store,
            ),
            8 => share::<TO_RING>(
                rank,
                size,
                lines,
                |at| from.add(16 * at as usize).cast::<Line>().read(),
                store,
            ),
            4 | 12 => share::<TO_RING>(
                rank,
                size,
                lines,
                |at| {
                    core::mem::transmute::<[u32; 4], Line>(
                        from.add(16 * at as usize).cast::<[u32; 4]>().read(),
                    )
                },
                store,
            ),
            _ => share::<TO_RING>(
                rank,
                size,
                lines,
                |at| {
                    core::mem::transmute::<[u8; 16], Line>(
                        from.add(16 * at as usize).cast::<[u8; 16]>().read(),
                    )
                },
                store,
            ),
        }
        edges(rank, size, buffer, ring, head, head + 16 * lines, length);
    }
}

/// The thread's share of `lines`, so many loads before their stores.
#[inline(always)]
fn share<const IN_FLIGHT: usize>(
    rank: u32,
    size: u32,
    lines: u32,
    load: impl Fn(u32) -> Line,
    store: impl Fn(u32, Line),
) {
    let mut at = rank;
    // Counted: the lines, several at a time.
    while at + (IN_FLIGHT as u32 - 1) * size < lines {
        // From one to the next, so that few addresses are in registers at a time.
        let mut next = at;
        let loaded: [Line; IN_FLIGHT] = core::array::from_fn(|_| {
            let line = load(next);
            next = simt::opaque_half(next + size);
            line
        });
        next = at;
        for line in loaded {
            store(next, line);
            next = simt::opaque_half(next + size);
        }
        at = next;
    }
    // Counted: the rest of them.
    while at < lines {
        store(at, load(at));
        at += size;
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
