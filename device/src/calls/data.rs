//! Sending and receiving.

use crate::abi::call::MSG_NOSIGNAL;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::buf;
use crate::group::Group;
use crate::library;

/// Sends: on a blocking socket all of the buffer, else as much as fits. How many bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gsend<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::From<G>,
    flags: u32,
) -> i64 {
    let (from, length, same) = buffer.source();
    group.agree("gsend", &[handle.0, same, length as u64, u64::from(flags)]);
    // SAFETY: a buffer of that length, for the group.
    let (sent, error) = unsafe { send_from(net, group, handle, from, length, flags) };
    // As sockets say it: the error only if nothing was sent; the next call will meet it.
    if sent > 0 { sent as i64 } else { error }
}

/// Receives at least one byte, at most what the buffer holds; 0 once the peer has closed.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn grecv<G: Group>(
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
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
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
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn send_all<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::From<G>,
) -> Result<(), Errno> {
    let (from, length, same) = buffer.source();
    group.agree("gsend", &[handle.0, same, length as u64, 0]);
    // SAFETY: a buffer of that length, for the group.
    let (_, error) = unsafe { send_from(net, group, handle, from, length, 0) };
    Errno::check(error).map(|_| ())
}

#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn receive<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::Into<G>,
    flags: u32,
) -> Result<usize, Errno> {
    Errno::check(grecv(net, group, handle, buffer, flags)).map(|got| got as usize)
}

/// Receives until the buffer is full or the stream ends; how many bytes. An error on the way is the
/// result. The loop is the kernel's: each piece goes the way that is short for it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn receive_all<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    buffer: impl buf::Into<G>,
) -> Result<usize, Errno> {
    let (to, length) = buffer.target();
    group.agree("grecv", &[handle.0, to as u64, length as u64, 0]);
    let mut got = 0;
    // Counted: each turn receives a byte or more, or is the last.
    loop {
        // SAFETY: the rest of a buffer of that length, for the group.
        let more = unsafe { library::receive(net, group, handle.0, to.add(got), length - got, 0) };
        got += Errno::check(more)? as usize;
        if (more == 0) | (got >= length) {
            return Ok(got);
        }
    }
}

/// Sends a buffer: on a blocking socket all of it. How many bytes, and what ended it: 0 or a negative error
/// number. The loop is the kernel's: each piece goes the way that is short for it.
///
/// # Safety
/// `from` is valid for `length` bytes.
#[inline(always)]
unsafe fn send_from<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    from: *const u8,
    length: usize,
    flags: u32,
) -> (usize, i64) {
    let flags = flags & !MSG_NOSIGNAL;
    let mut sent = 0;
    // Counted: each turn sends a byte or more, or is the last.
    loop {
        let left = length - sent;
        // SAFETY: the rest of the caller's buffer.
        let more =
            unsafe { library::send_piece(net, group, handle.0, from.add(sent), left, flags) };
        if more < 0 {
            return (sent, more);
        }
        sent += more as usize;
        if (more == 0) | (sent >= length) | (flags != 0) {
            return (sent, 0);
        }
    }
}
