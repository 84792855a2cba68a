//! Slices of a ring that a kernel uses itself, without a copy.

use crate::abi::bits::Position;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::channel::{self, Finish};
use crate::group::AnyGroup;

use super::{SEND_DIRECTION, planned};

/// The group has not tried to get the direction.
const NONE: Position = Position(0);

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
    let [address, span] = planned(group, || match direction {
        SEND_DIRECTION => channel::send(net, handle, 0, least, true, NONE),
        _ => channel::receive(net, handle, 0, least, true, NONE),
    });
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
