//! The memory of a server, one buffer for all its groups: control words, records of connections, what
//! a protocol keeps for each, and the heap.
//!
//! ```text
//!   0        control words: stop, counters, free records          (one page)
//!   4096     records, one for each connection
//!            states of the protocol, one for each connection, and one more that stays zero
//!            claims, a word for each connection: who may take its blocks
//!            pieces, two for each connection: an incomplete request, answers that wait
//!            the heap: what of these does not fit there, what the protocol keeps
//! ```

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use gpunet_device::buf::Plain;
#[cfg(not(target_arch = "nvptx64"))]
use gpunet_device::kernel::{BoundArg, LaunchArg};
use gpunet_device::sync::AtomicRef;
use gpunet_device::{Shared, SharedBuf, kernel_arg};

use crate::connection::Record;
use crate::heap::Heap;
use crate::shares::PIECE;

/// Where the program writes a word other than 0 to end the server in order.
pub const STOP_OFFSET: usize = 0;
/// Bytes of the control words.
const CONTROL: usize = 4096;
const FREE_WORD: usize = 1;
const FRESH_WORD: usize = 2;
const FIRST_COUNTER: usize = 8;

/// What a server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Counter {
    /// Connections accepted.
    Accepted = 0,
    /// Connections closed again at once: no record was left.
    Refused = 1,
    /// Connections closed, for whatever reason.
    Closed = 2,
    /// Of these, closed because nothing moved for the idle time-out.
    Idle = 3,
    /// Of these, closed because of an error: a reset, a request that is too large, no memory.
    Failed = 4,
    /// Calls of the protocol that consumed a request.
    Requests = 5,
    /// Bytes received.
    BytesIn = 6,
    /// Bytes sent.
    BytesOut = 7,
    /// Times that an answer had to wait for its client to read.
    Blocked = 8,
    /// Receives that a group did without an event: it waited for the client itself.
    WithoutEvent = 9,
    /// Closed because others needed their memory, or because none was left for them; also in `Closed`.
    Reclaimed = 10,
    /// Closed because a request did not come in time; also in `Closed`.
    Late = 11,
}

impl Counter {
    /// All of them, with their names in reports.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::Accepted, "accepted"),
        (Self::Refused, "refused"),
        (Self::Closed, "closed"),
        (Self::Idle, "closed_idle"),
        (Self::Failed, "closed_failed"),
        (Self::Requests, "requests"),
        (Self::BytesIn, "bytes_in"),
        (Self::BytesOut, "bytes_out"),
        (Self::Blocked, "blocked"),
        (Self::WithoutEvent, "without_event"),
        (Self::Reclaimed, "closed_for_memory"),
        (Self::Late, "closed_late"),
    ];

    /// Where the program reads it in the memory: 8 bytes.
    pub const fn offset(self) -> usize {
        (FIRST_COUNTER + self as usize) * 8
    }
}

kernel_arg! {
    /// The memory of a server, as its kernels get it.
    pub struct Memory {
        /// A buffer of [`Memory::bytes`], zeroed, aligned to 64 bytes.
        pub region: SharedBuf,
        /// Connections at a time.
        pub connections: u32,
        /// Bytes that the protocol keeps for each.
        pub state_bytes: u32,
    }
}

/// Where the claims begin, in a server whose connections have states of this size.
const fn claims_start(connections: u32, state_bytes: usize) -> usize {
    CONTROL + connections as usize * (size_of::<Record>() + state_bytes) + state_bytes
}

/// Bytes before their pieces.
const fn pieces_start(connections: u32, state_bytes: usize) -> usize {
    (claims_start(connections, state_bytes) + connections as usize * 8).next_multiple_of(64)
}

/// Bytes before the heap.
const fn heap_start(connections: u32, state_bytes: usize) -> usize {
    pieces_start(connections, state_bytes) + connections as usize * 2 * PIECE
}

/// Bytes of a state, rounded so that the next one is aligned.
const fn stride(state_bytes: usize) -> usize {
    state_bytes.next_multiple_of(16)
}

impl Memory {
    /// How large the buffer has to be for so many connections with a state of type `S`, and a heap of so
    /// many bytes.
    pub const fn bytes<S>(connections: u32, heap: usize) -> usize {
        heap_start(connections, stride(size_of::<S>())) + Heap::bytes(heap).next_multiple_of(64)
    }

    /// What a launch takes: a buffer of [`Memory::bytes`], for so many connections with a state of type
    /// `S`.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn of<S>(buffer: impl LaunchArg<SharedBuf>, connections: u32) -> BoundArg<Self> {
        Self::launch_arg(buffer, connections, stride(size_of::<S>()) as u32)
    }

    /// Bytes that the region must have at least.
    pub(crate) fn least(self) -> usize {
        heap_start(self.connections, self.state_bytes as usize)
    }

    #[inline(always)]
    fn word(self, index: usize) -> Option<AtomicRef<u64>> {
        self.region.first(CONTROL).cast::<u64>().atomic(index)
    }

    /// The heap.
    #[inline(always)]
    pub fn heap(self) -> Heap {
        let start = heap_start(self.connections, self.state_bytes as usize);
        Heap::new(self.region.slice(start, usize::MAX))
    }

    /// A word for each connection: see [`Shares`](crate::shares::Shares).
    #[inline(always)]
    pub(crate) fn claims(self) -> Shared<u64> {
        let start = claims_start(self.connections, self.state_bytes as usize);
        self.region.slice(start, self.connections as usize * 8).cast()
    }

    /// A connection's own memory: for an incomplete request, and for answers.
    #[inline(always)]
    pub(crate) fn pieces(self, connection: u32) -> [SharedBuf; 2] {
        let start = pieces_start(self.connections, self.state_bytes as usize);
        let piece = |at: usize| self.region.slice(start + at * PIECE, PIECE);
        [piece(2 * connection as usize), piece(2 * connection as usize + 1)]
    }

    /// Whether the program wants the server to end.
    #[inline(always)]
    pub fn stopping(self) -> bool {
        self.word(STOP_OFFSET / 8).is_none_or(|word| word.load(Relaxed) != 0)
    }

    /// Adds to a counter. For one thread.
    #[inline(always)]
    pub fn count(self, counter: Counter, more: u64) {
        if let Some(word) = self.word(FIRST_COUNTER + counter as usize) {
            word.fetch_add(more, Relaxed);
        }
    }

    /// What a counter says.
    pub fn counted(self, counter: Counter) -> u64 {
        self.word(FIRST_COUNTER + counter as usize).map_or(0, |word| word.load(Relaxed))
    }

    #[inline(always)]
    pub(crate) fn records(self) -> Shared<Record> {
        let bytes = self.connections as usize * size_of::<Record>();
        self.region.slice(CONTROL, bytes).cast()
    }

    /// What the protocol keeps for a connection. The number after the last one names a state that stays zero.
    #[inline(always)]
    pub(crate) fn state<S: Plain>(self, connection: u32) -> Shared<S> {
        self.state_memory(connection).cast::<S>().first(1)
    }

    #[inline(always)]
    fn state_memory(self, connection: u32) -> SharedBuf {
        let records = self.connections as usize * size_of::<Record>();
        let each = self.state_bytes as usize;
        self.region.slice(CONTROL + records + connection as usize * each, each)
    }

    /// Sets a connection's state to zero. For one thread.
    pub(crate) fn clear_state(self, connection: u32) {
        let words = self.state_memory(connection).cast::<u64>();
        for index in 0..words.len() {
            words.set(index, 0);
        }
    }

    /// A record that nobody has: its number. For one thread.
    #[inline(never)]
    pub(crate) fn take_record(self) -> Option<u32> {
        let (free, records) = (self.word(FREE_WORD)?, self.records());
        let mut old = free.load(Acquire);
        while let Some(number) = (old as u32).checked_sub(1) {
            // If another thread takes it meanwhile, the count in the upper half has changed.
            let next = records.get(number as usize)?.next_free;
            let new = (((old >> 32) + 1) << 32) | u64::from(next);
            match free.compare_exchange(old, new, Acquire, Acquire) {
                Ok(_) => return Some(number),
                Err(now) => old = now,
            }
        }
        let fresh = self.word(FRESH_WORD)?;
        let number = fresh.fetch_add(1, Relaxed);
        if number < u64::from(self.connections) {
            return Some(number as u32);
        }
        fresh.fetch_sub(1, Relaxed);
        None
    }

    /// Gives a record back. For the thread that stored its last word.
    #[inline(never)]
    pub(crate) fn give_record(self, number: u32, mut record: Record) {
        use core::sync::atomic::Ordering::Release;
        let Some(free) = self.word(FREE_WORD) else { return };
        let mut old = free.load(Relaxed);
        loop {
            record.next_free = old as u32;
            self.records().set(number as usize, record);
            let new = (((old >> 32) + 1) << 32) | u64::from(number + 1);
            // Pairs with the acquire in `take_record`: who takes it sees its generation.
            match free.compare_exchange(old, new, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }
}
