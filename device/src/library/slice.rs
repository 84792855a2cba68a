//! Slices of a ring that a kernel uses itself, without a copy.

use crate::abi::bits::Position;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::channel::{self, Finish, Plan, job};
use crate::group::AnyGroup;

use super::{SEND_DIRECTION, planned};

/// See [`super::open_slice`].
#[inline(always)]
pub(super) unsafe fn open_slice(
    net: Net,
    group: AnyGroup,
    handle: u64,
    direction: u32,
    least: usize,
    ring: *mut u64,
) -> i64 {
    let (handle, least) = (Handle(handle), u32::try_from(least).unwrap_or(u32::MAX));
    let mut plan = planned(group, || match direction {
        SEND_DIRECTION => channel::send(net, handle, 0, least, true, Position(0)),
        _ => channel::receive(net, handle, least, true, Position(0)),
    });
    if Plan::is_packet_of(plan) {
        plan = job::open_packet(net, group, handle, plan);
    }
    let [address, span] = plan;
    // SAFETY: the caller's promise.
    unsafe { ring.write(address) };
    span as i64
}

/// See [`super::close_slice`].
#[inline(always)]
pub(super) unsafe fn close_slice(
    net: Net,
    group: AnyGroup,
    handle: u64,
    direction: u32,
    used: usize,
) -> i64 {
    // All threads' loads and stores in the slice are done.
    group.barrier();
    if group.is_leader() {
        let how = if direction == SEND_DIRECTION { Finish::Filled } else { Finish::Read };
        channel::finish(net, Handle(handle), used, how);
    }
    0
}
