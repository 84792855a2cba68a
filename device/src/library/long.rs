//! Sending and receiving messages that are longer than 256 bytes, where nothing is in the way and all
//! warps of the group are whole. Functions of their own, with little in them: code that runs once for a
//! message costs its fetching, some four cycles an instruction, and every register that a function saves
//! two of them.

#![allow(unsafe_code, reason = "loads from callers' buffers")]

use crate::abi::bits::Position;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::RingAddress;
use crate::channel::job::Job;
use crate::channel::{Plan, Warps, fast, long};
use crate::group::AnyGroup;
use crate::simt;

use super::more::{receive_more, send_more};

/// The rest of a receive whose group has the direction: `inbox`, `publishes`, `ring` and `position` are
/// the job's.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words: a job would travel through memory")]
pub(super) fn receive_long(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    to: *mut u8,
    length: usize,
    inbox: u64,
    publishes: u64,
    ring: RingAddress,
    position: Position,
) -> i64 {
    let job = Job::polls(inbox, publishes, ring, position);
    let mut plan = Plan::slow(position).words();
    if let Some(warps) = Warps::of(group) {
        let polled = long::poll(net, handle, warps, &job, to, length);
        plan = polled.0;
        if !Plan::is_slow(plan) {
            let got = long::receive(net, handle, warps, &job, polled, to, length);
            // The compiler takes lanes that come back from a function for a whole warp.
            simt::come_together();
            return got as i64;
        }
    }
    receive_more(net, group, handle, to, length, 0, plan[0], plan[1])
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
    let handle = Handle(handle);
    let mut plan = Job::NONE.plan();
    if flags == 0
        && let Some(warps) = Warps::of(group)
    {
        // What other threads did with the buffer comes before.
        warps.barrier();
        // SAFETY: the caller's buffer holds the message.
        let part = unsafe { long::load_part(warps, from, length) };
        let mut job = Job::NONE;
        if warps.plans() {
            job = fast::plan_send(net, handle, length, long::longest_packet(warps));
        }
        job = warps.share(job);
        plan = job.plan();
        if !Plan::is_slow(plan) {
            let sent = long::send(net, handle, warps, &job, from, length, part);
            // The compiler takes lanes that come back from a function for a whole warp.
            simt::come_together();
            return sent as i64;
        }
    }
    send_more(net, group, handle, from, length, flags, plan[0], plan[1])
}
