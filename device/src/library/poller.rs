//! Pollers: making one, what it watches, and taking events.

use core::ptr::null_mut;

use crate::abi::bits::{Position, Progress};
use crate::abi::call::{EVENT_BYTES, Event, MSG_DONTWAIT};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::Operation;
use crate::abi::net::Net;
use crate::buf::Shared;
use crate::channel::copy::copy_out;
use crate::channel::{self, Finish, Plan, Warps, beside};
use crate::group::AnyGroup;
use crate::simt::{now_ns, pause, progress};
use crate::socket::list::{self, List};
use crate::socket::{Direction, FIRST_SHARD, Payload, RecordLine, Socket, ask};
use crate::wait::{Deadline, Watch, end_turn, turn_by_turn};

use super::long::receive_long;
use super::more::receive_more;
use super::{led, planned};

/// A wait that looks at p2p streams looks at the poller's ring only in every fourth turn, since the ring lies across PCIe.
const RING_TURNS: u32 = 4;

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
    // The socket's shard keeps the watch: it sees what happens.
    let shard = socket.shard() as usize;
    let (operation, none) = (Operation::Watch, Payload::NONE);
    let ask = |events: u64| {
        ask(net, shard, operation, poller, socket.0, events, token, none, null_mut()).min(0)
    };
    let watched = ask(events);
    if watched < 0 {
        return watched;
    }
    // The proxy reports how a p2p stream ends. The poller's group looks at its bytes itself.
    let listed = list::watch(net, poller, socket, events, token);
    if listed < 0 {
        ask(0);
    }
    listed
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
        let [list, ring_first] = list_of(net, group, poller);
        if let (Some(list), 0) = (List::at(net, poller, list), ring_first) {
            let taken = look_around(net, group, poller, list, events, deadline)?;
            if taken > 0 {
                return Ok(taken);
            }
            left_ns = deadline.left_ns();
        }
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

/// Where a poller's list of p2p streams begins, or 0, and whether its ring comes first. The same in all threads.
#[inline(always)]
fn list_of(net: Net, group: AnyGroup, poller: Handle) -> [u64; 2] {
    let mut words = [0; 2];
    if let (true, Ok(socket)) = (group.is_leader(), Socket::open(net, poller)) {
        let address = List::address_of(&socket);
        let owes = List::at(net, poller, address).is_some_and(List::owes_ring_a_look);
        words = [address, u64::from(owes && has_events(socket, socket.inbox().tail().load()))];
    }
    group.barrier();
    group.share(words)
}

/// Whether a poller's counter says that there are events in its ring, or that it is over.
#[inline(always)]
fn has_events(poller: Socket, tail: u64) -> bool {
    let tail = Progress(tail);
    (tail.count() != poller.position(Direction::Receive).count()) | tail.is_over()
}

/// Looks at the p2p streams that a poller watches, and now and then at its ring: how many events were taken of the
/// streams, or 0: there is something in the ring. All threads of the group call it.
#[inline(never)]
fn look_around(
    net: Net,
    group: AnyGroup,
    poller: Handle,
    list: List,
    events: Shared<Event>,
    deadline: Deadline,
) -> Result<usize, Errno> {
    let (socket, leads) = (Socket::known(net, poller), group.is_leader());
    let since = now_ns();
    // On the emulated GPU the first turn may be the last.
    let mut asks_ring = leads & cfg!(not(target_arch = "nvptx64"));
    let (mut turns, mut end) = (0, 0);
    turn_by_turn(|| {
        // On its way across PCIe while the streams are looked at.
        let tail = if asks_ring { socket.inbox().tail().load() } else { 0 };
        let mut found = list.look(group.rank(), group.size(), events);
        found |= asks_ring && has_events(socket, tail);
        if leads & !found {
            let shard = poller.shard() as usize;
            turns = end_turn(net, shard, deadline, Watch::Stop, since, turns as u32);
            end = if socket.is_open() { turns.min(0) } else { Errno::EBADF.negative() };
            asks_ring = (turns as u32).is_multiple_of(RING_TURNS);
        }
        let ends = group.any(found | (end < 0));
        if !ends {
            pause();
        }
        ends.then_some(())
    });
    progress();
    let taken = if leads { list.take(events.len()) as i64 } else { 0 };
    let taken = group.broadcast(if taken > 0 { taken } else { end } as u64) as i64;
    Errno::check(taken).map(|taken| taken as usize)
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
