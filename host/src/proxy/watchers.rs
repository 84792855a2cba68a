//! At a socket: which pollers watch it, and for what.

use gpunet_device::Handle;
use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN};

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

/// The watchers of a socket: one of a stream, any number of a listener.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    watches: Vec<Watch>,
    /// Whose turn it is.
    next: usize,
}

impl Watchers {
    /// Whether no poller watches.
    pub(crate) fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// One of them.
    pub(crate) fn get(&self, at: usize) -> Option<Watch> {
        self.watches.get(at).copied()
    }

    /// The watch of a poller, which ends.
    pub(crate) fn remove(&mut self, poller: Handle) -> Option<Watch> {
        let at = self.watches.iter().position(|watch| watch.poller == poller)?;
        // In order, and whose turn it was has it still.
        self.next -= usize::from(at < self.next);
        Some(self.watches.remove(at))
    }

    /// All watches, which end.
    pub(crate) fn take(&mut self) -> Vec<Watch> {
        self.next = 0;
        std::mem::take(&mut self.watches)
    }

    /// One more.
    pub(crate) fn add(&mut self, watch: Watch) {
        if self.watches.is_empty() {
            // All that most sockets ever have.
            self.watches.reserve_exact(1);
        }
        self.watches.push(watch);
    }

    /// Whose turn it is to be notified of a connection.
    pub(crate) fn next_for_connection(&mut self) -> Option<Watch> {
        let count = self.watches.len();
        let wants = |at: &usize| self.watches[*at].events & POLLIN != 0;
        let at = (self.next..self.next + count).map(|at| at % count).find(wants)?;
        self.next = at + 1;
        Some(self.watches[at])
    }
}

/// What happened on a watched socket, for its poller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notice {
    /// The socket.
    pub(crate) socket: Handle,
    /// The token that the kernel chose for it.
    pub(crate) token: u64,
    /// What happened; 0: the socket is no longer watched.
    pub(crate) events: u16,
    /// Connections of a listener that this poller is notified of, each by an event of its own.
    pub(crate) connections: u32,
}

impl Notice {
    /// A socket is no longer watched.
    pub(crate) fn unwatched(socket: Handle) -> Self {
        Self { socket, token: 0, events: 0, connections: 0 }
    }
}
