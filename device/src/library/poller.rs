//! Pollers: making one, what it watches, and taking events.

use core::ptr::null_mut;

use crate::abi::bits::Position;
use crate::abi::call::{EVENT_BYTES, Event, MSG_DONTWAIT};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::Operation;
use crate::abi::net::Net;
use crate::buf::Shared;
use crate::channel::copy::copy_out;
use crate::channel::{self, Finish, Plan, Warps, beside};
use crate::group::AnyGroup;
use crate::socket::{Direction, FIRST_SHARD, Payload, RecordLine, Socket, ask, watch_both_ends};
use crate::wait::Deadline;

use super::long::receive_long;
use super::more::receive_more;
use super::{led, planned};

/// See [`super::poller`].
#[inline(always)]
pub(super) unsafe fn poller(net: Net, group: AnyGroup) -> i64 {
    led(group, || make(net))
}

#[inline(never)]
fn make(net: Net) -> i64 {
    ask(net, FIRST_SHARD, Operation::Poller, Handle::NONE, 0, 0, 0, Payload::NONE, null_mut())
}

/// See [`super::watch`].
#[inline(always)]
pub(super) unsafe fn watch(
    net: Net,
    group: AnyGroup,
    poller: u64,
    socket: u64,
    events: u64,
    token: u64,
) -> i64 {
    led(group, || ask_to_watch(net, Handle(poller), Handle(socket), events, token))
}

#[inline(never)]
fn ask_to_watch(net: Net, poller: Handle, socket: Handle, events: u64, token: u64) -> i64 {
    if let Err(errno) = Socket::open(net, socket) {
        return errno.negative();
    }
    if events != 0 {
        watch_both_ends(net, socket);
    }
    // The socket's shard keeps the watch: it sees what happens.
    let shard = socket.shard() as usize;
    let (operation, none) = (Operation::Watch, Payload::NONE);
    ask(net, shard, operation, poller, socket.0, events, token, none, null_mut()).min(0)
}

/// See [`super::wait`].
#[inline(always)]
pub(super) unsafe fn wait(
    net: Net,
    group: AnyGroup,
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
fn wait_for(
    net: Net,
    group: AnyGroup,
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
        let (taken, any_withdrawn) = receive_events(net, group, poller, events, left_ns)?;
        if !any_withdrawn {
            return Ok(taken.len());
        }
        let mut kept = 0;
        if group.is_leader() {
            kept = leave_out_withdrawn(taken);
        }
        // What the leader has moved is there for all.
        group.barrier();
        let kept = group.broadcast(kept as u64);
        if kept > 0 {
            return Ok(kept as usize);
        }
        left_ns = deadline.left_ns();
    }
}

/// See [`super::receive_beside`].
#[inline(always)]
pub(super) unsafe fn receive_beside(
    net: Net,
    group: AnyGroup,
    handle: u64,
    to: *mut u8,
    length: usize,
    poller: u64,
    token: u64,
) -> i64 {
    let handle = Handle(handle);
    let Some(warps) = Warps::of(group).filter(|_| length > 0) else {
        return Errno::EAGAIN.negative();
    };
    // What other threads did with the buffer comes before.
    warps.barrier();
    let (mut plan, mut line) = (Plan::END.words(), RecordLine::NONE);
    if warps.plans() {
        (plan, line) = beside::receive(net, handle, Handle(poller), token, to, length);
    }
    (plan, line) = warps.share(plan, line);
    if let Some(bytes) = Plan::bytes_done(plan) {
        return bytes.into();
    }
    if Plan::polls(plan).is_some() {
        return receive_long(net, group, handle, to, length, false, line);
    }
    match Plan::found(plan) {
        Some(found) => receive_more(net, group, handle, to, length, MSG_DONTWAIT, found),
        None => plan[1] as i64,
    }
}

/// Takes as many events as there are and fit, and returns whether some of them were withdrawn.
#[inline(always)]
fn receive_events(
    net: Net,
    group: AnyGroup,
    poller: Handle,
    events: Shared<Event>,
    timeout_ns: u64,
) -> Result<(Shared<Event>, bool), Errno> {
    // A poller that is not open shows when its slice is opened, to all threads alike.
    if group.is_leader()
        && let Ok(socket) = Socket::open(net, poller)
    {
        socket.set_timeout(Direction::Receive, timeout_ns);
    }
    let to = events.as_ptr().cast();
    let words =
        planned(group, || channel::receive(net, poller, EVENT_BYTES as u32, true, Position(0)));
    let (ring, span) = Plan::ring_of(words).map_err(|errno| match errno {
        0 => Errno::EBADF,
        errno => Errno(-errno as i32),
    })?;
    let span = span.at_most(events.len() * EVENT_BYTES);
    // SAFETY: there is room for so many events.
    unsafe { copy_out(group.rank() as u32, group.size() as u32, ring, span, to) };
    // Who looks at an event need not be who copied it.
    group.barrier();
    let taken = events.first(span.length() / EVENT_BYTES);
    let mut withdrawn = false;
    let mut at = group.rank();
    // Counted: the events.
    while let Some(event) = taken.get(at) {
        withdrawn |= event.events == 0;
        at += group.size();
    }
    // All threads have read what they copied: it was stored elsewhere before the barrier.
    let withdrawn = group.any(withdrawn);
    if group.is_leader() {
        channel::finish(net, poller, span.length(), Finish::Copied);
    }
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
