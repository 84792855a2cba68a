//! Sending and receiving messages that are longer than 256 bytes, where nothing is in the way and all
//! warps of the group are whole. Functions of their own, with little in them: code that runs once for a
//! message costs its fetching, some four cycles an instruction, and every register that a function saves
//! two of them.

#![allow(unsafe_code, reason = "loads from callers' buffers")]

use crate::abi::bits::Position;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::RingPlace;
use crate::channel::job::{self, Job};
use crate::channel::{Plan, fast, long};
use crate::group::AnyGroup;
use crate::simt;

use super::SEND_ALL;
use super::data::{FirstWarp, receive_more, send_more};

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
    flags: u32,
    inbox: u64,
    publishes: u64,
    ring: RingPlace,
    position: Position,
) -> i64 {
    let mut job = Job::polls(inbox, publishes, ring, position);
    let mut got = 0;
    // Counted: each turn receives a byte or more, or is the last.
    let plan = loop {
        let (rest, left) = (to.wrapping_add(got), length - got);
        let polled = long::poll(net, handle, group, &job, rest, left);
        if Plan::is_slow(polled.0) {
            break polled.0;
        }
        got += job::received(net, group, handle, &job, polled, rest, left);
        if (flags == 0) | (got == length) {
            // The compiler takes lanes that come back from a function for a whole warp.
            simt::leave(group.scope());
            return got as i64;
        }
        job = Job::NONE;
        if let Some(warp) = FirstWarp::begin(group) {
            if warp.plans() {
                job = fast::plan_receive(net, handle);
            }
            job = warp.share(job);
        }
        if !Plan::is_poll(job.plan()) {
            break job.plan();
        }
    };
    receive_more(net, group, handle, to, length, flags, got, plan[0], plan[1])
}

/// A send of more than 256 bytes, from its beginning.
#[inline(never)]
pub(super) fn send_long(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    from: *const u8,
    length: usize,
    flags: u32,
) -> i64 {
    let mut sent = 0;
    // Counted: each turn sends a byte or more, or is the last.
    let plan = loop {
        let (rest, left) = (from.wrapping_add(sent), length - sent);
        let Some(warp) = FirstWarp::begin(group) else { break Job::NONE.plan() };
        // SAFETY: the caller's buffer holds the message.
        let part = unsafe { long::load_part(group, rest, left) };
        let mut job = Job::NONE;
        if warp.plans() {
            job = fast::plan_send(net, handle, left);
        }
        job = warp.share(job);
        if Plan::is_slow(job.plan()) {
            break job.plan();
        }
        sent += job::send(net, group, handle, &job, rest, left, part);
        if sent == length {
            // The compiler takes lanes that come back from a function for a whole warp.
            simt::leave(group.scope());
            return if flags & SEND_ALL != 0 { 0 } else { sent as i64 };
        }
    };
    send_more(net, group, handle, from, length, flags, sent, plan[0], plan[1])
}
