//! The p2p streams that a poller watches. Kernels move their bytes without the proxies, so the poller's own group
//! looks at the streams' counters: a list in GPU memory says which, and how far they were when it looked last. Nobody
//! else reads or writes it, and the other ends of the streams know nothing of it.
//!
//! | words | what |
//! | --- | --- |
//! | 0 | how many entries there are |
//! | 1 | how many events the group's threads have found in this turn |
//! | 2 | the entry that is looked at first, so that each comes to its turn where there are more events than room |
//! | 3 | how many waits in a row have found events here, and have not looked at the poller's ring |
//! | 4 and up | entries: the stream's handle, the token, the tail and the head as last seen, with flags |
//! | behind them | for each socket of the net: which entry is its own, if that names it |

#![allow(unsafe_code, reason = "words of a list whose size the host knows")]

use crate::abi::bits::{Progress, RecordState};
use crate::abi::call::{Event, POLLIN, POLLOUT};
use crate::abi::descriptor::{Kind, RingLocation};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::layout::{LIST_ENTRY_WORDS, LIST_HEADER_WORDS, PAGE_BYTES, list_bytes};
use crate::abi::message::Operation;
use crate::abi::net::{Net, WINDOW};
use crate::abi::word::Word;
use crate::planted::{Bug, planted};
use crate::shared::Shared;

use super::direction::Direction;
use super::inbox::Inbox;
use super::install::adopt_rings;
use super::record::{self, INBOX, INFO, INSTALLING, Info, LIST, STATE, Socket, bare};
use super::request::{Payload, ask};

const LENGTH: usize = 0;
const FOUND: usize = 1;
const FIRST: usize = 2;
const STREAK: usize = 3;

/// So many waits in a row may leave the poller's ring alone.
const LONGEST_STREAK: u64 = 8;

// Words of an entry.
const HANDLE: usize = 0;
const TAIL: usize = 2;

/// Flags beside the head: bytes are waited for, ...
const WANTS_IN: u64 = 1 << 60;
/// ... or space; ...
const WANTS_OUT: u64 = 1 << 61;
/// ... the counters have not been looked at yet; ...
const FRESH: u64 = 1 << 62;
/// ... the socket was closed.
const GONE: u64 = 1 << 63;
/// The head.
const COUNT: u64 = WANTS_IN - 1;

/// A poller's list.
#[derive(Clone, Copy)]
pub(crate) struct List {
    net: Net,
    poller: Handle,
    at: u64,
}

impl List {
    /// That of a poller, if it has one: where it is, or 0.
    #[inline(always)]
    pub(crate) fn address_of(poller: &Socket) -> u64 {
        poller.record.get(LIST).load()
    }

    /// The list there.
    #[inline(always)]
    pub(crate) fn at(net: Net, poller: Handle, address: u64) -> Option<Self> {
        (address != 0).then_some(Self { net, poller, at: address })
    }

    #[inline(always)]
    fn word(self, index: usize) -> Word {
        // SAFETY: callers' indices are below what `list_bytes` counts.
        unsafe {
            Word::at(
                core::ptr::with_exposed_provenance_mut::<u64>(self.at as usize).wrapping_add(index),
            )
        }
    }

    /// How many entries there are.
    #[inline(always)]
    fn length(self) -> usize {
        (self.word(LENGTH).load() as usize).min(self.net.layout().sockets())
    }

    /// A word of an entry.
    #[inline(always)]
    fn entry(self, place: usize, word: usize) -> Word {
        self.word(LIST_HEADER_WORDS + LIST_ENTRY_WORDS * place + word)
    }

    /// The word that says where a socket's entry is.
    #[inline(always)]
    fn place_of(self, slot: usize) -> Word {
        self.word(LIST_HEADER_WORDS + LIST_ENTRY_WORDS * self.net.layout().sockets() + slot)
    }

    /// The entry of a socket, or of an earlier one in its slot.
    fn find(self, slot: usize) -> Option<usize> {
        let place = self.place_of(slot).load() as usize;
        let named = || Socket::named(self.net, Handle(self.entry(place, HANDLE).load()));
        (place < self.length() && named().is_ok_and(|socket| socket.index() == slot))
            .then_some(place)
    }

    /// Leaves an entry out: the last one takes its place.
    fn leave_out(self, place: usize) {
        let last = self.length() - 1;
        let [handle, token] = self.entry(last, HANDLE).load_two();
        let seen = self.entry(last, TAIL).load_two();
        self.entry(place, HANDLE).store_two([handle, token]);
        self.entry(place, TAIL).store_two(seen);
        if let Ok(socket) = Socket::named(self.net, Handle(handle)) {
            self.place_of(socket.index()).store(place as u64);
        }
        self.word(LENGTH).store(last as u64);
    }

    /// Leaves out a few entries whose sockets were closed.
    fn tidy(self) {
        // Counted: as many as come with one entry, and one more, so that they become fewer.
        for _ in 0..2 {
            let (length, first) = (self.length(), self.word(FIRST).load() as usize);
            let place = if first < length { first } else { 0 };
            if length > 0 && self.entry(place, TAIL + 1).load() & GONE != 0 {
                self.leave_out(place);
            } else {
                self.word(FIRST).store(place as u64 + 1);
            }
        }
    }
}

/// Has a poller look at a stream's counters itself, or with no events no longer, if the stream is or may become a
/// p2p stream. 0, or a negative error number. One thread calls it, of the poller's group.
#[inline(never)]
pub(crate) fn watch(net: Net, poller: Handle, handle: Handle, events: u64, token: u64) -> i64 {
    // Its record is made here, which would forget the list later.
    let poller = match Socket::open(net, poller) {
        Ok(poller) => poller,
        Err(errno) => return errno.negative(),
    };
    let socket = Socket::known(net, handle);
    if !matches!(socket.info().kind(), Some(Kind::Stream | Kind::Fresh)) {
        return 0;
    }
    let has_rings = !socket.ring(Direction::Send).is_none();
    if has_rings & !socket.info().is_p2p() {
        return 0;
    }
    let mut list = List::at(net, poller.handle, List::address_of(&poller));
    if list.is_none() {
        if events == 0 {
            return 0;
        }
        let page = ask(
            net,
            poller.shard(),
            Operation::WatchList,
            poller.handle,
            0,
            0,
            0,
            Payload::NONE,
            core::ptr::null_mut(),
        );
        if page <= 0 {
            return page;
        }
        let bytes = list_bytes(net.layout().sockets());
        let capacity = bytes.next_power_of_two() as u32;
        let offset = (page as u64 - 1) * PAGE_BYTES as u64;
        let at = net.ring(&RingLocation { region: WINDOW, offset, capacity, base: 0 });
        if at == 0 {
            return Errno::ENOBUFS.negative();
        }
        let new = List { net, poller: poller.handle, at };
        new.word(LENGTH).store_two([0, 0]);
        new.word(FIRST).store_two([0, 0]);
        poller.record.get(LIST).store(at);
        list = Some(new);
    }
    let Some(list) = list else { return 0 };
    let known = list.find(socket.index());
    if events == 0 {
        if let Some(place) = known {
            list.leave_out(place);
        }
        return 0;
    }
    list.tidy();
    // Tidying may have moved it.
    let mut place = list.find(socket.index());
    let next = list.length();
    if place.is_none() && next < net.layout().sockets() {
        list.place_of(socket.index()).store(next as u64);
        list.word(LENGTH).store(next as u64 + 1);
        place = Some(next);
    }
    // There is room for all sockets of the net.
    let Some(place) = place else { return Errno::ENOBUFS.negative() };
    let wants = |event: u16, flag: u64| if events & u64::from(event) != 0 { flag } else { 0 };
    let flags = wants(POLLIN, WANTS_IN) | wants(POLLOUT, WANTS_OUT) | FRESH;
    list.entry(place, HANDLE).store_two([handle.0, token]);
    list.entry(place, TAIL).store_two([0, flags]);
    if has_rings & socket.info().is_p2p() {
        // The poller that has watched it until now sees that.
        socket.inbox().watcher().store(list.poller.0);
    }
    0
}

impl List {
    /// A thread's part of a turn: looks at each `size`th stream, and puts what happened on them into `events` as far as
    /// there is room. Whether it found anything.
    #[inline(always)]
    pub(crate) fn look(self, rank: usize, size: usize, events: Shared<Event>) -> bool {
        let (length, first) = (self.length(), self.word(FIRST).load() as usize);
        // There may be fewer entries than when it was set.
        let first = if first < length { first } else { 0 };
        let (mut at, mut any) = (rank, false);
        // Counted: the entries.
        while at < length {
            let place = first + at;
            let place = if place < length { place } else { place.wrapping_sub(length) };
            if place < length {
                any |= self.look_at(place, events);
            }
            at += size;
        }
        any
    }

    #[inline(always)]
    fn look_at(self, place: usize, events: Shared<Event>) -> bool {
        let [handle, token] = self.entry(place, HANDLE).load_two();
        let [tail_seen, head_seen] = self.entry(place, TAIL).load_two();
        if head_seen & GONE != 0 {
            return false;
        }
        let handle = Handle(handle);
        let Ok(socket) = Socket::named(self.net, handle) else { return false };
        // All on their way before the first is looked at.
        let state = RecordState(socket.record.get(STATE).load());
        let (info, inbox) = (socket.tagged(INFO), socket.tagged(INBOX));
        if !state.is_not_closing(handle.generation()) {
            self.entry(place, TAIL + 1).store(head_seen | GONE);
            return false;
        }
        if bare(state.0) == record::state(handle, INSTALLING) {
            // Its words are being stored.
            return false;
        }
        let differs = info.differs(handle.generation()) | inbox.differs(handle.generation());
        if (differs != 0) | !Info(info.value()).is_p2p() {
            // It is being made, or connects, or is no p2p stream.
            return (head_seen & FRESH != 0) && self.may_become_one(handle, place, head_seen);
        }
        let inbox = Inbox::at(inbox.value());
        // No acquire: the receive that follows looks itself, and sees no less.
        let [tail, head] = inbox.both_relaxed();
        let watcher = inbox.watcher().load();
        let (tail, head) = (Progress(tail).count(), Progress(head).count());
        if watcher != self.poller.0 {
            if watcher != 0 {
                self.entry(place, TAIL + 1).store(head_seen | GONE);
                return false;
            }
            // It was not connected when it was added.
            inbox.watcher().store(self.poller.0);
        }
        if head_seen & FRESH != 0 {
            return self.begin(socket, place, head_seen, tail, head, token, events);
        }
        let moved = |now: u64, seen: u64, wants: u64| {
            (head_seen & wants != 0) & (now & COUNT != seen & COUNT)
        };
        let incoming = moved(tail, tail_seen, WANTS_IN);
        let outgoing = moved(head, head_seen, WANTS_OUT);
        if !(incoming | outgoing) {
            return false;
        }
        let what = if incoming { u64::from(POLLIN) } else { 0 }
            | if outgoing { u64::from(POLLOUT) } else { 0 };
        self.put(place, token, what, events, [tail, head & COUNT | head_seen & !COUNT])
    }

    /// The first look at a stream's counters.
    #[cold]
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
    fn begin(
        self,
        socket: Socket,
        place: usize,
        flags: u64,
        tail: u64,
        head: u64,
        token: u64,
        events: Shared<Event>,
    ) -> bool {
        let seen = [tail, head & COUNT | flags & !(COUNT | FRESH)];
        let unread = tail != socket.position(Direction::Receive).count();
        // The head may be ahead of the position for a moment: a packet is announced before its group gives the
        // direction back.
        let used = socket.position(Direction::Send).count().wrapping_sub(head) as i64;
        let space = used < socket.ring(Direction::Send).capacity() as i64;
        let ready = |is: bool, wants: u64, event: u16| {
            let is = is & (flags & wants != 0) & !planted(Bug::ReadyNotReported);
            if is { u64::from(event) } else { 0 }
        };
        let what = ready(unread, WANTS_IN, POLLIN) | ready(space, WANTS_OUT, POLLOUT);
        if what != 0 {
            return self.put(place, token, what, events, seen);
        }
        self.entry(place, TAIL).store_two(seen);
        false
    }

    /// A stream that has no rings yet takes them over when it is connected. Whether anything happened: never.
    #[cold]
    #[inline(never)]
    fn may_become_one(self, handle: Handle, place: usize, flags: u64) -> bool {
        let socket = Socket::known(self.net, handle);
        if adopt_rings(self.net, handle) && !socket.info().is_p2p() {
            // The proxy reports what happens on it.
            self.entry(place, TAIL + 1).store(flags | GONE);
        }
        false
    }

    /// Puts an event where there is room, and remembers what was seen. Whether there is any.
    #[inline(always)]
    fn put(
        self,
        place: usize,
        token: u64,
        what: u64,
        events: Shared<Event>,
        seen: [u64; 2],
    ) -> bool {
        let counter = self.word(FOUND);
        let mut at = counter.load();
        // Counted: the group's threads, each of which goes on once.
        while counter.replace_on_gpu(at, at + 1, true) != at {
            at = counter.load();
        }
        if at < events.len() as u64 {
            events.set(at as usize, Event { token, events: what });
            self.entry(place, TAIL).store_two(seen);
        }
        true
    }

    /// Whether a wait is to look at the poller's ring first. One thread asks.
    #[inline(always)]
    pub(crate) fn owes_ring_a_look(self) -> bool {
        let streak = self.word(STREAK).load();
        let owes = streak >= LONGEST_STREAK;
        self.word(STREAK).store(if owes { 0 } else { streak + 1 });
        owes
    }

    /// Ends a wait: how many events were found. One thread calls it, behind a barrier.
    #[inline(always)]
    pub(crate) fn take(self, room: usize) -> usize {
        let found = self.word(FOUND).load() as usize;
        if found == 0 {
            return 0;
        }
        let taken = found.min(room);
        self.word(FOUND).store(0);
        let next = self.word(FIRST).load() as usize + taken;
        let length = self.length();
        self.word(FIRST).store(if next < length { next } else { 0 } as u64);
        taken
    }
}
