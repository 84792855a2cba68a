//! A socket as the GPU keeps it: state, locks, positions and options in GPU memory.
//!
//! The record is made from the socket's card when a kernel first names the handle, by whichever
//! group comes first. One reading and one writing group at a time: who takes a direction's
//! position out of its word has it, and puts the new one back. With the position of the send side
//! goes the number of the last message that was sent by express. One thread calls this, for its
//! group.

use crate::abi::card::{Card, Kind, Progress, Status};
use crate::abi::errno::Errno;
use crate::abi::express::{self, EXPRESS_WORDS};
use crate::abi::handle::Handle;
use crate::abi::layout::{LIVE_AT, LOCAL_WORDS, WATCHED_AT};
use crate::abi::net::Net;
use crate::abi::ring::RingPlace;
use crate::abi::word::{Word, Words};
use crate::group::GroupKind;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::wait::{Deadline, Watch, wait_until};

// Words of the record.
const STATE: usize = 0;
const RECEIVE: usize = 1;
const SEND: usize = 2;
const SEND_PROGRESS: usize = 3;
/// Not 0 where messages may not be sent by express.
const SEND_SHUT: usize = 6;
const RECEIVE_RING: usize = 4;
const SEND_RING: usize = 5;
/// Kind in the lowest byte, bit 8: non-blocking, bit 9: direct. Of a direct stream also the numbers
/// of what the proxy is told, four bits for each side.
const KIND: usize = 7;
const RECEIVE_TIMEOUT: usize = 8;
const SEND_TIMEOUT: usize = 9;
const RECEIVE_SEEN: usize = 10;
const SEND_SEEN: usize = 11;
// Addresses of the socket's words: in host memory, those of a direct stream in mailboxes.
const RECORD_AT: usize = 12;
const RECEIVE_HEAD_AT: usize = 13;
const SEND_TAIL_AT: usize = 14;
/// The group that had the receive side last; 0: none yet.
const RECEIVER: usize = 15;

/// In the SEND_SHUT word: sending was shut down; the proxy cannot reach the ring, where it puts
/// messages that came by express and cannot be sent at once.
const SHUT: u64 = 1;
const NO_EXPRESS: u64 = 2;
/// In the same word: small messages go straight to the kernel at the other end.
const STRAIGHT: u64 = 4;

/// In the KIND word.
const NON_BLOCKING: u64 = 1 << 8;
const DIRECT: u64 = 1 << 9;
const TOLD_SHIFT: u32 = 16;

/// Stands in a direction's word while a group has its position.
pub(crate) const TAKEN: u64 = u64::MAX;
/// In the send side's position, where no position reaches: sending was shut down. A group that has
/// looked before then finds the side where it does not expect it, and looks again.
const SHUT_THERE: u64 = 1 << 58;
/// How long a call that does not wait still tries to get a direction: the group's own last call
/// may be about to put its position back.
const BRIEFLY_NS: u64 = 20_000;

// States, beside the generation in the STATE word.
const INSTALLING: u64 = 1;
const OPEN: u64 = 2;
const CLOSING: u64 = 3;

/// How long a close waits for the last head to arrive in host memory: a microsecond is enough.
const HEAD_NS: u64 = 100_000_000;

/// How long a record may be in the making: a few loads by another group.
const INSTALL_NS: u64 = 5_000_000_000;

/// The STATE word without its epoch: generation and state.
#[inline(always)]
const fn state(handle: Handle, state: u64) -> u64 {
    (handle.generation() as u64) << 24 | state
}

/// In the STATE word: the launch in which the socket was last seen to be alive. What another
/// launch left may have been closed, or given back to the program, since.
#[inline(always)]
const fn epoch(net: Net) -> u64 {
    net.epoch() << 8
}

/// A STATE word without its epoch.
#[inline(always)]
const fn bare(word: u64) -> u64 {
    word & !(0x3FFF << 8)
}

/// A direction of a socket, with the words that belong to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Receiving, accepting, taking events.
    Receive,
    /// Sending.
    Send,
}

/// A word that tells the other side how far a direction is. The proxy is told the position; the
/// kernel at the other end of a direct stream reads it as it reads what a proxy publishes.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    word: Word,
    shift: u32,
}

impl Counter {
    /// In the record: the address, in its lowest bits (words are aligned) by how much the position
    /// is shifted, in its highest the generation, so that who has not seen the record open can tell
    /// whether the word is this socket's. GPUs' addresses have 48 bits.
    const ADDRESS: u64 = (1 << 48) - 8;
    /// By how much the count of a [`Progress`] is shifted.
    const PROGRESS: u64 = 2;

    #[inline(always)]
    fn to_word(address: *mut u64, shift: u64, generation: u32) -> u64 {
        address.expose_provenance() as u64 | shift | u64::from(generation) << 48
    }

    /// What such a word says, if it is of that generation.
    #[inline(always)]
    fn checked(word: u64, generation: u32) -> Option<u64> {
        (word >> 48 == u64::from(generation as u16) && word & Self::ADDRESS != 0)
            .then_some(word & ((1 << 48) - 1))
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "follows an address in the record")]
    fn from_word(word: u64) -> Self {
        let address = core::ptr::with_exposed_provenance_mut((word & Self::ADDRESS) as usize);
        // SAFETY: `fill` put the address of such a word there, and callers of this have seen the
        // record open, or checked the generation.
        Self { word: unsafe { Word::at(address) }, shift: word as u32 & 7 }
    }

    /// A position, which may have an express message's number, as it is written there.
    #[inline(always)]
    fn form(&self, position: u64) -> u64 {
        let shifted = express::without_number(position) << self.shift;
        express::with_number(shifted, express::number_of(position))
    }

    /// Whether it is for the kernel at the other end.
    #[inline(always)]
    pub(crate) fn is_direct(&self) -> bool {
        self.shift != 0
    }

    /// Tells it. Call a release fence first.
    #[inline(always)]
    pub(crate) fn store(&self, position: u64) {
        self.word.store(self.form(position));
    }

    /// Whether it was told, and whatever of the end.
    #[inline(always)]
    pub(crate) fn says(&self, position: u64) -> bool {
        self.word.load() >> self.shift == self.form(position) >> self.shift
    }

    /// Tells the kernel at the other end of a direct stream that this was all.
    fn end(&self, position: u64) {
        self.word.store(self.form(position) | Progress::ENDED);
    }
}

/// How small messages are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendWay(u64);

impl SendWay {
    /// Through the express words, to the proxy.
    pub(crate) const EXPRESS: Self = Self(0);
    /// Straight to the kernel at the other end.
    pub(crate) const DIRECT: Self = Self(STRAIGHT);
}

/// Where a small message to be sent goes, and who is told of it.
#[derive(Clone, Copy)]
pub(crate) struct Express {
    pub(crate) words: Words<EXPRESS_WORDS>,
    pub(crate) tail: Counter,
}

/// The KIND word of a socket.
#[derive(Clone, Copy)]
pub(crate) struct Traits(u64);

impl Traits {
    /// What the socket is.
    #[inline(always)]
    pub(crate) fn kind(self) -> Option<Kind> {
        Kind::from_number(self.0 as u8)
    }

    /// Whether calls that would wait return EAGAIN.
    #[inline(always)]
    pub(crate) fn non_blocking(self) -> bool {
        self.0 & NON_BLOCKING != 0
    }

    /// Whether bytes and counters go from kernel to kernel, and the proxy tells of endings alone.
    #[inline(always)]
    pub(crate) fn is_direct(self) -> bool {
        self.0 & DIRECT != 0
    }
}

/// An open socket.
#[derive(Clone, Copy)]
pub(crate) struct Socket {
    net: Net,
    handle: Handle,
    record: Words<LOCAL_WORDS>,
}

impl Socket {
    /// The socket that `handle` names; EBADF for any that is not open.
    #[inline(always)]
    pub(crate) fn open(net: Net, handle: Handle) -> Result<Self, Errno> {
        let socket = Self::named(net, handle)?;
        // Acquire: who sees OPEN sees the record.
        if !socket.says_in_use(socket.record.get(STATE).load_acquire()) {
            Errno::check(install(net, handle))?;
        }
        Ok(socket)
    }

    /// The socket that `handle` names, open or not: for a group that holds one of its locks.
    #[inline(always)]
    pub(crate) fn named(net: Net, handle: Handle) -> Result<Self, Errno> {
        let layout = net.layout();
        let known = handle.is_well_formed()
            && handle.shard() < layout.shards
            && handle.place() < layout.places;
        if !known {
            return Err(Errno::EBADF);
        }
        let index = handle.shard() as usize * layout.places as usize + handle.place() as usize;
        // The addresses of the socket's words are not worth a register each between two calls.
        let index = simt::opaque(index);
        Ok(Self { net, handle, record: net.local(index) })
    }

    /// The socket whose record is there.
    #[inline(always)]
    pub(crate) fn at(net: Net, handle: Handle, record: Words<LOCAL_WORDS>) -> Self {
        Self { net, handle, record }
    }

    /// Where its record is.
    pub(crate) fn record_address(&self) -> u64 {
        self.record.address()
    }

    /// Where the mailboxes of a direct stream are, its own and the peer's.
    pub(crate) fn mailbox_addresses(&self) -> (u64, u64) {
        let tail = self.record.get(SEND_TAIL_AT).load() & Counter::ADDRESS;
        (self.record.get(RECORD_AT).load(), tail - 8 * LIVE_AT as u64)
    }

    /// Its place in the net's tables.
    fn index(&self) -> usize {
        let places = self.net.layout().places as usize;
        self.handle.shard() as usize * places + self.handle.place() as usize
    }

    /// Makes the record of what the card says and opens it.
    fn fill(&self, card: &Card, non_blocking: u64) {
        let index = self.index();
        // Numbers go on: the words of an earlier socket's last message are still there.
        let number = express::number_of(self.numbered_position(Side::Send));
        let send = express::with_number(card.send.base, number);
        // Those of a direct stream come with the numbers of what the proxy is told.
        let receive = express::without_number(card.receive.base);
        let told = express::number_of(card.receive.base) | express::number_of(card.send.base) << 4;
        let generation = self.handle.generation();
        let counter = |address, shift| Counter::to_word(address, shift, generation);
        let (record, head, tail, direct) = match self.direct(card) {
            Some([own, peer]) => {
                let live = |side: Side| peer.wrapping_add(LIVE_AT + side as usize);
                // What one side sends the other receives.
                let head = counter(live(Side::Send), Counter::PROGRESS);
                let tail = counter(live(Side::Receive), Counter::PROGRESS);
                (own, head, tail, DIRECT)
            }
            None => {
                let head = counter(self.net.receive_head(index), 0);
                (self.net.record(index), head, counter(self.net.send_tail(index), 0), 0)
            }
        };
        // Nobody sends by express before there is a ring.
        let tail = if card.send.capacity == 0 { tail & Counter::ADDRESS } else { tail };
        let shut = match (direct, card.send.region) {
            (DIRECT, _) => STRAIGHT,
            (_, 0) => 0,
            _ => NO_EXPRESS,
        };
        for (word, value) in [
            (RECEIVE_SEEN, receive),
            (SEND_SEEN, send),
            (SEND_SHUT, shut),
            (RECEIVER, 0),
            // As if it were over: the first send looks whether it is.
            (SEND_PROGRESS, Progress::new(express::without_number(send), Progress::ENDED).0),
            (RECEIVE_RING, RingPlace::new(self.net.ring(&card.receive), card.receive.capacity).0),
            (SEND_RING, RingPlace::new(self.net.ring(&card.send), card.send.capacity).0),
            (KIND, card.kind as u64 | non_blocking | direct | told << TOLD_SHIFT),
            (RECORD_AT, record.expose_provenance() as u64),
            (RECEIVE_HEAD_AT, head),
            (SEND_TAIL_AT, tail),
        ] {
            self.record.get(word).store(value);
        }
        // Release: who sees OPEN, or takes the send side, sees the record.
        simt::release_fence();
        self.record.get(RECEIVE).store(receive);
        self.record.get(SEND).store(send);
        self.record.get(STATE).store(state(self.handle, OPEN) | epoch(self.net));
    }

    /// The mailboxes that a direct stream's card names, its own and the peer's.
    fn direct(&self, card: &Card) -> Option<[*mut u64; 2]> {
        card.mailboxes.as_ref().and_then(|pages| self.net.mailboxes(pages))
    }

    /// The card, if it is this generation's.
    fn card(&self) -> Option<Card> {
        let words = self.net.card(self.index());
        // Acquire: the proxy clears this word first and writes it last, so a card whose word 0 is
        // the same before and after was not changed in between.
        let identity = words.get(0).load_acquire();
        let card = Card::from_words(&words.read())?;
        simt::acquire_fence();
        let same = words.get(0).load() == identity;
        let mine = Card::identity(card.generation, card.kind) == identity
            && card.generation == self.handle.generation();
        (same && mine).then_some(card)
    }

    /// The word `index` places behind the address in the record's word `at`.
    #[inline(always)]
    #[allow(unsafe_code, reason = "follows an address in the record")]
    fn word_at(&self, at: usize, index: usize) -> Word {
        let address = self.record.get(at).load() as usize;
        // SAFETY: `fill` put the address of such words there, and callers of this have seen the
        // record open.
        unsafe { Word::at(core::ptr::with_exposed_provenance_mut::<u64>(address).add(index)) }
    }

    /// What names it.
    #[inline(always)]
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// The shard that serves it.
    #[inline(always)]
    pub(crate) fn shard(&self) -> usize {
        self.handle.shard() as usize
    }

    /// What it is, and whether calls on it wait.
    #[inline(always)]
    pub(crate) fn traits(&self) -> Traits {
        Traits(self.record.get(KIND).load())
    }

    /// What it is.
    #[inline(always)]
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.traits().kind()
    }

    /// Whether no group has begun to close it.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.says_open(self.record.get(STATE).load())
    }

    /// Where the proxy, or the kernel at the other end of a direct stream, says how far a direction
    /// is, and whether it is over.
    #[inline(always)]
    pub(crate) fn progress_word(&self, side: Side) -> Word {
        self.word_at(RECORD_AT, LIVE_AT + side as usize)
    }

    /// What it says there.
    #[inline(always)]
    pub(crate) fn progress(&self, side: Side) -> Progress {
        // Acquire: who sees the counter sees the bytes (receive), or may overwrite them (send).
        Progress(self.progress_word(side).load_acquire())
    }

    /// The same, with what the proxy knows of the end of a direct stream; and there without a small
    /// message that is not here as a whole.
    pub(crate) fn whole_progress(&self, side: Side) -> Progress {
        if !self.traits().is_direct() {
            return self.progress(side);
        }
        let progress = self.with_ending(side, self.progress_word(side));
        if progress.express() == 0 || self.small_message(progress).is_some() {
            return progress;
        }
        progress.at(self.position(side))
    }

    /// Where the small message on a direct stream begins that ends where its counter says, if all its
    /// words are here.
    #[cold]
    #[inline(never)]
    pub(crate) fn small_message(&self, counter: Progress) -> Option<u64> {
        let tag = express::tag_of(self.told(0).load_acquire());
        let tag = express::tag_before(counter, tag)?;
        for at in 0..EXPRESS_WORDS {
            if !express::belongs(self.told(at).load_acquire(), tag) {
                return None;
            }
        }
        Some(counter.count().wrapping_sub(express::length_of(tag)))
    }

    /// How far a direction of a direct stream is, and whether its proxy says that it is over. The
    /// proxy first: what the peer's kernel did before the end is then seen, too.
    #[inline(always)]
    pub(crate) fn with_ending(&self, side: Side, live: Word) -> Progress {
        let told = self.proxy_word(LIVE_AT + side as usize).load_acquire();
        Progress(live.load_acquire() | told & (Progress::ENDED | Progress::FAILED))
    }

    /// A word of the socket's record in the CPU words.
    #[inline(always)]
    #[allow(unsafe_code, reason = "a word of the net's layout")]
    fn proxy_word(&self, index: usize) -> Word {
        // SAFETY: the handle is within the layout (`named`), and callers' words within the record.
        unsafe { Word::at(self.net.record(self.index()).wrapping_add(index)) }
    }

    /// Whether the proxies want to know of what happens on this direct stream. Of any other, a word
    /// without a meaning.
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.word_at(RECORD_AT, WATCHED_AT).load() != 0
    }

    /// Has the kernels at both ends of a direct stream tell their proxies what happens from now on.
    /// Nothing orders that with what they do meanwhile: the proxy looks once more, later. A side that
    /// another group has is left to it, which tells of it by itself. Where both are, the proxy has
    /// the kernels tell.
    #[cold]
    #[inline(never)]
    pub(crate) fn watch_both_ends(&self) {
        if !self.traits().is_direct() || self.ring(Side::Send).is_none() {
            return;
        }
        for side in [Side::Receive, Side::Send] {
            let Ok(position) = self.lock(side, false) else { continue };
            // With a side of the socket: nobody can close it, and give its memory to others.
            if self.is_still_here() {
                self.told(WATCHED_AT).store(1);
                self.peer_word(WATCHED_AT).store(1);
                tell_proxy(self.net, self.handle, side, position & !SHUT_THERE);
            }
            self.unlock(side, position);
        }
    }

    /// A word of the other end's mailbox.
    #[inline(always)]
    #[allow(unsafe_code, reason = "follows an address in the record")]
    fn peer_word(&self, index: usize) -> Word {
        let tail = self.record.get(SEND_TAIL_AT).load() & Counter::ADDRESS;
        let tail: *mut u64 = core::ptr::with_exposed_provenance_mut(tail as usize);
        // SAFETY: the tail of a direct stream is the mailbox's receive progress (`fill`).
        unsafe { Word::at(tail.wrapping_sub(LIVE_AT).wrapping_add(index)) }
    }

    /// The send side's progress as last seen, without a read across PCIe.
    #[inline(always)]
    pub(crate) fn known_send_progress(&self) -> Progress {
        Progress(self.record.get(SEND_PROGRESS).load())
    }

    /// Remembers the send side's progress.
    #[inline(always)]
    pub(crate) fn remember_send_progress(&self, progress: Progress) {
        self.record.get(SEND_PROGRESS).store(progress.0);
    }

    /// State of the connection and last error.
    #[inline(always)]
    pub(crate) fn status(&self) -> Status {
        Status(self.proxy_word(LIVE_AT + 2).load_acquire())
    }

    /// The error that ended a direction.
    #[inline(always)]
    pub(crate) fn failure(&self) -> Errno {
        match self.status().errno() {
            0 => Errno::ECONNRESET,
            errno => Errno(errno),
        }
    }

    /// The ring of a direction.
    #[inline(always)]
    pub(crate) fn ring(&self, side: Side) -> RingPlace {
        RingPlace(
            self.record.get(if side == Side::Receive { RECEIVE_RING } else { SEND_RING }).load(),
        )
    }

    /// A word of what the proxy tells of the socket; the express words of the receive side come
    /// first, `LIVE_AT` leads to the rest.
    #[inline(always)]
    pub(crate) fn told(&self, index: usize) -> Word {
        self.word_at(RECORD_AT, index)
    }

    /// Where the record says that the tail is; for [`Self::express`].
    #[inline(always)]
    pub(crate) fn send_tail_at(&self) -> u64 {
        self.record.get(SEND_TAIL_AT).load()
    }

    /// The same if it is this socket's; none where the record was another's.
    #[inline(always)]
    pub(crate) fn check_tail_at(&self, word: u64) -> Option<u64> {
        Counter::checked(word, self.handle.generation())
    }

    /// Where the proxy is told how much was received, by the net's layout.
    #[inline(always)]
    pub(crate) fn receive_head(&self) -> Word {
        self.net.head_word(self.index())
    }

    /// The express words of the send side, and where the proxy is told of them. By the net's
    /// layout: unlike what the record says, that is true before anybody has seen it open.
    #[inline(always)]
    pub(crate) fn send_words(&self) -> (Words<EXPRESS_WORDS>, Counter) {
        let (words, word) = self.net.send_words(self.index());
        (words, Counter { word, shift: 0 })
    }

    /// Where a small message on a direct stream goes, by what [`Self::check_tail_at`] gave.
    #[inline(always)]
    #[allow(unsafe_code, reason = "follows an address in the record")]
    pub(crate) fn express(&self, tail_at: u64) -> Express {
        let tail = Counter::from_word(tail_at);
        let mailbox = (tail_at & Counter::ADDRESS) as usize - 8 * LIVE_AT;
        // SAFETY: the tail of a direct stream is the mailbox's receive progress (`fill`).
        let words = unsafe { Words::at(core::ptr::with_exposed_provenance_mut(mailbox)) };
        Express { words, tail }
    }

    /// The word that says whether the socket is open; see [`Self::says_open`].
    #[inline(always)]
    pub(crate) fn state_word(&self) -> Word {
        self.record.get(STATE)
    }

    /// Whether that word, read, says that this launch has used the socket and it is open.
    #[inline(always)]
    pub(crate) fn says_in_use(&self, word: u64) -> bool {
        word == state(self.handle, OPEN) | epoch(self.net)
    }

    /// Whether that word, read, says that no group has begun to close the socket. One that gets
    /// its rings is open, too.
    #[inline(always)]
    pub(crate) fn says_open(&self, word: u64) -> bool {
        let word = bare(word);
        word == state(self.handle, OPEN) || word == state(self.handle, INSTALLING)
    }

    /// A direction's position, which is its lock.
    #[inline(always)]
    pub(crate) fn position_word(&self, side: Side) -> Word {
        self.record.get(if side == Side::Receive { RECEIVE } else { SEND })
    }

    #[inline(always)]
    fn seen_word(&self, side: Side) -> Word {
        self.record.get(if side == Side::Receive { RECEIVE_SEEN } else { SEND_SEEN })
    }

    /// Where a direction stood last, whether or not a group has it.
    #[inline(always)]
    pub(crate) fn position(&self, side: Side) -> u64 {
        express::without_number(self.numbered_position(side))
    }

    /// The same with the number of the last express message.
    #[inline(always)]
    pub(crate) fn numbered_position(&self, side: Side) -> u64 {
        self.seen_word(side).load()
    }

    /// Notes where a direction stands that the calling thread's group has: for the thread that
    /// settles, and for `gpoll`.
    #[inline(always)]
    pub(crate) fn note_position(&self, side: Side, word: u64) {
        self.seen_word(side).store(word);
    }

    /// Takes a direction for the calling group, if no other has it, and tells where it stands, with
    /// the number of the last express message.
    #[inline(always)]
    pub(crate) fn try_lock(&self, side: Side) -> Option<u64> {
        let position = self.position_word(side).swap_on_gpu(TAKEN);
        (position != TAKEN).then_some(position)
    }

    /// The same for who tries again and again: a look first, since exchanges in a loop would keep the
    /// owner from its own word.
    #[inline(always)]
    pub(crate) fn lock_if_free(&self, side: Side) -> Option<u64> {
        let free = self.position_word(side).load() != TAKEN;
        if free { self.try_lock(side) } else { None }
    }

    /// The same; where another group has it, it waits, or is told not to and gets EBUSY.
    #[inline(always)]
    pub(crate) fn lock(&self, side: Side, wait: bool) -> Result<u64, Errno> {
        match self.try_lock(side) {
            Some(position) => Ok(position),
            None => match lock_slowly(self.net, self.handle, side, wait) {
                error if error as i64 > -4096 && (error as i64) < 0 => {
                    Err(Errno(-(error as i64) as i32))
                }
                position => Ok(position),
            },
        }
    }

    /// Gives a direction back, standing at `position` (with its number). Call a release fence first
    /// if bytes were sent or seen.
    #[inline(always)]
    pub(crate) fn unlock(&self, side: Side, position: u64) {
        self.position_word(side).store(position);
    }

    /// Notes that the group of that kind which the calling thread leads, and which holds the
    /// receive side, has it now: this group, and the one that had it last. An exchange, since
    /// nothing else tells of what the last one has written there.
    #[inline(always)]
    pub(crate) fn change_receiver(&self, kind: GroupKind) -> (u64, u64) {
        let kind = if planted(Bug::LeadersAlike) { 0 } else { kind as u64 };
        let position = simt::position();
        let leader = u64::from(position.block) << 10 | u64::from(position.thread);
        // Heads of one group come in order, since its calls do. Those of a block and of its first
        // warp do not: different threads store them, and nothing makes one wait for the other.
        let group = self.net.epoch() << 44 | (leader + 1) << 2 | kind;
        (group, self.record.get(RECEIVER).swap_on_gpu(group))
    }

    /// Takes that back.
    #[cold]
    pub(crate) fn restore_receiver(&self, last: u64) {
        self.record.get(RECEIVER).swap_on_gpu(last);
    }

    /// Where the other side is told how far a direction is.
    #[inline(always)]
    pub(crate) fn counter(&self, side: Side) -> Counter {
        let at = if side == Side::Receive { RECEIVE_HEAD_AT } else { SEND_TAIL_AT };
        Counter::from_word(self.record.get(at).load())
    }

    /// Tells the kernel at the other end of a direct stream that no more comes (send), or that no
    /// more is taken (receive); the calling group has the side. The proxies do so, too, later.
    pub(crate) fn end_direct(&self, side: Side, position: u64) {
        if self.traits().is_direct() && !self.ring(side).is_none() {
            simt::release_fence();
            self.counter(side).end(express::without_number(position) & !SHUT_THERE);
        }
    }

    /// Whether calls that would wait return EAGAIN.
    #[inline(always)]
    pub(crate) fn non_blocking(&self) -> bool {
        self.traits().non_blocking()
    }

    /// Whether a kernel has shut sending down. By itself, since what is remembered of the proxy's
    /// progress may be older than that.
    #[inline(always)]
    pub(crate) fn send_is_shut(&self) -> bool {
        self.record.get(SEND_SHUT).load() == SHUT
    }

    /// How small messages are sent.
    #[inline(always)]
    pub(crate) fn send_way(&self) -> SendWay {
        SendWay(self.record.get(SEND_SHUT).load())
    }

    /// Notes that.
    pub(crate) fn shut_send(&self) {
        self.record.get(SEND_SHUT).store(SHUT);
    }

    /// Gives the send side back after a shutdown, which may have failed.
    pub(crate) fn release_send(&self, position: u64, shut: bool) {
        if shut {
            self.end_direct(Side::Send, position);
        }
        // Who takes the side next knows what was sent before, and that it was shut down.
        simt::gpu_release_fence();
        self.unlock(Side::Send, if shut { position | SHUT_THERE } else { position });
    }

    /// Whether the place is still this socket's, and no group has begun to close it: for a group
    /// that has just got one of its sides, and may have waited for it.
    #[inline(always)]
    pub(crate) fn is_still_here(&self) -> bool {
        let word = bare(self.record.get(STATE).load());
        word >> 24 == u64::from(self.handle.generation()) && word & 0xFF != CLOSING
    }

    /// Sets that.
    pub(crate) fn set_non_blocking(&self, on: bool) {
        let kind = self.record.get(KIND).load() & !NON_BLOCKING;
        self.record.get(KIND).store(if on { kind | NON_BLOCKING } else { kind });
    }

    /// How long calls of a direction may wait, in nanoseconds; 0: no limit.
    #[inline(always)]
    pub(crate) fn timeout(&self, side: Side) -> u64 {
        self.timeout_word(side).load()
    }

    /// Sets that.
    pub(crate) fn set_timeout(&self, side: Side, ns: u64) {
        self.timeout_word(side).store(ns);
    }

    #[inline(always)]
    fn timeout_word(&self, side: Side) -> Word {
        self.record.get(if side == Side::Receive { RECEIVE_TIMEOUT } else { SEND_TIMEOUT })
    }
}

// What follows is rare, and stays out of line, so that it costs the data path neither registers
// nor a stack frame. Results are numbers, as the familiar calls return them, for the same reason.

/// Makes the record of a socket from its card, or waits for the group that does.
#[cold]
#[inline(never)]
fn install(net: Net, handle: Handle) -> i64 {
    let installed = Socket::named(net, handle).and_then(|socket| {
        let word = socket.record.get(STATE);
        let deadline = Deadline::after(INSTALL_NS);
        wait_until(net, socket.shard(), deadline, Watch::Stop, || {
            let seen = word.load_acquire();
            if seen == state(handle, OPEN) | epoch(net) {
                return Some(Ok(()));
            }
            if bare(seen) == state(handle, CLOSING) {
                return Some(Err(Errno::EBADF));
            }
            if bare(seen) == state(handle, INSTALLING) {
                return None;
            }
            // Another launch or another generation. The card tells whether ours is alive.
            let Some(card) = socket.card() else { return Some(Err(Errno::EBADF)) };
            if bare(seen) == state(handle, OPEN) {
                let known = word.compare_exchange(seen, state(handle, OPEN) | epoch(net));
                return known.then_some(Ok(()));
            }
            if !word.compare_exchange(seen, state(handle, INSTALLING)) {
                return None;
            }
            socket.record.get(RECEIVE_TIMEOUT).store(card.patience_ns);
            socket.record.get(SEND_TIMEOUT).store(card.patience_ns);
            socket.fill(&card, 0);
            Some(Ok(()))
        })?
    });
    installed.map_or_else(Errno::negative, |()| 0)
}

/// Takes an open socket into another state; the word that stood there. Another launch that uses
/// the socket may write its epoch at any time, which is no reason to fail.
#[inline(never)]
fn leave_open(net: Net, socket: Socket, to: u64) -> Result<u64, Errno> {
    let word = socket.record.get(STATE);
    let deadline = Deadline::after(INSTALL_NS);
    wait_until(net, socket.shard(), deadline, Watch::Proxy, || {
        let seen = word.load();
        if bare(seen) == state(socket.handle, INSTALLING) {
            return None;
        }
        if bare(seen) != state(socket.handle, OPEN) {
            return Some(Err(Errno::EBADF));
        }
        word.compare_exchange(seen, state(socket.handle, to)).then_some(Ok(seen))
    })?
}

/// Takes over the rings that a connect or listen of this group has just brought.
#[inline(never)]
pub(crate) fn reinstall(net: Net, handle: Handle) -> Result<(), Errno> {
    let socket = Socket::named(net, handle)?;
    let word = socket.record.get(STATE);
    let seen = leave_open(net, socket, INSTALLING)?;
    if !socket.ring(Side::Send).is_none() {
        // Another group was first, and may have used them.
        word.store_release(seen);
        return Ok(());
    }
    // A group that has just learnt that there is no connection yet is about to put its position
    // back, which must not come behind the new one.
    for side in [Side::Receive, Side::Send] {
        let free = || socket.lock_if_free(side);
        let _ = wait_until(net, socket.shard(), Deadline::after(INSTALL_NS), Watch::Proxy, free);
    }
    match socket.card() {
        Some(card) => {
            let non_blocking = socket.record.get(KIND).load() & NON_BLOCKING;
            socket.fill(&card, non_blocking);
            Ok(())
        }
        None => {
            word.store_release(state(handle, CLOSING));
            Err(Errno::EBADF)
        }
    }
}

/// Takes over the rings that a connect has brought since the record was made: those of a direct
/// stream come with the answer of the other end. Whether there are any now.
#[cold]
#[inline(never)]
pub(crate) fn adopt_rings(net: Net, handle: Handle) -> bool {
    let Ok(socket) = Socket::open(net, handle) else { return false };
    if !socket.ring(Side::Send).is_none() {
        return true;
    }
    let connected = socket.status().state() == Status::CONNECTED;
    let has_rings = |card: Card| card.kind == Kind::Stream && card.send.capacity != 0;
    connected && socket.card().is_some_and(has_rings) && reinstall(net, handle).is_ok()
}

/// Takes a direction that another group has.
#[cold]
#[inline(never)]
fn lock_slowly(net: Net, handle: Handle, side: Side, wait: bool) -> u64 {
    let taken = Socket::named(net, handle).and_then(|socket| {
        let patience = if wait { socket.timeout(side) } else { BRIEFLY_NS };
        let deadline = Deadline::after_or_never(patience);
        wait_until(net, socket.shard(), deadline, Watch::Stop, || {
            if !socket.is_open() {
                return Some(Err(Errno::EBADF));
            }
            socket.lock_if_free(side).map(Ok)
        })
    });
    match taken {
        Ok(Ok(position)) => position,
        Err(Errno::ETIMEDOUT) if !wait => Errno::EBUSY.negative() as u64,
        Ok(Err(errno)) | Err(errno) => errno.negative() as u64,
    }
}

/// Tells the proxy how far a direction of a direct stream is. The calling group has the side, and
/// gives it back later: who has it next tells of more, behind this.
#[cold]
#[inline(never)]
#[allow(unsafe_code, reason = "a word of the net's layout")]
pub(crate) fn tell_proxy(net: Net, handle: Handle, side: Side, position: u64) {
    let Ok(socket) = Socket::named(net, handle) else { return };
    let address = match side {
        Side::Receive => net.receive_head(socket.index()),
        Side::Send => net.send_tail(socket.index()),
    };
    let number = socket.record.get(KIND).load() >> (TOLD_SHIFT + 4 * side as u32) & 15;
    // SAFETY: as in `proxy_word`.
    unsafe { Word::at(address) }.store(express::with_number(position, number));
    simt::gpu_release_fence();
}

/// The calling thread's group has got the receive side from another: sees that the other's head has
/// reached the proxy, before its own can. The side is given back without a fence, which would cost
/// every group that receives alone; so it is for those who share a socket to wait for one another.
#[cold]
#[inline(never)]
pub(crate) fn follow_receiver(
    net: Net,
    socket: Socket,
    position: u64,
    last: u64,
) -> Result<(), Errno> {
    if planted(Bug::HeadsOvertake) {
        return Ok(());
    }
    let head = socket.counter(Side::Receive);
    if last == 0 && !head.is_direct() {
        // For the next one to see: until now an earlier socket's head stands there.
        head.store(position);
        return Ok(());
    }
    let arrived = || head.says(position).then_some(());
    wait_until(net, socket.shard(), Deadline::after(INSTALL_NS), Watch::Proxy, arrived)
        .map_err(|errno| if errno == Errno::ETIMEDOUT { Errno::EBUSY } else { errno })
}

/// Makes every call on the socket fail from now on, and waits until no group uses it.
#[inline(never)]
pub(crate) fn begin_close(net: Net, handle: Handle, deadline: Deadline) -> Result<(), Errno> {
    let socket = Socket::named(net, handle)?;
    let word = socket.record.get(STATE);
    let seen = leave_open(net, socket, CLOSING)?;
    let (mut received, mut sent) = (None, 0);
    for side in [Side::Receive, Side::Send] {
        let free = || socket.lock_if_free(side);
        let held = wait_until(net, socket.shard(), deadline, Watch::Proxy, free);
        match held {
            Ok(position) if side == Side::Receive => received = Some(position),
            Ok(position) => sent = position,
            Err(errno) => {
                // A group keeps a window open: it may go on, and the close be tried again.
                if let Some(position) = received {
                    socket.unlock(Side::Receive, position);
                }
                word.store_release(seen);
                return Err(if errno == Errno::ENETDOWN { errno } else { Errno::EBUSY });
            }
        }
    }
    let head = socket.counter(Side::Receive);
    let followed = head.is_direct() || socket.record.get(RECEIVER).load() != 0;
    if let (Some(position), true) = (received, followed) {
        // The last head must not arrive when the place is another socket's, or behind the end. A
        // hostile one may never be right, which is no reason to keep the socket.
        let arrived = || head.says(position).then_some(());
        let _ = wait_until(net, socket.shard(), Deadline::after(HEAD_NS), Watch::Proxy, arrived);
    }
    socket.end_direct(Side::Send, sent);
    socket.end_direct(Side::Receive, received.unwrap_or(0));
    Ok(())
}
