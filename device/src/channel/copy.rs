//! Copies between rings and buffers by all threads of a group.
//!
//! Both sides are reached with aligned 16-byte accesses, also where they differ modulo 16: a line of
//! the target is then made of two lines of the source. Only bytes before the first line and behind the
//! last move one by one. Each thread keeps several loads in flight: one alone would leave the link
//! idle. Counts are 32 bits wide, as a GPU's registers are.
//!
//! Why it is so: decision 11 of docs/explanation/decisions.md.

#![allow(unsafe_code, reason = "the copy loops")]

use crate::abi::ring::{RingAddress, Span};
use crate::abi::word::{reads_bytes, writes_bytes};
use crate::simt::{
    self, WARP, load_line_if, load_plain, load_ring_line_if, opaque_pointer, store_line_if,
    store_plain,
};

/// 16 bytes, moved by one instruction.
type Line = [u64; 2];

/// Bytes of a line.
const LINE: u32 = 16;

/// Lines that a thread has in flight: a ring is across PCIe, or was just written by another processor of
/// the GPU. More would not fit the registers that are these functions' to change.
const IN_FLIGHT: u32 = 4;

/// Copies a part of a ring out, thread `rank` of `size` doing its share. Of a part in one piece its copy is the
/// last thing here, and no register is kept meanwhile.
///
/// # Safety
/// `to` is valid for so many bytes, which do not overlap the ring.
#[inline(never)]
pub(crate) unsafe fn copy_out(rank: u32, size: u32, ring: RingAddress, span: Span, to: *mut u8) {
    let [(first, n), (_, wrapped)] = ring.pieces(span);
    // SAFETY: the caller's promise; the pieces lie in the ring, whose capacity fits 32 bits.
    unsafe {
        if wrapped > 0 {
            return two_pieces_out(rank, size, ring, span, to);
        }
        from_ring(rank, size, first, to, n as u32);
    }
}

#[inline(never)]
unsafe fn two_pieces_out(rank: u32, size: u32, ring: RingAddress, span: Span, to: *mut u8) {
    let [(first, n), (second, m)] = ring.pieces(span);
    // SAFETY: as in copy_out.
    unsafe {
        from_ring(rank, size, first, to, n as u32);
        from_ring(rank, size, second, to.add(n), m as u32);
    }
}

/// Copies bytes into a part of a ring, thread `rank` of `size` doing its share.
///
/// # Safety
/// `from` is valid for so many bytes, which do not overlap the ring.
#[inline(never)]
pub(crate) unsafe fn copy_in(rank: u32, size: u32, from: *const u8, ring: RingAddress, span: Span) {
    let [(first, n), (_, wrapped)] = ring.pieces(span);
    // SAFETY: as in copy_out.
    unsafe {
        if wrapped > 0 {
            return two_pieces_in(rank, size, from, ring, span);
        }
        to_ring(rank, size, from, first, n as u32);
    }
}

#[inline(never)]
unsafe fn two_pieces_in(rank: u32, size: u32, from: *const u8, ring: RingAddress, span: Span) {
    let [(first, n), (second, m)] = ring.pieces(span);
    // SAFETY: as in copy_out.
    unsafe {
        to_ring(rank, size, from, first, n as u32);
        to_ring(rank, size, from.add(n), second, m as u32);
    }
}

/// Copies `length` bytes from a ring, thread `rank` of `size` doing its share. All threads of a group
/// whose `size` is a multiple of 32 are those of whole warps, in their order, and call it together.
///
/// # Safety
/// Both ranges are valid for their access and do not overlap. Lines that hold a byte of the ring's range
/// are valid to read.
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
            unaligned(rank, size, ring, buffer, length, true);
        }
    }
}

/// Copies `length` bytes into a ring, thread `rank` of `size` doing its share. As for [`from_ring`], all
/// threads of whole warps call it together.
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
            unaligned(rank, size, buffer, ring, length, false);
        }
    }
}

// Two functions, so that the usual case, where lines of both ranges begin at the same bytes, does not pay
// for the registers of the other. They call nothing. Below the 64 registers of the largest blocks 30 are
// a function's to change; what it uses beyond, it keeps on the stack for its callers while it runs: two in
// [`aligned`], 27 in [`unaligned`]. Lines are loaded and stored under a predicate: the last of them need no
// loop of their own, which would load one after the other.

#[inline(never)]
unsafe fn aligned(rank: u32, size: u32, from: *const u8, to: *mut u8, length: u32) {
    let head = bytes_to_a_line(to).min(length);
    let lines = (length - head) / LINE;
    // SAFETY: the caller's promise.
    unsafe {
        let edge = Edge::load(rank, size, from, to, length, head, lines);
        each_line(rank, size, from.add(head as usize), to.add(head as usize), lines);
        edge.store();
    }
    leave(size);
}

/// Copies lines of two ranges that begin at lines both, thread `rank` of `size` doing its share.
#[inline(always)]
unsafe fn each_line(rank: u32, size: u32, from: *const u8, to: *mut u8, lines: u32) {
    let first = (LINE * rank) as usize;
    let (mut source, mut target) = (from.wrapping_add(first), to.wrapping_add(first));
    // Lines from the thread's next one on.
    let mut left = lines as i32 - rank as i32;
    // Counted: the lines, several at a time.
    while left > 0 {
        // From one to the next, so that few addresses are in registers at a time.
        let stride = LINE * simt::opaque_half(size);
        let mut load_next = || {
            let mine = left > 0;
            // SAFETY: a line of the source, if it is there.
            let line = unsafe { load_line_if(mine, source.cast()) };
            source = source.wrapping_add(stride as usize);
            left -= size as i32;
            (mine, line)
        };
        const { assert!(IN_FLIGHT == 4) };
        let (a, b, c, d) = (load_next(), load_next(), load_next(), load_next());
        let mut store_next = |(mine, line): (bool, Line)| {
            // SAFETY: a line of the target, if it is there.
            unsafe { store_line_if(mine, target.cast(), line) };
            target = target.wrapping_add(stride as usize);
        };
        store_next(a);
        store_next(b);
        store_next(c);
        store_next(d);
    }
}

/// Where a part of a ring lies that is in one piece and begins with a line, as the buffer does.
#[inline(always)]
pub(super) fn in_lines(ring: RingAddress, span: Span, buffer: *const u8) -> Option<*mut u8> {
    let capacity = ring.capacity_u32();
    let start = span.low() & (capacity - 1);
    let aligned = (start | buffer.addr() as u32).is_multiple_of(LINE);
    let whole = span.length() as u32 <= capacity - start;
    (aligned & whole).then(|| ring.start().wrapping_add(start as usize))
}

/// Copies such a part out of the ring. In line, in a function that has saved its registers already: twice as
/// many lines are in flight as a function of its own could have without saving more.
///
/// # Safety
/// As [`copy_out`].
#[inline(always)]
pub(super) unsafe fn lines_out(rank: u32, size: u32, ring: *const u8, to: *mut u8, length: u32) {
    reads_bytes(ring, length as usize);
    // SAFETY: the caller's promise.
    unsafe { behind_lines(rank, ring, to, length) };
    let first = (LINE * rank) as usize;
    let (mut source, mut target) = (ring.wrapping_add(first), to.wrapping_add(first));
    // Lines from the thread's next one on.
    let mut left = (length / LINE) as i32 - rank as i32;
    // Counted: the lines, several at a time.
    while left > 0 {
        let stride = LINE * simt::opaque_half(size);
        let mut ahead = left;
        let mut load_next = || {
            // SAFETY: a line of the ring, if it is there.
            let line = unsafe { load_ring_line_if(ahead > 0, source.cast()) };
            source = source.wrapping_add(stride as usize);
            ahead -= size as i32;
            line
        };
        let (a, b, c, d) = (load_next(), load_next(), load_next(), load_next());
        let (e, f, g, h) = (load_next(), load_next(), load_next(), load_next());
        // Compared anew: there are fewer registers for flags than lines.
        left = simt::opaque_half(left as u32) as i32;
        let mut store_next = |line: Line| {
            // SAFETY: a line of the buffer, if it is there.
            unsafe { store_line_if(left > 0, target.cast(), line) };
            target = target.wrapping_add(stride as usize);
            left -= size as i32;
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
    leave(size);
}

/// Copies such a part into the ring. In line, since a call costs more than what it would spare.
///
/// # Safety
/// As [`copy_in`].
#[inline(always)]
pub(super) unsafe fn lines_in(rank: u32, size: u32, from: *const u8, ring: *mut u8, length: u32) {
    writes_bytes(ring, length as usize);
    // SAFETY: the caller's promise.
    unsafe {
        behind_lines(rank, from, ring, length);
        each_line(rank, size, from, ring, length / LINE);
    }
    leave(size);
}

/// The bytes behind the last whole line, each by a thread of the first warp.
#[inline(always)]
unsafe fn behind_lines(rank: u32, from: *const u8, to: *mut u8, length: u32) {
    if rank < length % LINE {
        let at = (length - length % LINE + rank) as usize;
        // SAFETY: the caller's promise: below `length`.
        unsafe { store_plain(to.add(at), load_plain(from.add(at))) };
    }
}

/// Where lines of the two ranges begin at different bytes. If `whole`, all lines that hold a byte of the
/// source may be read, and otherwise its bytes alone.
///
/// A line of the target is the end of a line of the source and the beginning of the next one. A warp loads
/// [`IN_FLIGHT`] times 32 lines in a row, whose lanes pass them on, and makes as many of them, less one. A
/// thread that has no whole warp does the same with the lines that it loads itself. To load each line twice in
/// place of passing it on is simpler, and across PCIe reads it twice.
#[inline(never)]
unsafe fn unaligned(rank: u32, size: u32, from: *const u8, to: *mut u8, length: u32, whole: bool) {
    // Before the first line of the source; and before the first of the target that begins behind it.
    let before = if whole { 0 } else { bytes_to_a_line(from) };
    let head = before + bytes_to_a_line(to.wrapping_add(before as usize));
    let lines = length.saturating_sub(if whole { head } else { before + LINE }) / LINE;
    let head = head.min(length);
    // SAFETY: the caller's promise.
    let edge = unsafe { Edge::load(rank, size, from, to, length, head, lines) };

    let shift = from.addr().wrapping_add(head as usize) as u32 % LINE;
    let passes = simt::passes_lines() && size.is_multiple_of(WARP);
    let lanes = if passes { WARP } else { 1 };
    let lane = rank & (lanes - 1);
    let made = IN_FLIGHT * lanes - 1;
    let base = rank / lanes * made;
    let stride = LINE * (size / lanes * made);
    let first = (head + LINE * (base + lane)) as usize;
    // Here and below opaque, or the compiler keeps what they are computed from.
    let mut source =
        opaque_pointer(from.wrapping_add(first).wrapping_sub(shift as usize).cast_mut());
    let mut target = opaque_pointer(to.wrapping_add(first));
    // Lines from the next of the first lane on.
    let mut left = lines as i32 - base as i32;
    // Counted: the lines, several at a time, and as often for each lane of a warp.
    while left > 0 {
        let step = simt::opaque_half(lanes);
        let (mut next, mut mine) = (source, left - lane as i32);
        let mut load_next = || {
            // SAFETY: a line of the source, if it is there: one more than of the target.
            let line = unsafe { load_line_if(mine >= 0, next.cast::<Line>()) };
            next = opaque_pointer(next.wrapping_add((LINE * step) as usize));
            mine -= step as i32;
            line
        };
        const { assert!(IN_FLIGHT == 4) };
        let (a, b, c, d) = (load_next(), load_next(), load_next(), load_next());
        // The last lane needs what the first has loaded next.
        let pick = |own: Line, next: Line| if lane == 0 { next } else { own };
        let (mut e, mut f, mut g, mut h) = (pick(a, b), pick(b, c), pick(c, d), d);
        if passes {
            let pass = |line: Line| simt::line_of_lane(line, lane + 1);
            (e, f, g, h) = (pass(e), pass(f), pass(g), pass(h));
        }
        let (mut next, mut here) = (target, left.min(made as i32) - lane as i32);
        let mut store_next = |first: Line, second: Line| {
            // SAFETY: a line of the target, if it is there.
            unsafe { store_line_if(here > 0, next.cast(), joined(first, second, shift)) };
            next = opaque_pointer(next.wrapping_add((LINE * step) as usize));
            here -= step as i32;
        };
        store_next(a, e);
        store_next(b, f);
        store_next(c, g);
        store_next(d, h);
        let step = simt::opaque_half(stride);
        source = opaque_pointer(source.wrapping_add(step as usize));
        target = opaque_pointer(target.wrapping_add(step as usize));
        left -= (step / LINE) as i32;
    }
    // SAFETY: the caller's promise.
    unsafe { edge.store() };
    leave(size);
}

/// Bytes before the first line at or behind an address.
#[inline(always)]
fn bytes_to_a_line(address: *const u8) -> u32 {
    (address.addr() as u32).wrapping_neg() % LINE
}

/// The 16 bytes from byte `shift` of two lines on.
#[inline(always)]
fn joined(first: Line, second: Line, shift: u32) -> Line {
    let half = |line: Line, index: usize| (line[index / 2] >> (32 * (index % 2))) as u32;
    let [a, b, c, d] = [0, 1, 2, 3].map(|index| half(first, index));
    let [e, f, g, h] = [0, 1, 2, 3].map(|index| half(second, index));
    // By 8 bytes, by 4, and by what is left.
    let [a, b, c, d, e, f] = if shift & 8 != 0 { [c, d, e, f, g, h] } else { [a, b, c, d, e, f] };
    let [a, b, c, d, e] = if shift & 4 != 0 { [b, c, d, e, f] } else { [a, b, c, d, e] };
    let bits = 8 * (shift & 3);
    let two = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let from_both = |low: u32, high: u32| (two(low, high) >> bits) as u32;
    [two(from_both(a, b), from_both(b, c)), two(from_both(c, d), from_both(d, e))]
}

/// A byte before the first line or behind the last, on its way while the lines are: a thread has one of them,
/// and where it goes, or null.
#[derive(Clone, Copy)]
struct Edge {
    byte: u8,
    to: *mut u8,
}

impl Edge {
    /// Loads the thread's byte of those that are not in the `lines`, which begin behind `head` bytes. Of a group
    /// that has fewer threads than there are such bytes it copies the others.
    ///
    /// # Safety
    /// Both ranges are valid for their access.
    #[inline(always)]
    unsafe fn load(
        rank: u32,
        size: u32,
        from: *const u8,
        to: *mut u8,
        length: u32,
        head: u32,
        lines: u32,
    ) -> Self {
        let between = LINE * lines;
        let place = |at: u32| (if at < head { at } else { at + between }) as usize;
        let mut at = rank + size;
        // Counted: the bytes.
        while at < length - between {
            // SAFETY: the caller's promise: below `length`.
            unsafe { store_plain(to.add(place(at)), load_plain(from.add(place(at)))) };
            at += size;
        }
        let mut edge = Self { byte: 0, to: core::ptr::null_mut() };
        if rank < length - between {
            // SAFETY: as above.
            edge.byte = unsafe { load_plain(from.add(place(rank))) };
            edge.to = to.wrapping_add(place(rank));
        }
        edge.to = opaque_pointer(edge.to);
        edge
    }

    /// # Safety
    /// As when it was loaded.
    #[inline(always)]
    unsafe fn store(self) {
        if !self.to.is_null() {
            // SAFETY: the caller's promise.
            unsafe { store_plain(self.to, self.byte) };
        }
    }
}

/// The end of a copy: lanes of whole warps, of which some had more to do, leave it together.
#[inline(always)]
fn leave(size: u32) {
    if size.is_multiple_of(WARP) {
        simt::come_together();
    }
}

#[cfg(test)]
mod tests;
