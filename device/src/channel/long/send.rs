//! Sending long messages.

#![allow(unsafe_code, reason = "moves a packet")]

use crate::abi::bits::{Position, Progress};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::Span;
use crate::abi::word::writes_bytes;
use crate::channel::finish::{give_send_back, publish_tail};
use crate::channel::packet::{announce, packet_out, store_units};
use crate::channel::{Plan, Warps, copy};
use crate::group::AnyGroup;
use crate::simt;
use crate::socket::{Direction, RecordLine, Socket};

use super::{PART, ROW, first_of, moves_eights};

/// The longest packet that a group sends: what its warps move at once. One warp takes 10 us for a round trip
/// of 4 KiB by packets, of which it moves a quarter at a time, and less by the ring.
#[inline(always)]
pub(crate) fn longest_packet(warps: Warps) -> usize {
    (warps.size / simt::WARP * PART) as usize
}

/// A thread's bytes of its warp's part of a packet.
pub(crate) type Part = [u64; 4];

/// Loads them, before it is known whether the message goes out as a packet; none where it is longer than
/// one, or not aligned.
///
/// # Safety
/// `from` is valid for `length` bytes.
#[inline(always)]
pub(crate) unsafe fn load_part(warps: Warps, from: *const u8, length: usize) -> Option<Part> {
    let first = first_of(warps.rank);
    let load = |n: u32| {
        let at = (first + n * ROW) as usize;
        // SAFETY: the caller's promise.
        if at < length { u64::from_le(unsafe { from.add(at).cast::<u64>().read() }) } else { 0 }
    };
    let fits = length <= longest_packet(warps);
    (fits & moves_eights(from, length)).then(|| [load(0), load(1), load(2), load(3)])
}

/// Has each of them, in this thread's rows, go to a place.
#[inline(always)]
fn each_of(rank: u32, part: Part, length: u32, mut go: impl FnMut(u32, u64)) {
    let mut go = |n: u32, eight: u64| {
        let at = first_of(rank) + n * ROW;
        if at < length {
            go(at, eight);
        }
    };
    let [a, b, c, d] = part;
    go(0, a);
    go(1, b);
    go(2, c);
    go(3, d);
}

/// Carries out a send of at most `most` bytes. How many were sent; the direction is free then. The last
/// thread publishes, in larger groups of another warp than the first: the group's next call begins while
/// this one's counter is still on its way.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "in line, where each is in a register")]
pub(crate) fn send(
    net: Net,
    handle: Handle,
    warps: Warps,
    plan: [u64; 2],
    line: RecordLine,
    from: *const u8,
    most: usize,
    part: Option<Part>,
) -> usize {
    let (rank, size) = (warps.rank, warps.size);
    let span = Span(plan[1]).at_most(most);
    let (bytes, packet) = (span.length() as u32, Plan::is_packet_of(plan));
    let (ring, begin) = (line.ring(Direction::Send), line.position(Direction::Send).count());
    let mut in_ring = false;
    if let (true, Some(part)) = (packet, part) {
        let (units, publishes) = (line.units(), line.publishes(Direction::Send));
        each_of(rank, part, bytes, |at, eight| store_units(units, at, eight, begin, bytes));
        if rank == 0 {
            announce(publishes, begin, bytes);
        }
        if begin.is_multiple_of(8) {
            in_ring = true;
            let (start, mask) = (ring.start(), ring.capacity() - 1);
            each_of(rank, part, bytes, |at, eight| {
                let to = start.wrapping_add((begin as usize + at as usize) & mask);
                writes_bytes(to, 8);
                // SAFETY: inside the ring, whose send direction the group has.
                unsafe { simt::store_plain(to.cast(), eight.to_le()) };
            });
        }
    }
    if !in_ring {
        // SAFETY: the caller's buffer holds the message, and the group has the direction.
        unsafe {
            if packet & part.is_none() {
                let (units, publishes) = (line.units(), line.publishes(Direction::Send));
                packet_out(rank, size, units, publishes, ring, begin, from, bytes);
            } else if let Some(to) = copy::in_lines(ring, span, from) {
                copy::lines_in(rank, size, from, to, bytes);
            } else {
                copy::copy_in(rank, size, from, ring, span);
            }
        }
    }
    publish_and_leave(net, handle, warps, line, bytes, packet);
    span.length()
}

/// Sends a part of a message by the ring, where the lines of ring and buffer begin at the same bytes; otherwise
/// it does nothing. Whether it did.
#[inline(always)]
pub(crate) fn send_by_ring(
    net: Net,
    handle: Handle,
    warps: Warps,
    span: Span,
    line: RecordLine,
    from: *const u8,
) -> bool {
    let Some(to) = copy::in_lines(line.ring(Direction::Send), span, from) else { return false };
    let bytes = span.length() as u32;
    // SAFETY: the caller's buffer holds the message, and the group has the direction.
    unsafe { copy::lines_in(warps.rank, warps.size, from, to, bytes) };
    publish_and_leave(net, handle, warps, line, bytes, false);
    true
}

/// Sends a part of a message by the ring wherever it lies; how many bytes. Out of line and at the end of the
/// function that calls it, which then has no registers to keep for it.
#[inline(never)]
pub(crate) fn send_unaligned(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    span: Span,
    line: RecordLine,
    from: *const u8,
) -> i64 {
    let Some(warps) = Warps::of(group) else { return 0 };
    // SAFETY: the caller's buffer holds the message, and the group has the direction.
    unsafe { copy::copy_in(warps.rank, warps.size, from, line.ring(Direction::Send), span) };
    publish_and_leave(net, handle, warps, line, span.length() as u32, false);
    simt::come_together();
    span.length() as i64
}

/// The end of a send, by the last thread: publishes what was copied into the ring, and gives the direction back.
#[inline(always)]
fn publish_and_leave(
    net: Net,
    handle: Handle,
    warps: Warps,
    line: RecordLine,
    bytes: u32,
    packet: bool,
) {
    let (position, info) = (line.position(Direction::Send), line.info());
    let (publishes, inbox) = (line.publishes(Direction::Send), line.inbox());
    warps.barrier();
    if warps.rank + 1 == warps.size {
        let end = position.advance(bytes.into());
        if !packet {
            // All threads' bytes before the counter, for the other end.
            publish_tail(Socket::at(publishes), end, info.is_on_one_gpu());
        }
        // After the counter, which must not wait for it. The head is for the next call: it then knows of
        // space and of a broken connection.
        let head = inbox.space();
        let left = end.behind_any(position, bytes as usize);
        let head = if packet { Progress(0) } else { head };
        leave(net, handle, left, head);
    }
}

/// Gives the direction back, standing there. `head`: how far the other end has received, if that was looked up.
#[inline(always)]
fn leave(net: Net, handle: Handle, position: Position, head: Progress) {
    let socket = Socket::known(net, handle);
    give_send_back(socket.lock_word(Direction::Send), position);
    if head.0 != 0 {
        socket.remember_head(head);
    }
}
