//! What calls take and give: flags and kinds, as POSIX numbers them, entries to poll, and a poller's events. Both
//! the calls and the library below them use it.

use super::handle::Handle;

/// Byte streams, the one type of socket there is.
pub const SOCK_STREAM: i32 = 1;
/// With [`SOCK_STREAM`]: non-blocking from the start.
pub const SOCK_NONBLOCK: i32 = 0o4000;
/// [`gshutdown`](crate::calls::gshutdown): no more receiving.
pub const SHUT_RD: i32 = 0;
/// The same: no more sending.
pub const SHUT_WR: i32 = 1;
/// The same: neither.
pub const SHUT_RDWR: i32 = 2;

/// Do not wait, whatever the socket's options say.
pub const MSG_DONTWAIT: u32 = 0x40;
/// [`grecv`](crate::calls::grecv): leave the bytes in the ring.
pub const MSG_PEEK: u32 = 2;
/// The same: wait until the buffer is full. Fewer bytes come where the stream ends, or where an error
/// ends the wait, which the next call then meets.
pub const MSG_WAITALL: u32 = 0x100;
/// Accepted and ignored, for code written for Linux: no signal reaches a kernel, and a send to a peer
/// that is gone says EPIPE in any case.
pub const MSG_NOSIGNAL: u32 = 0x4000;

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

/// Something happened on a socket that a poller watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// What the socket was given when it was added.
    pub token: u64,
    /// [`POLLIN`] and its siblings; never 0, which in the ring says that it was withdrawn.
    pub events: u64,
}

/// Bytes of an event in the ring.
pub const EVENT_BYTES: usize = 16;
const _: () = assert!(size_of::<Event>() == EVENT_BYTES);
