//! A socket's record: where its bytes and counters lie, its locks and options, in one line of GPU
//! memory. One thread calls this, for its group.
//!
//! The record says all that differs between transports: rings and inboxes in host memory that a proxy
//! writes, or in GPU memory that the kernel at the other end of a p2p stream writes, are used alike.
//! It is made from the socket's descriptor when a kernel first names the handle, by whichever group comes
//! first ([`install`](super::install)). One receiving and one sending group at a time: a direction's
//! lock holds its position, and stays readable while a group has it.
//!
//! Why it is so: decision 7 of docs/explanation/decisions.md.

#![allow(unsafe_code, reason = "follows addresses in the record")]

use crate::abi::bits::{Position, Progress, RecordState, Tagged};
use crate::abi::descriptor::{Kind, Status};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::layout::{RECORD_LOCKS, RECORD_STATE, RECORD_WORDS, STATUS_AT};
use crate::abi::net::Net;
use crate::abi::ring::RingAddress;
use crate::abi::word::{Word, Words};
use crate::planted::{Bug, planted};
use crate::simt;

pub(super) use super::direction::Direction;
use super::inbox::Inbox;

// Words of the record.
pub(super) const STATE: usize = RECORD_STATE;
pub(super) const RECEIVE: usize = RECORD_LOCKS;
pub(super) const SEND: usize = RECORD_LOCKS + 1;
/// How far the other end has received, as last seen.
pub(super) const HEAD_SEEN: usize = 3;
pub(super) const RECEIVE_RING: usize = 4;
pub(super) const SEND_RING: usize = 5;
pub(super) const INFO: usize = 6;
pub(super) const RECEIVE_TIMEOUT: usize = 7;
pub(super) const SEND_TIMEOUT: usize = 8;
/// Where the other end, or the proxy for it, writes.
pub(super) const INBOX: usize = 9;
/// Where this end says how far it has received, how far it has sent, and puts packets.
pub(super) const HEAD: usize = 10;
pub(super) const TAIL: usize = 11;
pub(super) const UNITS: usize = 12;
/// The group that receives.
pub(super) const OWNER: usize = 13;
/// The count behind the packet that was last put into the receive ring by who received it.
pub(super) const UNPACKED: usize = 14;
/// In a poller's record, the same word: where its list of p2p streams begins; 0: it has none.
pub(super) const LIST: usize = UNPACKED;
/// How many calls that do not wait have found nothing.
pub(super) const EMPTY_LOOKS: usize = 15;

pub(super) const INSTALLING: u64 = RecordState::INSTALLING;
pub(super) const OPEN: u64 = RecordState::OPEN;
pub(super) const CLOSING: u64 = RecordState::CLOSING;

/// The STATE word of a handle's socket, without an epoch.
#[inline(always)]
pub(super) const fn state(handle: Handle, state: u64) -> u64 {
    RecordState::new(handle.generation(), state).0
}

/// The STATE word of a handle's socket that is open, and found so by this launch. What another launch
/// has found may have been closed, or given back to the program, since.
#[inline(always)]
pub(super) const fn open_in(net: Net, handle: Handle) -> u64 {
    RecordState::new(handle.generation(), OPEN).found_in(net.epoch()).0
}

/// A STATE word without its epoch.
#[inline(always)]
pub(super) const fn bare(word: u64) -> u64 {
    RecordState(word).bare().0
}

/// What a socket is and how calls on it go: the INFO word.
#[derive(Clone, Copy)]
pub(crate) struct Info(pub(super) u64);

impl Info {
    pub(super) const NON_BLOCKING: u64 = 1 << 8;
    /// The kernel at the other end writes the inbox; the proxy reports endings alone.
    pub(super) const P2P: u64 = 1 << 9;
    /// And runs on the same GPU.
    pub(super) const ONE_GPU: u64 = 1 << 10;
    pub(super) const LIMIT_SHIFT: u32 = 12;

    /// What the socket is.
    #[inline(always)]
    pub(crate) const fn kind(self) -> Option<Kind> {
        Kind::from_number(self.0 as u8)
    }

    /// Whether its rings hold what is received and sent: not handles of connections.
    #[inline(always)]
    pub(crate) const fn has_bytes(self) -> bool {
        self.0 as u8 != Kind::Listener as u8
    }

    /// Whether calls that would wait return EAGAIN.
    #[inline(always)]
    pub(crate) const fn non_blocking(self) -> bool {
        self.0 & Self::NON_BLOCKING != 0
    }

    /// Whether the other end is a kernel that reads and writes the same memory. The proxy reports its
    /// ending, and packets are in the inbox alone.
    #[inline(always)]
    pub(crate) const fn is_p2p(self) -> bool {
        self.0 & Self::P2P != 0
    }

    /// Whether that kernel runs on the same GPU.
    #[inline(always)]
    pub(crate) const fn is_on_one_gpu(self) -> bool {
        self.0 & Self::ONE_GPU != 0
    }

    /// The longest packet that may be sent; 0: none.
    #[inline(always)]
    pub(crate) const fn packet_limit(self) -> usize {
        (self.0 >> Self::LIMIT_SHIFT) as usize & 0x1FFF
    }
}

/// A socket that a handle may name.
#[derive(Clone, Copy)]
pub(crate) struct Socket {
    pub(super) net: Net,
    pub(super) handle: Handle,
    pub(super) record: Words<RECORD_WORDS>,
}

impl Socket {
    /// The socket that `handle` names, open or not.
    #[inline(always)]
    pub(crate) fn named(net: Net, handle: Handle) -> Result<Self, Errno> {
        let layout = net.layout();
        let known = handle.is_well_formed()
            && handle.shard() < layout.shards
            && handle.slot() < layout.socket_slots;
        if !known {
            return Err(Errno::EBADF);
        }
        Ok(Self::known(net, handle))
    }

    /// The same of a handle that was found to be within the layout: in functions behind the first one of
    /// a call, which take net and handle. A socket has more words than travel in registers.
    #[inline(always)]
    pub(crate) fn known(net: Net, handle: Handle) -> Self {
        let index =
            handle.shard() as usize * net.layout().socket_slots as usize + handle.slot() as usize;
        // The addresses of the socket's words are not worth a register each between two calls.
        let index = simt::opaque(index);
        Self { net, handle, record: net.record(index) }
    }

    /// Its slot in the net's tables.
    pub(super) fn index(&self) -> usize {
        let slots = self.net.layout().socket_slots as usize;
        self.handle.shard() as usize * slots + self.handle.slot() as usize
    }

    /// The shard that serves it.
    #[inline(always)]
    pub(crate) fn shard(&self) -> usize {
        self.handle.shard() as usize
    }

    /// A word that carries the generation.
    #[inline(always)]
    pub(super) fn tagged(&self, word: usize) -> Tagged {
        Tagged(self.record.get(word).load())
    }

    /// What it is, and whether calls on it wait.
    #[inline(always)]
    pub(crate) fn info(&self) -> Info {
        Info(self.tagged(INFO).value())
    }

    /// The ring of a direction.
    #[inline(always)]
    pub(crate) fn ring(&self, direction: Direction) -> RingAddress {
        let word = if direction == Direction::Receive { RECEIVE_RING } else { SEND_RING };
        RingAddress(self.tagged(word).value())
    }

    /// Its inbox.
    #[inline(always)]
    pub(crate) fn inbox(&self) -> Inbox {
        Inbox::at(self.tagged(INBOX).value())
    }

    /// Where this end says how far a direction is.
    #[inline(always)]
    pub(crate) fn publishes(&self, direction: Direction) -> Word {
        let word = if direction == Direction::Receive { HEAD } else { TAIL };
        Self::at(self.tagged(word).value())
    }

    /// The word at an address of the record.
    #[inline(always)]
    pub(crate) fn at(address: u64) -> Word {
        // SAFETY: `fill` put the address of such a word there; who reads a record without its lock
        // compares generations first.
        unsafe { Word::at(core::ptr::with_exposed_provenance_mut(address as usize)) }
    }

    /// Where this end puts packets.
    #[inline(always)]
    pub(crate) fn units(&self) -> u64 {
        self.tagged(UNITS).value()
    }

    /// Whether a call of a direction can go on: all words that it needs are this socket's, that is open,
    /// this launch has used it, and it has a ring for bytes.
    #[inline(always)]
    pub(crate) fn is_usable(&self, direction: Direction) -> bool {
        let (ring, publishes) = match direction {
            Direction::Receive => (RECEIVE_RING, HEAD),
            Direction::Send => (SEND_RING, TAIL),
        };
        // All on their way before the first is looked at.
        let state = self.record.get(STATE).load();
        let (ring, info) = (self.tagged(ring), self.tagged(INFO));
        let (inbox, publishes) = (self.tagged(INBOX), self.tagged(publishes));
        let units = if direction == Direction::Send { self.tagged(UNITS) } else { info };
        let words = [ring, info, inbox, publishes, units];
        let generation = self.handle.generation();
        let differs = words.iter().fold(0, |all, word| all | word.differs(generation));
        let has_ring = !RingAddress(ring.value()).is_none() & Info(info.value()).has_bytes();
        (differs == 0) & has_ring & self.is_in_use(state)
    }

    /// The group that receives.
    #[inline(always)]
    pub(crate) fn owner(&self) -> u64 {
        self.record.get(OWNER).load()
    }

    /// The count behind the packet of a p2p stream that this end has put into its ring last. It may be
    /// old, and then that packet is waited for needlessly until it is seen.
    #[inline(always)]
    pub(crate) fn unpacked(&self) -> Word {
        self.record.get(UNPACKED)
    }

    /// The word that says whether the socket is open.
    #[inline(always)]
    pub(super) fn state_word(&self) -> Word {
        self.record.get(STATE)
    }

    /// Whether that word, read, says that this launch has used the socket and it is open.
    #[inline(always)]
    pub(super) fn is_in_use(&self, word: u64) -> bool {
        let open = state(self.handle, OPEN);
        word == open_in(self.net, self.handle) || (planted(Bug::EpochIgnored) && bare(word) == open)
    }

    /// Whether no group has begun to close it. One that gets its rings is open, too.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        let word = bare(self.record.get(STATE).load());
        word == state(self.handle, OPEN) || word == state(self.handle, INSTALLING)
    }

    /// The same with what the proxy knows of the end of a p2p stream. The proxy first: what the peer's
    /// kernel did before the end is then seen, too.
    #[inline(always)]
    pub(crate) fn progress(&self, direction: Direction) -> Progress {
        let mut ending = 0;
        if self.info().is_p2p() {
            ending = self.proxy_inbox().progress(direction).load_acquire();
        }
        // Acquire: pairs with the release of who published the counter; the bytes are there (receive),
        // or may be overwritten (send).
        Progress(self.inbox().progress(direction).load_acquire()).with_ending_of(Progress(ending))
    }

    /// Its inbox in the control block of the host, whatever the other end is.
    #[inline(always)]
    pub(crate) fn proxy_inbox(&self) -> Inbox {
        Inbox(self.net.inbox(self.index()))
    }

    /// How far the other end has received, as last seen, without a read across PCIe.
    #[inline(always)]
    pub(crate) fn head_seen(&self) -> Progress {
        Progress(self.record.get(HEAD_SEEN).load())
    }

    /// How many calls that do not wait have found nothing, among them those of earlier sockets.
    #[inline(always)]
    pub(crate) fn empty_looks(&self) -> u32 {
        self.record.get(EMPTY_LOOKS).load() as u32
    }

    /// Counts one more call that does not wait and has found nothing.
    #[inline(always)]
    pub(crate) fn count_empty_look(&self, before: u32) {
        self.record.get(EMPTY_LOOKS).store(before.wrapping_add(1).into());
    }

    /// Keeps that for the next send.
    #[inline(always)]
    pub(crate) fn remember_head(&self, progress: Progress) {
        self.record.get(HEAD_SEEN).store(progress.0);
    }

    /// State of the connection and last error.
    #[inline(always)]
    pub(crate) fn status(&self) -> Status {
        Status(self.proxy_inbox().word(STATUS_AT).load_acquire())
    }

    /// The error that ended a direction.
    #[inline(always)]
    pub(crate) fn failure(&self) -> Errno {
        match self.status().errno() {
            0 => Errno::ECONNRESET,
            errno => Errno(errno),
        }
    }

    /// A direction's lock.
    #[inline(always)]
    pub(crate) fn lock_word(&self, direction: Direction) -> Word {
        self.record.get(if direction == Direction::Receive { RECEIVE } else { SEND })
    }

    /// Where a direction stands, whether or not a group has it.
    #[inline(always)]
    pub(crate) fn position(&self, direction: Direction) -> Position {
        Position(self.lock_word(direction).load())
    }

    /// Takes a direction for the calling group, if no other has it; where it stands.
    #[inline(always)]
    pub(crate) fn try_lock(&self, direction: Direction) -> Option<Position> {
        let found = Position(self.lock_word(direction).set_on_gpu(Position::TAKEN));
        (!found.has(Position::TAKEN)).then_some(found)
    }

    /// The same for who tries again and again: a look first, since read-modify-writes in a loop would
    /// keep the holder from its own word.
    #[inline(always)]
    pub(crate) fn lock_if_free(&self, direction: Direction) -> Option<Position> {
        let free = !self.position(direction).has(Position::TAKEN);
        if free { self.try_lock(direction) } else { None }
    }

    /// What a lock held that the calling group set to be taken, now that its record has been read: taken
    /// by another where the record was made anew since, and the lock with it.
    #[inline(always)]
    pub(crate) fn checked(&self, direction: Direction, found: Position) -> Position {
        let flags = Position::SHUT | Position::TAKEN;
        let now = self.position(direction);
        let same = now.has(Position::TAKEN) & (now.without(flags) == found.without(flags));
        if same { found } else { found.with(Position::TAKEN) }
    }

    /// Gives a direction back. Call a release fence first if bytes were sent or seen.
    #[inline(always)]
    pub(crate) fn unlock(&self, direction: Direction, position: Position) {
        self.lock_word(direction).store(position.without(Position::TAKEN).0);
    }

    /// Whether the slot is still this socket's, and no group has begun to close it: for a group
    /// that has just got one of its directions, and may have waited for it.
    #[inline(always)]
    pub(crate) fn is_still_here(&self) -> bool {
        let word = RecordState(self.record.get(STATE).load());
        word.is_not_closing(self.handle.generation())
    }

    /// Has calls return EAGAIN that would wait, or not.
    pub(crate) fn set_non_blocking(&self, on: bool) {
        let word = self.record.get(INFO);
        // Counted: another group may make the record of a connection meanwhile, once or twice.
        for _ in 0..4 {
            let now = word.load();
            let info = now & !Info::NON_BLOCKING;
            if word.compare_exchange(now, if on { info | Info::NON_BLOCKING } else { info }) {
                return;
            }
        }
    }

    /// How long calls of a direction may wait, in nanoseconds; 0: no limit.
    #[inline(always)]
    pub(crate) fn timeout(&self, direction: Direction) -> u64 {
        self.timeout_word(direction).load()
    }

    /// Sets that.
    pub(crate) fn set_timeout(&self, direction: Direction, ns: u64) {
        self.timeout_word(direction).store(ns);
    }

    #[inline(always)]
    fn timeout_word(&self, direction: Direction) -> Word {
        let word = if direction == Direction::Receive { RECEIVE_TIMEOUT } else { SEND_TIMEOUT };
        self.record.get(word)
    }
}
