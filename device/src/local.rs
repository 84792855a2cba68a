//! A socket as the GPU keeps it: state, locks, positions and options in GPU memory.
//!
//! The record is made from the socket's card when a kernel first names the handle, by whichever
//! group comes first. One reading and one writing group at a time: each side's lock is the lowest
//! bit of its position. One thread calls this, for its group.

use crate::abi::card::{Card, Kind, Place, Progress, Status};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::layout::{LIVE_WORDS, LOCAL_WORDS};
use crate::abi::net::Net;
use crate::abi::word::{Word, Words};
use crate::wait::{Deadline, Watch, wait_until};

// Words of the record.
const STATE: usize = 0;
const RECEIVE: usize = 1;
const SEND: usize = 2;
const SEND_PROGRESS: usize = 3;
const RECEIVE_PLACE: usize = 4;
const SEND_PLACE: usize = 5;
const CAPACITIES: usize = 6;
const KIND: usize = 7;
const NON_BLOCKING: usize = 8;
const RECEIVE_TIMEOUT: usize = 9;
const SEND_TIMEOUT: usize = 10;

// States, beside the generation in the STATE word.
const INSTALLING: u64 = 1;
const OPEN: u64 = 2;
const CLOSING: u64 = 3;

/// How long a record may be in the making: a few loads by another group.
const INSTALL_NS: u64 = 5_000_000_000;

#[inline(always)]
const fn state(handle: Handle, state: u64) -> u64 {
    (handle.generation() as u64) << 8 | state
}

/// A direction of a socket, with the words that belong to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Receiving, accepting, taking events.
    Receive,
    /// Sending.
    Send,
}

/// An open socket.
#[derive(Clone, Copy)]
pub(crate) struct Socket<'n> {
    net: &'n Net,
    handle: Handle,
    index: usize,
    record: Words<LOCAL_WORDS>,
}

impl<'n> Socket<'n> {
    /// The socket that `handle` names; EBADF for any that is not open.
    #[inline]
    pub(crate) fn open(net: &'n Net, handle: Handle) -> Result<Self, Errno> {
        let socket = Self::named(net, handle)?;
        // Acquire: who sees OPEN sees the record.
        if socket.record.get(STATE).load_acquire() == state(handle, OPEN) {
            return Ok(socket);
        }
        socket.install()
    }

    /// The socket that `handle` names, open or not: for a group that holds one of its locks.
    #[inline(always)]
    pub(crate) fn named(net: &'n Net, handle: Handle) -> Result<Self, Errno> {
        let layout = net.layout();
        let known = handle.is_well_formed()
            && handle.shard() < layout.shards
            && handle.place() < layout.places;
        if !known {
            return Err(Errno::EBADF);
        }
        let index = handle.shard() as usize * layout.places as usize + handle.place() as usize;
        Ok(Self { net, handle, index, record: net.local(index) })
    }

    /// Makes the record from the card, or waits for the group that does.
    #[cold]
    #[inline(never)]
    fn install(self) -> Result<Self, Errno> {
        let word = self.record.get(STATE);
        let deadline = Deadline::after(INSTALL_NS);
        wait_until(self.net, self.shard(), deadline, Watch::Stop, || {
            let seen = word.load_acquire();
            if seen == state(self.handle, OPEN) {
                return Some(Ok(()));
            }
            if seen == state(self.handle, CLOSING) {
                return Some(Err(Errno::EBADF));
            }
            if seen == state(self.handle, INSTALLING) {
                return None;
            }
            // Another generation. The card tells whether ours is the living one.
            let Some(card) = self.card() else { return Some(Err(Errno::EBADF)) };
            if !word.compare_exchange(seen, state(self.handle, INSTALLING)) {
                return None;
            }
            self.record.get(NON_BLOCKING).store(0);
            self.record.get(RECEIVE_TIMEOUT).store(card.patience_ns);
            self.record.get(SEND_TIMEOUT).store(card.patience_ns);
            self.fill(&card);
            Some(Ok(()))
        })??;
        Ok(self)
    }

    /// Takes over the rings that a connect or listen of this group has just brought.
    #[inline(never)]
    pub(crate) fn reinstall(&self) -> Result<(), Errno> {
        let word = self.record.get(STATE);
        if !word.compare_exchange(state(self.handle, OPEN), state(self.handle, INSTALLING)) {
            return Err(Errno::EBADF);
        }
        match self.card() {
            Some(card) => {
                self.fill(&card);
                Ok(())
            }
            None => {
                word.store_release(state(self.handle, CLOSING));
                Err(Errno::EBADF)
            }
        }
    }

    fn fill(&self, card: &Card) {
        let words = card.to_words();
        self.record.get(RECEIVE).store(card.receive.base << 1);
        self.record.get(SEND).store(card.send.base << 1);
        self.record.get(SEND_PROGRESS).store(Progress::new(card.send.base, 0).0);
        self.record.get(RECEIVE_PLACE).store(words[1]);
        self.record.get(SEND_PLACE).store(words[2]);
        self.record.get(CAPACITIES).store(words[3]);
        self.record.get(KIND).store(card.kind as u64);
        // Release: who sees OPEN sees the record.
        self.record.get(STATE).store_release(state(self.handle, OPEN));
    }

    /// The card, if it is this generation's.
    fn card(&self) -> Option<Card> {
        let words = self.net.card(self.index);
        // Acquire: the proxy writes this word last.
        let identity = words.get(0).load_acquire();
        let card = Card::from_words(&words.read())?;
        let mine = identity >> 8 == u64::from(self.handle.generation())
            && card.generation == self.handle.generation();
        mine.then_some(card)
    }

    /// The shard that serves it.
    #[inline(always)]
    pub(crate) fn shard(&self) -> usize {
        self.handle.shard() as usize
    }

    /// Its handle.
    #[inline(always)]
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// What it is.
    #[inline(always)]
    pub(crate) fn kind(&self) -> Option<Kind> {
        Kind::from_number(self.record.get(KIND).load() as u8)
    }

    /// Whether no group has begun to close it.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.record.get(STATE).load() == state(self.handle, OPEN)
    }

    /// What the proxy says of a direction: how far it is, and whether it is over.
    #[inline(always)]
    pub(crate) fn progress(&self, side: Side) -> Progress {
        // Acquire: who sees the counter sees the bytes (receive), or may overwrite them (send).
        Progress(self.live().get(side as usize).load_acquire())
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
        Status(self.live().get(2).load_acquire())
    }

    #[inline(always)]
    fn live(&self) -> Words<LIVE_WORDS> {
        self.net.live(self.index)
    }

    /// The error that ended a direction.
    #[inline(always)]
    pub(crate) fn failure(&self) -> Errno {
        match self.status().errno() {
            0 => Errno::ECONNRESET,
            errno => Errno(errno),
        }
    }

    /// The ring of a direction: its first byte and its capacity. ENOTCONN without one.
    #[inline(always)]
    pub(crate) fn ring(&self, side: Side) -> Result<(*mut u8, usize), Errno> {
        let capacities = self.record.get(CAPACITIES).load();
        let (word, capacity) = match side {
            Side::Receive => (self.record.get(RECEIVE_PLACE).load(), capacities as u32),
            Side::Send => (self.record.get(SEND_PLACE).load(), (capacities >> 32) as u32),
        };
        if capacity == 0 {
            return Err(Errno::ENOTCONN);
        }
        let region = (word >> 56) as u8;
        let place = Place { region, offset: word & (u64::MAX >> 8), capacity, base: 0 };
        let ring = self.net.ring(&place).ok_or(Errno::EFAULT)?;
        Ok((ring, capacity as usize))
    }

    #[inline(always)]
    fn position_word(&self, side: Side) -> Word {
        self.record.get(if side == Side::Receive { RECEIVE } else { SEND })
    }

    /// Where a direction stands, whether or not a group holds it.
    #[inline(always)]
    pub(crate) fn position(&self, side: Side) -> u64 {
        self.position_word(side).load_acquire() >> 1
    }

    /// Takes a direction for the calling group and tells where it stands. Where another group has
    /// it: EBUSY if told not to wait, else it waits.
    #[inline(always)]
    pub(crate) fn lock(&self, side: Side, wait: bool, deadline: Deadline) -> Result<u64, Errno> {
        let word = self.position_word(side);
        let attempt = || {
            let seen = word.load();
            (seen & 1 == 0 && word.compare_exchange(seen, seen | 1)).then_some(seen >> 1)
        };
        if let Some(position) = attempt() {
            return Ok(position);
        }
        if !wait {
            return Err(Errno::EBUSY);
        }
        wait_until(self.net, self.shard(), deadline, Watch::Stop, || {
            if self.is_open() { attempt().map(Ok) } else { Some(Err(Errno::EBADF)) }
        })?
    }

    /// Gives a direction back, standing at `position`. Call a release fence first if the position
    /// has moved.
    #[inline(always)]
    pub(crate) fn unlock(&self, side: Side, position: u64) {
        self.position_word(side).store(position << 1);
    }

    /// Tells the proxy where a direction stands. Call a release fence first.
    #[inline(always)]
    pub(crate) fn publish(&self, side: Side, position: u64) {
        match side {
            Side::Receive => self.net.receive_head(self.index).store(position),
            Side::Send => self.net.send_tail(self.index).store(position),
        }
    }

    /// Makes every call on the socket fail from now on, and waits until no group uses it.
    #[inline(never)]
    pub(crate) fn begin_close(&self, deadline: Deadline) -> Result<(), Errno> {
        let word = self.record.get(STATE);
        if !word.compare_exchange(state(self.handle, OPEN), state(self.handle, CLOSING)) {
            return Err(Errno::EBADF);
        }
        for side in [Side::Receive, Side::Send] {
            let lock = self.position_word(side);
            let held = wait_until(self.net, self.shard(), deadline, Watch::Proxy, || {
                let seen = lock.load();
                (seen & 1 == 0 && lock.compare_exchange(seen, seen | 1)).then_some(seen >> 1)
            });
            if held.is_err() {
                // A group keeps a window open: it may go on, and the close be tried again.
                if side == Side::Send {
                    self.unlock(Side::Receive, self.position(Side::Receive));
                }
                word.store_release(state(self.handle, OPEN));
                return Err(Errno::EBUSY);
            }
        }
        Ok(())
    }

    /// Whether calls that would wait return EAGAIN.
    #[inline(always)]
    pub(crate) fn non_blocking(&self) -> bool {
        self.record.get(NON_BLOCKING).load() != 0
    }

    /// Sets that.
    pub(crate) fn set_non_blocking(&self, on: bool) {
        self.record.get(NON_BLOCKING).store(u64::from(on));
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
