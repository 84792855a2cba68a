//! Who is to be looked at in a turn, and why. A socket that is in none of these costs a turn nothing
//! but its two words in the scans.
//!
//! | list | a socket is in it | what takes it out |
//! | --- | --- | --- |
//! | busy-polled | its descriptor was ready, or it moved bytes lately | turns in which nothing moves |
//! | waits for a head | its ring is full, its events are still in the ring, its accept ring has its share | the kernel's next head, found by the scan |
//! | sending | it has used its budget of a turn, and has more | its next turn |
//! | ending | it was closed, and something happened on it | a look whether it is done |
//! | writing | a poller to which something happened | its events are written, or wait for a head |
//! | timers | something is due at a time: linger, a pause, a second attempt | that time |
//! | off epoll | it was taken off epoll, and needs it again | the end of the turn |
//!
//! A socket that goes stays in the lists until a turn comes to it and does not find it: many go at
//! once, and need not be searched for one by one.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use gpunet_device::Handle;

use super::entry::Entry;
use crate::memory::{Memory, SeenWords};
use crate::transport::Direction;

/// So many tails are scanned in one go.
const SCANNED_WHOLE: usize = 1024;
/// Parts of a longer scan.
const PARTS: usize = 8;
/// Slots that are known to send; where there are more, all are scanned.
const MOST_SENDERS: usize = 256;
/// Turns after which these are found anew.
const SENDERS_TURNS: u32 = 4096;

/// Who waits for the net's limits.
#[derive(Default)]
pub(super) struct Throttled {
    /// Directions of sockets, in the order in which they came.
    pub(super) queue: VecDeque<(Handle, Direction)>,
    /// Some of these sockets are gone.
    pub(super) some_gone: bool,
    /// The first of them waits for time to bring it something.
    pub(super) waits_for_time: bool,
    pub(super) commit_at_ns: u64,
}

/// See the module.
pub(crate) struct Schedule {
    pub(super) busy: Vec<Handle>,
    /// Where the next turn begins with those.
    pub(super) busy_next: usize,
    pub(super) sending: VecDeque<Handle>,
    pub(super) ending: Vec<Handle>,
    pub(super) writing: Vec<Handle>,
    pub(super) off_epoll: Vec<Handle>,
    /// Times and handles, each handle once.
    timers: BTreeSet<(u64, u64)>,
    /// How many sockets wait for a head.
    heads_awaited: usize,
    /// The GPU's send tails, receive heads and request numbers, as last seen.
    pub(super) tails: SeenWords,
    pub(super) heads: SeenWords,
    pub(super) requests: SeenWords,
    /// Slots whose kernels have sent lately, and how many turns it is since they were noted.
    pub(super) senders: Vec<usize>,
    senders_age: u32,
    /// The thread has slept: the next scans are of all.
    tails_whole: bool,
    heads_whole: bool,
    /// Where the next parts of scans begin.
    tails_next: usize,
    heads_next: usize,
    /// What a scan found; kept for its memory.
    pub(super) changed: Vec<(usize, u64)>,
    /// Sockets that wait for the net's limits.
    pub(super) throttled: Throttled,
    /// How often a socket was looked at.
    pub(super) visits: u64,
}

/// The slots that a turn scans, from `next` on: a part of those in use, or all.
fn next_part(next: &mut usize, used: usize, whole: bool) -> Range<usize> {
    if whole || used <= SCANNED_WHOLE {
        return 0..used;
    }
    let begin = if *next < used { *next } else { 0 };
    let end = used.min(begin + used.div_ceil(PARTS));
    *next = end;
    begin..end
}

impl Schedule {
    pub(super) fn new(slots: usize, request_slots: usize) -> Self {
        Self {
            busy: Vec::new(),
            busy_next: 0,
            sending: VecDeque::new(),
            ending: Vec::new(),
            writing: Vec::new(),
            off_epoll: Vec::new(),
            timers: BTreeSet::new(),
            heads_awaited: 0,
            tails: SeenWords::new(slots),
            heads: SeenWords::new(slots),
            requests: SeenWords::new(request_slots),
            senders: Vec::new(),
            senders_age: 0,
            tails_whole: false,
            heads_whole: false,
            tails_next: 0,
            heads_next: 0,
            changed: Vec::new(),
            throttled: Throttled::default(),
            visits: 0,
        }
    }

    /// The slots whose tails are scanned in this turn, of those in use. All of them; but while sockets
    /// are busy, and there are many others, an eighth, with those that have sent lately in every turn
    /// (`senders`): what is active does not wait for what is not.
    pub(super) fn tails_to_scan(&mut self, used: usize, busy: bool) -> Range<usize> {
        self.senders_age += 1;
        if self.senders_age > SENDERS_TURNS {
            self.senders_age = 0;
            self.senders.clear();
        }
        let whole = !busy | std::mem::take(&mut self.tails_whole);
        let whole = whole || self.senders.len() >= MOST_SENDERS;
        next_part(&mut self.tails_next, used, whole)
    }

    /// The same of receive heads, for which busy sockets hardly ever wait.
    pub(super) fn heads_to_scan(&mut self, used: usize, busy: bool) -> Range<usize> {
        let whole = !busy | std::mem::take(&mut self.heads_whole);
        next_part(&mut self.heads_next, used, whole)
    }

    /// The thread is about to sleep: parts of scans would take as many sleeps.
    pub(super) fn scan_all_next(&mut self) {
        (self.tails_whole, self.heads_whole) = (true, true);
    }

    /// The kernel of a socket has sent.
    pub(super) fn has_sent(&mut self, slot: usize) {
        if self.senders.len() < MOST_SENDERS && !self.senders.contains(&slot) {
            self.senders.push(slot);
        }
    }

    /// Has a socket tried without asking epoll, for so many turns at least.
    pub(super) fn poll_busily(&mut self, entry: &mut Entry, turns: u32) {
        entry.marks.busy_turns = entry.marks.busy_turns.max(turns);
        if !std::mem::replace(&mut entry.marks.busy, true) {
            self.busy.push(entry.handle);
        }
    }

    /// Takes the socket at that place of the list out of it.
    pub(super) fn stop_polling(&mut self, at: usize, entry: &mut Entry) {
        self.busy.swap_remove(at);
        entry.marks.busy = false;
    }

    /// Has a socket wait for the kernel's next head: one that differs from the word that it has seen.
    pub(super) fn await_head(&mut self, entry: &mut Entry, memory: &Memory) {
        let receive = &entry.channel.receive;
        let seen = match receive.location.capacity {
            // Whatever stands there is another socket's.
            0 => memory.receive_head(entry.channel.index).load(),
            _ => receive.seen,
        };
        self.heads.set(entry.handle.slot() as usize, seen);
        if !std::mem::replace(&mut entry.marks.waits_for_head, true) {
            self.heads_awaited += 1;
        }
    }

    /// A socket no longer waits for a head; whether it did.
    pub(super) fn head_came(&mut self, entry: &mut Entry) -> bool {
        let waited = std::mem::take(&mut entry.marks.waits_for_head);
        self.heads_awaited -= usize::from(waited);
        waited
    }

    /// How many sockets wait for a head.
    pub(super) fn heads_awaited(&self) -> usize {
        self.heads_awaited
    }

    /// Has a socket go on sending in the next turn.
    pub(super) fn send_later(&mut self, entry: &mut Entry) {
        if !std::mem::replace(&mut entry.marks.sending, true) {
            self.sending.push_back(entry.handle);
        }
    }

    /// Has a closed socket looked at, whether it is done.
    pub(super) fn end_soon(&mut self, entry: &mut Entry) {
        if !std::mem::replace(&mut entry.marks.ending, true) {
            self.ending.push(entry.handle);
        }
    }

    /// That look begins.
    pub(super) fn ends_now(&mut self, entry: &mut Entry) {
        entry.marks.ending = false;
    }

    /// Has a poller write events.
    pub(super) fn write_soon(&mut self, entry: &mut Entry) {
        if !std::mem::replace(&mut entry.marks.writing, true) {
            self.writing.push(entry.handle);
        }
    }

    /// It begins to.
    pub(super) fn writes_now(&mut self, entry: &mut Entry) {
        entry.marks.writing = false;
    }

    /// Has a socket looked at when that time has come, or earlier if it is to be.
    pub(super) fn arm(&mut self, entry: &mut Entry, due_ns: u64) {
        if entry.marks.timer_ns.is_some_and(|earlier| earlier <= due_ns) {
            return;
        }
        self.disarm(entry);
        entry.marks.timer_ns = Some(due_ns);
        self.timers.insert((due_ns, entry.handle.0));
    }

    fn disarm(&mut self, entry: &mut Entry) {
        if let Some(due_ns) = entry.marks.timer_ns.take() {
            self.timers.remove(&(due_ns, entry.handle.0));
        }
    }

    /// A socket whose time has come. Its mark is for [`Self::rang`] to clear.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<Handle> {
        let (due_ns, _) = *self.timers.first()?;
        if due_ns > now_ns {
            return None;
        }
        self.timers.pop_first().map(|(_, handle)| Handle(handle))
    }

    /// Its time has come.
    pub(super) fn rang(&mut self, entry: &mut Entry) {
        entry.marks.timer_ns = None;
    }

    /// A socket goes: nothing waits for it any more. What the lists have of it is passed over.
    pub(super) fn forget(&mut self, entry: &mut Entry) {
        self.head_came(entry);
        self.disarm(entry);
        let queued = entry.stream().is_some_and(|stream| stream.flow.is_queued());
        self.throttled.some_gone |= queued;
    }

    /// The lengths of all lists.
    #[cfg(test)]
    pub(super) fn lengths(&self) -> [usize; 7] {
        [
            self.busy.len(),
            self.sending.len(),
            self.ending.len(),
            self.writing.len(),
            self.off_epoll.len(),
            self.timers.len(),
            self.heads_awaited,
        ]
    }
}
