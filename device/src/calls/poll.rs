//! `gpoll`: which of a few sockets are ready. For thousands, see [`crate::Poller`].

use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::buf::Shared;
use crate::group::Group;
use crate::library;

/// Something can be received, or accepted, or the peer has closed.
pub const POLLIN: u16 = 0x001;
/// Something can be sent.
pub const POLLOUT: u16 = 0x004;
/// The socket has failed. Reported without being asked for, like the next two.
pub const POLLERR: u16 = 0x008;
/// Both directions are over, or there is no connection.
pub const POLLHUP: u16 = 0x010;
/// The handle names no open socket.
pub const POLLNVAL: u16 = 0x020;
/// The peer will send no more.
pub const POLLRDHUP: u16 = 0x2000;

/// A socket to poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PollFd {
    /// The socket.
    pub handle: Handle,
    /// What to look for.
    pub events: u16,
    /// What was found.
    pub revents: u16,
    /// Unused.
    pub reserved: u32,
}

const _: () = assert!(size_of::<PollFd>() == 16);

// SAFETY: numbers without padding.
#[allow(unsafe_code, reason = "any bytes are a PollFd")]
unsafe impl crate::buf::Plain for PollFd {}

/// Waits until one of the sockets is ready or `timeout_ms` is over (negative: no limit, 0: a
/// look). How many are ready; their `revents` are set, all others' cleared.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gpoll<G: Group>(net: Net, group: G, sockets: Shared<PollFd>, timeout_ms: i64) -> i64 {
    group.agree("gpoll", &[sockets.as_ptr() as u64, sockets.len() as u64, timeout_ms as u64]);
    // SAFETY: a buffer that all threads share.
    unsafe { library::poll(net, group, sockets.as_ptr(), sockets.len(), timeout_ms) }
}
