//! What a group's first warp or its leader has planned, for all its threads to carry out: packets, and
//! copies between ring and buffer. Its last thread or its leader publishes how far the group is then, and
//! gives the direction back.

#![allow(unsafe_code, reason = "copies between callers' buffers, rings and packets")]

use crate::abi::bits::{PACKET_BYTES, Position, Progress};
use crate::abi::call::MSG_PEEK;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::{RingAddress, Span};
use crate::group::AnyGroup;
use crate::simt;
use crate::socket::{Direction, Inbox, Socket};
use crate::wait::{Deadline, group_until};

use super::finish::give_receive_back;
use super::packet::{packet_in, packet_out, packet_to_ring};
use super::{Finish, Plan, copy, finish};

/// Bytes of a ring that are copied out at once: what is sent in answer goes out while the rest is read.
const LONGEST: u32 = 32 << 10;

/// Bytes that the GPU reads across PCIe at once.
const LINE: u32 = 128;

/// How long the units of a packet may be on their way that was announced: a dead peer's never come.
const PACKET_NS: u64 = 100_000_000;

/// A plan by which bytes are moved, and what those who carry it out must know of the socket.
#[derive(Clone, Copy)]
struct Job {
    plan: [u64; 2],
    /// Address of the inbox, with 1 on p2p streams.
    inbox: u64,
    /// Send: address of the packet area.
    units: u64,
    /// Address of the counter that this end publishes.
    publishes: u64,
    ring: RingAddress,
    position: Position,
}

impl Job {
    /// A plan by which bytes are to be moved: the group has the direction, and so the record is the socket's.
    #[inline(always)]
    fn planned(net: Net, handle: Handle, direction: Direction, plan: [u64; 2]) -> Self {
        let socket = Socket::known(net, handle);
        Self {
            plan,
            inbox: socket.inbox().address() | u64::from(socket.info().is_p2p()),
            units: socket.units(),
            publishes: socket.publishes(direction).address(),
            ring: socket.ring(direction),
            position: socket.position(direction).without(Position::TAKEN),
        }
    }

    #[inline(always)]
    fn is_p2p(&self) -> bool {
        self.inbox & 1 != 0
    }

    #[inline(always)]
    fn inbox(&self) -> Inbox {
        Inbox::at(self.inbox & !1)
    }
}

/// Carries out a receive of at most `most` bytes; all threads of the group call it. How many were
/// received, or a negative error number; the direction is free then. `flags`: the call's. A function of its own:
/// what it keeps is not on the stack while the leader plans.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
pub(crate) fn receive(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    to: *mut u8,
    most: usize,
    flags: u32,
    first: u64,
    second: u64,
) -> i64 {
    let job = &Job::planned(net, handle, Direction::Receive, [first, second]);
    let consumes = flags & MSG_PEEK == 0;
    let (rank, size) = (group.rank() as u32, group.size() as u32);
    let all = Span(job.plan[1]);
    let mut span = all.at_most(most);
    let packet = Plan::is_packet_of(job.plan);
    // What stays of a packet must be in the ring.
    let stays = packet & (!consumes | (span.length() < all.length()));
    let (mut moved, mut errno) = (true, 0);
    if packet {
        errno = match stays {
            true => packet_into_ring(net, group, handle, all),
            // SAFETY: the caller's buffer holds the packet, and the group has the direction.
            false => move_packet(net, group, || unsafe {
                packet_in(8 * rank, 8 * size, job.inbox(), all.low(), to, all.length() as u32)
            }),
        };
        moved = errno == 0;
    } else {
        span = at_once(span, job.is_p2p(), job.ring, most);
    }
    if !packet | (stays & moved) {
        // SAFETY: as above, for so many bytes of the ring.
        unsafe { copy::copy_out(rank, size, job.ring, span, to) };
        group.barrier();
    }
    if rank == 0 {
        // Each load was complete before the barrier, since its bytes had been stored elsewhere: no fence.
        // A model knows of no load that is complete, and finds a race where there is none.
        if cfg!(feature = "loom") {
            simt::release_fence();
        }
        let used = if consumes & moved { span.length() } else { 0 };
        // A kernel that asks again and again is to see that it was stopped.
        let position = if moved { job.position } else { job.position.with(Position::CHECK) };
        leave(net, handle, job.publishes, position, used, packet & !stays);
    }
    // The compiler takes lanes that come back from a function for a whole warp.
    simt::leave(group.scope());
    if moved { span.length() as i64 } else { errno }
}

/// Has all threads move a packet of which units may still be on their way; calls that do not wait for bytes wait
/// for these, too. 0, or a negative error number: a peer that announces what it does not send has failed.
#[inline(always)]
fn move_packet(net: Net, group: AnyGroup, part: impl Fn() -> bool) -> i64 {
    let deadline = Deadline::after(PACKET_NS);
    let waited = group_until(net, group, deadline, || !group.any(!part()));
    // What other threads moved is there for all.
    group.barrier();
    match waited {
        Ok(()) => 0,
        Err(Errno::ETIMEDOUT) => Errno::ECONNRESET.negative(),
        Err(errno) => errno.negative(),
    }
}

/// Has all threads put a packet into the group's own ring: for who looks at the ring itself, or takes a part
/// of it. 0, or a negative error number; the group keeps the direction.
#[cold]
#[inline(never)]
fn packet_into_ring(net: Net, group: AnyGroup, handle: Handle, packet: Span) -> i64 {
    let socket = Socket::known(net, handle);
    let (inbox, ring) = (socket.inbox(), socket.ring(Direction::Receive));
    let begin = socket.position(Direction::Receive).count();
    let (rank, size, length) = (group.rank() as u32, group.size() as u32, packet.length() as u32);
    // SAFETY: the group has the direction, and a packet fits every ring.
    let errno = move_packet(net, group, || unsafe {
        packet_to_ring(8 * rank, 8 * size, inbox, begin, ring, length)
    });
    if (errno == 0) & (rank == 0) {
        // Another thread says that the packet was received, without a fence where it was copied: these bytes
        // must not land behind those that the peer then puts in their place.
        if socket.info().is_on_one_gpu() {
            simt::gpu_release_fence();
        } else {
            simt::release_fence();
        }
        // Who receives a part of it stands inside it then, where its units no longer say so.
        socket.unpacked().store(begin + u64::from(length));
    }
    errno
}

/// Has all threads put the packet of a plan into the ring, for a slice. The plan of that part of the ring; or the
/// error, and the direction is free then.
#[cold]
#[inline(never)]
pub(crate) fn open_packet(net: Net, group: AnyGroup, handle: Handle, plan: [u64; 2]) -> [u64; 2] {
    let packet = Span(plan[1]);
    let errno = packet_into_ring(net, group, handle, packet);
    let socket = Socket::known(net, handle);
    let position = socket.position(Direction::Receive);
    let opened = match errno {
        0 => Plan::ring(socket.ring(Direction::Receive), position.count(), packet.length()),
        _ => Plan::error(errno),
    };
    // All threads have read where it stands.
    group.barrier();
    if (errno != 0) & (group.rank() == 0) {
        let position = position.without(Position::TAKEN).with(Position::CHECK);
        give_receive_back(socket.lock_word(Direction::Receive), position);
    }
    // As above.
    simt::leave(group.scope());
    opened.words()
}

/// What of a part of the ring is copied at once, at most `most` bytes.
#[inline(always)]
pub(super) fn at_once(span: Span, p2p: bool, ring: RingAddress, most: usize) -> Span {
    let mut length = span.at_most(most).length() as u32;
    if !p2p {
        length = length.min(LONGEST.max(ring.capacity_u32() / 4));
    }
    if (length >= LONGEST) & ((length as usize) < most) {
        // Where a line ends: the copy of the next part then begins at one.
        length -= span.low().wrapping_add(length) % LINE;
    }
    Span::new(span.low().into(), length as usize)
}

/// Publishes how far the group has received, and gives the direction back, with what is known of the
/// messages that come. One thread calls it.
#[inline(always)]
pub(super) fn leave(
    net: Net,
    handle: Handle,
    publishes: u64,
    position: Position,
    used: usize,
    packet: bool,
) {
    let ring = if packet { 0 } else { Position::BY_RING };
    let hint = if used > PACKET_BYTES { Position::LONG | ring } else { 0 };
    let before = position.without(Position::LONG | Position::BY_RING);
    let end = Position(before.0 + used as u64).with(hint);
    Socket::at(publishes).store(Progress::new(end.count(), 0).0);
    let lock = Socket::known(net, handle).lock_word(Direction::Receive);
    give_receive_back(lock, end.behind_any(before, used));
}

/// Carries out a send of at most `most` bytes; all threads of the group call it. How many were sent; the
/// direction is free then.
#[inline(never)]
pub(crate) fn send(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    from: *const u8,
    most: usize,
    first: u64,
    second: u64,
) -> usize {
    let job = &Job::planned(net, handle, Direction::Send, [first, second]);
    let (rank, size) = (group.rank() as u32, group.size() as u32);
    let span = Span(job.plan[1]).at_most(most);
    let packet = Plan::is_packet_of(job.plan);
    // SAFETY: the caller's buffer holds the message, and the group has the direction.
    unsafe {
        if packet {
            let (begin, bytes) = (job.position.count(), span.length() as u32);
            packet_out(rank, size, job.units, job.publishes, job.ring, begin, from, bytes);
        } else {
            copy::copy_in(rank, size, from, job.ring, span);
        }
    }
    group.barrier();
    if rank == 0 {
        let how = if packet { Finish::Packet } else { Finish::Filled };
        finish(net, handle, span.length(), how);
    }
    // As above.
    simt::leave(group.scope());
    span.length()
}
