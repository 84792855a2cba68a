//! What the planning thread or warp found, in two words: functions return it in registers, and a group
//! passes it on to all its threads.

use crate::abi::bits::Position;
use crate::abi::ring::{RingAddress, Span};

/// What is to be done.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    ring: u64,
    span: u64,
}

impl Plan {
    // Where a ring would stand. No ring lies there.
    const DONE: u64 = 1;
    const PACKET: u64 = 2;
    const LOOK: u64 = 3;
    const SLOW: u64 = 4;

    /// The bytes have been moved.
    #[inline(always)]
    pub(crate) fn done(bytes: u32) -> Self {
        Self { ring: Self::DONE, span: u64::from(bytes) << 32 }
    }

    /// The group has the receive direction, and all its warps are to poll.
    pub(super) const POLL: Self = Self { ring: Self::LOOK, span: 0 };

    /// The same, once, in a call that does not wait.
    pub(super) const POLL_ONCE: Self = Self { ring: Self::LOOK, span: 1 };

    /// Whether they are; and whether the call waits.
    #[inline(always)]
    pub(crate) const fn polls([ring, span]: [u64; 2]) -> Option<bool> {
        if ring == Self::LOOK { Some(span == 0) } else { None }
    }

    /// All threads are to move a packet, which begins at that position.
    #[inline(always)]
    pub(crate) fn packet(position: u64, length: u32) -> Self {
        Self { ring: Self::PACKET, span: Span::new(position, length as usize).0 }
    }

    /// So many bytes of the ring from a position on, or so much space.
    #[inline(always)]
    pub(crate) fn ring(ring: RingAddress, position: u64, length: usize) -> Self {
        Self { ring: ring.0, span: Span::new(position, length).0 }
    }

    /// Neither bytes nor an error.
    pub(crate) const END: Self = Self { ring: 0, span: 0 };

    /// That went wrong, by its negative number.
    #[inline(always)]
    pub(crate) const fn error(errno: i64) -> Self {
        Self { ring: 0, span: errno as u64 }
    }

    /// Nothing is planned: the slow path is to be taken, with what the lock held when the group set it to be
    /// taken; 0: it has not.
    #[inline(always)]
    pub(crate) const fn slow(found: Position) -> Self {
        Self { ring: Self::SLOW, span: found.0 }
    }

    /// Nothing was tried, or could be.
    pub(crate) const NONE: Self = Self::slow(Position(0));

    /// What the lock held, if the slow path is to be taken.
    #[inline(always)]
    pub(crate) const fn found([ring, span]: [u64; 2]) -> Option<Position> {
        if ring == Self::SLOW { Some(Position(span)) } else { None }
    }

    /// Whether all threads are to move a packet.
    #[inline(always)]
    pub(crate) const fn is_packet_of([ring, _]: [u64; 2]) -> bool {
        ring == Self::PACKET
    }

    /// Bytes that have been moved, where that is all.
    #[inline(always)]
    pub(crate) const fn bytes_done([ring, span]: [u64; 2]) -> Option<u32> {
        if ring == Self::DONE { Some((span >> 32) as u32) } else { None }
    }

    /// As a group passes it on.
    #[inline(always)]
    pub(crate) const fn words(self) -> [u64; 2] {
        [self.ring, self.span]
    }

    /// So much of a ring, or of a packet, where bytes are to be moved; else the error, or 0 for neither.
    #[inline(always)]
    pub(crate) const fn ring_of([ring, span]: [u64; 2]) -> Result<(RingAddress, Span), i64> {
        if ring == 0 { Err(span as i64) } else { Ok((RingAddress(ring), Span(span))) }
    }
}
