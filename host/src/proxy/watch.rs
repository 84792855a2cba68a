//! Watching: a socket tells a poller, the poller writes events into its ring.
//!
//! A watched socket has at most one event in the ring at a time. What happens while it is there
//! is owed, and written once the GPU has taken it: nothing is lost, and the ring, which has room
//! for one event of every socket of the net, cannot overflow.

use gpunet_device::Handle;
use gpunet_device::calls::{POLLERR, POLLHUP};
use gpunet_device::poller::EVENT_BYTES;

use super::connection::{Connection, Phase};
use super::statistics::Counters;
use crate::memory::Memory;

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

/// At a poller: what it watches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    socket: Handle,
    token: u64,
    owed: u16,
    /// The ring's counter behind the event that was written last.
    written: u64,
}

impl Connection {
    /// Something happened on a watched socket (0: it is gone).
    pub(crate) fn notify(&mut self, socket: Handle, token: u64, events: u16) {
        if events == 0 {
            self.watched.retain(|watched| watched.socket != socket);
        } else if let Some(found) = self.watched.iter_mut().find(|w| w.socket == socket) {
            found.token = token;
            found.owed |= events;
        } else {
            self.watched.push(Watched { socket, token, owed: events, written: 0 });
        }
    }

    /// Writes the events that are owed and whose sockets have none in the ring.
    pub(crate) fn write_events(&mut self, memory: &Memory, counters: &Counters) -> bool {
        if self.phase != Phase::Polling || self.watched.iter().all(|watched| watched.owed == 0) {
            return false;
        }
        self.look_at_head(memory, counters);
        let room = u64::from(self.receive.place.capacity);
        let before = self.receive.ours;
        for watched in &mut self.watched {
            let taken = watched.written <= self.receive.theirs;
            let full = self.receive.ours - self.receive.theirs + EVENT_BYTES as u64 > room;
            if watched.owed == 0 || !taken || full {
                continue;
            }
            let at = self.receive.ours;
            memory.ring_word(&self.receive.place, at).store(watched.token);
            memory.ring_word(&self.receive.place, at + 8).store(u64::from(watched.owed));
            self.receive.ours += EVENT_BYTES as u64;
            watched.written = self.receive.ours;
            watched.owed = 0;
        }
        if self.receive.ours == before {
            return false;
        }
        self.publish_receive(memory);
        true
    }
}
