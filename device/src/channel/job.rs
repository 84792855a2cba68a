//! What the first warp of a group has planned, for all its threads to carry out: long packets, and copies
//! between ring and buffer. Where something is in the way the long way is taken, with the same plan.

#![allow(unsafe_code, reason = "copies between callers' buffers, rings and packets")]

use crate::abi::bits::{Position, Progress};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::{RingPlace, Span};
use crate::abi::word::Word;
use crate::group::AnyGroup;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::socket::{Direction, Inbox, Socket};

use super::packet::{packet_in, packet_out};
use super::{Plan, copy};

/// Bytes of a ring that are copied out at once: what is sent in answer goes out while the rest is read.
pub(crate) const LONGEST: usize = 32 << 10;

/// Bytes that the GPU reads across PCIe at once.
pub(crate) const LINE: usize = 128;

/// A plan, and what those who carry it out must know of the socket: words that a block passes on to all
/// its threads.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Job {
    pub(super) plan: [u64; 2],
    /// Receive: address of the inbox, and 1 on p2p streams. Send: address of the packet area.
    pub(super) units: u64,
    /// Address of the counter that this end publishes.
    pub(super) publishes: u64,
    pub(super) ring: RingPlace,
    pub(super) position: Position,
}

impl Job {
    /// Nothing was tried, or could be.
    pub(crate) const NONE: Self = Self::only(Plan::slow(Position(0)));

    #[inline(always)]
    pub(super) const fn only(plan: Plan) -> Self {
        let (ring, position) = (RingPlace(0), Position(0));
        Self { plan: plan.words(), units: 0, publishes: 0, ring, position }
    }

    /// The plan's words.
    #[inline(always)]
    pub(crate) const fn plan(&self) -> [u64; 2] {
        self.plan
    }

    /// As words.
    #[inline(always)]
    pub(crate) const fn to_words(self) -> [u64; 6] {
        let Self { plan: [first, second], units, publishes, ring, position } = self;
        [first, second, units, publishes, ring.0, position.0]
    }

    /// From words.
    #[inline(always)]
    pub(crate) const fn from_words([a, b, units, publishes, ring, position]: [u64; 6]) -> Self {
        let (ring, position) = (RingPlace(ring), Position(position));
        Self { plan: [a, b], units, publishes, ring, position }
    }

    /// What stands there, as far as it is needed: where all is done, the plan alone.
    ///
    /// # Safety
    /// There is a job.
    #[inline(always)]
    pub(crate) unsafe fn read(from: *const Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let plan = (&raw const (*from).plan).read();
            if Plan::bytes_done(plan).is_some() { Self { plan, ..Self::NONE } } else { from.read() }
        }
    }
}

/// In what a lock held: it is not certain that the group has got it.
pub(super) const FOUND: u64 = 1 << 58;

/// What the long way is to begin with: the position of a direction that the group has, or what the lock
/// held when the group tried to get it.
#[inline(always)]
pub(crate) fn held([_, span]: [u64; 2]) -> (Position, Position) {
    let word = Position(span);
    match word.has(FOUND) {
        true => (Position(0), word.without(FOUND)),
        false => (word, Position(0)),
    }
}

/// Publishes how far the group has received, and gives the direction back.
#[inline(always)]
pub(super) fn give_back(publishes: u64, lock: Word, end: Position) {
    Socket::at(publishes).store(Progress::new(end.count(), 0).0);
    if end.has(Position::SHARED) {
        // The next group's head must not be overtaken by this one's.
        simt::gpu_release_fence();
    }
    lock.store(end.0);
}

/// Carries out what the first warp has planned of a receive; all threads of the group call it. The bytes
/// that were received; none: the long way is to be taken, with that plan.
#[inline(always)]
pub(crate) fn finish_receive(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    job: &mut Job,
    to: *mut u8,
    most: usize,
) -> Option<u32> {
    if let Some(bytes) = Plan::bytes_done(job.plan) {
        return Some(bytes);
    }
    // Without it there is nothing to publish, and the long way is taken.
    if job.publishes == 0 {
        return None;
    }
    let mut span = Span(job.plan[1]).at_most(most);
    let longest = LONGEST.max(job.ring.capacity() / 4);
    if (job.units & 1 == 0) & (span.length() > longest) {
        // Where a line ends: the copy of the next part then begins at one.
        span = span.at_most(longest - (span.low() as usize + longest) % LINE);
    }
    let (rank, size) = (group.rank() as u32, group.size() as u32);
    let bytes = span.length() as u32;
    if Plan::is_packet_of(job.plan) {
        let inbox = Inbox::at(job.units & !1);
        // SAFETY: the caller's buffer holds the packet, and the group has the direction.
        let whole = unsafe { packet_in(rank, size, inbox, span.low(), to, bytes) };
        // Also a barrier: what other threads copied is there for all.
        if group.any(!whole) {
            // Units are on their way: the long way waits for them.
            job.plan = Plan::slow(job.position).words();
            return None;
        }
    } else {
        // SAFETY: as above, for so many bytes of the ring.
        unsafe { copy::copy_out(rank, size, job.ring, span, to) };
        group.barrier();
    }
    if rank == 0 {
        let lock = Socket::known(net, handle).lock_word(Direction::Receive);
        give_back(job.publishes, lock, Position(job.position.0 + u64::from(bytes)));
    }
    Some(bytes)
}

/// The same of a send.
#[inline(always)]
pub(crate) fn finish_send(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    job: &Job,
    from: *const u8,
    length: usize,
) -> Option<u32> {
    if let Some(bytes) = Plan::bytes_done(job.plan) {
        return Some(bytes);
    }
    // What does not fit at once takes the long way, as what has nothing to publish.
    let span = Span(job.plan[1]);
    if (job.publishes == 0) | (span.length() < length) {
        return None;
    }
    let (rank, size) = (group.rank() as u32, group.size() as u32);
    let (bytes, begin) = (length as u32, job.position.count());
    let packet = Plan::is_packet_of(job.plan);
    // SAFETY: the caller's buffer holds the message, and the group has the direction.
    unsafe {
        if packet {
            packet_out(rank, size, job.units, job.publishes, job.ring, begin, from, bytes);
        } else {
            copy::copy_in(rank, size, from, job.ring, span.at_most(length));
        }
    }
    group.barrier();
    // The last thread, in larger groups of another warp than the leader: the group's next call begins
    // while this one's counter is still on its way.
    if rank + 1 == size {
        let end = job.position.advance(bytes.into());
        if !packet {
            // All threads' bytes before the counter, for the other end.
            if !planted(Bug::SendWithoutFence) {
                simt::release_fence();
            }
            Socket::at(job.publishes).store(Progress::new(end.count(), 0).0);
        }
        // The next group's counter must not be overtaken by this one's.
        if !planted(Bug::TailsOvertake) {
            simt::gpu_release_fence();
        }
        let socket = Socket::known(net, handle);
        socket.lock_word(Direction::Send).store(end.0);
        if !packet {
            // For the next call: it then knows of space and of a broken connection.
            socket.remember_head(Progress(socket.inbox().head().load_acquire()));
        }
    }
    Some(bytes)
}
