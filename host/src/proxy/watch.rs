//! Watching: a socket tells a poller, the poller writes events into its ring.
//!
//! A watched socket has at most one event in the ring at a time. What happens while it is there
//! is owed, and written once the GPU has taken it: nothing is lost, and the ring, which has room
//! for one event of every socket of the net, cannot overflow. The event of a socket that is no
//! longer watched is withdrawn: it keeps its place in the ring, and tells of nothing. Where sockets
//! come and go and no kernel waits, these fill the ring, and what happens is owed until one does.

use std::collections::{BTreeMap, HashMap};
use std::mem::offset_of;

use gpunet_device::Handle;
use gpunet_device::calls::{POLLERR, POLLHUP};
use gpunet_device::planted::{Bug, planted};
use gpunet_device::poller::{EVENT_BYTES, Event};

use super::connection::{Connection, Phase};
use super::statistics::Counters;
use crate::memory::Memory;

/// How far before an event's end the word stands that says what happened.
const EVENTS_WORD: u64 = (EVENT_BYTES - offset_of!(Event, events)) as u64;

/// At a socket: who wants to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// The poller.
    pub(crate) poller: Handle,
    /// What of.
    pub(crate) events: u16,
    /// What the poller calls the socket.
    pub(crate) token: u64,
}

impl Watch {
    /// What of `happened` the poller wants to know.
    pub(crate) fn select(&self, happened: u16) -> u16 {
        happened & (self.events | POLLERR | POLLHUP)
    }
}

/// At a poller: what it watches, and whom it owes an event.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    sockets: HashMap<u64, Seen>,
    /// Handles of those that are owed an event, in the order in which it happened.
    owed: BTreeMap<u64, u64>,
    /// The place in that order of whatever happens next.
    next: u64,
    /// Whether the poller is in its shard's list of those that owe events.
    listed: bool,
}

/// A watched socket.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    token: u64,
    owed: u16,
    /// Its place among those that are owed an event.
    at: u64,
    /// The ring's counter behind the event that was written last.
    written: u64,
}

#[cfg(test)]
impl Watched {
    /// Sockets that are watched, and events that are owed.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.sockets.len(), self.owed.len())
    }
}

impl Connection {
    /// Something happened on a watched socket (0: it is gone). Nothing to a socket that is no
    /// poller: a kernel of another shard may call any handle one.
    pub(crate) fn notify(&mut self, memory: &Memory, socket: Handle, token: u64, events: u16) {
        if self.phase != Phase::Polling {
            return;
        }
        let watched = self.watched.get_or_insert_default();
        if events == 0 {
            if let Some(gone) = watched.sockets.remove(&socket.0) {
                if gone.owed != 0 {
                    // One that comes and goes while the ring is full is owed one event, not many.
                    watched.owed.remove(&gone.at);
                }
                self.withdraw(memory, gone);
            }
            return;
        }
        let seen = watched.sockets.entry(socket.0).or_default();
        if seen.owed == 0 {
            seen.at = watched.next;
            watched.owed.insert(seen.at, socket.0);
            watched.next += 1;
        }
        seen.token = token;
        seen.owed |= events;
    }

    /// Clears what the last event of a socket tells of, if it may still be in the ring: a wait that
    /// begins after the kernel has its reply, whose release is behind this store, leaves it out.
    fn withdraw(&self, memory: &Memory, gone: Seen) {
        if gone.written > self.receive.theirs && !planted(Bug::EventNotWithdrawn) {
            // No newer event has its place: `ours` is at most a ring ahead of `theirs`, however old.
            memory.ring_word(&self.receive.place, gone.written - EVENTS_WORD).store(0);
        }
    }

    /// Whether it is a poller that has not told of everything yet.
    pub(crate) fn owes_events(&self) -> bool {
        let owes = self.watched.as_ref().is_some_and(|watched| !watched.owed.is_empty());
        self.phase == Phase::Polling && owes
    }

    /// Whether its shard must put it into the list of those that owe events, where it then is.
    pub(crate) fn joins_list(&mut self) -> bool {
        let owes = self.owes_events();
        self.watched
            .as_mut()
            .is_some_and(|watched| owes && !std::mem::replace(&mut watched.listed, true))
    }

    /// Whether it stays in that list.
    pub(crate) fn stays_listed(&mut self) -> bool {
        let owes = self.owes_events();
        if let Some(watched) = &mut self.watched {
            watched.listed = owes;
        }
        owes
    }

    /// Writes the events that are owed and whose sockets have none in the ring.
    pub(crate) fn write_events(&mut self, memory: &Memory, counters: &Counters) -> bool {
        if !self.owes_events() {
            return false;
        }
        self.look_at_head(memory, counters);
        let Some(watched) = &mut self.watched else { return false };
        let Watched { sockets, owed, .. } = &mut **watched;
        let room = u64::from(self.receive.place.capacity);
        let before = self.receive.ours;
        owed.retain(|_, socket| {
            let Some(seen) = sockets.get_mut(socket) else { return false };
            let taken = seen.written <= self.receive.theirs;
            let full = self.receive.ours - self.receive.theirs + EVENT_BYTES as u64 > room;
            if !taken || full {
                return !planted(Bug::EventNotOwed) || std::mem::take(&mut seen.owed) == 0;
            }
            let at = self.receive.ours;
            memory.ring_word(&self.receive.place, at).store(seen.token);
            memory.ring_word(&self.receive.place, at + 8).store(u64::from(seen.owed));
            self.receive.ours += EVENT_BYTES as u64;
            seen.written = self.receive.ours;
            seen.owed = 0;
            false
        });
        if self.receive.ours == before {
            return false;
        }
        self.publish_receive(memory);
        true
    }
}
