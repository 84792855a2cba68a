//! Messages that are longer than 256 bytes, by all warps of a group; each is whole. The group has the
//! direction. Between
//! kernels each warp polls the counter and its part of a packet at once, so that nobody waits between the
//! two. Across PCIe the first warp alone polls the counter: reads by several would queue up.

#![allow(unsafe_code, reason = "moves a packet")]

use crate::abi::bits::{P2P_PACKET_BYTES, Progress, Unit};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::group::{AnyGroup, GroupKind};
use crate::simt;
use crate::socket::Socket;

use super::Plan;
use super::job::Job;
use super::packet::{belong, bytes_of, packet_in, store_units};

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

/// Polls for a message. All threads get the plan's words: bytes of a packet that were copied out, bytes of
/// the ring, or the leader's wait. The leader keeps how far the other end has received, and also gets
/// whether the proxies want to know.
#[inline(always)]
pub(crate) fn poll(
    net: Net,
    handle: Handle,
    group: AnyGroup,
    job: &Job,
    to: *mut u8,
    most: usize,
) -> ([u64; 2], u64) {
    let (rank, size) = (group.rank() as u32, group.size() as u32);
    let (p2p, inbox) = (job.is_p2p(), job.inbox());
    let (ring, position) = (job.ring, job.position);
    let (begin, first) = (position.count(), first_of(rank));
    let longest = most.min(P2P_PACKET_BYTES) as u32;
    let (mut seen, mut peer_head, mut watched) = (Progress(0), 0, 0);
    let mut is_done = false;
    let mut left = if p2p | (rank < simt::WARP) { POLLS } else { 0 };
    // Counted: the polls.
    while left > 0 {
        left -= 1;
        let none = [Unit(0); 2];
        let (mut a, mut b, mut c, mut d) = (none, none, none, none);
        if p2p & ((first as usize) < P2P_PACKET_BYTES) {
            let row = |n: u32| inbox.two_units((first + n * ROW) as usize / 4);
            (a, b, c, d) = (row(0), row(1), row(2), row(3));
            watched = inbox.watched().load();
        }
        let [tail, head] = if p2p { inbox.both_relaxed() } else { inbox.both() };
        let tail = Progress(tail);
        let length = (tail.count() as u32).wrapping_sub(begin as u32);
        let packet = p2p & tail.is_packet() & (length.wrapping_sub(1) < longest);
        let lacks = |n: u32, units: [Unit; 2]| {
            let at = first + n * ROW;
            (at < length) & !belong(units, begin, length.wrapping_sub(at))
        };
        let missing = lacks(0, a) | lacks(1, b) | lacks(2, c) | lacks(3, d);
        if !simt::any_lane(!packet | missing) {
            let mut next = 8 * rank;
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
                next = next_of(rank, size);
            }
            (seen, peer_head) = (tail, head);
            // SAFETY: as above.
            is_done = next >= length
                || unsafe { packet_in(next, 8 * size, inbox, begin as u32, to, length) };
            break;
        }
        if simt::any_lane(!packet & (tail.count() != begin) | tail.is_over()) {
            // Acquire: pairs with the release of whoever stored it: the bytes are in the ring.
            let [tail, head] = if p2p { inbox.both() } else { [tail.0, head] };
            (seen, peer_head) = (Progress(tail), head);
            break;
        }
        simt::pause();
    }
    // The leader's word counts, whatever a hostile peer wrote meanwhile.
    let (all_done, seen) = agree(group, is_done, seen);
    if (rank == 0) & (seen.0 != 0) {
        // It came with the rest, and spares the answer a read.
        Socket::known(net, handle).remember_head(Progress(peer_head));
    }
    let available = seen.count().wrapping_sub(begin);
    let plan = match () {
        () if all_done => Plan::done(available as u32),
        () if seen.is_over() | (p2p & seen.is_packet()) => Plan::slow(position),
        () if available.wrapping_sub(1) < ring.capacity() as u64 => {
            Plan::ring(ring, begin, available as usize)
        }
        () => Plan::slow(position),
    };
    (plan.words(), watched)
}

/// Whether all threads of a group say yes, and what its leader saw. Also a barrier.
#[inline(always)]
fn agree(group: AnyGroup, yes: bool, seen: Progress) -> (bool, Progress) {
    if group.kind() == GroupKind::Warp {
        simt::whole_warp_barrier();
        return (!simt::any_lane(!yes), Progress(simt::from_lane(seen.0, 0)));
    }
    // Behind the job, which other threads may still read.
    // SAFETY: there is room; all threads meet between this store and the loads, and before the next.
    unsafe {
        let word = simt::block_scratch().cast::<u64>().add(Job::WORDS);
        if group.is_leader() {
            word.write(seen.0);
        }
        let all = !group.any(!yes);
        (all, Progress(word.read()))
    }
}

/// A thread's bytes of its warp's part of a packet.
pub(crate) type Part = [u64; 4];

/// Whether a warp's lanes move eight bytes of a message each, and no fewer.
#[inline(always)]
fn moves_eights(buffer: *const u8, length: usize) -> bool {
    (buffer.addr() | length).is_multiple_of(8) & (length <= P2P_PACKET_BYTES)
}

/// Loads them, before it is known whether the message goes out as a packet; none where it is longer than
/// the parts of the group's warps, or not aligned.
///
/// # Safety
/// `from` is valid for `length` bytes.
#[inline(always)]
pub(crate) unsafe fn load_part(group: AnyGroup, from: *const u8, length: usize) -> Option<Part> {
    let first = first_of(group.rank() as u32);
    let load = |n: u32| {
        let at = (first + n * ROW) as usize;
        // SAFETY: the caller's promise.
        if at < length { u64::from_le(unsafe { from.add(at).cast::<u64>().read() }) } else { 0 }
    };
    let covered = length <= (group.size() as u32 / simt::WARP * PART) as usize;
    (covered & moves_eights(from, length)).then(|| [load(0), load(1), load(2), load(3)])
}

/// Stores their units.
#[inline(always)]
pub(super) fn store_part(rank: u32, units: u64, begin: u64, part: Part, length: u32) {
    let store = |n: u32, eight: u64| {
        let at = first_of(rank) + n * ROW;
        if at < length {
            store_units(units, at, eight, begin, length);
        }
    };
    let [a, b, c, d] = part;
    store(0, a);
    store(1, b);
    store(2, c);
    store(3, d);
}
