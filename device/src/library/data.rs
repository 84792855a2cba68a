//! Sending and receiving: by express where a message is small, else a slice of the ring and a copy.

use crate::abi::errno::Errno;
use crate::abi::express::EXPRESS_BYTES;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::calls::{MSG_DONTWAIT, MSG_PEEK};
use crate::express::{self, Outcome};
use crate::group::Group;
use crate::local::Side;
use crate::ring::{Opened, Window};

use super::SEND_ALL;

/// See [`super::send`].
#[inline(always)]
pub(super) unsafe fn send<G: Group>(
    net: Net,
    group: G,
    handle: u64,
    from: *const u8,
    length: usize,
    flags: u32,
) -> i64 {
    let small = (1..=EXPRESS_BYTES).contains(&length) && flags & !(SEND_ALL | MSG_DONTWAIT) == 0;
    if small && express::send_kept(net, group, Handle(handle), (from, length)) {
        return if flags & SEND_ALL == 0 { length as i64 } else { 0 };
    }
    send_otherwise(net, group, Handle(handle), from, length, flags)
}

#[inline(never)]
fn send_otherwise<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    from: *const u8,
    length: usize,
    flags: u32,
) -> i64 {
    let sent = send_from(net, group, handle, (from, length), flags & !SEND_ALL);
    let result = if flags & SEND_ALL == 0 { sent.count() } else { sent.all().map(|()| 0) };
    result.map_or_else(Errno::negative, |sent| sent as i64)
}

/// See [`super::receive`].
#[inline(always)]
pub(super) unsafe fn receive<G: Group>(
    net: Net,
    group: G,
    handle: u64,
    to: *mut u8,
    length: usize,
    flags: u32,
) -> i64 {
    if length > 0 && flags == 0 {
        let bytes = express::receive_kept(net, group, Handle(handle), (to, length));
        if bytes != 0 {
            return i64::from(bytes);
        }
    }
    receive_otherwise(net, group, Handle(handle), to, length, flags)
}

#[inline(never)]
fn receive_otherwise<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    to: *mut u8,
    length: usize,
    flags: u32,
) -> i64 {
    let received = receive_into(net, group, handle, (to, length), flags);
    received.map_or_else(Errno::negative, |got| got as i64)
}

/// See [`super::copy`].
#[inline(always)]
pub(super) unsafe fn copy<G: Group>(
    _net: Net,
    group: G,
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
        unsafe { crate::copy::to_ring(rank, size, from.add(at), to.add(at), piece as u32) };
        at += piece;
    }
    0
}

/// How far a send came, and what ended it before it had sent all.
struct Sent {
    bytes: usize,
    stopped: Option<Errno>,
}

impl Sent {
    #[inline(always)]
    const fn nothing(errno: Errno) -> Self {
        Self { bytes: 0, stopped: Some(errno) }
    }

    /// As sockets say it: the error only if nothing was sent; the next call will meet it.
    #[inline(always)]
    fn count(self) -> Result<usize, Errno> {
        match self.stopped {
            Some(errno) if self.bytes == 0 => Err(errno),
            _ => Ok(self.bytes),
        }
    }

    /// For who wants all to be sent.
    #[inline(always)]
    fn all(self) -> Result<(), Errno> {
        self.stopped.map_or(Ok(()), Err)
    }
}

#[inline(always)]
fn send_from<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    (from, length): (*const u8, usize),
    flags: u32,
) -> Sent {
    if flags & !MSG_DONTWAIT != 0 {
        return Sent::nothing(Errno::EINVAL);
    }
    let wait = flags & MSG_DONTWAIT == 0;
    if group.has_whole_warp() && (1..=EXPRESS_BYTES).contains(&length) {
        return match express::send(net, group, handle, (from, length), wait) {
            Ok(Outcome::Copied(bytes)) => Sent { bytes, stopped: None },
            Ok(Outcome::Ring(Opened::Window(window))) => {
                fill(net, group, handle, window, from);
                let sent = window.len();
                if sent == length || !wait {
                    let stopped = (sent < length).then_some(Errno::EAGAIN);
                    return Sent { bytes: sent, stopped };
                }
                let rest = (from.wrapping_add(sent), length - sent);
                let more = send_by_ring(net, group, handle, rest, wait);
                Sent { bytes: sent + more.bytes, ..more }
            }
            Ok(Outcome::Ring(Opened::End)) => Sent::nothing(Errno::EPIPE),
            Err(errno) => Sent::nothing(errno),
        };
    }
    send_by_ring(net, group, handle, (from, length), wait)
}

#[inline(always)]
fn fill<G: Group>(net: Net, group: G, handle: Handle, window: Window, from: *const u8) {
    window.copy_in(group, from);
    window.close(net, group, handle, Side::Send, window.len());
}

#[inline(always)]
fn send_by_ring<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    (from, length): (*const u8, usize),
    wait: bool,
) -> Sent {
    let least = usize::from(length > 0);
    let mut bytes = 0;
    // Counted: each turn sends a byte or more, or is the last.
    loop {
        let want = (least, length - bytes);
        let stopped = match Window::open(net, group, handle, Side::Send, want, wait) {
            Ok(Opened::Window(window)) => {
                fill(net, group, handle, window, from.wrapping_add(bytes));
                bytes += window.len();
                None
            }
            Ok(Opened::End) => (length > 0).then_some(Errno::EPIPE),
            Err(errno) => Some(errno),
        };
        if stopped.is_some() || bytes == length {
            return Sent { bytes, stopped };
        }
    }
}

#[inline(always)]
fn receive_into<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    (to, length): (*mut u8, usize),
    flags: u32,
) -> Result<usize, Errno> {
    if flags & !(MSG_DONTWAIT | MSG_PEEK) != 0 {
        return Err(Errno::EINVAL);
    }
    let wait = flags & MSG_DONTWAIT == 0;
    let opened = if group.has_whole_warp() && length > 0 && flags & MSG_PEEK == 0 {
        match express::receive(net, group, handle, (to, length), wait)? {
            Outcome::Copied(got) => return Ok(got),
            Outcome::Ring(opened) => opened,
        }
    } else {
        let want = (usize::from(length > 0), length);
        Window::open(net, group, handle, Side::Receive, want, wait)?
    };
    match opened {
        Opened::End => Ok(0),
        Opened::Window(window) => {
            let window = window.up_to_a_line(length);
            window.copy_out(group, to);
            let used = if flags & MSG_PEEK == 0 { window.len() } else { 0 };
            // Begins with a barrier: what other threads copied is there for all.
            window.close_copied(net, group, handle, used);
            Ok(window.len())
        }
    }
}
