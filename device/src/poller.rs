//! Pollers: the proxy tells which of very many sockets are ready, the GPU scans nothing.
//!
//! A poller's receive ring holds events that the proxy writes. A socket has at most one event
//! there at a time: it comes when something has happened since the last one was taken. So, as
//! with edge-triggered epoll, take what there is until EAGAIN.
//!
//! An event of a socket that is removed, closed, or added again is withdrawn: the proxy clears what
//! it tells of, and a wait leaves it out. `gpoll` does not look into the ring: it calls a poller
//! readable until a wait has passed over what was withdrawn.

#![allow(unsafe_code, reason = "hands the addresses of buffers to the library")]

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::buf::{Plain, Shared};
use crate::calls;
use crate::group::{Block, Group};
use crate::library;
use crate::stream::{On, Owned};

/// Something happened on a watched socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// What the socket was given when it was added.
    pub token: u64,
    /// [`calls::POLLIN`] and its siblings; never 0, which in the ring says that it was withdrawn.
    pub events: u64,
}

/// Bytes of an event in the ring.
pub const EVENT_BYTES: usize = 16;
const _: () = assert!(size_of::<Event>() == EVENT_BYTES);

// SAFETY: numbers without padding.
unsafe impl Plain for Event {}

/// Watches sockets. It is for the group that made it and no other, so there is none by its handle: a
/// wait leaves its time-out in the socket's record, where another group's would take its place.
pub struct Poller<G: Group = Block>(Owned<G>);

impl<G: Group> Poller<G> {
    /// A poller that watches nothing yet.
    #[inline(always)]
    pub fn new(on: On<G>) -> Result<Self, Errno> {
        on.group.agree("Poller::new", &[]);
        // SAFETY: numbers alone.
        let handle = Handle(Errno::check(unsafe { library::poller(on.net, on.group) })?);
        Ok(Self(Owned { on, handle }))
    }

    /// Watches a socket for `events`; `token` comes back with them. Adding it again changes both,
    /// and tells anew what it is ready for; an event with the old token that nobody took is
    /// withdrawn, as in [`Self::remove`].
    ///
    /// A stream is watched by one poller, the one that was last told to. A listener may be watched by
    /// several: each connection is one event to one of them, in turn, so that blocks which accept one
    /// connection for each event share the work evenly.
    #[inline(always)]
    pub fn add(&self, socket: Handle, events: u16, token: u64) -> Result<(), Errno> {
        self.watch(socket, u64::from(events), token)
    }

    /// No longer watches a socket. Closing one does that too. With one proxy thread, no event of it
    /// comes out of a wait that begins afterwards. With several, the poller may be another thread's
    /// than the socket, and hears of it a moment later: until then such an event may still come.
    #[inline(always)]
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
    pub fn wait(&self, events: Shared<Event>, timeout_ns: u64) -> Result<usize, Errno> {
        let (on, handle) = (self.0.on, self.0.handle);
        let (address, capacity) = (events.as_ptr(), events.len());
        on.group.agree("Poller::wait", &[address as u64, timeout_ns]);
        // SAFETY: a buffer that all threads share.
        let taken =
            unsafe { library::wait(on.net, on.group, handle.0, address, capacity, timeout_ns) };
        Errno::check(taken).map(|taken| taken as usize)
    }

    /// Its handle.
    #[inline(always)]
    pub const fn handle(&self) -> Handle {
        self.0.handle
    }
}

/// Re-exported beside the poller: what it reports.
pub use calls::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};
