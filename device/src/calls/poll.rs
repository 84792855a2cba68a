//! `gpoll`: which of a few sockets are ready. For thousands, see [`crate::Poller`].

use crate::abi::call::PollFd;
use crate::abi::net::Net;
use crate::buf::Shared;
use crate::group::Group;
use crate::library;

/// Waits until one of the sockets is ready or `timeout_ms` is over (negative: no limit, 0: a
/// look). How many are ready; their `revents` are set, all others' cleared.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gpoll<G: Group>(net: Net, group: G, sockets: Shared<PollFd>, timeout_ms: i64) -> i64 {
    group.agree("gpoll", &[sockets.as_ptr() as u64, sockets.len() as u64, timeout_ms as u64]);
    // SAFETY: a buffer that all threads share.
    unsafe { library::poll(net, group, sockets.as_ptr(), sockets.len(), timeout_ms) }
}
