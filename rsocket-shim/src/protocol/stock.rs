//! A model of an unmodified rsocket peer, for tests: it keeps its grants in its target list, grants
//! halves of its buffer, credits messages that were read, and doubles its chunks from 2048 bytes
//! with each call that sends. It reads and writes the wire's bytes for itself, so that a mistake
//! about them is not made on both sides.

use std::collections::VecDeque;

use crate::work::{Completion, Piece, Target, Write};

use super::fake::{Endpoint, LIST, List};
use super::{ByteOrder, Failure, PRIVATE_DATA_BYTES, Terms};

const FIRST_CHUNK: u64 = 2048;
const LAST_CHUNK: u64 = 65536;
const CONTROL: u32 = 7 << 29;
const DISCONNECT: u32 = 0;
const SHUTDOWN: u32 = 2;

/// A stock peer. Its rings begin at 0.
pub(super) struct Stock {
    terms: Terms,
    swap: bool,
    peer_list: (u64, u32),
    /// The next chunk of the call that sends.
    chunk: u64,
    offered: u64,
    posted: u64,
    sent: u64,
    sends_available: u16,
    controls_available: u16,
    sequence: u16,
    limit: u16,
    entry: usize,
    /// Bytes of messages that were not read; bytes read of the oldest.
    messages: VecDeque<u64>,
    head: u64,
    arrived: u64,
    free: u64,
    free_offset: u64,
    peer_entry: u64,
    read: u16,
    credit_at: u16,
    posted_writes: VecDeque<Option<u64>>,
    receives_to_post: u32,
    readable: bool,
    writable: bool,
    /// The control message to end with, once all bytes are; and that it was the last.
    end: Option<u32>,
    disconnecting: bool,
    over: bool,
    broken: bool,
}

/// What a stock peer says when it connects.
pub(super) fn private_data(terms: &Terms) -> [u8; PRIVATE_DATA_BYTES] {
    let mut data = [0; PRIVATE_DATA_BYTES];
    data[0] = 1;
    data[1] = 2 | u8::from(terms.settings.order == ByteOrder::Big);
    data[2..4].copy_from_slice(&terms.settings.receive_queue.to_be_bytes());
    data[8..16].copy_from_slice(&LIST.0.to_be_bytes());
    data[16..20].copy_from_slice(&LIST.1.to_be_bytes());
    data[20..24].copy_from_slice(&2_u32.to_be_bytes());
    data[24..32].copy_from_slice(&terms.receive.address.to_be_bytes());
    data[32..36].copy_from_slice(&terms.receive.key.to_be_bytes());
    data[36..40].copy_from_slice(&((terms.receive.capacity / 2) as u32).to_be_bytes());
    data
}

impl Stock {
    pub(super) fn new(terms: &Terms, peer: &[u8; PRIVATE_DATA_BYTES], list: &mut List) -> Self {
        assert_eq!((terms.send.base, terms.receive.base), (0, 0));
        assert_eq!(peer[0], 1);
        let number = |at: usize, bytes: usize| {
            peer[at..at + bytes].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        assert_eq!(number(20, 4), 2);
        let half = terms.receive.capacity / 2;
        let mut stock = Self {
            terms: *terms,
            swap: peer[1] & 1 == 1,
            peer_list: (number(8, 8), number(16, 4) as u32),
            chunk: FIRST_CHUNK,
            offered: 0,
            posted: 0,
            sent: 0,
            sends_available: terms.settings.send_queue - 4,
            controls_available: 4,
            sequence: 0,
            limit: number(2, 2) as u16,
            entry: 0,
            messages: VecDeque::new(),
            head: 0,
            arrived: 0,
            free: half,
            free_offset: half,
            peer_entry: 1,
            read: 0,
            credit_at: terms.settings.receive_queue / 2,
            posted_writes: VecDeque::new(),
            receives_to_post: 0,
            readable: true,
            writable: true,
            end: None,
            disconnecting: false,
            over: false,
            broken: false,
        };
        stock.store(list, 0, (number(24, 8), number(32, 4) as u32, number(36, 4) as u32));
        stock
    }

    fn is_big(&self) -> bool {
        self.terms.settings.order == ByteOrder::Big
    }

    fn load(&self, list: &List, entry: usize) -> (u64, u32, u32) {
        let mut bytes = list[entry];
        if self.is_big() {
            swap(&mut bytes);
        }
        let number = |range: std::ops::Range<usize>| {
            bytes[range].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        (number(0..8), number(8..12) as u32, number(12..16) as u32)
    }

    fn store(&mut self, list: &mut List, entry: usize, value: (u64, u32, u32)) {
        list[entry] = little(value);
        if self.is_big() {
            swap(&mut list[entry]);
        }
    }

    fn control(&mut self, own: Option<[u8; 16]>, target: Target, immediate: u32) -> Write {
        self.controls_available -= 1;
        self.posted_writes.push_back(None);
        Write { pieces: Default::default(), own, target, immediate: Some(immediate) }
    }

    fn grant(&mut self) -> Option<Write> {
        let (queue, half) = (self.terms.settings.receive_queue, self.terms.receive.capacity / 2);
        let due = self.free >= half || self.read.wrapping_sub(self.credit_at) as i16 >= 0;
        if !due || self.controls_available == 0 {
            return None;
        }
        self.credit_at = self.read.wrapping_add(queue / 2);
        let immediate = 4 << 29 | (u32::from(self.read) + u32::from(queue));
        if self.free < half {
            // Its address and key are not even set.
            let target = Target { address: u64::MAX, key: 0xdead, length: 0 };
            return Some(self.control(None, target, immediate));
        }
        let ring = self.terms.receive;
        let mut entry = little((ring.address + self.free_offset, ring.key, half as u32));
        if self.swap {
            swap(&mut entry);
        }
        let address = self.peer_list.0 + 16 * self.peer_entry;
        self.free -= half;
        self.free_offset = (self.free_offset + half) % ring.capacity;
        self.peer_entry = (self.peer_entry + 1) % 2;
        let target = Target { address, key: self.peer_list.1, length: 16 };
        Some(self.control(Some(entry), target, immediate))
    }

    fn data(&mut self, list: &mut List) -> Option<Write> {
        let left = self.offered - self.posted;
        let (address, key, room) = self.load(list, self.entry);
        if left == 0 || self.sends_available == 0 || self.sequence == self.limit || room == 0 {
            return None;
        }
        let mut length = left;
        if self.chunk < left {
            length = self.chunk;
            self.chunk = (self.chunk * 2).min(LAST_CHUNK);
        }
        length = length.min(room.into());
        self.sequence = self.sequence.wrapping_add(1);
        self.sends_available -= 1;
        self.store(list, self.entry, (address + length, key, room - length as u32));
        if u64::from(room) == length {
            self.entry = (self.entry + 1) % 2;
        }
        let ring = self.terms.send;
        let offset = self.posted % ring.capacity;
        let first = length.min(ring.capacity - offset);
        let piece = |offset, length| Piece {
            address: ring.address + offset,
            key: ring.key,
            length: length as u32,
        };
        self.posted += length;
        self.posted_writes.push_back(Some(length));
        Some(Write {
            pieces: [piece(offset, first), piece(0, length - first)],
            own: None,
            target: Target { address, key, length: length as u32 },
            immediate: Some(length as u32),
        })
    }
}

/// An entry in little-endian order.
fn little((address, key, length): (u64, u32, u32)) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..12].copy_from_slice(&key.to_le_bytes());
    bytes[12..].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// An entry in the other order.
fn swap(bytes: &mut [u8; 16]) {
    bytes[..8].reverse();
    bytes[8..12].reverse();
    bytes[12..].reverse();
}

impl Endpoint for Stock {
    fn next_write(&mut self, list: &mut List) -> Option<Write> {
        if self.over || self.disconnecting {
            return None;
        }
        if let Some(write) = self.grant().or_else(|| self.data(list)) {
            return Some(write);
        }
        if self.posted == self.offered && self.controls_available > 0 {
            let asked = self.end.take()?;
            self.writable = false;
            let end = if self.readable { asked } else { DISCONNECT };
            self.disconnecting = end == DISCONNECT;
            return Some(self.control(None, Target::default(), CONTROL | end));
        }
        None
    }

    fn completed(&mut self, completion: Completion, _list: &mut List) {
        match completion {
            Completion::Received(Err(_)) => {}
            Completion::Received(Ok(_)) if self.over => {}
            Completion::Received(Ok(immediate)) => {
                self.receives_to_post += 1;
                let value = immediate & 0x1fff_ffff;
                match (immediate >> 29, value) {
                    (4, limit) => self.limit = limit as u16,
                    (7, DISCONNECT) => (self.readable, self.over) = (false, true),
                    (7, SHUTDOWN) => (self.readable, self.over) = (false, !self.writable),
                    (0, bytes) => {
                        self.messages.push_back(bytes.into());
                        self.arrived += u64::from(bytes);
                        let most = self.terms.settings.receive_queue.into();
                        assert!(self.messages.len() <= most, "stock forgets a message");
                    }
                    _ => {}
                }
            }
            Completion::Written(result) => {
                match self.posted_writes.pop_front().expect("it was posted") {
                    Some(length) => {
                        self.sends_available += 1;
                        self.sent += if result.is_ok() { length } else { 0 };
                    }
                    None => self.controls_available += 1,
                }
                self.broken |= result.is_err() && !self.over && !self.disconnecting;
                self.over |= self.disconnecting && self.posted_writes.is_empty();
            }
        }
    }

    fn receives_to_post(&mut self) -> u32 {
        std::mem::take(&mut self.receives_to_post)
    }

    /// What is offered while something is on the way belongs to the same call.
    fn offer(&mut self, tail: u64) {
        if self.sent == self.offered {
            self.chunk = FIRST_CHUNK;
        }
        self.offered = tail;
    }

    fn consumed(&mut self, head: u64) {
        let mut count = head - self.head;
        self.free += count;
        self.head = head;
        while count > 0 {
            let message = &mut self.messages[0];
            let part = count.min(*message);
            *message -= part;
            count -= part;
            if *message == 0 {
                self.messages.pop_front();
                self.read = self.read.wrapping_add(1);
            }
        }
    }

    fn shutdown_send(&mut self) {
        self.end = Some(SHUTDOWN);
    }

    fn disconnect(&mut self) {
        self.end = Some(DISCONNECT);
    }

    /// No program asks a stock peer for it here.
    fn keepalive(&mut self) {}

    fn sent(&self) -> u64 {
        self.sent
    }

    fn arrived(&self) -> u64 {
        self.arrived
    }

    fn wants_head(&self) -> bool {
        true
    }

    fn is_all_sent(&self) -> bool {
        self.sent == self.offered && self.posted_writes.is_empty()
    }

    fn is_reset(&self) -> bool {
        self.over && self.sent < self.offered
    }

    fn is_peer_done(&self) -> bool {
        !self.readable
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn failure(&self) -> Option<Failure> {
        self.broken.then_some(Failure::Unasked)
    }

    fn entry_is_exhausted(&self, slot: usize, list: &List) -> bool {
        self.load(list, slot).2 == 0
    }
}
