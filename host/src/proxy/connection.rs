//! One socket of a shard: its rings and counters, and what becomes of them.
//!
//! Counters only grow. What the GPU writes is looked at once and checked against what the proxy
//! itself knows; what makes no sense ends this socket with EPROTO, never more than that.

use gpunet_device::Handle;
use gpunet_device::abi::bits::{PACKET_BYTES, Progress, Told, Unit};
use gpunet_device::abi::card::{Card, Inboxes, Kind, Place, Status};
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::{HEAD_AT, STATUS_AT, TAIL_AT};
use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};
use gpunet_device::planted::{Bug, planted};

use super::listener::Accepting;
use super::shared::Readiness;
use super::statistics::{Counters, SocketState};
use super::watch::{Watch, Watched};
use crate::memory::{Memory, Window};
use crate::settings::config::Config;
use crate::transport::{Direction, Moved, RingRegion, Socket};

/// Sockets of a proxy thread that ended with EPROTO and are logged; the rest are counted.
const LOGGED_VIOLATIONS: u64 = 100;

/// As far as counters go.
const MOST: u64 = u64::MAX >> 6;

/// Turns that moved bytes after which a socket is busy enough to do without epoll.
pub(super) const OFTEN: u32 = if cfg!(feature = "simulation") { 4 } else { 16 };

/// Who a socket belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The program.
    Host,
    /// Accepted from a listener of the program: closed when no launch runs any more.
    AnyLaunch,
    /// A launch: closed when it ends.
    Launch(u32),
}

/// What a socket is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Fresh,
    Connecting,
    Open,
    Listening,
    Polling,
    /// Closed by its kernel; goes once what is unsent was sent, or at that time.
    Closing {
        deadline_ns: u64,
    },
}

/// Options that shape a socket before it has rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    pub(crate) receive_ring: u32,
    pub(crate) send_ring: u32,
    pub(crate) patience_ns: u64,
}

impl Wishes {
    /// What the net is set to.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            receive_ring: config.receive_ring,
            send_ring: config.send_ring,
            patience_ns: config.patience_ns,
        }
    }
}

/// A ring with the proxy's counter and the last good one of the GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) place: Place,
    /// The proxy's: tail of a receive ring, head of a send ring.
    pub(crate) ours: u64,
    /// The GPU's: head of a receive ring, tail of a send ring.
    pub(crate) theirs: u64,
    /// The GPU's word before this socket had the place; it still stands there until the first
    /// change.
    stale: u64,
    /// Of a direct stream: the number of the words that the GPU writes for it. 0 of any other.
    number: u64,
}

impl Counted {
    /// A ring that begins where `word`, the GPU's counter of an earlier socket, does no harm.
    pub(crate) fn new(place: Place, word: u64) -> Self {
        Self { place, ours: place.base, theirs: place.base, stale: word, number: 0 }
    }

    /// The same of a direct stream, which begins where all do: its words have another number than
    /// the one that stands there.
    pub(crate) fn direct(place: Place, word: u64) -> Self {
        let number = Told(word).next_number();
        Self { number, ..Self::new(place, word) }
    }

    /// As the card has it.
    fn on_card(&self) -> Place {
        Place { base: Told::new(self.place.base, self.number).0, ..self.place }
    }

    /// The first value for both counters of a ring, given what the GPU's word is now: beyond it,
    /// so that growth is never mistaken, and aligned, so that copies are.
    pub(crate) fn base_after(word: u64) -> u64 {
        // A word that was driven to the end of its range starts over.
        (Progress(word).count() & (u64::MAX >> 8)).next_multiple_of(128) + 128
    }

    /// The GPU's word before this socket had the place.
    pub(crate) fn stale_word(&self) -> u64 {
        self.stale
    }

    /// What the GPU's word says of this ring; none while it is an earlier socket's.
    fn read(&self, word: u64) -> Option<Progress> {
        match self.number {
            0 => (word != self.stale).then_some(Progress(word)),
            number => {
                let told = Told(word);
                (told.number() == number).then(|| Progress::new(told.count(), 0))
            }
        }
    }

    /// Takes a new value of the GPU's counter if it makes sense: it has not moved back, nor past
    /// `limit`.
    fn update(&mut self, count: u64, limit: u64) -> Result<(), ()> {
        if count < self.theirs || count > limit {
            return Err(());
        }
        self.theirs = count;
        Ok(())
    }
}

/// How a turn at a socket went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Something moved; there may be more.
    Moved,
    /// Nothing to do until the descriptor or the GPU says so.
    Idle,
    /// The receive ring is full: look at the GPU's counter again.
    Full,
    /// It was not tried: it rests.
    Rests,
    /// It was not tried: the net's limits leave it nothing now, and it is in the queue.
    Throttled,
}

/// A socket of a shard.
pub(crate) struct Connection {
    pub(crate) handle: Handle,
    pub(crate) index: usize,
    pub(crate) owner: Owner,
    pub(crate) phase: Phase,
    pub(crate) wishes: Wishes,
    pub(crate) socket: Option<Box<dyn Socket>>,
    pub(crate) receive: Counted,
    pub(crate) send: Counted,
    /// Of a direct stream.
    pub(super) inboxes: Option<Inboxes>,
    /// It is being connected on a way that may turn out to be another, which would need other rings:
    /// a kernel gets none before.
    pub(super) rings_may_change: bool,
    /// Cards that were published of it.
    cards: u8,
    /// Whether what was received last is a packet in the inbox.
    packet_holds: bool,
    /// Where the units of the inbox were made anew.
    units_since: u64,
    pub(crate) receive_ended: bool,
    pub(crate) send_ended: bool,
    /// The kernel will send no more: end the direction once all is sent.
    pub(crate) finish_send: bool,
    pub(crate) failure: Option<Errno>,
    /// The GPU wrote a word that makes no sense, which was told once.
    violated: bool,
    pub(crate) watch: Option<Watch>,
    /// For pollers: what is watched. In a box, since few sockets are pollers.
    pub(super) watched: Option<Box<Watched>>,
    /// Turns left in which the socket is tried without asking epoll.
    pub(crate) hot: u32,
    /// Such turns that moved bytes, since epoll has watched it; and whether epoll no longer does.
    pub(crate) moves: u32,
    pub(crate) off_epoll: bool,
    /// Bytes received since the kernel last sent any.
    pub(crate) one_way: u64,
    /// Not tried before then.
    pub(crate) rests_until_ns: u64,
    /// Its ring was full, or it is a listener that had to pause, and waits among those.
    pub(crate) waits_for_room: bool,
    /// Bytes that an attempt may move; in a net without limits of bytes, any number.
    pub(crate) cap: u64,
    /// Its bytes that count as in flight: received, and sent.
    pub(crate) flying_in: u64,
    pub(crate) flying_out: u64,
    /// Whether a direction waits for the net's limits.
    pub(crate) queued_receive: bool,
    pub(crate) queued_send: bool,
    /// Whether it counts as a socket of a kernel.
    pub(crate) counted: bool,
    /// For listeners: what accepting needs. In a box, for the same reason.
    pub(super) accepting: Option<Box<Accepting>>,
}

impl Connection {
    pub(crate) fn new(
        handle: Handle,
        index: usize,
        owner: Owner,
        wishes: Wishes,
        socket: Option<Box<dyn Socket>>,
    ) -> Self {
        Self {
            handle,
            index,
            owner,
            phase: Phase::Fresh,
            wishes,
            socket,
            receive: Counted::default(),
            send: Counted::default(),
            inboxes: None,
            rings_may_change: false,
            cards: 0,
            packet_holds: false,
            units_since: 0,
            receive_ended: false,
            send_ended: false,
            finish_send: false,
            failure: None,
            violated: false,
            watch: None,
            watched: None,
            hot: 0,
            moves: 0,
            off_epoll: false,
            one_way: 0,
            rests_until_ns: 0,
            waits_for_room: false,
            cap: u64::MAX,
            flying_in: 0,
            flying_out: 0,
            queued_receive: false,
            queued_send: false,
            counted: false,
            accepting: None,
        }
    }

    /// What the card calls it.
    fn kind(&self) -> Kind {
        match self.phase {
            Phase::Fresh => Kind::Fresh,
            Phase::Connecting | Phase::Open | Phase::Closing { .. } => Kind::Stream,
            Phase::Listening => Kind::Listener,
            Phase::Polling => Kind::Poller,
        }
    }

    /// Publishes everything the GPU may read of it; the card last.
    pub(crate) fn publish(&mut self, memory: &Memory) {
        self.units_since = self.receive.ours;
        memory.renew_units(self.index, self.units_since);
        self.publish_status(memory);
        self.publish_receive(memory);
        self.publish_send(memory);
        let place = |ring: &Counted| match self.rings_may_change {
            true => Place::default(),
            false => ring.on_card(),
        };
        let card = Card {
            generation: self.handle.generation(),
            kind: self.kind(),
            change: self.cards,
            receive: place(&self.receive),
            send: place(&self.send),
            patience_ns: self.wishes.patience_ns,
            inboxes: self.inboxes,
        };
        memory.publish_card(self.index, &card);
        if !planted(Bug::CardNotNumbered) {
            self.cards = self.cards.wrapping_add(1);
        }
    }

    fn ending(&self, ended: bool) -> u64 {
        match (ended, self.failure) {
            (false, _) => 0,
            (true, None) => Progress::ENDED,
            (true, Some(_)) => Progress::ENDED | Progress::FAILED,
        }
    }

    /// Release: bytes before the counter, status before its failure bit.
    pub(crate) fn publish_receive(&self, memory: &Memory) {
        let packet = if self.packet_holds { Progress::PACKET } else { 0 };
        let flags = self.ending(self.receive_ended) | packet;
        let progress = Progress::new(self.receive.ours, flags);
        let word = memory.live(self.index).get(TAIL_AT);
        if planted(Bug::ReceiveWithoutRelease) {
            return word.store(progress.0);
        }
        word.store_release(progress.0);
    }

    /// Release: what was sent may be overwritten.
    pub(crate) fn publish_send(&self, memory: &Memory) {
        // Over for the kernel as soon as it said so, though bytes may still be on their way.
        let ended = self.send_ended || self.finish_send;
        let progress = Progress::new(self.send.ours, self.ending(ended));
        memory.live(self.index).get(HEAD_AT).store_release(progress.0);
    }

    pub(crate) fn publish_status(&self, memory: &Memory) {
        let status = match (self.failure, self.phase) {
            // What the peer sent before may still come: the socket has failed when all is over.
            (Some(errno), Phase::Open) if !self.receive_ended => {
                Status::new(Status::CONNECTED, errno.0)
            }
            (Some(errno), _) => Status::new(Status::FAILED, errno.0),
            (None, Phase::Connecting) => Status::new(Status::CONNECTING, 0),
            (None, Phase::Open) => Status::new(Status::CONNECTED, 0),
            _ => Status::new(Status::IDLE, 0),
        };
        memory.live(self.index).get(STATUS_AT).store_release(status.0);
    }

    /// Ends the socket with an error; bytes that have arrived can still be read.
    pub(crate) fn fail(&mut self, errno: Errno, memory: &Memory, counters: &Counters) {
        self.receive_ended = true;
        self.hot = 0;
        self.fail_send(errno, memory, counters);
    }

    /// Ends sending with an error. What the peer sent before it left may still be in the system's
    /// hands: receiving goes on to its own end.
    fn fail_send(&mut self, errno: Errno, memory: &Memory, counters: &Counters) {
        self.send_ended = true;
        if self.failure.is_none() {
            counters.failed.add(1);
            tracing::debug!(handle = self.handle.0, %errno, "socket failed");
            self.failure = Some(errno);
        }
        self.publish_status(memory);
        // Sending first: a kernel that has seen its receive fail is not told that bytes are sent.
        self.publish_send(memory);
        self.publish_receive(memory);
    }

    /// Ends the socket because the GPU wrote a word that makes no sense. One that goes on writing
    /// is not told of again: it has ended, and neither the count nor the log is the kernel's to
    /// fill.
    pub(crate) fn violate(&mut self, what: &str, word: u64, memory: &Memory, counters: &Counters) {
        if self.violated {
            return;
        }
        self.violated = true;
        counters.violations.add(1);
        if counters.violations.get() <= LOGGED_VIOLATIONS {
            tracing::warn!(
                handle = self.handle.0,
                word,
                "a kernel wrote a bad {what}; its socket ends"
            );
        }
        self.fail(Errno::EPROTO, memory, counters);
    }

    /// Looks at the GPU's receive head.
    pub(crate) fn look_at_head(&mut self, memory: &Memory, counters: &Counters) {
        // Without a ring, the word is still that of the socket which had the place before.
        if self.receive.place.capacity == 0 {
            return;
        }
        // Acquire: the GPU has read the bytes before the counter, so they may be overwritten.
        let word = memory.receive_head(self.index).load_acquire();
        let Some(head) = self.receive.read(word) else { return };
        // The proxy of a direct stream does not know how much has come.
        let limit = if self.is_direct() { MOST } else { self.receive.ours };
        let sensible = self.receive.update(head.count(), limit).is_ok();
        self.receive.ours = self.receive.ours.max(self.receive.theirs);
        if !sensible {
            self.violate("receive head", word, memory, counters);
        }
    }

    /// Takes the GPU's last send tail, of a kernel that has nothing on its way any more.
    pub(crate) fn take_last_tail(&mut self, memory: &Memory, counters: &Counters) {
        let word = memory.send_tail(self.index).load_acquire();
        if !self.take_tail(word, memory, counters) {
            self.violate("send tail", word, memory, counters);
        }
    }

    /// Takes a new value of the GPU's send tail. False: its bytes are still on their way, and it
    /// is to be looked at again.
    pub(crate) fn take_tail(&mut self, word: u64, memory: &Memory, counters: &Counters) -> bool {
        // As in look_at_head. And once it was closed nobody has the handle: what is written from
        // then on is not sent, and does not keep the socket.
        let closed = matches!(self.phase, Phase::Closing { .. });
        if self.send.place.capacity == 0 || closed {
            return true;
        }
        let Some(progress) = self.send.read(word) else { return true };
        self.one_way = 0;
        let (from, tail) = (self.send.theirs, progress.count());
        let length = tail.wrapping_sub(from);
        let is_packet = progress.is_packet() && length != 0;
        // What cannot be sent at once is put into the ring, which has to be within reach.
        let reachable = self.send.place.region == RingRegion::Host as u8;
        let sensible = !is_packet || (length <= PACKET_BYTES as u64 && reachable);
        let mut bytes = None;
        if is_packet && sensible {
            bytes = memory.take_packet(self.index, from, length as usize);
            if bytes.is_none() {
                return false;
            }
        }
        let limit = match self.is_direct() {
            true => MOST,
            false => self.send.ours + u64::from(self.send.place.capacity),
        };
        if !sensible || self.send.update(tail, limit).is_err() {
            self.violate("send tail", word, memory, counters);
        } else if let Some(mut bytes) = bytes {
            counters.sent_packets.add(1);
            self.send_packet(&mut bytes[..length as usize], memory, counters);
        }
        true
    }

    /// Sends a packet without a look at the ring, where its bytes may not have arrived: what cannot be
    /// sent now is put there.
    fn send_packet(&mut self, bytes: &mut [u8], memory: &Memory, counters: &Counters) {
        let length = bytes.len() as u64;
        let first = self.send.theirs - self.send.ours == length && length <= self.cap;
        let first = first && !self.places_bytes();
        if let (true, Phase::Open, false, Some(socket)) =
            (first, self.phase, self.send_ended, &mut self.socket)
        {
            match socket.send(&Window::over(bytes)) {
                Ok(Moved::Bytes(sent)) => {
                    self.count_sent(sent.min(bytes.len()) as u64, memory, counters);
                }
                Ok(Moved::Later | Moved::End) => {}
                Err(errno) => self.fail_send(errno, memory, counters),
            }
        }
        let left = (self.send.theirs - self.send.ours).min(bytes.len() as u64) as usize;
        let window = memory.window(&self.send.place, self.send.theirs - left as u64, left);
        window.fill(&bytes[bytes.len() - left..]);
    }

    /// Bytes that the kernel sent and that are still to go.
    pub(crate) fn unsent(&self) -> u64 {
        if self.send_ended || self.is_direct() { 0 } else { self.send.theirs - self.send.ours }
    }

    /// So many bytes were sent.
    fn count_sent(&mut self, bytes: u64, memory: &Memory, counters: &Counters) {
        self.send.ours += bytes;
        self.publish_send(memory);
        counters.sent_bytes.add(bytes);
    }

    /// Receives once, as much as fits.
    pub(crate) fn pump_receive(&mut self, memory: &Memory, counters: &Counters) -> Turn {
        // One that has heard all of the stream may still hear that the other end is closed.
        if self.is_direct() && self.phase == Phase::Open && self.failure.is_none() {
            return self.hear_direct(memory, counters);
        }
        if self.receive_ended || self.phase != Phase::Open {
            return Turn::Idle;
        }
        if self.places_bytes() {
            return self.hear_of_bytes(memory, counters);
        }
        let capacity = u64::from(self.receive.place.capacity);
        if self.receive.ours - self.receive.theirs >= capacity / 2 {
            self.look_at_head(memory, counters);
        }
        let mut free = capacity - (self.receive.ours - self.receive.theirs);
        if free == 0 && planted(Bug::FullTakenForFree) {
            free = 16;
        }
        if self.receive_ended {
            return Turn::Idle;
        }
        if free == 0 {
            return Turn::Full;
        }
        let Some(socket) = &mut self.socket else { return Turn::Idle };
        let free = free.min(self.cap);
        if free == 0 {
            // To ask for nothing would look like the end.
            return Turn::Idle;
        }
        let window = memory.window(&self.receive.place, self.receive.ours, free as usize);
        match socket.receive(&window) {
            Ok(Moved::Bytes(bytes)) => {
                let bytes = (bytes as u64).min(free);
                self.one_way += bytes;
                self.count_received(bytes, memory, counters)
            }
            Ok(Moved::Later) => {
                // Now, and not when the next bytes are in a hurry.
                if self.packet_holds && self.receive.theirs != self.receive.ours {
                    self.look_at_head(memory, counters);
                }
                Turn::Idle
            }
            Ok(Moved::End) => self.end_receive(None, memory, counters),
            Err(errno) => self.end_receive(Some(errno), memory, counters),
        }
    }

    /// The same of a socket whose bytes come by themselves: hears how many did, and says how far
    /// the kernel has read.
    fn hear_of_bytes(&mut self, memory: &Memory, counters: &Counters) -> Turn {
        let wants_head = |this: &Self| this.socket.as_ref().is_some_and(|s| s.wants_head());
        if wants_head(self) {
            self.look_at_head(memory, counters);
            if self.receive_ended {
                return Turn::Idle;
            }
        }
        let free = u64::from(self.receive.place.capacity) - self.unread();
        let free = free.min(self.cap);
        let window = memory.window(&self.receive.place, self.receive.ours, free as usize);
        let head = self.receive.theirs;
        let Some(socket) = &mut self.socket else { return Turn::Idle };
        socket.consumed(head);
        match socket.receive(&window) {
            Ok(Moved::Bytes(0)) => Turn::Moved,
            Ok(Moved::Bytes(bytes)) => {
                self.count_received((bytes as u64).min(free), memory, counters)
            }
            // The kernel's next head is news for the peer.
            Ok(Moved::Later) if self.unread() > 0 && wants_head(self) => Turn::Full,
            Ok(Moved::Later) => Turn::Idle,
            Ok(Moved::End) => self.end_receive(None, memory, counters),
            Err(errno) => self.end_receive(Some(errno), memory, counters),
        }
    }

    /// So many bytes have arrived, and stand in the ring.
    fn count_received(&mut self, bytes: u64, memory: &Memory, counters: &Counters) -> Turn {
        self.packet_holds = false;
        let within_reach = self.receive.place.region == RingRegion::Host as u8;
        if bytes <= PACKET_BYTES as u64 && within_reach {
            self.put_packet(bytes, memory, counters);
        }
        self.receive.ours += bytes;
        self.publish_receive(memory);
        counters.received_bytes.add(bytes);
        Turn::Moved
    }

    /// Whether its transport moves bytes by itself.
    pub(super) fn places_bytes(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket.places_bytes())
    }

    /// Nothing more will be received: the peer has ended its stream, or it failed.
    fn end_receive(
        &mut self,
        failure: Option<Errno>,
        memory: &Memory,
        counters: &Counters,
    ) -> Turn {
        match failure {
            Some(errno) => self.fail(errno, memory, counters),
            None => {
                self.receive_ended = true;
                self.publish_receive(memory);
            }
        }
        Turn::Moved
    }

    /// Sees whether the stream has ended or failed, of a socket that may not receive now.
    pub(super) fn probe(&mut self, memory: &Memory, counters: &Counters) -> Turn {
        if self.receive_ended || self.phase != Phase::Open {
            return Turn::Idle;
        }
        // Bytes that come by themselves come once it is known what the kernel has read.
        if self.places_bytes() {
            self.look_at_head(memory, counters);
        }
        let (head, unread) = (self.receive.theirs, self.unread());
        let Some(socket) = &mut self.socket else { return Turn::Idle };
        socket.consumed(head);
        match socket.peek() {
            Ok(Moved::Bytes(_)) => Turn::Throttled,
            Ok(Moved::Later) if unread > 0 && socket.wants_head() => Turn::Full,
            Ok(Moved::Later) => Turn::Idle,
            Ok(Moved::End) => self.end_receive(None, memory, counters),
            Err(errno) => self.end_receive(Some(errno), memory, counters),
        }
    }

    /// Puts a packet that was just received into the inbox, if the kernel has taken everything before
    /// it: it may still be reading the units otherwise.
    fn put_packet(&mut self, length: u64, memory: &Memory, counters: &Counters) {
        self.look_at_head(memory, counters);
        let begin = self.receive.ours;
        if self.receive.theirs != begin {
            return;
        }
        if Unit::are_apart(self.units_since, begin) {
            // These bytes go by the ring, and what is published with them is that no unit is old.
            self.units_since = begin;
            memory.renew_units(self.index, begin);
            return;
        }
        self.packet_holds = true;
        let window = memory.window(&self.receive.place, begin, length as usize);
        memory.put_packet(self.index, &window, begin);
        counters.received_packets.add(1);
    }

    /// Sends once, as much as there is; then ends the direction if the kernel has.
    pub(crate) fn pump_send(&mut self, memory: &Memory, counters: &Counters) -> Turn {
        let streaming = matches!(self.phase, Phase::Open | Phase::Closing { .. });
        if self.send_ended || !streaming {
            return Turn::Idle;
        }
        if self.is_direct() {
            return self.end_direct(memory);
        }
        let Some(socket) = &mut self.socket else { return Turn::Idle };
        let waiting = self.send.theirs - self.send.ours;
        if waiting == 0 || (self.finish_send && planted(Bug::EndedBeforeSent)) {
            if !self.finish_send {
                return Turn::Idle;
            }
            // An error here is one that receiving will meet, too.
            let _ = socket.shutdown(Direction::Send);
            self.send_ended = true;
            self.publish_send(memory);
            return Turn::Moved;
        }
        let waiting = waiting.min(self.cap);
        if waiting == 0 {
            return Turn::Idle;
        }
        let window = memory.window(&self.send.place, self.send.ours, waiting as usize);
        match socket.send(&window) {
            Ok(Moved::Bytes(bytes)) => {
                self.count_sent((bytes as u64).min(waiting), memory, counters);
                Turn::Moved
            }
            Ok(Moved::Later | Moved::End) => Turn::Idle,
            Err(errno) => {
                self.fail_send(errno, memory, counters);
                Turn::Moved
            }
        }
    }

    /// A turn has moved bytes without epoll's help. Who does so often is taken off epoll, whose
    /// callback would be part of each of the peer's sends: it is tried in every turn anyway.
    pub(crate) fn leave_epoll(&mut self, io: &mut dyn Readiness) {
        self.moves = self.moves.saturating_add(1);
        let open = self.phase == Phase::Open;
        if self.off_epoll || self.moves < OFTEN || !open || self.unsent() > 0 {
            return;
        }
        if let Some(descriptor) = self.socket.as_ref().and_then(|socket| socket.descriptor()) {
            io.remove(descriptor);
            self.off_epoll = true;
        }
    }

    /// Whether a closing socket has nothing left to do.
    pub(crate) fn is_done(&mut self, now_ns: u64) -> bool {
        match self.phase {
            Phase::Closing { deadline_ns } => {
                let has_left = |socket: &mut Box<dyn Socket>| socket.leave();
                now_ns >= deadline_ns
                    || self.send_ended && self.socket.as_mut().is_none_or(has_left)
            }
            _ => false,
        }
    }

    /// What it is ready for, as `gpoll` would say.
    pub(crate) fn readiness(&self) -> u16 {
        let mut events = 0;
        if self.receive.ours > self.receive.theirs || self.receive_ended {
            events |= POLLIN;
        }
        if self.phase == Phase::Open || self.failure.is_some() {
            if self.receive_ended {
                events |= POLLRDHUP;
            }
            let used = self.send.theirs - self.send.ours;
            if used < u64::from(self.send.place.capacity) || self.send_ended {
                events |= POLLOUT;
            }
            if self.receive_ended && self.send_ended {
                events |= POLLHUP;
            }
        }
        if self.failure.is_some() {
            events |= POLLERR;
        }
        events
    }

    /// For people.
    pub(crate) fn describe(&self) -> SocketState {
        let socket = self.socket.as_deref();
        SocketState {
            handle: self.handle.0,
            state: match self.phase {
                Phase::Fresh => "fresh",
                Phase::Connecting => "connecting",
                Phase::Open => "stream",
                Phase::Listening => "listener",
                Phase::Polling => "poller",
                Phase::Closing { .. } => "closing",
            },
            transport: socket.map_or("none", Socket::transport),
            local: socket.and_then(|s| s.local_addr().ok()).map(|address| address.to_string()),
            peer: socket.and_then(|s| s.peer_addr().ok()).map(|address| address.to_string()),
            launch: match self.owner {
                Owner::Launch(launch) => Some(launch),
                Owner::Host | Owner::AnyLaunch => None,
            },
            receive_capacity: self.receive.place.capacity,
            to_be_read: self.receive.ours - self.receive.theirs,
            send_capacity: self.send.place.capacity,
            to_be_sent: self.send.theirs - self.send.ours,
            received: self.receive.ours - self.receive.place.base,
            sent: self.send.ours - self.send.place.base,
            receive_ended: self.receive_ended,
            send_ended: self.send_ended,
            error: self.failure.map(|errno| errno.to_string()),
        }
    }
}
