//! What we bring to a connection: two rings, a target list, the sizes of the queues.

use crate::work::{Piece, Target};

use super::wire::{ByteOrder, ENTRIES, ENTRY_BYTES, Handshake, PRIVATE_DATA_BYTES};

/// Slots of the send queue that only control messages use, so that data never keeps a grant from
/// going out.
pub(super) const CONTROL_SLOTS: u16 = 4;
/// Receives beyond the credits, for control messages, which take none. A peer that has more of
/// them on the way is made to try again by the device.
const SPARE_RECEIVES: u32 = 8;
/// Bounds of a queue's size.
const QUEUE: std::ops::RangeInclusive<u16> = 16..=0xFFFE;
/// Most bytes of one grant: entries have 32 bits, and peers may compute in signed ones.
const GRANT_BYTES: u64 = 1 << 30;

/// The sizes of the queues, and the order of our target list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Messages with data that the peer may have on the way: its credits.
    pub receive_queue: u16,
    /// Work requests that we may have on the way, four of them for control messages.
    pub send_queue: u16,
    /// In which order we want our target entries. Either works, whatever the machine.
    pub order: ByteOrder,
}

impl Default for Settings {
    /// As rsocket's.
    fn default() -> Self {
        Self { receive_queue: 384, send_queue: 384, order: ByteOrder::NATIVE }
    }
}

/// A ring of bytes in registered memory. Byte `p` of the stream lies at `p` modulo the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Where it begins, as the device knows it.
    pub address: u64,
    /// The key of its region: the local one of a ring that is sent from, the remote one of a ring
    /// that is received into.
    pub key: u32,
    /// Bytes, a power of two.
    pub capacity: u64,
    /// The position of the stream's first byte.
    pub base: u64,
}

impl Ring {
    /// The pieces in which bytes of the stream lie; at most the capacity.
    pub(super) fn pieces(&self, position: u64, length: u32) -> [Piece; 2] {
        let first = u64::from(length).min(self.until_end(position)) as u32;
        let piece = |address, length| Piece { address, key: self.key, length };
        let second = match length - first {
            0 => Piece::default(),
            rest => piece(self.address, rest),
        };
        [piece(self.place(position), first), second]
    }

    /// What to grant next when all before a position was granted: half the ring, but never across
    /// its end, as an entry is one piece of memory.
    pub(super) fn portion(&self, position: u64) -> Target {
        let length = (self.capacity / 2).min(self.until_end(position)).min(GRANT_BYTES);
        Target { address: self.place(position), key: self.key, length: length as u32 }
    }

    fn place(&self, position: u64) -> u64 {
        self.address + (position & (self.capacity - 1))
    }

    fn until_end(&self, position: u64) -> u64 {
        self.capacity - (position & (self.capacity - 1))
    }

    fn makes_sense(&self) -> bool {
        self.capacity.is_power_of_two()
            && self.capacity > 1
            && self.address.checked_add(self.capacity).is_some()
            // Positions only grow, and there is no connection that counts through half of 64 bits.
            && self.base.checked_add(self.capacity).is_some_and(|end| end < 1 << 63)
    }
}

/// Why a connection cannot be made so: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTerms {
    /// A ring that is none.
    #[error("the {0} ring needs a capacity of a power of two, and to fit into the address space")]
    Ring(&'static str),
    /// A queue too small or too large.
    #[error("the {0} queue needs a size from 16 to 65534")]
    Queue(&'static str),
}

/// What we bring to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub(super) settings: Settings,
    pub(super) send: Ring,
    pub(super) receive: Ring,
    list: Target,
}

impl Terms {
    /// Terms with rings that nobody has used, and a target list (its address, its remote key) that
    /// is zeroed.
    pub fn new(
        settings: Settings,
        send: Ring,
        receive: Ring,
        (address, key): (u64, u32),
    ) -> Result<Self, BadTerms> {
        for (ring, name) in [(&send, "send"), (&receive, "receive")] {
            if !ring.makes_sense() {
                return Err(BadTerms::Ring(name));
            }
        }
        for (size, name) in [(settings.send_queue, "send"), (settings.receive_queue, "receive")] {
            if !QUEUE.contains(&size) {
                return Err(BadTerms::Queue(name));
            }
        }
        let list = Target { address, key, length: ENTRIES as u32 * ENTRY_BYTES };
        Ok(Self { settings, send, receive, list })
    }

    /// What is sent to the peer when the connection is made.
    pub fn private_data(&self) -> [u8; PRIVATE_DATA_BYTES] {
        Handshake {
            order: self.settings.order,
            credits: self.settings.receive_queue,
            list: self.list,
            buffer: self.receive.portion(self.receive.base),
        }
        .encode()
    }

    /// The position of the first byte that we send.
    pub fn send_base(&self) -> u64 {
        self.send.base
    }

    /// The position of the first byte that we receive.
    pub fn receive_base(&self) -> u64 {
        self.receive.base
    }

    /// How many receives are posted before the connection is made: the size of the queue pair's
    /// receive queue.
    pub fn receives(&self) -> u32 {
        u32::from(self.settings.receive_queue) + SPARE_RECEIVES
    }
}
