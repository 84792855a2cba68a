//! Pollers: the proxy reports which of very many sockets are ready.
//!
//! A poller's receive ring holds events that the proxy writes. A socket has at most one event
//! there at a time: it comes when something has happened since the last one was taken. So, as
//! with edge-triggered epoll (`EPOLLET`), receive until EAGAIN. Kernel to kernel, bytes and space are not
//! the proxy's to report: a wait looks at the streams' own counters, as many at a time as the group has threads.
//!
//! | question | answer |
//! | --- | --- |
//! | level or edge | edge. [`Poller::add`] reports at once what the socket is ready for; from then on an event says that something has happened since the last one was taken. Bytes that were left in the ring make none |
//! | POLLIN of a stream | bytes came into the receive ring, or the stream has ended. Bytes for which the ring has no space stay in the system's socket, and make an event when the kernel has made space and they have come |
//! | POLLIN of a listener | one event for each connection, to one of the pollers that watch it, in turn. Also when the listener was shut down |
//! | POLLOUT | the socket is connected; then whenever bytes have left the send ring, full or not. Who watches it gets an event after every send: watch it while a send has found no space, and for a connect |
//! | POLLRDHUP | the peer sends no more: only to those that ask for it. POLLIN comes for the same reason, and a read that gives 0 |
//! | POLLHUP, **unasked** | both directions are over |
//! | POLLERR, **unasked** | the connection has failed (ECONNRESET, ECONNREFUSED ...): the next call has the error, and [`SocketOption::Error`](crate::abi::option::SocketOption::Error) |
//! | POLLNVAL | never: the event of a socket that was closed is withdrawn |
//! | an event with nothing to receive | possible: what came while an event was in the ring is reported by another, and may have been received with the first |
//! | a read that gives fewer bytes than the buffer holds | says nothing of what is left: a call takes at most the larger of 32 KiB and a quarter of the ring. EAGAIN says that nothing is, and so does a [`Peek`](crate::Peek), which has all there is, once that is consumed |
//! | arming again | is not needed: a socket is watched until it is removed or closed. An event costs the proxy 16 bytes in the ring, and a wait no request |
//! | [`Poller::add`], again or for the first time | one request to the proxy thread of the socket, whose answer the group waits for, as for a socket option; no system call. An event that nobody took is withdrawn, and all that the socket is ready for is reported anew |
//! | pollers of one stream | one: the last that it was added to; of a p2p stream that connects meanwhile, the first of these that waits: remove it from the one before |
//! | a stream whose next bytes are expected soon | [`Poller::receive_beside`] looks at it and at the poller at once |
//! | order | that in which things happened, for sockets of one proxy thread; kernel to kernel none, but every stream has its turn |
//! | events at a time | one a socket; the ring has room for all sockets of the net |
//!
//! What a socket has that a listener has accepted:
//!
//! | of the listener | accepted socket |
//! | --- | --- |
//! | ring sizes, as they were set before `listen` | the same |
//! | SO_KEEPALIVE and its times, TCP_USER_TIMEOUT, buffers of the system's socket | the same (by TCP: Linux has it so) |
//! | TCP_NODELAY | on, whatever the listener's setting |
//! | non-blocking | no, as with Linux's `accept`: set it, or pass `MSG_DONTWAIT` |
//! | time-outs | those of the net |
//! | the poller that watches it | none |
//!
//! Most lines are shown by `host/e2e/tests/suite/events.rs` and `pollers.rs`; what arming costs and the order of
//! events are read from the proxy.
//!
//! An event of a socket that is removed, closed, or added again is withdrawn: the proxy clears what
//! it reports, and a wait leaves it out. `gpoll` does not look into the ring: it calls a poller
//! readable until a wait has passed over what was withdrawn.

#![allow(unsafe_code, reason = "hands the addresses of buffers to the library")]

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::buf::{Shared, SharedBuf};
use crate::group::{Block, Group};
use crate::library;
use crate::on::On;
use crate::owned::Owned;

/// What [`Poller::receive_beside`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// So many bytes were received; 0: the stream has ended.
    Received(usize),
    /// Nothing has come.
    Nothing,
    /// The same; and the next event of the poller is one of this stream that may be left out: it reports
    /// bytes that were received. What comes from now on makes another.
    NothingNew,
}

/// Watches sockets. It is for the group that made it and no other, so there is none by its handle: a
/// wait leaves its time-out in the socket's record, where another group's would take its place.
pub struct Poller<G: Group = Block>(Owned<G>);

impl<G: Group> Poller<G> {
    /// A poller that watches nothing yet.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn new(on: On<G>) -> Result<Self, Errno> {
        on.group.agree("Poller::new", &[]);
        // SAFETY: numbers alone.
        let handle = Handle(Errno::check(unsafe { library::poller(on.net, on.group) })?);
        Ok(Self(Owned { on, handle }))
    }

    /// Watches a socket for `events`; `token` comes back with them. Adding it again changes both,
    /// and reports anew what it is ready for; an event with the old token that nobody took is
    /// withdrawn, as in [`Self::remove`].
    ///
    /// A stream is watched by one poller, the one that it was last added to. A listener may be watched by
    /// several: each connection is one event to one of them, in turn, so that blocks which accept one
    /// connection for each event share the work evenly.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn add(&self, socket: Handle, events: u16, token: u64) -> Result<(), Errno> {
        self.watch(socket, u64::from(events), token)
    }

    /// No longer watches a socket. Closing one does that too. With one proxy thread, no event of it
    /// comes out of a wait that begins afterwards. With several, the poller may be another thread's
    /// than the socket, and is notified of it a moment later: until then such an event may still come.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn remove(&self, socket: Handle) -> Result<(), Errno> {
        self.watch(socket, 0, 0)
    }

    #[inline(always)]
    fn watch(&self, socket: Handle, events: u64, token: u64) -> Result<(), Errno> {
        let (on, handle) = (self.0.on, self.0.handle);
        on.group.agree("Poller::add", &[socket.0, events, token, 0]);
        // SAFETY: numbers alone.
        let done = unsafe { library::watch(on.net, on.group, handle.0, socket.0, events, token) };
        Errno::check(done).map(|_| ())
    }

    /// Waits for events, up to `timeout_ns` (0: no limit), and takes as many as `events` holds.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait(&self, events: Shared<Event>, timeout_ns: u64) -> Result<usize, Errno> {
        let (on, handle) = (self.0.on, self.0.handle);
        let (address, capacity) = (events.as_ptr(), events.len());
        on.group.agree("Poller::wait", &[address as u64, timeout_ns]);
        // SAFETY: a buffer that all threads share.
        let taken =
            unsafe { library::wait(on.net, on.group, handle.0, address, capacity, timeout_ns) };
        Errno::check(taken).map(|taken| taken as usize)
    }

    /// Receives from a stream that this poller watches under `token` (and for [`POLLIN`]), while it has no
    /// event of another socket; for some 100 us at most. A client that sends its next request once it has
    /// the answer to the last is answered without an event. For groups of whole warps, and streams that are
    /// not p2p; else nothing is received.
    ///
    /// # Errors
    /// Those of [`grecv`](crate::calls::grecv). That nothing has come is none.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn receive_beside(
        &self,
        socket: Handle,
        token: u64,
        buffer: SharedBuf,
    ) -> Result<Beside, Errno> {
        let (on, handle) = (self.0.on, self.0.handle);
        let (to, length) = (buffer.as_ptr(), buffer.len());
        on.group.agree("Poller::receive_beside", &[socket.0, token, to as u64, length as u64]);
        // SAFETY: a buffer that all threads share.
        let got = unsafe {
            library::receive_beside(on.net, on.group, socket.0, to, length, handle.0, token)
        };
        match Errno::check(got) {
            Ok(got) => Ok(Beside::Received(got as usize)),
            Err(Errno::EAGAIN) => Ok(Beside::Nothing),
            Err(Errno::EALREADY) => Ok(Beside::NothingNew),
            Err(errno) => Err(errno),
        }
    }

    /// Its handle.
    #[inline(always)]
    pub const fn handle(&self) -> Handle {
        self.0.handle
    }
}

/// Re-exported beside the poller: what it reports.
pub use crate::abi::call::{EVENT_BYTES, Event, POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};
