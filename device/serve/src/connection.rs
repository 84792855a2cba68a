//! What a server keeps of a connection between two of its events.

#![allow(unsafe_code, reason = "any bytes are a record")]

use gpunet_device::Handle;
use gpunet_device::buf::Plain;

use crate::heap::Block;

/// No record: the end of a list.
pub(crate) const NOBODY: u32 = u32::MAX;

/// The record of a connection, in GPU memory; all zero while nobody had it yet.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Record {
    /// Its socket.
    pub(crate) handle: Handle,
    /// When something moved last, on the GPU's clock.
    pub(crate) active_ns: u64,
    /// Where an incomplete request lies that does not fit into the connection's piece.
    pub(crate) input: Block,
    /// The same of answers that the client has not taken yet.
    pub(crate) output: Block,
    /// Bytes of the incomplete request.
    pub(crate) input_len: u32,
    /// Bytes of `output` that were sent.
    pub(crate) output_sent: u32,
    /// Bytes of `output` in all.
    pub(crate) output_len: u32,
    /// How often the record was used: an event of an older connection is recognized by it.
    pub(crate) generation: u32,
    /// Its neighbours in the list of the group that has it.
    pub(crate) before: u32,
    /// See `before`.
    pub(crate) after: u32,
    /// The next record that nobody has, plus 1.
    pub(crate) next_free: u32,
    /// What of it is over: see the constants.
    pub(crate) flags: u32,
    /// When the first byte of the incomplete request came, or when the connection was refused; 0: neither.
    pub(crate) since_ns: u64,
    /// Zero.
    pub(crate) reserved: [u32; 2],
}

const _: () = assert!(size_of::<Record>() == 80);

// SAFETY: numbers without padding.
unsafe impl Plain for Record {}

/// The connection closes once its answers are sent.
pub(crate) const CLOSING: u32 = 1;
/// The record is a connection's.
pub(crate) const OPEN: u32 = 2;
/// The poller watches for room to send.
pub(crate) const WATCHES_ROOM: u32 = 4;
/// The protocol wants to be called again once all is sent.
pub(crate) const WAITS: u32 = 8;
/// The client sends no more.
pub(crate) const ENDED: u32 = 16;
/// It was refused: it has the reason, and what it still sends is dropped until it ends.
pub(crate) const REFUSED: u32 = 32;

impl Record {
    /// Nobody's.
    pub(crate) const EMPTY: Self = Self {
        handle: Handle(0),
        active_ns: 0,
        input: Block::NONE,
        output: Block::NONE,
        input_len: 0,
        output_sent: 0,
        output_len: 0,
        generation: 0,
        before: NOBODY,
        after: NOBODY,
        next_free: 0,
        flags: 0,
        since_ns: 0,
        reserved: [0; 2],
    };

    pub(crate) const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Whether it has blocks of the heap, which others may take away.
    pub(crate) const fn has_blocks(&self) -> bool {
        !self.input.is_none() || !self.output.is_none()
    }

    /// Whether it must be looked at again and again: for its deadline, or because others may take its blocks away.
    pub(crate) const fn is_on_watch(&self) -> bool {
        self.since_ns != 0 || self.has_blocks()
    }
}
