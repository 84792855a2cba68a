//! Slices of a ring that a kernel uses itself, without a copy.

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::group::Group;
use crate::local::Side;
use crate::ring;

use super::SEND_SIDE;

#[inline(always)]
fn side_of(number: u32) -> Side {
    if number == SEND_SIDE { Side::Send } else { Side::Receive }
}

/// See [`super::open_slice`].
#[inline(always)]
pub(super) unsafe fn open_slice<G: Group>(
    net: Net,
    group: G,
    handle: u64,
    side: u32,
    least: usize,
    ring: *mut u64,
) -> i64 {
    let mut words = [0; 2];
    if group.is_leader() {
        words = ring::find(net, G::KIND, Handle(handle), side_of(side), least, true).words();
    }
    let [place, span] = group.broadcast(words);
    // SAFETY: the caller's promise.
    unsafe { ring.write(place) };
    span as i64
}

/// See [`super::close_slice`].
#[inline(always)]
pub(super) unsafe fn close_slice<G: Group>(
    net: Net,
    group: G,
    handle: u64,
    side: u32,
    low: u32,
    used: usize,
) -> i64 {
    // All threads' loads and stores in the slice are done.
    group.barrier();
    let ending = ring::Ending::of_window(side_of(side));
    ring::finish(net, group, Handle(handle), (low, used), ending);
    Errno(0).negative()
}
