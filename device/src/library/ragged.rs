//! Calls of a block whose last warp is not whole. Its first warp makes them for all, in the ways that whole warps
//! have; who calls has tried those ways, and comes here where the group has none.

use crate::abi::bits::{PACKET_BYTES, Position};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::group::{AnyGroup, GroupKind};
use crate::simt::{self, WARP};

use super::data::{receive_or, send_or};
use super::long::send_long_or;
use super::more::{receive_more, send_more};

/// The longest buffer for which the first warp of a large block makes a call alone. Of a message of 64 KiB four
/// warps together copy in a third of the time.
const ALONE: usize = 16 << 10;

/// Whether the first warp makes a call that the group has not begun.
#[inline(always)]
fn is_for_first_warp(group: AnyGroup, length: usize, found: Position) -> bool {
    let threads = simt::block_threads();
    (group.kind() == GroupKind::Block)
        & (found.0 == 0)
        & (threads > WARP)
        & !threads.is_multiple_of(WARP)
        & ((threads < 4 * WARP) | (length <= ALONE))
}

/// Has it make the call; all threads get the result.
#[inline(always)]
fn by_first_warp(group: AnyGroup, call: impl FnOnce(AnyGroup) -> i64) -> i64 {
    // What other threads did with the buffer comes before.
    group.barrier();
    let mut result = 0;
    if simt::position().thread < WARP {
        result = call(AnyGroup(GroupKind::Warp));
    }
    group.share([result as u64, 0])[0] as i64
}

/// A receive that whole warps have not carried out.
#[inline(never)]
#[allow(unsafe_code, reason = "the buffer of the call")]
pub(super) fn receive_any(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    to: *mut u8,
    length: usize,
    flags: u32,
    found: Position,
) -> i64 {
    if !is_for_first_warp(group, length, found) {
        return receive_more(net, group, handle, to, length, flags, found);
    }
    by_first_warp(group, |warp| {
        // SAFETY: the promise of who calls.
        unsafe { receive_or(receive_more, net, warp, handle.0, to, length, flags) }
    })
}

/// A send that whole warps have not carried out.
#[inline(never)]
#[allow(unsafe_code, reason = "the buffer of the call")]
pub(super) fn send_any(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    from: *const u8,
    length: usize,
    flags: u32,
    found: Position,
) -> i64 {
    if !is_for_first_warp(group, length, found) {
        return send_more(net, group, handle, from, length, flags, found);
    }
    by_first_warp(group, |warp| {
        // SAFETY: as above.
        unsafe {
            if length <= PACKET_BYTES {
                send_or(send_more, net, warp, handle.0, from, length, flags)
            } else {
                send_long_or(send_more, net, warp, handle.0, from, length, flags)
            }
        }
    })
}
