//! A socket's record as a warp has it: one line of GPU memory, a word in each lane. One access loads it, a
//! register of a lane holds it, and the lanes that have the words look at them. All lanes of a whole warp
//! call this together.
//!
//! Why it is so: decision 9 of docs/explanation/decisions.md.

use crate::abi::bits::{Position, Progress, Tagged};
use crate::abi::layout::RECORD_WORDS;
use crate::abi::ring::RingAddress;
use crate::simt;

use super::direction::Direction;
use super::inbox::Inbox;
use super::record::{
    EMPTY_LOOKS, HEAD, HEAD_SEEN, INBOX, INFO, Info, OWNER, RECEIVE, RECEIVE_RING, SEND, SEND_RING,
    STATE, Socket, TAIL, UNITS,
};

/// The words that a call of a direction uses and that carry the socket's generation, as bits.
const RECEIVES: u32 = 1 << RECEIVE_RING | 1 << INFO | 1 << INBOX | 1 << HEAD;
const SENDS: u32 = 1 << SEND_RING | 1 << INFO | 1 << INBOX | 1 << TAIL | 1 << UNITS;

const _: () = assert!(RECORD_WORDS.is_power_of_two() && RECORD_WORDS <= simt::WARP as usize);

/// A lane's word of it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct RecordLine(u64);

impl RecordLine {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);

    /// Loads it.
    #[inline(always)]
    pub(crate) fn load(socket: &Socket) -> Self {
        Self(socket.record.get(Self::place()).load())
    }

    /// Which word the calling lane has.
    #[inline(always)]
    pub(crate) fn place() -> usize {
        simt::lane() as usize % RECORD_WORDS
    }

    /// A lane's word, to be passed on.
    #[inline(always)]
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// What was passed on.
    #[inline(always)]
    pub(crate) const fn of(word: u64) -> Self {
        Self(word)
    }

    /// Whether the calling lane's word says that a call of a direction cannot go on: it is not the
    /// socket's, that is not open, this launch has not used it, or it has no ring for bytes.
    #[inline(always)]
    pub(crate) fn hinders(self, socket: &Socket, direction: Direction) -> bool {
        let (place, tagged) = (Self::place(), Tagged(self.0));
        let (used, ring) = match direction {
            Direction::Receive => (RECEIVES, RECEIVE_RING),
            Direction::Send => (SENDS, SEND_RING),
        };
        let differs = tagged.differs(socket.handle.generation()) != 0;
        let none = (place == ring) & RingAddress(tagged.value()).is_none();
        let no_bytes = (place == INFO) & !Info(self.0).has_bytes();
        let unused = (place == STATE) & !socket.is_in_use(self.0);
        (used >> place & 1 != 0) & differs | none | no_bytes | unused
    }

    /// Whether the calling lane's word says that another group than this one receives.
    #[inline(always)]
    pub(crate) fn is_owned_beside(self, group: u64) -> bool {
        (Self::place() == OWNER) & (self.0 != group)
    }

    /// Whether the calling lane's word says that no packet of that length may be sent: not at all, or not
    /// before the other end has received more than was last seen.
    #[inline(always)]
    pub(crate) fn forbids_packet(self, is_empty: impl Fn(Progress) -> bool, length: usize) -> bool {
        let place = Self::place();
        let full = (place == HEAD_SEEN) & !is_empty(Progress(self.0));
        let long = (place == INFO) & (Info(self.0).packet_limit() < length);
        full | long
    }

    /// The same with where a direction stands.
    #[inline(always)]
    pub(crate) fn with_position(self, direction: Direction, position: Position) -> Self {
        if Self::place() == lock_of(direction) { Self(position.0) } else { self }
    }

    /// Where a direction stands, if that was set.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn position(self, direction: Direction) -> Position {
        Position(self.get(lock_of(direction)))
    }

    /// The inbox.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn inbox(self) -> Inbox {
        Inbox::at(self.value(INBOX))
    }

    /// What the socket is, without the numbers of reports.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn info(self) -> Info {
        Info(simt::half_from_lane(self.0 as u32, INFO as u32).into())
    }

    /// A direction's ring.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn ring(self, direction: Direction) -> RingAddress {
        RingAddress(self.value(match direction {
            Direction::Receive => RECEIVE_RING,
            Direction::Send => SEND_RING,
        }))
    }

    /// The address of the word that says how far this end is.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn publishes(self, direction: Direction) -> u64 {
        self.value(if direction == Direction::Receive { HEAD } else { TAIL })
    }

    /// The address of the packet area.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn units(self) -> u64 {
        self.value(UNITS)
    }

    /// How far the other end has received, as last seen.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn head_seen(self) -> Progress {
        Progress(self.get(HEAD_SEEN))
    }

    /// How many calls that do not wait have found nothing, among them those of earlier sockets.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn empty_looks(self) -> u32 {
        simt::half_from_lane(self.0 as u32, EMPTY_LOOKS as u32)
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn value(self, word: usize) -> u64 {
        Tagged(self.get(word)).value()
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn get(self, word: usize) -> u64 {
        simt::from_lane(self.0, word as u32)
    }
}

/// The word of a direction's lock.
#[inline(always)]
const fn lock_of(direction: Direction) -> usize {
    match direction {
        Direction::Receive => RECEIVE,
        Direction::Send => SEND,
    }
}
