//! The sending half: from our send ring into the memory that the peer has granted.

use crate::work::{Target, Write};

use super::terms::{CONTROL_SLOTS, Ring, Terms};
use super::wire::{self, ByteOrder, ENTRIES, Handshake, Message};
use super::{BadPosition, TargetList, Violation};

/// Most bytes of one write. The first is not made smaller, as rsocket does to copy one chunk while
/// another travels: nothing is copied here, so a small one would only be a message more. Larger
/// ones would keep the receiver from bytes that have come, and our ring from space, for longer.
const CHUNK_BYTES: u64 = 65536;

/// The sending half.
#[derive(Debug)]
pub(super) struct Sending {
    ring: Ring,
    /// In which order the peer writes our target entries.
    order: ByteOrder,
    /// What the kernel has published.
    offered: u64,
    /// What was handed out as writes.
    posted: u64,
    /// What has been written: the kernel may overwrite it.
    sent: u64,
    /// A write has failed: what comes after it does not count, as bytes are missing before.
    broken: bool,
    /// Writes on the way, and how many there may be.
    writes: u16,
    slots: u16,
    /// What remains of the grants that were taken from the target list.
    entries: [Target; ENTRIES],
    /// The entry in use.
    current: usize,
    /// Messages sent, and where to stop, both as the wire counts them.
    messages: u16,
    limit: u16,
    /// Most messages that the peer ever takes at once.
    credits: u16,
}

impl Sending {
    pub(super) fn new(terms: &Terms, peer: &Handshake) -> Self {
        let base = terms.send.base;
        Self {
            ring: terms.send,
            order: terms.settings.order,
            offered: base,
            posted: base,
            sent: base,
            broken: false,
            writes: 0,
            slots: terms.settings.send_queue - CONTROL_SLOTS,
            entries: [peer.buffer, Target::default()],
            current: 0,
            messages: 0,
            limit: peer.credits,
            credits: peer.credits,
        }
    }

    pub(super) fn offer(&mut self, tail: u64) -> Result<(), BadPosition> {
        let allowed = self.offered..=self.sent + self.ring.capacity;
        if !allowed.contains(&tail) {
            return Err(BadPosition::Tail { tail, least: *allowed.start(), most: *allowed.end() });
        }
        self.offered = tail;
        Ok(())
    }

    /// The next write of data, if there are bytes, a slot, a credit and a grant.
    pub(super) fn next(&mut self) -> Option<Write> {
        let entry = &mut self.entries[self.current];
        let length = (self.offered - self.posted).min(CHUNK_BYTES).min(entry.length.into()) as u32;
        if length == 0 || self.writes == self.slots || self.messages == self.limit {
            return None;
        }
        let target = Target { length, ..*entry };
        // The peer sizes its entries as it likes: its address may well be nonsense, and the
        // peer's device says so.
        entry.address = entry.address.wrapping_add(length.into());
        entry.length -= length;
        if entry.length == 0 {
            self.current = (self.current + 1) % ENTRIES;
        }
        let pieces = self.ring.pieces(self.posted, length);
        self.posted += u64::from(length);
        self.writes += 1;
        self.messages = self.messages.wrapping_add(1);
        Some(Write { pieces, own: None, target, immediate: Some(Message::Data(length).encode()) })
    }

    /// A write of so many bytes is done, or failed.
    pub(super) fn written(&mut self, length: u32, done: bool) {
        self.writes -= 1;
        self.broken |= !done;
        if !self.broken {
            self.sent += u64::from(length);
        }
    }

    /// The peer has raised the limit, and may have written an entry.
    ///
    /// Entries are taken out of the list at once. The peer writes one again only when it has all
    /// the bytes that exhaust it, so none is lost, and what is found here is always new.
    pub(super) fn granted(
        &mut self,
        limit: u16,
        list: &mut impl TargetList,
    ) -> Result<(), Violation> {
        if limit.wrapping_sub(self.messages) > self.credits {
            return Err(Violation::Limit);
        }
        self.limit = limit;
        for (slot, entry) in self.entries.iter_mut().enumerate().filter(|(_, e)| e.length == 0) {
            let found = wire::decode_entry(list.read(slot), self.order);
            if found.length > 0 {
                list.clear(slot);
                *entry = found;
            }
        }
        Ok(())
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether everything that was offered was handed out.
    pub(super) fn is_posted(&self) -> bool {
        self.posted == self.offered
    }

    /// Whether everything that was offered has been written.
    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.offered
    }

    /// Whether a write has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    #[cfg(test)]
    pub(super) fn entry_is_exhausted(&self, slot: usize) -> bool {
        self.entries[slot].length == 0
    }
}
