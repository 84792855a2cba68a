//! An inbox: where the other end of a stream, or the proxy for it, writes counters and packets. In host memory,
//! or in the arena of a p2p stream. One thread calls this, for its group; lanes of a warp read units.

#![allow(unsafe_code, reason = "follows addresses in the record")]

use crate::abi::bits::{Progress, Unit};
use crate::abi::layout::{HEAD_AT, TAIL_AT, UNITS_AT, WATCHER_AT};
use crate::abi::word::Word;

use super::direction::Direction;

/// Where the other end of a stream, or the proxy for it, writes: counters first, then units of packets.
#[derive(Clone, Copy)]
pub(crate) struct Inbox(pub(super) *mut u64);

impl Inbox {
    /// Where it is.
    #[inline(always)]
    pub(crate) fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    /// Both counters, tail and head, in one access. Acquire: pairs with the releases of whoever stored
    /// them; bytes before the tail are in the ring, and those before the head may be overwritten.
    #[inline(always)]
    pub(crate) fn both(self) -> [u64; 2] {
        const { assert!(TAIL_AT == 0 && HEAD_AT == 1) };
        self.tail().load_two_acquire()
    }

    /// The same with no order implied: for packets, whose units say themselves what they belong to.
    #[inline(always)]
    pub(crate) fn both_relaxed(self) -> [u64; 2] {
        let both = self.tail();
        if cfg!(target_arch = "nvptx64") { both.load_two() } else { both.load_two_acquire() }
    }

    /// The inbox there.
    #[inline(always)]
    pub(crate) fn at(address: u64) -> Self {
        Self(core::ptr::with_exposed_provenance_mut(address as usize))
    }

    #[inline(always)]
    pub(super) fn word(self, index: usize) -> Word {
        // SAFETY: `fill` put the address of an inbox into the record, and callers' indices lie in it;
        // who reads a record without its lock compares generations first.
        unsafe { Word::at(self.0.wrapping_add(index)) }
    }

    /// How far the other end has sent.
    #[inline(always)]
    pub(crate) fn tail(self) -> Word {
        self.word(TAIL_AT)
    }

    /// How far the other end has received.
    #[inline(always)]
    pub(crate) fn head(self) -> Word {
        self.word(HEAD_AT)
    }

    /// How far the other end has received, for who then fills what is free. On a GPU no acquire: what is
    /// stored there stands behind a branch on it. A model knows of no such order.
    #[inline(always)]
    pub(crate) fn space(self) -> Progress {
        let head = self.head();
        Progress(if cfg!(target_arch = "nvptx64") { head.load() } else { head.load_acquire() })
    }

    /// What the other end says of a direction of this one.
    #[inline(always)]
    pub(crate) fn progress(self, direction: Direction) -> Word {
        self.word(if direction == Direction::Receive { TAIL_AT } else { HEAD_AT })
    }

    /// Which poller watches a p2p stream; 0: none has yet. A hostile peer that writes there harms what it is
    /// listened to itself.
    #[inline(always)]
    pub(super) fn watcher(self) -> Word {
        self.word(WATCHER_AT)
    }

    /// Two units in a row, from one with an even number on.
    #[inline(always)]
    pub(crate) fn two_units(self, index: usize) -> [Unit; 2] {
        let [first, second] = self.word(UNITS_AT + index).load_two();
        [Unit(first), Unit(second)]
    }

    /// A unit of the packet.
    #[inline(always)]
    pub(crate) fn unit(self, index: usize) -> Unit {
        Unit(self.word(UNITS_AT + index).load())
    }
}
