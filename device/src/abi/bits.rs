//! The bits of every shared word that has more than one part. Nothing else in the workspace shifts
//! or masks such a word.
//!
//! | type | where | parts |
//! | --- | --- | --- |
//! | [`Progress`] | counters of both ends | count of bytes, how the direction ended, "a packet" |
//! | [`Position`] | a direction's lock in GPU memory | count of bytes, flags of the direction |
//! | [`Unit`] | packets | four bytes, and which packet they belong to |
//! | [`Tagged`] | addresses and numbers in a socket's record | a value, and which socket's it is |
//! | [`RecordState`] | word 0 of a socket's record | generation, launch, and whether it is open |
//!
//! Why it is so: decision 6 of docs/explanation/decisions.md.

/// Units of a packet that the proxy or a kernel exchanges through host memory.
#[cfg(not(feature = "loom"))]
pub const PACKET_UNITS: usize = 64;
/// As many as a model can try all orders of.
#[cfg(feature = "loom")]
pub const PACKET_UNITS: usize = 2;
/// The longest of them.
pub const PACKET_BYTES: usize = 4 * PACKET_UNITS;

/// Units of a packet between two kernels of one machine.
#[cfg(not(feature = "loom"))]
pub const P2P_PACKET_UNITS: usize = 1024;
/// As above.
#[cfg(feature = "loom")]
pub const P2P_PACKET_UNITS: usize = 2;
/// The longest of them.
pub const P2P_PACKET_BYTES: usize = 4 * P2P_PACKET_UNITS;

/// The word of a socket's record in GPU memory that says whether the socket is open. Groups change it by
/// compare-and-exchange alone, so that nothing takes back what the host writes: CLOSING, for a socket that
/// it has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordState(pub u64);

impl RecordState {
    /// A group makes the record of what the descriptor says.
    pub const INSTALLING: u64 = 1;
    /// Calls may use it.
    pub const OPEN: u64 = 2;
    /// No call begins any more.
    pub const CLOSING: u64 = 3;
    const EPOCH_MASK: u64 = 0x3FFF << 8;

    /// The state of a socket with that generation, without an epoch.
    #[inline(always)]
    pub const fn new(generation: u32, state: u64) -> Self {
        Self((generation as u64) << 24 | state)
    }

    /// The same, as found by the launch with that epoch: another launch looks at the descriptor again.
    #[inline(always)]
    pub const fn found_in(self, epoch: u64) -> Self {
        Self(self.0 | epoch << 8 & Self::EPOCH_MASK)
    }

    /// Without its epoch.
    #[inline(always)]
    pub const fn bare(self) -> Self {
        Self(self.0 & !Self::EPOCH_MASK)
    }

    /// The generation.
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 >> 24) as u32
    }

    /// Whether it is of that generation.
    #[inline(always)]
    pub const fn is_of(self, generation: u32) -> bool {
        self.0 >> 24 == generation as u64
    }

    /// Whether it is of that generation, and no group or host has begun to close it.
    #[inline(always)]
    pub const fn is_not_closing(self, generation: u32) -> bool {
        self.is_of(generation) && self.0 & 0xFF != Self::CLOSING
    }
}

/// How far a direction is, as one end reports it to the other: the bytes that were sent, or that were
/// received, with how the direction ended in the lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress(pub u64);

impl Progress {
    /// No bytes will follow: the peer closed (receive), or this end was shut down (send).
    pub const ENDED: u64 = 1;
    /// Ended by the error in the socket's status word.
    pub const FAILED: u64 = 2;
    /// The bytes before the count, from where the other end had taken everything, are a packet.
    pub const PACKET: u64 = 4;
    const FLAG_BITS: u32 = 3;

    /// Puts count and flags together.
    #[inline(always)]
    pub const fn new(count: u64, flags: u64) -> Self {
        Self(count << Self::FLAG_BITS | flags)
    }

    /// The count.
    #[inline(always)]
    pub const fn count(self) -> u64 {
        self.0 >> Self::FLAG_BITS
    }

    /// The same, over if `ended` says so.
    #[inline(always)]
    pub const fn ended_if(self, ended: bool) -> Self {
        Self(self.0 | if ended { Self::ENDED } else { 0 })
    }

    /// The same with what else is known of the end.
    #[inline(always)]
    pub const fn with_ending_of(self, other: Self) -> Self {
        Self(self.0 | other.0 & (Self::ENDED | Self::FAILED))
    }

    /// Whether the last bytes are a packet.
    #[inline(always)]
    pub const fn is_packet(self) -> bool {
        self.0 & Self::PACKET != 0
    }

    /// Whether no more progress will come.
    #[inline(always)]
    pub const fn is_over(self) -> bool {
        self.0 & (Self::ENDED | Self::FAILED) != 0
    }

    /// Whether it ended with an error.
    #[inline(always)]
    pub const fn has_failed(self) -> bool {
        self.0 & Self::FAILED != 0
    }
}

/// The lock of a direction: where it stands, and what its holders must know. It stays there while a
/// group has the direction, which sets [`TAKEN`](Self::TAKEN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(pub u64);

impl Position {
    /// A group has the direction.
    pub const TAKEN: u64 = 1 << 63;
    /// Send: sending was shut down.
    pub const SHUT: u64 = 1 << 62;
    /// Send: the packet area may hold units with the tag of a packet to come.
    pub const UNITS_OLD: u64 = 1 << 61;
    /// Receive: the last message came by the ring, and none of it as a packet. The next one probably does.
    pub const BY_RING: u64 = 1 << 62;
    /// Receive: the last message was no short packet. The next one probably is none, either.
    pub const LONG: u64 = 1 << 61;
    /// Receive: the record names the group that receives.
    pub const OWNED: u64 = 1 << 60;
    /// Receive: several groups do.
    pub const SHARED: u64 = 1 << 59;
    /// The next call looks whether the launch was stopped: calls that find bytes, or space, do not wait, and
    /// only waits look.
    pub const CHECK: u64 = 1 << 58;
    const COUNT: u64 = (1 << 58) - 1;

    /// A position without flags.
    #[inline(always)]
    pub const fn new(count: u64) -> Self {
        Self(count & Self::COUNT)
    }

    /// The bytes that have passed.
    #[inline(always)]
    pub const fn count(self) -> u64 {
        self.0 & Self::COUNT
    }

    /// Whether any of the flags is set.
    #[inline(always)]
    pub const fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    /// The same with flags.
    #[inline(always)]
    pub const fn with(self, flags: u64) -> Self {
        Self(self.0 | flags)
    }

    /// The same without flags.
    #[inline(always)]
    pub const fn without(self, flags: u64) -> Self {
        Self(self.0 & !flags)
    }

    /// So many bytes further on. Where a position passes a multiple of 2^31 the units of packets that
    /// came before may have a tag that comes again, 2^32 bytes later.
    #[inline(always)]
    pub const fn advance(self, bytes: u64) -> Self {
        let next = Self(self.0 + bytes);
        if Unit::are_apart(self.count(), next.count()) { next.with(Self::UNITS_OLD) } else { next }
    }

    /// The same behind a message that began at `before` and has at most [`PACKET_BYTES`]: with
    /// [`CHECK`](Self::CHECK) every 128 KiB.
    #[inline(always)]
    pub const fn behind_short(self, before: Self) -> Self {
        self.behind(before, 17)
    }

    /// The same behind one of any length: every 4 MiB where it has up to 4 KiB, else every 64 MiB. A look
    /// takes the slow path, some 5 us of code that is not at hand: one call in some hundreds or more.
    #[inline(always)]
    pub const fn behind_any(self, before: Self, bytes: usize) -> Self {
        let bit = if bytes <= PACKET_BYTES { 17 } else { 22 };
        let bit = if bytes <= 4096 { bit } else { 26 };
        self.behind(before, bit)
    }

    /// With CHECK where a bit of that number or a higher one has changed.
    #[inline(always)]
    const fn behind(self, before: Self, bit: u32) -> Self {
        // Of words of 32 bits: those that are higher change with them.
        let passed = (self.0 as u32 ^ before.0 as u32) >> bit != 0;
        if passed { self.with(Self::CHECK) } else { self }
    }
}

/// A unit of a packet: four bytes and a tag, the lowest 32 bits of where the packet begins.
/// So a unit says by itself whether it belongs to the packet that a reader waits for, and counter and
/// units are written and read in any order.
///
/// No unit of a packet area is older than 2^31 bytes of the stream, so no tag is there twice: a writer
/// that passes a multiple of that first writes all units anew, while the bytes go by the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit(pub u64);

impl Unit {
    /// Four bytes of the packet that begins there.
    #[inline(always)]
    pub const fn new(bytes: u32, begin: u64) -> Self {
        Self(bytes as u64 | begin << 32)
    }

    /// A unit of no packet that begins at `position` or within 2^32 - 1 bytes behind it.
    #[inline(always)]
    pub const fn blank(position: u64) -> Self {
        Self::new(0, position.wrapping_sub(1))
    }

    /// Whether a packet at one position may find units there of a packet at the other.
    #[inline(always)]
    pub const fn are_apart(one: u64, other: u64) -> bool {
        one >> 31 != other >> 31
    }

    /// Whether it belongs to the packet that begins there.
    #[inline(always)]
    pub fn belongs(self, begin: u64) -> bool {
        #[cfg(feature = "loom")]
        if crate::simt::model::lacks(crate::simt::model::Weakness::Tags) {
            return true;
        }
        self.tag() == begin as u32
    }

    /// The lowest 32 bits of where its packet begins.
    #[inline(always)]
    pub const fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Its bytes, the first one lowest.
    #[inline(always)]
    pub const fn bytes(self) -> u32 {
        self.0 as u32
    }
}

/// A word of a socket's record: 48 bits, and the lowest bits of the generation. All words of a call are
/// read at once, in any order, and compared afterwards: one that is of another socket shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagged(pub u64);

impl Tagged {
    const BITS: u32 = 48;

    /// A value, of the socket with that generation.
    #[inline(always)]
    pub const fn new(value: u64, generation: u32) -> Self {
        Self(value & Self::MOST | (generation as u64) << Self::BITS)
    }

    /// The largest value.
    pub const MOST: u64 = (1 << Self::BITS) - 1;

    /// The value.
    #[inline(always)]
    pub const fn value(self) -> u64 {
        self.0 & Self::MOST
    }

    /// The bits in which two words differ in their generation.
    #[inline(always)]
    pub const fn differs(self, generation: u32) -> u64 {
        (self.0 ^ (generation as u64) << Self::BITS) >> Self::BITS
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    #[test]
    fn counts_and_flags_do_not_touch() {
        let most = (1 << 58) - 1;
        let flags = Progress::ENDED | Progress::FAILED | Progress::PACKET;
        let progress = Progress::new(most, flags);
        assert_eq!((progress.count(), progress.0 & 7), (most, flags));
        let position = Position::new(most).with(Position::TAKEN | Position::SHARED);
        assert_eq!(position.count(), most);
        assert!(position.has(Position::TAKEN) && !position.has(Position::SHUT));
        assert_eq!(position.without(Position::TAKEN | Position::SHARED), Position::new(most));
        let checked = Position::new(most).with(Position::CHECK);
        assert!(checked.count() == most && !checked.has(Position::SHARED));
        let tagged = Tagged::new(Tagged::MOST, 0x1_0007);
        assert_eq!((tagged.value(), tagged.differs(7)), (Tagged::MOST, 0));
        assert_ne!(tagged.differs(8), 0);
    }

    #[test]
    fn calls_look_at_the_stop_word_every_so_many_bytes() {
        let flags = Position::TAKEN | Position::OWNED;
        for base in [0, 1 << 32, 1 << 57] {
            let at = |count: u64| Position::new(base + count).with(flags);
            for (every, length) in [(128_u64 << 10, 256), (4 << 20, 4096), (64 << 20, 4097)] {
                let behind = |from, to| at(to).behind_any(at(from), length);
                assert_eq!(behind(1, every - 1), at(every - 1));
                assert_eq!(behind(every - 1, every), at(every).with(Position::CHECK));
                assert_eq!(behind(every, 2 * every - 1), at(2 * every - 1));
            }
            let short = at(128 << 10).behind_short(at((128 << 10) - 1));
            assert_eq!(short, at(128 << 10).with(Position::CHECK));
        }
        let last = Position::new((1 << 32) - 1);
        assert!(Position::new(1 << 32).behind_short(last).has(Position::CHECK));
    }

    #[test]
    fn units_are_old_from_one_window_to_the_next() {
        let last = (1 << 31) - 1;
        assert!(!Position::new(100).advance(last - 100).has(Position::UNITS_OLD));
        assert!(Position::new(100).advance(last - 99).has(Position::UNITS_OLD));
        assert!(!Unit::blank(0).belongs(0));
        assert!(Unit::new(7, 1 << 40 | 5).belongs(1 << 41 | 5));
    }
}
