//! Pollers: making one, what it watches, and taking events.

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::{Operation, Request};
use crate::abi::net::Net;
use crate::buf::Shared;
use crate::group::Group;
use crate::local::{Side, Socket};
use crate::poller::{EVENT_BYTES, Event};
use crate::request::ask;
use crate::ring::{Opened, Window};
use crate::wait::Deadline;

use super::socket::checked;
use super::{led, number};

/// See [`super::poller`].
#[inline(always)]
pub(super) unsafe fn poller<G: Group>(net: Net, group: G) -> i64 {
    led(group, || number(make(net)))
}

#[inline(never)]
fn make(net: Net) -> Result<u64, Errno> {
    let request = Request::new(Operation::Poller, net.launch(), Handle::NONE, [0; 4]);
    ask(net, 0, &request).and_then(checked).map(|reply| reply.number())
}

/// See [`super::watch`].
#[inline(always)]
pub(super) unsafe fn watch<G: Group>(
    net: Net,
    group: G,
    poller: u64,
    socket: u64,
    events: u64,
    token: u64,
) -> i64 {
    led(group, || number(ask_to_watch(net, Handle(poller), [socket, events, token, 0])))
}

#[inline(never)]
fn ask_to_watch(net: Net, poller: Handle, numbers: [u64; 4]) -> Result<u64, Errno> {
    // The socket's shard keeps the watch: it sees what happens.
    let socket = Socket::open(net, Handle(numbers[0]))?;
    if numbers[1] != 0 {
        socket.watch_both_ends();
    }
    let request = Request::new(Operation::Watch, net.launch(), poller, numbers);
    ask(net, socket.shard(), &request).and_then(checked).map(|_| 0)
}

/// See [`super::wait`].
#[inline(always)]
pub(super) unsafe fn wait<G: Group>(
    net: Net,
    group: G,
    poller: u64,
    events: *mut Event,
    capacity: usize,
    timeout_ns: u64,
) -> i64 {
    // SAFETY: the caller's promise.
    let events = unsafe { Shared::from_raw(events, capacity) };
    let taken = wait_for(net, group, Handle(poller), events, timeout_ns);
    taken.map_or_else(Errno::negative, |taken| taken as i64)
}

#[inline(always)]
fn wait_for<G: Group>(
    net: Net,
    group: G,
    poller: Handle,
    events: Shared<Event>,
    timeout_ns: u64,
) -> Result<usize, Errno> {
    if events.is_empty() {
        return Err(Errno::EINVAL);
    }
    let deadline = Deadline::after_or_never(timeout_ns);
    let mut left_ns = timeout_ns;
    // Counted: the ring's events. Another turn only where all that was taken had been withdrawn, and
    // it waits no longer than is left.
    loop {
        let (taken, any_withdrawn) = take(net, group, poller, events, left_ns)?;
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
fn take<G: Group>(
    net: Net,
    group: G,
    poller: Handle,
    events: Shared<Event>,
    timeout_ns: u64,
) -> Result<(Shared<Event>, bool), Errno> {
    // A poller that is not open shows when its slice is opened, to all threads alike.
    if group.is_leader()
        && let Ok(socket) = Socket::open(net, poller)
    {
        socket.set_timeout(Side::Receive, timeout_ns);
    }
    let want = (EVENT_BYTES, events.len() * EVENT_BYTES);
    let window = match Window::open(net, group, poller, Side::Receive, want, true)? {
        Opened::End => return Err(Errno::EBADF),
        Opened::Window(window) => window,
    };
    window.copy_out(group, events.as_ptr().cast());
    // Who looks at an event need not be who copied it.
    group.barrier();
    let taken = events.first(window.len() / EVENT_BYTES);
    let mut withdrawn = false;
    let mut at = group.rank();
    // Counted: the events.
    while let Some(event) = taken.get(at) {
        withdrawn |= event.events == 0;
        at += group.size();
    }
    // Before the slice closes: nobody waits for the thread that publishes.
    let withdrawn = group.any(withdrawn);
    window.close_after_barrier(net, group, poller, Side::Receive, window.len());
    Ok((taken, withdrawn))
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
