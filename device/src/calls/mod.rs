//! The familiar calls. Each is cooperative over a group: all its threads call with the same
//! arguments and get the same result; negative error numbers on failure.
//!
//! The net is the first argument, the group the second. [`crate::Stream`] and its siblings are
//! the same calls as types. A single thread that is its own group may call from divergent code.
//! What a call does is in the device library (`library`); here threads' arguments are compared on the
//! emulated GPU.

#![allow(unsafe_code, reason = "hands the addresses of buffers to the library")]

mod data;
mod option;
mod poll;
mod system;

pub use crate::abi::call::{
    MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_WAITALL, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT,
    POLLRDHUP, PollFd, SHUT_RD, SHUT_RDWR, SHUT_WR, SOCK_NONBLOCK, SOCK_STREAM,
};
pub use data::{grecv, gsend};
pub(crate) use data::{receive, receive_all, send, send_all};
pub use option::{ggetsockopt, gsetsockopt};
pub use poll::gpoll;
pub use system::{Line, ggettimeofday, gprint};

use crate::abi::address::SocketAddr;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::group::Group;
use crate::library::{self, OWN_NAME, PEER_NAME};

/// A handle and an address, for threads to compare.
#[inline(always)]
fn with_address(handle: Handle, address: &SocketAddr) -> [u64; 15] {
    let words = address.to_words();
    core::array::from_fn(|at| if at == 0 { handle.0 } else { words[at - 1] })
}

/// Makes a socket: `domain` as in [`crate::Domain`] (AF_INET 2, AF_INET6 10, AF_UNIX 1), `kind`
/// [`SOCK_STREAM`], perhaps with [`SOCK_NONBLOCK`], `protocol` 0. Its handle.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gsocket<G: Group>(net: Net, group: G, domain: i32, kind: i32, protocol: i32) -> i64 {
    group.agree("gsocket", &[domain as u64, kind as u64, protocol as u64]);
    // SAFETY: numbers alone.
    unsafe { library::socket(net, group, domain, kind, protocol) }
}

/// Gives the socket its own address.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gbind<G: Group>(net: Net, group: G, handle: Handle, address: &SocketAddr) -> i64 {
    group.agree("gbind", &with_address(handle, address));
    // SAFETY: a reference.
    unsafe { library::bind(net, group, handle.0, address) }
}

/// Turns the socket into a listener that keeps up to `backlog` accepted connections waiting.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn glisten<G: Group>(net: Net, group: G, handle: Handle, backlog: i32) -> i64 {
    group.agree("glisten", &[handle.0, backlog as u64]);
    // SAFETY: numbers alone.
    unsafe { library::listen(net, group, handle.0, backlog) }
}

/// Takes the next accepted connection of a listener. Its handle.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gaccept<G: Group>(net: Net, group: G, handle: Handle) -> i64 {
    group.agree("gaccept", &[handle.0]);
    // SAFETY: numbers alone.
    unsafe { library::accept(net, group, handle.0) }
}

/// Connects to `address`; EINPROGRESS on a non-blocking socket, which is then writable once it is
/// connected.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gconnect<G: Group>(net: Net, group: G, handle: Handle, address: &SocketAddr) -> i64 {
    group.agree("gconnect", &with_address(handle, address));
    // SAFETY: a reference.
    unsafe { library::connect(net, group, handle.0, address) }
}

/// Ends one direction or both; what was sent before still arrives. What other groups send meanwhile
/// arrives, too, or they get EPIPE; but what a group commits that keeps a slice of the ring open for
/// longer than 2 s may be lost.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gshutdown<G: Group>(net: Net, group: G, handle: Handle, how: i32) -> i64 {
    group.agree("gshutdown", &[handle.0, how as u64]);
    // SAFETY: numbers alone.
    unsafe { library::shutdown(net, group, handle.0, how) }
}

/// Closes the socket: calls of other groups on it return EBADF, what is unsent is sent. EBUSY if
/// another group does not leave it (it holds a slice of the ring). A poller no longer reports it,
/// as after [`Poller::remove`](crate::Poller::remove).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gclose<G: Group>(net: Net, group: G, handle: Handle) -> i64 {
    group.agree("gclose", &[handle.0]);
    // SAFETY: numbers alone.
    unsafe { library::close(net, group, handle.0) }
}

/// An address that the proxy knows, to all threads.
#[inline(always)]
fn name_of<G: Group>(net: Net, group: G, handle: Handle, which: u32) -> Result<SocketAddr, Errno> {
    let mut address = SocketAddr::from_words(&[0; 14]);
    // SAFETY: the thread's own variable.
    Errno::check(unsafe { library::name(net, group, handle.0, which, &raw mut address) })?;
    Ok(address)
}

/// The peer's address.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn ggetpeername<G: Group>(net: Net, group: G, handle: Handle) -> Result<SocketAddr, Errno> {
    group.agree("ggetpeername", &[handle.0]);
    name_of(net, group, handle, PEER_NAME)
}

/// The socket's own address.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn ggetsockname<G: Group>(net: Net, group: G, handle: Handle) -> Result<SocketAddr, Errno> {
    group.agree("ggetsockname", &[handle.0]);
    name_of(net, group, handle, OWN_NAME)
}
