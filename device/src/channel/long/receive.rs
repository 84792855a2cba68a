//! Receiving long messages.

#![allow(unsafe_code, reason = "moves a packet")]

use crate::abi::bits::{P2P_PACKET_BYTES, Position, Progress, Unit};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::Span;
use crate::channel::job::{at_once, leave};
use crate::channel::packet::{belong, bytes_of, packet_in, take_units};
use crate::channel::{Warps, copy};
use crate::simt;
use crate::socket::{Direction, RecordLine, Socket};

use super::{PART, ROW, first_of, moves_eights};

/// Polls before the leader waits alone, which looks at the deadline: some 80 us by TCP.
const POLLS: u32 = if cfg!(target_arch = "nvptx64") { 64 } else { 1 };

/// Where those of a packet begin that is longer than the parts of the group's warps: thread after thread.
#[inline(always)]
fn next_of(rank: u32, size: u32) -> u32 {
    size / simt::WARP * PART + 8 * rank
}

/// What a thread has found by polling.
#[derive(Clone, Copy)]
pub(crate) struct Polled {
    /// How far the other end has sent; 0: nothing has come.
    seen: Progress,
    /// How far the other end has received.
    head: Progress,
    /// Bytes of the packet that has come; 0: none has.
    length: u32,
    /// What of it is still to be copied by this thread, from there on.
    next: u32,
}

/// Polls for a message, and copies the thread's part of a packet. It calls nothing: what it needs in
/// registers nobody has to save.
#[inline(always)]
pub(crate) fn poll(
    rank: u32,
    size: u32,
    line: RecordLine,
    to: *mut u8,
    most: usize,
    waits: bool,
) -> Polled {
    let (p2p, inbox) = (line.info().is_p2p(), line.inbox());
    let position = line.position(Direction::Receive);
    let (begin, first) = (position.count(), first_of(rank));
    let longest = most.min(P2P_PACKET_BYTES) as u32;
    // Only then with an acquire, which is for the ring alone.
    let by_ring = !p2p | position.has(Position::BY_RING);
    let mut polled = Polled { seen: Progress(0), head: Progress(0), length: 0, next: 0 };
    let polls = if waits { POLLS } else { 1 };
    let mut left = if p2p | (rank < simt::WARP) { polls } else { 0 };
    // Counted: the polls.
    while left > 0 {
        left -= 1;
        let none = [Unit(0); 2];
        let (mut a, mut b, mut c, mut d) = (none, none, none, none);
        if p2p & ((first as usize) < P2P_PACKET_BYTES) {
            let row = |n: u32| inbox.two_units((first + n * ROW) as usize / 4);
            (a, b, c, d) = (row(0), row(1), row(2), row(3));
        }
        let [tail, head] = if by_ring { inbox.both() } else { inbox.both_relaxed() };
        let seen = Progress(tail);
        let length = (seen.count() as u32).wrapping_sub(begin as u32);
        let packet = p2p & seen.is_packet() & (length.wrapping_sub(1) < longest);
        // Where each row begins is not worth a register between two polls.
        let first = simt::opaque_half(first);
        let lacks = |n: u32, units: [Unit; 2]| {
            let at = first + n * ROW;
            (at < length) & !belong(units, begin, length.wrapping_sub(at))
        };
        let missing = lacks(0, a) | lacks(1, b) | lacks(2, c) | lacks(3, d);
        if !simt::any_lane(!packet | missing) {
            polled.next = 8 * rank;
            if moves_eights(to, length as usize) {
                let store = |n: u32, units: [Unit; 2]| {
                    let at = first + n * ROW;
                    if at < length {
                        // SAFETY: the caller's buffer holds the packet, and is aligned.
                        unsafe { to.add(at as usize).cast::<u64>().write(bytes_of(units).to_le()) };
                    }
                };
                store(0, a);
                store(1, b);
                store(2, c);
                store(3, d);
                polled.next = next_of(rank, size);
            }
            (polled.seen, polled.head, polled.length) = (seen, Progress(head), length);
            break;
        }
        if simt::any_lane(!packet & (length != 0) | seen.is_over()) {
            (polled.seen, polled.head) = (seen, Progress(head));
            if !by_ring {
                // Acquire: pairs with the release of whoever stored it: the bytes are in the ring.
                let [tail, head] = inbox.both();
                (polled.seen, polled.head) = (Progress(tail), Progress(head));
            }
            break;
        }
        simt::pause();
    }
    polled
}

/// What all threads of the group do about what they have found: how many bytes were received, at most `most`,
/// and the direction is free then; or how it stands, for the leader's wait.
#[inline(always)]
pub(crate) fn receive(
    net: Net,
    handle: Handle,
    warps: Warps,
    line: RecordLine,
    polled: &Polled,
    to: *mut u8,
    most: usize,
) -> Result<usize, Position> {
    let (rank, size) = (warps.rank, warps.size);
    let (p2p, position) = (line.info().is_p2p(), line.position(Direction::Receive));
    let begin = position.count();
    let (length, next, inbox) = (polled.length, polled.next, line.inbox());
    let mut is_done = length > 0;
    if is_done & (next < length) {
        // SAFETY: the caller's buffer holds the packet.
        is_done = unsafe { packet_in(next, 8 * size, inbox, begin as u32, to, length) };
    }
    // The leader's word counts, whatever a hostile peer wrote meanwhile.
    let (packet, seen) = warps.agree(is_done, polled.seen.0);
    let (seen, ring) = (Progress(seen), line.ring(Direction::Receive));
    if (rank == 0) & (seen.0 != 0) {
        // It came with the rest, and spares the answer a read.
        Socket::known(net, handle).remember_head(polled.head);
    }
    let available = seen.count().wrapping_sub(begin);
    let mut bytes = available as u32;
    if packet {
        if length != bytes {
            // A hostile peer has announced another packet meanwhile. What counts as received is the
            // peer's then, too, and nothing that stood in the buffer before.
            // SAFETY: the leader has found that the caller's buffer holds so many bytes.
            unsafe { take_units(inbox, to, bytes) };
        }
    } else {
        let other = seen.is_over() | (p2p & seen.is_packet());
        if other | (available.wrapping_sub(1) >= u64::from(ring.capacity_u32())) {
            return Err(position);
        }
        let span = at_once(Span::new(begin, bytes as usize), p2p, ring, most);
        bytes = span.length() as u32;
        // SAFETY: the caller's buffer holds so many bytes.
        unsafe {
            match copy::in_lines(ring, span, to) {
                Some(from) => copy::lines_out(rank, size, from, to, bytes),
                None => copy::copy_out(rank, size, ring, span, to),
            }
        }
    }
    // What other threads have copied is there for all.
    warps.barrier();
    // Found again, and not kept meanwhile.
    let position = line.position(Direction::Receive);
    let publishes = line.publishes(Direction::Receive);
    if rank == 0 {
        leave(net, handle, publishes, position, bytes as usize, packet);
    }
    Ok(bytes as usize)
}
