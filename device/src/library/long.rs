//! Sending and receiving messages that are longer than 256 bytes, where nothing is in the way and all
//! warps of the group are whole. Functions of their own, with little in them: code that runs once for a
//! message costs its fetching, some four cycles an instruction, and every register that a function saves
//! two of them.

#![allow(unsafe_code, reason = "loads from callers' buffers")]

use crate::abi::bits::Position;
use crate::abi::call::MSG_DONTWAIT;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::Span;
use crate::channel::{Plan, Warps, fast, long};
use crate::group::AnyGroup;
use crate::simt;
use crate::socket::{Direction, RecordLine};

use super::more::receive_more;
use super::ragged::send_any;

/// The rest of a receive whose group has the direction; `line` says where that stands.
#[inline(never)]
pub(super) fn receive_long(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    to: *mut u8,
    length: usize,
    waits: bool,
    line: RecordLine,
) -> i64 {
    // All of them are whole, or there would be no line.
    let Some(warps) = Warps::of(group) else { return Errno::EINVAL.negative() };
    let polled = long::poll(warps.rank, warps.size, line, to, length, waits);
    let got = match long::receive(net, handle, warps, line, &polled, to, length) {
        Ok(got) => got,
        Err(found) => {
            let flags = if waits { 0 } else { MSG_DONTWAIT };
            return receive_more(net, group, handle, to, length, flags, found);
        }
    };
    // The compiler takes lanes that come back from a function for a whole warp.
    simt::come_together();
    got as i64
}

/// See [`super::send_ring`].
#[inline(always)]
pub(super) unsafe fn send_ring(
    net: Net,
    group: AnyGroup,
    handle: u64,
    from: *const u8,
    length: usize,
    flags: u32,
) -> i64 {
    let handle = Handle(handle);
    let mut found = Position(0);
    if flags & !MSG_DONTWAIT == 0
        && let Some(warps) = Warps::of(group)
    {
        // What other threads did with the buffer comes before.
        warps.barrier();
        let (mut plan, mut line) = (Plan::NONE.words(), RecordLine::NONE);
        if warps.plans() {
            (plan, line) = fast::plan_ring(net, handle);
        }
        (plan, line) = warps.share(plan, line);
        let span = Span(plan[1]).at_most(length);
        let part = (flags != 0) & (span.length() < length);
        let Some(slow) = slow_of(plan, line, part) else {
            if long::send_by_ring(net, handle, warps, span, line, from) {
                // The compiler takes lanes that come back from a function for a whole warp.
                simt::come_together();
                return span.length() as i64;
            }
            return long::send_unaligned(net, group, handle, span, line, from);
        };
        found = slow;
    }
    send_any(net, group, handle, from, length, flags, found)
}

/// See [`super::send_long`].
#[inline(always)]
pub(super) unsafe fn send_long(
    net: Net,
    group: AnyGroup,
    handle: u64,
    from: *const u8,
    length: usize,
    flags: u32,
) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { send_long_or(send_any, net, group, handle, from, length, flags) }
}

/// The same with another slow path.
#[inline(always)]
pub(super) unsafe fn send_long_or(
    slow: impl FnOnce(Net, AnyGroup, Handle, *const u8, usize, u32, Position) -> i64,

    net: Net,
    group: AnyGroup,
    handle: u64,
    from: *const u8,
    length: usize,
    flags: u32,
) -> i64 {
    let handle = Handle(handle);
    let mut found = Position(0);
    if flags & !MSG_DONTWAIT == 0
        && let Some(warps) = Warps::of(group)
    {
        // What other threads did with the buffer comes before.
        warps.barrier();
        // SAFETY: the caller's buffer holds the message.
        let part = unsafe { long::load_part(warps, from, length) };
        let (mut plan, mut line) = (Plan::NONE.words(), RecordLine::NONE);
        if warps.plans() {
            (plan, line) = fast::plan_send(net, handle, length, long::longest_packet(warps));
        }
        (plan, line) = warps.share(plan, line);
        let fits = Span(plan[1]).length() >= length;
        let Some(slow) = slow_of(plan, line, (flags != 0) & !fits) else {
            let sent = long::send(net, handle, warps, plan, line, from, length, part);
            // The compiler takes lanes that come back from a function for a whole warp.
            simt::come_together();
            return sent as i64;
        };
        found = slow;
    }
    slow(net, group, handle, from, length, flags, found)
}

/// What the lock held, if the slow path is to be taken. `part`: a call that does not wait has found space for a
/// part of its message, and goes on there until nothing fits.
#[inline(always)]
fn slow_of(plan: [u64; 2], line: RecordLine, part: bool) -> Option<Position> {
    let slow = Plan::found(plan);
    if slow.is_none() & part { Some(line.position(Direction::Send)) } else { slow }
}
