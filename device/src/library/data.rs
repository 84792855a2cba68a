//! Sending and receiving: the first warp of a group, or its leader, says what is to be done, and all its
//! threads do it.

use crate::abi::bits::PACKET_BYTES;
use crate::abi::call::{MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::channel::job::{self, Job};
use crate::channel::{self, Finish, Mode, Plan, Step, Warps, fast};
use crate::group::AnyGroup;
use crate::simt;
use crate::socket::Direction;

use super::long::receive_long;
use super::planned;

/// See [`super::send`].
#[inline(always)]
pub(super) unsafe fn send(
    net: Net,
    group: AnyGroup,
    handle: u64,
    from: *const u8,
    length: usize,
    flags: u32,
) -> i64 {
    let handle = Handle(handle);
    let mut plan = Job::NONE.plan();
    if length.wrapping_sub(1) < PACKET_BYTES
        && flags & !MSG_DONTWAIT == 0
        && let Some(warps) = Warps::of(group)
    {
        // What other threads did with the buffer comes before.
        warps.barrier();
        if warps.plans() {
            plan = fast::send(net, handle, from, length).words();
        }
        plan = warps.share_plan(plan);
        if let Some(bytes) = Plan::bytes_done(plan) {
            return bytes.into();
        }
    }
    send_more(net, group, handle, from, length, flags, plan[0], plan[1])
}

/// The rest of a call that goes on with a plan.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
pub(super) fn send_more(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    from: *const u8,
    length: usize,
    flags: u32,
    first: u64,
    second: u64,
) -> i64 {
    let (mut sent, mut plan) = (0, [first, second]);
    let known = flags & !MSG_DONTWAIT == 0;
    let wait = flags & MSG_DONTWAIT == 0;
    // Counted: each turn sends a byte or more, or is the last.
    let stopped = loop {
        if !known {
            break Errno::EINVAL.negative();
        }
        let (rest, left) = (from.wrapping_add(sent), length - sent);
        if Plan::is_slow(plan) {
            let (held, found) = job::held(plan);
            plan = planned(group, || {
                channel::send(net, handle, left, u32::from(left > 0), wait, held, found)
            });
        }
        sent += match Plan::step(plan) {
            Ok(Step::Packet | Step::Ring(..)) => {
                let job = Job::planned(net, handle, Direction::Send, plan);
                job::send(net, group, handle, &job, rest, left)
            }
            Ok(Step::Done(bytes)) => bytes,
            Ok(Step::Sent(bytes)) => {
                if group.is_leader() {
                    channel::finish(net, handle, bytes, Finish::Packet);
                }
                bytes
            }
            Ok(Step::End) => break if left > 0 { Errno::EPIPE.negative() } else { 0 },
            Err(errno) => break errno.negative(),
        };
        // A kernel calls again for the rest, and meets what ends it there.
        if wait | (sent == length) {
            break 0;
        }
        plan = Job::NONE.plan();
    };
    // The compiler takes lanes that come back from a function for a whole warp.
    simt::leave(group.scope());
    // As sockets say it: the error only if nothing was sent; the next call will meet it.
    if stopped != 0 && sent == 0 { stopped } else { sent as i64 }
}

/// See [`super::receive`].
#[inline(always)]
pub(super) unsafe fn receive(
    net: Net,
    group: AnyGroup,
    handle: u64,
    to: *mut u8,
    length: usize,
    flags: u32,
) -> i64 {
    let handle = Handle(handle);
    let mut job = Job::NONE;
    if length > 0
        && flags & !MSG_DONTWAIT == 0
        && let Some(warps) = Warps::of(group)
    {
        // What other threads did with the buffer comes before.
        warps.barrier();
        if warps.plans() {
            job = fast::receive(net, handle, to, length, flags == 0);
        }
        job = warps.share(job);
        if let Some(bytes) = Plan::bytes_done(job.plan()) {
            return bytes.into();
        }
        if Plan::is_poll(job.plan()) {
            let (inbox, publishes, ring, position) = job.polled();
            return receive_long(net, group, handle, to, length, inbox, publishes, ring, position);
        }
    }
    let [first, second] = job.plan();
    receive_more(net, group, handle, to, length, flags, first, second)
}

/// The rest of a call that goes on with a plan.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
pub(super) fn receive_more(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    to: *mut u8,
    length: usize,
    flags: u32,
    first: u64,
    second: u64,
) -> i64 {
    let (mut got, mut plan) = (0, [first, second]);
    let known = flags & !(MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL) == 0;
    let (peeks, waits) = (flags & MSG_PEEK != 0, flags & MSG_DONTWAIT == 0);
    let all = !peeks & (flags & MSG_WAITALL != 0);
    // Counted: each turn receives a byte or more, or is the last.
    let stopped = loop {
        if !known {
            break Err(Errno::EINVAL);
        }
        let (rest, left) = (to.wrapping_add(got), length - got);
        if Plan::is_slow(plan) {
            let (held, found) = job::held(plan);
            plan = planned(group, || {
                let mode = Mode::new(waits, !peeks);
                channel::receive(net, handle, left, u32::from(left > 0), mode, held, found)
            });
        }
        let received = match Plan::step(plan) {
            Ok(Step::Packet | Step::Ring(..)) => {
                let job = Job::planned(net, handle, Direction::Receive, plan);
                job::receive(net, group, handle, &job, rest, left, waits, !peeks)
            }
            Ok(Step::Done(bytes) | Step::Sent(bytes)) => Ok(bytes),
            Ok(Step::End) => break Ok(()),
            Err(errno) => Err(errno),
        };
        match received {
            Ok(bytes) => got += bytes,
            Err(errno) => break Err(errno),
        }
        if !all | (got == length) {
            break Ok(());
        }
        plan = Job::NONE.plan();
    };
    // The compiler takes lanes that come back from a function for a whole warp.
    simt::leave(group.scope());
    match stopped {
        // As sockets say it: the error only if nothing was received; the next call will meet it.
        Err(errno) if got == 0 => errno.negative(),
        _ => got as i64,
    }
}

/// See [`super::copy`].
#[inline(always)]
pub(super) unsafe fn copy(
    _net: Net,
    group: AnyGroup,
    from: *const u8,
    to: *mut u8,
    length: usize,
) -> i64 {
    let (rank, size) = (group.rank() as u32, group.size() as u32);
    // Pieces whose length fits 32 bits.
    const MOST: usize = 1 << 30;
    let mut at = 0;
    // Counted: the pieces.
    while at < length {
        let piece = (length - at).min(MOST);
        // SAFETY: inside both buffers, by the caller's promise.
        unsafe { channel::copy::to_ring(rank, size, from.add(at), to.add(at), piece as u32) };
        at += piece;
    }
    0
}
