//! Which sockets a turn visits, and why. A socket that is in none of these lists costs a turn nothing
//! but its two words in the scans.
//!
//! | list | a socket is in it | what takes it out |
//! | --- | --- | --- |
//! | [`Busy`] | its descriptor was ready, or it moved bytes lately | turns in which nothing moves |
//! | [`Heads`] | its ring is full, its events are still in the ring, its accept ring has its share | the kernel's next head, found by the scan |
//! | sending | it has used its budget of a turn, and has more | its next turn |
//! | news | something happened on it that a poller watches | the poller was notified |
//! | writing | a poller to which something happened | its events are written, or wait for a head |
//! | ending | it was closed, and something happened on it | a visit that sees whether it is done |
//! | [`Timers`] | something is due at a time: linger, a pause, a second attempt | that time |
//! | off epoll | it was taken off epoll, and needs it again | the end of the turn |
//!
//! A socket that goes stays in the lists until a turn comes to it and does not find it: many go at
//! once, and need not be searched for one by one.

use std::collections::VecDeque;

use gpunet_device::Handle;

use super::entry::Entry;
use super::scan::{Heads, Tails};
use super::throttle::Throttle;
use super::timers::Timers;

/// Where a socket stands in the schedule of its shard.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Turns left in which it is tried without asking epoll.
    pub(super) busy_turns: u32,
    busy: bool,
    sending: bool,
    ending: bool,
    writing: bool,
    news: bool,
    /// What its pollers must be notified of.
    pub(super) what: News,
    pub(super) waits_for_head: bool,
    pub(super) timer_ns: Option<u64>,
}

/// What happened on a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Bytes came, or no more will.
    pub(super) readable: bool,
    /// Bytes went, or no more will.
    pub(super) writable: bool,
    /// What it is ready for must be reported, whether or not it is new.
    pub(super) ready: bool,
}

impl News {
    pub(super) const READABLE: Self = Self { readable: true, writable: false, ready: false };
    pub(super) const WRITABLE: Self = Self { readable: false, writable: true, ready: false };
    pub(super) const READY: Self = Self { readable: false, writable: false, ready: true };
}

/// Sockets that wait for one kind of visit, each once.
pub(super) struct Queue {
    handles: VecDeque<Handle>,
    mark: fn(&mut Marks) -> &mut bool,
}

impl Queue {
    fn new(mark: fn(&mut Marks) -> &mut bool) -> Self {
        Self { handles: VecDeque::new(), mark }
    }

    /// Has a socket visited.
    pub(super) fn add(&mut self, entry: &mut Entry) {
        if !std::mem::replace((self.mark)(&mut entry.marks), true) {
            self.handles.push_back(entry.handle);
        }
    }

    /// The next one, which may be gone. Its mark is for [`Self::visits`] to clear.
    pub(super) fn pop(&mut self) -> Option<Handle> {
        self.handles.pop_front()
    }

    /// The visit begins.
    pub(super) fn visits(&self, entry: &mut Entry) {
        *(self.mark)(&mut entry.marks) = false;
    }

    /// Whether a socket waits.
    pub(super) fn has(&self, entry: &mut Entry) -> bool {
        *(self.mark)(&mut entry.marks)
    }

    pub(super) fn len(&self) -> usize {
        self.handles.len()
    }
}

/// Sockets that are tried in every turn, without asking epoll.
#[derive(Default)]
pub(super) struct Busy {
    handles: Vec<Handle>,
    /// Where the next attempt is.
    next: usize,
}

impl Busy {
    /// Has a socket tried, for at least this many turns.
    pub(super) fn add(&mut self, entry: &mut Entry, turns: u32) {
        entry.marks.busy_turns = entry.marks.busy_turns.max(turns);
        if !std::mem::replace(&mut entry.marks.busy, true) {
            self.handles.push(entry.handle);
        }
    }

    /// The one to be tried next.
    pub(super) fn next(&mut self) -> Option<Handle> {
        if self.next >= self.handles.len() {
            self.next = 0;
        }
        self.handles.get(self.next).copied()
    }

    /// That one stays.
    pub(super) fn keep(&mut self) {
        self.next += 1;
    }

    /// That one goes; the entry, where it still is one.
    pub(super) fn remove(&mut self, entry: Option<&mut Entry>) {
        self.handles.swap_remove(self.next);
        if let Some(entry) = entry {
            entry.marks.busy = false;
        }
    }

    pub(super) fn handles(&self) -> &[Handle] {
        &self.handles
    }
}

/// See the module.
pub(crate) struct Schedule {
    pub(super) busy: Busy,
    pub(super) sending: Queue,
    pub(super) news: Queue,
    pub(super) writing: Queue,
    pub(super) ending: Queue,
    pub(super) off_epoll: Vec<Handle>,
    /// Sockets that no kernel will use: the host closes them in this turn.
    pub(super) orphans: Vec<Handle>,
    pub(super) timers: Timers,
    pub(super) tails: Tails,
    pub(super) heads: Heads,
    /// Sockets that wait for the net's limits.
    pub(super) throttle: Throttle,
    /// How often a socket was visited.
    pub(super) visits: u64,
}

impl Schedule {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            busy: Busy::default(),
            sending: Queue::new(|marks| &mut marks.sending),
            news: Queue::new(|marks| &mut marks.news),
            writing: Queue::new(|marks| &mut marks.writing),
            ending: Queue::new(|marks| &mut marks.ending),
            off_epoll: Vec::new(),
            orphans: Vec::new(),
            timers: Timers::default(),
            tails: Tails::new(slots),
            heads: Heads::new(slots),
            throttle: Throttle::default(),
            visits: 0,
        }
    }

    /// Has the pollers that watch a socket notified, if any does.
    pub(super) fn report(&mut self, entry: &mut Entry, news: News) {
        if entry.watchers.is_empty() {
            return;
        }
        let what = &mut entry.marks.what;
        what.readable |= news.readable;
        what.writable |= news.writable;
        what.ready |= news.ready;
        self.news.add(entry);
    }

    /// A socket goes: nothing waits for it any more. What the lists have of it is passed over.
    pub(super) fn forget(&mut self, entry: &mut Entry) {
        self.heads.came(entry);
        self.timers.disarm(entry);
        if entry.stream().is_some_and(|stream| stream.flow.queued.contains(&true)) {
            self.throttle.some_gone = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Schedule {
        /// The lengths of all lists.
        pub(crate) fn lengths(&self) -> [usize; 8] {
            [
                self.busy.handles().len(),
                self.sending.len(),
                self.news.len(),
                self.ending.len(),
                self.writing.len(),
                self.off_epoll.len(),
                self.timers.len(),
                self.heads.awaited,
            ]
        }
    }
}
