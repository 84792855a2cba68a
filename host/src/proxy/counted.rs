//! A ring with its two counters: the proxy's own, and the GPU's as far as it was believed.

use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::descriptor::RingLocation;

/// A ring with the proxy's counter and the last good one of the GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) location: RingLocation,
    /// The proxy's: tail of a receive ring, head of a send ring.
    pub(crate) ours: u64,
    /// The GPU's: head of a receive ring, tail of a send ring.
    pub(crate) theirs: u64,
    /// The GPU's word before this socket had the slot; it still stands there until the first
    /// change.
    pub(super) stale: u64,
    /// The GPU's word as it was last loaded: whatever else stands there is new.
    pub(super) seen: u64,
}

impl Counted {
    /// A ring that begins where `word`, the GPU's counter of an earlier socket, does no harm.
    pub(crate) fn new(location: RingLocation, word: u64) -> Self {
        let base = location.base;
        Self { location, ours: base, theirs: base, stale: word, seen: word }
    }

    /// The first value for both counters of a ring, given what the GPU's word is now: beyond it,
    /// so that growth is never mistaken, and aligned, so that copies are.
    pub(crate) fn base_after(word: u64) -> u64 {
        // A word that was driven to the end of its range starts over.
        (Progress(word).count() & (u64::MAX >> 8)).next_multiple_of(128) + 128
    }

    /// Bytes between the two counters of a receive ring.
    pub(crate) fn unread(&self) -> u64 {
        self.ours - self.theirs
    }

    /// Bytes between the two counters of a send ring, which the proxy must send.
    pub(super) fn unsent(&self) -> u64 {
        self.theirs - self.ours
    }

    /// What the GPU's word says of this ring; none while it is an earlier socket's.
    pub(super) fn read(&self, word: u64) -> Option<Progress> {
        (word != self.stale).then_some(Progress(word))
    }

    /// Takes the GPU's head of a receive ring, as it was just loaded. An error: it makes no sense.
    pub(super) fn update_head(&mut self, word: u64) -> Result<(), ()> {
        self.seen = word;
        let Some(head) = self.read(word) else { return Ok(()) };
        self.update(head.count(), self.ours)
    }

    /// Takes the GPU's tail of a send ring. An error: it makes no sense.
    pub(super) fn update_tail(&mut self, tail: u64) -> Result<(), ()> {
        self.update(tail, self.ours + u64::from(self.location.capacity))
    }

    /// Takes a new value of the GPU's counter if it has not gone back, nor past `limit`.
    fn update(&mut self, count: u64, limit: u64) -> Result<(), ()> {
        if count < self.theirs || count > limit {
            return Err(());
        }
        self.theirs = count;
        Ok(())
    }
}
