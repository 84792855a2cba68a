//! Pollers: the proxy tells which of very many sockets are ready, the GPU scans nothing.
//!
//! A poller's receive ring holds events that the proxy writes. A socket has at most one event
//! there at a time: it comes when something has happened since the last one was taken. So, as
//! with edge-triggered epoll, take what there is until EAGAIN.
//!
//! An event of a socket that is removed, closed, or added again is withdrawn: the proxy clears what
//! it tells of, and a wait leaves it out. `gpoll` does not look into the ring: it calls a poller
//! readable until a wait has passed over what was withdrawn.

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::{Operation, Request};
use crate::buf::{Plain, Shared};
use crate::calls;
use crate::group::{Block, Group};
use crate::local::{Side, Socket};
use crate::request::ask;
use crate::ring::{Opened, Window};
use crate::stream::{On, Owned};
use crate::wait::Deadline;

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
#[allow(unsafe_code, reason = "any bytes are an Event")]
unsafe impl Plain for Event {}

/// Watches sockets. It is for the group that made it and no other, so there is none by its handle: a
/// wait leaves its time-out in the socket's record, where another group's would take its place.
pub struct Poller<G: Group = Block>(Owned<G>);

impl<G: Group> Poller<G> {
    /// A poller that watches nothing yet.
    #[inline(always)]
    pub fn new(on: On<G>) -> Result<Self, Errno> {
        on.group.agree("Poller::new", &[]);
        let mut made = 0;
        if on.group.is_leader() {
            let request = Request::new(Operation::Poller, on.net.launch(), Handle::NONE, [0; 4]);
            let reply = ask(on.net, 0, &request)
                .and_then(|reply| Errno::check(reply.result()).map(|_| reply.number()));
            made = reply.map_or_else(Errno::negative, |handle| handle as i64);
        }
        let [made] = on.group.broadcast([made as u64]);
        let handle = Handle(Errno::check(made as i64)?);
        Ok(Self(Owned { on, handle }))
    }

    /// Watches a socket for `events`; `token` comes back with them. Adding it again changes both,
    /// and tells anew what it is ready for; an event with the old token that nobody took is
    /// withdrawn, as in [`Self::remove`].
    #[inline(always)]
    pub fn add(&self, socket: Handle, events: u16, token: u64) -> Result<(), Errno> {
        self.watch([socket.0, u64::from(events), token, 0])
    }

    /// No longer watches a socket. Closing one does that too. With one proxy thread, no event of it
    /// comes out of a wait that begins afterwards. With several, the poller may be another thread's
    /// than the socket, and hears of it a moment later: until then such an event may still come.
    #[inline(always)]
    pub fn remove(&self, socket: Handle) -> Result<(), Errno> {
        self.watch([socket.0, 0, 0, 0])
    }

    #[inline(always)]
    fn watch(&self, numbers: [u64; 4]) -> Result<(), Errno> {
        let (on, handle) = (self.0.on, self.0.handle);
        on.group.agree("Poller::add", &numbers);
        let mut done = 0;
        if on.group.is_leader() {
            // The socket's shard keeps the watch: it sees what happens.
            let asked = Socket::open(on.net, Handle(numbers[0])).and_then(|socket| {
                if numbers[1] != 0 {
                    socket.watch_both_ends();
                }
                let request = Request::new(Operation::Watch, on.net.launch(), handle, numbers);
                ask(on.net, socket.shard(), &request)
            });
            done = asked.map_or_else(Errno::negative, |reply| reply.result());
        }
        let [done] = on.group.broadcast([done as u64]);
        Errno::check(done as i64).map(|_| ())
    }

    /// Waits for events, up to `timeout_ns` (0: no limit), and takes as many as `events` holds.
    #[inline(always)]
    pub fn wait(&self, events: Shared<Event>, timeout_ns: u64) -> Result<usize, Errno> {
        let group = self.0.on.group;
        group.agree("Poller::wait", &[events.as_ptr() as u64, timeout_ns]);
        if events.is_empty() {
            return Err(Errno::EINVAL);
        }
        let deadline = Deadline::after_or_never(timeout_ns);
        let mut left_ns = timeout_ns;
        // Counted: the ring's events. Another turn only where all that was taken had been withdrawn, and
        // it waits no longer than is left.
        loop {
            let (taken, any_withdrawn) = self.take(events, left_ns)?;
            if !any_withdrawn {
                return Ok(taken.len());
            }
            let mut kept = 0;
            if group.is_leader() {
                kept = leave_out_withdrawn(taken);
            }
            // What the leader has moved is there for all.
            group.barrier();
            let [kept] = group.broadcast([kept as u64]);
            if kept > 0 {
                return Ok(kept as usize);
            }
            left_ns = deadline.left_ns();
        }
    }

    /// Takes as many events as there are and fit, and tells whether some of them were withdrawn.
    #[inline(always)]
    fn take(&self, events: Shared<Event>, timeout_ns: u64) -> Result<(Shared<Event>, bool), Errno> {
        let (on, handle) = (self.0.on, self.0.handle);
        // A poller that is not open shows when its window is opened, to all threads alike.
        if on.group.is_leader()
            && let Ok(poller) = Socket::open(on.net, handle)
        {
            poller.set_timeout(Side::Receive, timeout_ns);
        }
        let want = (EVENT_BYTES, events.len() * EVENT_BYTES);
        let window = match Window::open(on.net, on.group, handle, Side::Receive, want, true)? {
            Opened::End => return Err(Errno::EBADF),
            Opened::Window(window) => window,
        };
        window.copy_out(on.group, events.as_ptr().cast());
        // Who looks at an event need not be who copied it.
        on.group.barrier();
        let taken = events.first(window.len() / EVENT_BYTES);
        let mut withdrawn = false;
        let mut at = on.group.rank();
        // Counted: the events.
        while let Some(event) = taken.get(at) {
            withdrawn |= event.events == 0;
            at += on.group.size();
        }
        // Before the window closes: nobody waits for the thread that publishes.
        let withdrawn = on.group.any(withdrawn);
        window.close_after_barrier(on.net, on.group, handle, Side::Receive, window.len());
        Ok((taken, withdrawn))
    }

    /// Its handle.
    #[inline(always)]
    pub const fn handle(&self) -> Handle {
        self.0.handle
    }
}

/// Moves the events that were not withdrawn to the front; how many they are. One thread calls it.
#[cold]
#[inline(never)]
fn leave_out_withdrawn(events: Shared<Event>) -> usize {
    let mut kept = 0;
    for at in 0..events.len() {
        if let Some(event) = events.get(at)
            && event.events != 0
        {
            events.set(kept, event);
            kept += 1;
        }
    }
    kept
}

/// Re-exported beside the poller: what it reports.
pub use calls::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};
