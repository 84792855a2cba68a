//! The rest of a call that sends or receives, where the fast path has not done it: its leader plans, turn by
//! turn, and all threads carry out what it has planned.

use crate::abi::bits::Position;
use crate::abi::call::{MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::channel::{self, Plan, job};
use crate::group::AnyGroup;
use crate::simt;
use crate::wait::stop_now_and_then;

use super::planned;

/// The rest of a send. `found`: what the lock held when the group set it to be taken; 0: it has not.
#[inline(never)]
pub(super) fn send_more(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    from: *const u8,
    length: usize,
    flags: u32,
    found: Position,
) -> i64 {
    let wait = flags & MSG_DONTWAIT == 0;
    let (mut sent, mut found) = (0, found);
    // Counted: each turn sends a byte or more, or is the last.
    let last = loop {
        if flags & !MSG_DONTWAIT != 0 {
            break Errno::EINVAL.negative();
        }
        let (rest, left) = (from.wrapping_add(sent), length - sent);
        let plan =
            planned(group, || channel::send(net, handle, left, u32::from(left > 0), wait, found));
        let bytes = match Plan::ring_of(plan) {
            Ok(_) => job::send(net, group, handle, rest, left, plan[0], plan[1]) as i64,
            Err(0) if left > 0 => Errno::EPIPE.negative(),
            Err(errno) => errno,
        };
        if bytes <= 0 {
            break bytes;
        }
        sent += bytes as usize;
        // A kernel calls again for the rest, and meets what ends it there.
        if wait | (sent == length) {
            break 0;
        }
        found = Position(simt::opaque(0) as u64);
    };
    // The compiler takes lanes that come back from a function for a whole warp.
    simt::leave(group.scope());
    // As sockets say it: the error only if nothing was sent; the next call will meet it.
    if sent == 0 { last } else { sent as i64 }
}

/// The rest of a receive. `found`: what the lock held when the group set it to be taken; 0: it has not.
#[inline(never)]
pub(super) fn receive_more(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    to: *mut u8,
    length: usize,
    flags: u32,
    found: Position,
) -> i64 {
    let (mut got, mut found) = (0, found);
    // Counted: each turn receives a byte or more, or is the last.
    let last = loop {
        if flags & !(MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL) != 0 {
            break Errno::EINVAL.negative();
        }
        let (rest, left) = (to.wrapping_add(got), length - got);
        let plan = planned(group, || {
            let (least, waits) = (u32::from(left > 0), flags & MSG_DONTWAIT == 0);
            // Bytes that stay where they are end no loop.
            let stopped = if flags & MSG_PEEK != 0 { stop_now_and_then(net) } else { 0 };
            if stopped < 0 {
                return Plan::error(stopped);
            }
            channel::receive(net, handle, least, waits, found)
        });
        let bytes = match Plan::ring_of(plan) {
            Ok(_) => job::receive(net, group, handle, rest, left, flags, plan[0], plan[1]),
            Err(errno) => errno,
        };
        if bytes <= 0 {
            break bytes;
        }
        got += bytes as usize;
        if (flags & (MSG_PEEK | MSG_WAITALL) != MSG_WAITALL) | (got == length) {
            break 0;
        }
        found = Position(simt::opaque(0) as u64);
    };
    // The compiler takes lanes that come back from a function for a whole warp.
    simt::leave(group.scope());
    // As sockets say it: the error only if nothing was received; the next call will meet it.
    if got == 0 { last } else { got as i64 }
}
