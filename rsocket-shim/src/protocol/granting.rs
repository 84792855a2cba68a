//! The receiving half: which memory of our receive ring the peer may write, and how many messages
//! it may send.
//!
//! Bytes are granted as the kernel consumes them. Messages are credited as they arrive: a receive
//! that is done can be posted again at once, and nothing is kept of a message but its bytes. So a
//! kernel that waits for many bytes before it consumes any gets them, however small the messages
//! are in which they come.

use crate::work::{Target, Write};

use super::terms::{Ring, Terms};
use super::wire::{self, ByteOrder, ENTRIES, ENTRY_BYTES, Handshake, Message};
use super::{BadPosition, Violation};

/// The receiving half.
#[derive(Debug)]
pub(super) struct Granting {
    ring: Ring,
    /// The peer's target list, and the order it wants there.
    list: Target,
    order: ByteOrder,
    /// The entry that is written next.
    slot: usize,
    /// What the kernel has consumed.
    head: u64,
    /// Since bytes last arrived, the last look at the head found nothing consumed.
    still: bool,
    /// What has arrived.
    arrived: u64,
    /// Where the grant ends that is being filled; and the newest, which may be the same. There are
    /// never more, as the list has two entries.
    filling: u64,
    granted: u64,
    /// Messages that have arrived, and how many the peer was granted.
    messages: u64,
    announced: u64,
    credits: u16,
}

impl Granting {
    /// The first entry was filled by the private data.
    pub(super) fn new(terms: &Terms, peer: &Handshake) -> Self {
        let base = terms.receive.base;
        let granted = base + u64::from(terms.receive.portion(base).length);
        Self {
            ring: terms.receive,
            list: peer.list,
            order: peer.order,
            slot: 1,
            head: base,
            still: false,
            arrived: base,
            filling: granted,
            granted,
            messages: 0,
            announced: terms.settings.receive_queue.into(),
            credits: terms.settings.receive_queue,
        }
    }

    /// The next grant or credit, if one is due.
    pub(super) fn next(&mut self) -> Option<Write> {
        let grant = self.due();
        let limit = self.messages + u64::from(self.credits);
        if grant.is_none() && limit - self.announced < u64::from(self.credits / 2) {
            return None;
        }
        self.announced = limit;
        let target = grant.map_or_else(Target::default, |grant| self.hand_out(grant));
        Some(Write {
            pieces: Default::default(),
            own: grant.map(|grant| wire::encode_entry(grant, self.order)),
            target,
            immediate: Some(Message::Limit(limit as u16).encode()),
        })
    }

    /// What to grant now: a whole portion, if so much is free. The peer that has nothing left gets
    /// what there is, lest it and a kernel that waits for a full ring wait for one another; but not
    /// while the kernel is consuming, or slow kernels would get their bytes in crumbs.
    fn due(&self) -> Option<Target> {
        let portion = self.ring.portion(self.granted);
        let free = self.ring.capacity - (self.granted - self.head);
        if !self.has_free_entry() {
            None
        } else if free >= portion.length.into() {
            Some(portion)
        } else if free > 0 && self.still && self.arrived == self.granted {
            Some(Target { length: free as u32, ..portion })
        } else {
            None
        }
    }

    /// Notes that memory was granted; and where in the peer's list that is written.
    fn hand_out(&mut self, grant: Target) -> Target {
        let was_exhausted = self.arrived == self.granted;
        self.granted += u64::from(grant.length);
        if was_exhausted {
            self.filling = self.granted;
        }
        let offset = self.slot as u64 * u64::from(ENTRY_BYTES);
        self.slot = (self.slot + 1) % ENTRIES;
        let address = self.list.address.wrapping_add(offset);
        Target { address, key: self.list.key, length: ENTRY_BYTES }
    }

    /// Whether the peer has exhausted all grants but one.
    fn has_free_entry(&self) -> bool {
        self.filling == self.granted
    }

    /// A message with data has arrived.
    pub(super) fn arrive(&mut self, length: u32) -> Result<(), Violation> {
        let left = self.filling - self.arrived;
        if length == 0 {
            return Err(Violation::Empty);
        }
        if u64::from(length) > left {
            return Err(Violation::Beyond { length, left });
        }
        if self.messages == self.announced {
            return Err(Violation::Uncredited);
        }
        self.messages += 1;
        self.still = false;
        self.arrived += u64::from(length);
        if self.arrived == self.filling {
            self.filling = self.granted;
        }
        Ok(())
    }

    pub(super) fn consumed(&mut self, head: u64) -> Result<(), BadPosition> {
        let allowed = self.head..=self.arrived;
        if !allowed.contains(&head) {
            return Err(BadPosition::Head { head, least: *allowed.start(), most: *allowed.end() });
        }
        self.still = head == self.head;
        self.head = head;
        Ok(())
    }

    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether there is an entry to fill and not the memory for it.
    pub(super) fn wants_head(&self) -> bool {
        self.has_free_entry() && self.due().is_none()
    }
}
