//! Messages that are longer than 256 bytes, by all warps of a group; each is whole. The group has the
//! direction. Between
//! kernels each warp polls the counter and its part of a packet at once, so that nobody waits between the
//! two. Across PCIe the first warp alone polls the counter: reads by several would queue up.

#![allow(unsafe_code, reason = "moves a packet")]

use crate::abi::bits::{P2P_PACKET_BYTES, Position, Progress, Unit};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::Span;
use crate::abi::word::writes_bytes;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::socket::{Direction, RecordLine, Socket, report_progress};

use super::finish::{give_send_back, publish_tail};
use super::job::{at_once, leave};
use super::packet::{
    announce, belong, bytes_of, is_in_eights, packet_in, packet_out, store_units, take_units,
};
use super::{Plan, Warps, copy};

/// Polls before the leader waits alone, which looks at the deadline: some 80 us by TCP.
const POLLS: u32 = if cfg!(target_arch = "nvptx64") { 64 } else { 1 };

/// Bytes of a packet that a warp moves with one instruction: eight a lane.
const ROW: u32 = 8 * simt::WARP;
/// Bytes of a packet that a warp moves at once.
const PART: u32 = 4 * ROW;

/// Where a thread's bytes of its warp's part of a packet begin.
#[inline(always)]
fn first_of(rank: u32) -> u32 {
    rank / simt::WARP * PART + rank % simt::WARP * 8
}

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
    /// Whether the proxies want to know.
    watched: u64,
    /// Bytes of the packet that has come; 0: none has.
    length: u32,
    /// What of it is still to be copied by this thread, from there on.
    next: u32,
}

/// Polls for a message, and copies the thread's part of a packet. It calls nothing: what it needs in
/// registers nobody has to save.
#[inline(always)]
pub(crate) fn poll(rank: u32, size: u32, line: RecordLine, to: *mut u8, most: usize) -> Polled {
    let (p2p, inbox) = (line.info().is_p2p(), line.inbox());
    let position = line.position(Direction::Receive);
    let (begin, first) = (position.count(), first_of(rank));
    let longest = most.min(P2P_PACKET_BYTES) as u32;
    // Only then with an acquire, which is for the ring alone.
    let by_ring = !p2p | position.has(Position::BY_RING);
    let mut polled =
        Polled { seen: Progress(0), head: Progress(0), watched: 0, length: 0, next: 0 };
    let mut left = if p2p | (rank < simt::WARP) { POLLS } else { 0 };
    // Counted: the polls.
    while left > 0 {
        left -= 1;
        let none = [Unit(0); 2];
        let (mut a, mut b, mut c, mut d) = (none, none, none, none);
        if p2p & ((first as usize) < P2P_PACKET_BYTES) {
            let row = |n: u32| inbox.two_units((first + n * ROW) as usize / 4);
            (a, b, c, d) = (row(0), row(1), row(2), row(3));
            polled.watched = inbox.watched().load();
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
        leave(net, handle, publishes, position, bytes as usize, packet, polled.watched);
    }
    Ok(bytes as usize)
}

/// The longest packet that a group sends: what its warps move at once. One warp takes 10 us for a round trip
/// of 4 KiB by packets, of which it moves a quarter at a time, and less by the ring.
#[inline(always)]
pub(crate) fn longest_packet(warps: Warps) -> usize {
    (warps.size / simt::WARP * PART) as usize
}

/// A thread's bytes of its warp's part of a packet.
pub(crate) type Part = [u64; 4];

/// Whether a warp's lanes move eight bytes of a message each, and no fewer.
#[inline(always)]
fn moves_eights(buffer: *const u8, length: usize) -> bool {
    is_in_eights(buffer.addr(), length) & (length <= P2P_PACKET_BYTES)
}

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
    let (position, info) = (line.position(Direction::Send), line.info());
    let (publishes, inbox) = (line.publishes(Direction::Send), line.inbox());
    warps.barrier();
    if rank + 1 == size {
        let end = position.advance(bytes.into());
        if !packet {
            // All threads' bytes before the counter, for the other end.
            publish_tail(Socket::at(publishes), end, info.is_on_one_gpu());
        }
        // Behind the counter, which must not wait for them; both on their way at once. The head is for the
        // next call: it then knows of space and of a broken connection.
        let watched = if info.is_p2p() { inbox.watched().load() } else { 0 };
        let head = inbox.space();
        if (watched != 0) & !planted(Bug::WatchedIgnored) {
            report_progress(net, handle, Direction::Send, end.count());
        }
        let socket = Socket::known(net, handle);
        let end = end.behind_any(position, bytes as usize);
        give_send_back(socket.lock_word(Direction::Send), end);
        if !packet {
            socket.remember_head(head);
        }
    }
    span.length()
}
