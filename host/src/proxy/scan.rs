//! The scans of what kernels have written: which of them have sent, and which have read where a socket waits
//! for that.

use std::ops::Range;

use super::entry::Entry;
use crate::memory::{GpuWords, Memory, SeenWords};

/// At most this many words are scanned in one go.
const SCANNED_WHOLE: usize = 1024;
/// Parts of a longer scan.
const PARTS: usize = 8;
/// Slots that are known to send; where there are more, all are scanned.
const MOST_SENDERS: usize = 256;
/// Turns after which these are found anew.
const SENDERS_TURNS: u32 = 4096;

/// A word of each slot, as last seen.
pub(super) struct Scan {
    seen: SeenWords,
    /// The thread has slept: the next scan is of all, since parts would take as many sleeps.
    pub(super) whole: bool,
    /// Where the next part begins.
    next: usize,
}

impl Scan {
    fn new(slots: usize) -> Self {
        Self { seen: SeenWords::new(slots), whole: false, next: 0 }
    }

    /// The slots that are scanned now, of those in use: a part of them, or all.
    fn part(&mut self, used: usize, whole: bool) -> Range<usize> {
        if std::mem::take(&mut self.whole) || whole || used <= SCANNED_WHOLE {
            return 0..used;
        }
        let begin = if self.next < used { self.next } else { 0 };
        let end = used.min(begin + used.div_ceil(PARTS));
        self.next = end;
        begin..end
    }
}

/// The send tails of kernels.
pub(super) struct Tails {
    pub(super) scan: Scan,
    /// Slots whose kernels have sent lately, and how many turns it is since they were noted.
    senders: Vec<usize>,
    age: u32,
}

impl Tails {
    pub(super) fn new(slots: usize) -> Self {
        Self { scan: Scan::new(slots), senders: Vec::new(), age: 0 }
    }

    /// Finds those that have changed, of the slots in use. All are scanned; but while sockets are busy, and
    /// there are many others, an eighth, with those that have sent lately in every turn: what is active does
    /// not wait for what is not.
    pub(super) fn find(
        &mut self,
        gpu: &GpuWords<'_>,
        used: usize,
        busy: bool,
        changed: &mut Vec<(usize, u64)>,
    ) {
        self.age += 1;
        if self.age > SENDERS_TURNS {
            self.age = 0;
            self.senders.clear();
        }
        let part = self.scan.part(used, !busy || self.senders.len() >= MOST_SENDERS);
        self.scan.seen.compare(gpu, part, changed);
        for slot in self.senders.iter().copied().filter(|slot| *slot < used) {
            self.scan.seen.compare(gpu, slot..slot + 1, changed);
        }
        for (slot, _) in &*changed {
            if self.senders.len() < MOST_SENDERS && !self.senders.contains(slot) {
                self.senders.push(*slot);
            }
        }
    }

    /// Takes a tail for seen.
    pub(super) fn set(&mut self, slot: usize, word: u64) {
        self.scan.seen.set(slot, word);
    }
}

/// The receive heads of kernels, where sockets wait for them.
pub(super) struct Heads {
    pub(super) scan: Scan,
    /// How many sockets wait for a head.
    pub(super) awaited: usize,
}

impl Heads {
    pub(super) fn new(slots: usize) -> Self {
        Self { scan: Scan::new(slots), awaited: 0 }
    }

    /// Finds those that have changed. Busy sockets hardly ever wait for one.
    pub(super) fn find(
        &mut self,
        gpu: &GpuWords<'_>,
        used: usize,
        busy: bool,
        changed: &mut Vec<(usize, u64)>,
    ) {
        let part = self.scan.part(used, !busy);
        self.scan.seen.compare(gpu, part, changed);
    }

    /// Has a socket wait for the kernel's next head: one that differs from the word that it has seen.
    pub(super) fn wait_for(&mut self, entry: &mut Entry, memory: &Memory) {
        let receive = &entry.channel.receive;
        let seen = match receive.location.capacity {
            // Whatever is there is another socket's.
            0 => memory.receive_head(entry.channel.index).load(),
            _ => receive.seen,
        };
        self.scan.seen.set(entry.handle.slot() as usize, seen);
        if !std::mem::replace(&mut entry.marks.waits_for_head, true) {
            self.awaited += 1;
        }
    }

    /// A socket no longer waits for a head; whether it did.
    pub(super) fn came(&mut self, entry: &mut Entry) -> bool {
        let waited = std::mem::take(&mut entry.marks.waits_for_head);
        self.awaited -= usize::from(waited);
        waited
    }
}
