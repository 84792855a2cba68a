//! Sending and receiving: the first warp of a group, or its leader, says what is to be done, and all its
//! threads do it.

use crate::abi::bits::{PACKET_BYTES, Position};
use crate::abi::call::MSG_DONTWAIT;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::channel::{self, Plan, Warps, fast, job};
use crate::group::AnyGroup;
use crate::socket::RecordLine;

use super::long::receive_long;
use super::ragged::{receive_any, send_any};

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
    // SAFETY: the caller's promise.
    unsafe { send_or(send_any, net, group, handle, from, length, flags) }
}

/// The same with another slow path.
#[inline(always)]
pub(super) unsafe fn send_or(
    slow: impl FnOnce(Net, AnyGroup, Handle, *const u8, usize, u32, Position) -> i64,

    net: Net,
    group: AnyGroup,
    handle: u64,
    from: *const u8,
    length: usize,
    flags: u32,
) -> i64 {
    let handle = Handle(handle);
    let mut plan = Plan::NONE.words();
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
    match Plan::found(plan) {
        Some(found) => slow(net, group, handle, from, length, flags, found),
        None => job::send(net, group, handle, from, length, plan[0], plan[1]) as i64,
    }
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
    // SAFETY: the caller's promise.
    unsafe { receive_or(receive_any, net, group, handle, to, length, flags) }
}

/// The same with another slow path.
#[inline(always)]
pub(super) unsafe fn receive_or(
    slow: impl FnOnce(Net, AnyGroup, Handle, *mut u8, usize, u32, Position) -> i64,

    net: Net,
    group: AnyGroup,
    handle: u64,
    to: *mut u8,
    length: usize,
    flags: u32,
) -> i64 {
    let handle = Handle(handle);
    let mut plan = Plan::NONE.words();
    if length > 0
        && flags & !MSG_DONTWAIT == 0
        && let Some(warps) = Warps::of(group)
    {
        // What other threads did with the buffer comes before.
        warps.barrier();
        let mut line = RecordLine::NONE;
        if warps.plans() {
            (plan, line) = fast::receive(net, handle, to, length, flags == 0);
        }
        (plan, line) = warps.share(plan, line);
        if let Some(bytes) = Plan::bytes_done(plan) {
            return bytes.into();
        }
        if let Some(waits) = Plan::polls(plan) {
            return receive_long(net, group, handle, to, length, waits, line);
        }
    }
    match Plan::found(plan) {
        Some(found) => slow(net, group, handle, to, length, flags, found),
        // Nothing has come.
        None => plan[1] as i64,
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
