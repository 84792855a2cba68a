//! Pollers: a socket notifies its watchers of what happens on it, and a poller writes events into its ring.
//!
//! A watched socket has at most one event in the ring at a time. What happens while it is there
//! is owed, and written once the GPU has taken it: nothing is lost, and the ring, which has room
//! for one event of every socket of the net, cannot overflow. The event of a socket that is no
//! longer watched is withdrawn: it keeps its place in the ring, and reports nothing. Where sockets
//! come and go and no kernel waits, these fill the ring, and what happens is owed until one does.
//!
//! A listener may have several watchers. Each connection is one event to one of them, in turn; what a
//! poller was not able to deliver before it went, or before the listener was removed from it, goes to
//! the others.
//!
//! Writing costs what is written: owed events are kept by whether they can be written, and those that
//! cannot by the position in the ring that the GPU has to pass first.

use std::collections::{BTreeMap, HashMap};
use std::mem::offset_of;

use gpunet_device::Handle;
use gpunet_device::calls::POLLIN;
use gpunet_device::planted::{Bug, planted};
use gpunet_device::poller::{EVENT_BYTES, Event};

use super::counted::Counted;
use super::watchers::Notice;
use crate::memory::Memory;
use crate::transport::KernelMemory;

/// How far before an event's end the word stands that says what happened.
const EVENTS_WORD: u64 = (EVENT_BYTES - offset_of!(Event, events)) as u64;

/// What a poller watches, and which events it owes.
#[derive(Default)]
pub(crate) struct Poller {
    /// Where its kernel keeps which p2p streams it looks at itself.
    pub(super) list: Option<Box<dyn KernelMemory>>,
    sockets: HashMap<u64, Watched>,
    /// Sockets whose owed events can be written, in the order in which these happened.
    writable: BTreeMap<u64, u64>,
    /// Sockets that are owed an event and have one in the ring, by the counter behind that.
    held: BTreeMap<u64, u64>,
    /// The place in the order of whatever happens next.
    next: u64,
}

/// A watched socket.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    token: u64,
    owed: u16,
    /// Connections that are still to be reported.
    connections: u32,
    /// Its place in the order of what happened.
    at: u64,
    /// The ring's counter behind the event that was written last, and whether that reported a
    /// connection.
    written: u64,
    of_connection: bool,
}

impl Watched {
    /// Connections of which the GPU has not taken the events.
    fn undelivered(&self, events: &Counted) -> u32 {
        self.connections + u32::from(self.of_connection && self.written > events.theirs)
    }
}

impl Poller {
    /// Whether it has not reported everything yet.
    pub(super) fn owes_events(&self) -> bool {
        !self.writable.is_empty() || !self.held.is_empty()
    }

    /// Something happened. Connections that were not delivered of a socket that is no longer watched.
    pub(super) fn notify(&mut self, events: &Counted, memory: &Memory, notice: Notice) -> u32 {
        if notice.events == 0 {
            let Some(gone) = self.sockets.remove(&notice.socket.0) else { return 0 };
            if gone.owed != 0 {
                // One that comes and goes while the ring is full is owed one event, not many.
                self.writable.remove(&gone.at);
                self.held.remove(&gone.written);
            }
            withdraw(events, memory, gone);
            return gone.undelivered(events);
        }
        let watched = self.sockets.entry(notice.socket.0).or_default();
        watched.token = notice.token;
        watched.connections = watched.connections.saturating_add(notice.connections);
        if watched.owed == 0 {
            if watched.written > events.theirs && planted(Bug::EventNotOwed) {
                return 0;
            }
            watched.at = self.next;
            self.next += 1;
            match watched.written > events.theirs {
                true => self.held.insert(watched.written, notice.socket.0),
                false => self.writable.insert(watched.at, notice.socket.0),
            };
        }
        watched.owed |= notice.events;
        0
    }

    /// Writes the events that are owed and whose sockets have none in the ring. How many.
    pub(super) fn write(&mut self, events: &mut Counted, memory: &Memory) -> u64 {
        // The GPU has taken events: what waited for that can be written.
        while let Some(held) = self.held.first_entry()
            && *held.key() <= events.theirs
        {
            let socket = held.remove();
            if let Some(watched) = self.sockets.get(&socket) {
                self.writable.insert(watched.at, socket);
            }
        }
        let room = u64::from(events.location.capacity);
        let mut count = 0;
        while events.unread() + EVENT_BYTES as u64 <= room
            && let Some((_, socket)) = self.writable.pop_first()
        {
            let Some(watched) = self.sockets.get_mut(&socket) else { continue };
            let at = events.ours;
            memory.ring_word(&events.location, at).store(watched.token);
            memory.ring_word(&events.location, at + 8).store(u64::from(watched.owed));
            events.ours += EVENT_BYTES as u64;
            watched.written = events.ours;
            watched.of_connection = watched.connections > 0;
            watched.connections = watched.connections.saturating_sub(1);
            watched.owed = 0;
            if watched.connections > 0 {
                watched.owed = POLLIN;
                watched.at = self.next;
                self.next += 1;
                self.held.insert(watched.written, socket);
            }
            count += 1;
        }
        count
    }

    /// The listeners whose connections it was to report, and how many it has not.
    pub(super) fn undelivered(&self, events: &Counted) -> Vec<(Handle, u32)> {
        let left = |(socket, watched): (&u64, &Watched)| {
            let left = watched.undelivered(events);
            (left > 0).then_some((Handle(*socket), left))
        };
        self.sockets.iter().filter_map(left).collect()
    }
}

/// Clears what the last event of a socket reports, if it may still be in the ring: a wait that
/// begins after the kernel has its reply, whose release is behind this store, leaves it out.
fn withdraw(events: &Counted, memory: &Memory, gone: Watched) {
    if gone.written > events.theirs && !planted(Bug::EventNotWithdrawn) {
        // No newer event has its place: `ours` is at most a ring ahead of `theirs`, however old.
        memory.ring_word(&events.location, gone.written - EVENTS_WORD).store(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Poller {
        /// Sockets that are watched, and events that are owed.
        pub(crate) fn sizes(&self) -> (usize, usize) {
            (self.sockets.len(), self.writable.len() + self.held.len())
        }
    }
}
