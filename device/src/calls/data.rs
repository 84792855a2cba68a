//! Sending and receiving.

use crate::abi::bits::PACKET_BYTES;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::buf;
use crate::group::Group;
use crate::library::{self, RECEIVE_ALL, SEND_ALL};

/// Do not wait, whatever the socket's options say.
pub const MSG_DONTWAIT: u32 = 0x40;
/// [`grecv`]: leave the bytes in the ring.
pub const MSG_PEEK: u32 = 2;
/// [`grecv`]: wait until the buffer is full. Fewer bytes come where the stream ends, or where an error
/// ends the wait, which the next call then meets.
pub const MSG_WAITALL: u32 = 0x100;

/// Accepted and ignored, for code written for Linux: no signal reaches a kernel, and a send to a peer
/// that is gone says EPIPE in any case.
pub const MSG_NOSIGNAL: u32 = 0x4000;

/// Sends: on a blocking socket all of the buffer, else as much as fits. How many bytes.
#[inline(always)]
pub fn gsend<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::From<G>,
    flags: u32,
) -> i64 {
    if flags & SEND_ALL != 0 {
        return Errno::EINVAL.negative();
    }
    send_from(net, group, handle, buffer, flags)
}

/// Receives at least one byte, at most what the buffer holds; 0 once the peer has closed.
#[inline(always)]
pub fn grecv<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::Into<G>,
    flags: u32,
) -> i64 {
    if flags & RECEIVE_ALL != 0 {
        return Errno::EINVAL.negative();
    }
    receive_into(net, group, handle, buffer, flags)
}

#[inline(always)]
fn receive_into<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::Into<G>,
    flags: u32,
) -> i64 {
    let (to, length) = buffer.target();
    group.agree("grecv", &[handle.0, to as u64, length as u64, u64::from(flags)]);
    // SAFETY: a buffer of that length, for the group.
    unsafe { library::receive(net, group, handle.0, to, length, flags & !MSG_NOSIGNAL) }
}

#[inline(always)]
pub(crate) fn send<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::From<G>,
    flags: u32,
) -> Result<usize, Errno> {
    Errno::check(gsend(net, group, handle, buffer, flags)).map(|sent| sent as usize)
}

/// Sends all of it, or says why not.
#[inline(always)]
pub(crate) fn send_all<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::From<G>,
) -> Result<(), Errno> {
    Errno::check(send_from(net, group, handle, buffer, SEND_ALL)).map(|_| ())
}

#[inline(always)]
pub(crate) fn receive<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::Into<G>,
    flags: u32,
) -> Result<usize, Errno> {
    Errno::check(receive_into(net, group, handle, buffer, flags)).map(|got| got as usize)
}

#[inline(always)]
fn send_from<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::From<G>,
    flags: u32,
) -> i64 {
    let (from, length, same) = buffer.source();
    group.agree("gsend", &[handle.0, same, length as u64, u64::from(flags)]);
    // SAFETY: a buffer of that length, for the group.
    unsafe {
        let flags = flags & !MSG_NOSIGNAL;
        match length > PACKET_BYTES {
            true => library::send_long(net, group, handle.0, from, length, flags),
            false => library::send(net, group, handle.0, from, length, flags),
        }
    }
}
