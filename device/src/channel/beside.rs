//! Receiving a short packet from a stream that a poller watches, while the poller has no event of another
//! socket. For groups whose warps are all whole; the lanes of the first one run this together.
//!
//! A client that sends its next request once it has the answer to the last one needs no event: whoever
//! answered it looks at the stream itself and at the poller's counter, both in one trip across PCIe. The
//! proxy reports the bytes all the same. Such an event stays in the poller's ring, where a socket has one
//! at most, so what comes behind it is of another socket.

#![allow(unsafe_code, reason = "moves a short packet, and reads an event in its ring")]

use crate::abi::bits::{PACKET_BYTES, Position, Progress, Unit};
use crate::abi::call::{EVENT_BYTES, POLLIN};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::RingAddress;
use crate::abi::word::Word;
use crate::simt;
use crate::socket::{Direction, Inbox, RecordLine, Socket};

use super::Plan;
use super::fast::{enter, take_packet};
use super::finish::give_receive_back;
use super::packet::belong;

/// Polls before the poller is waited for alone: some 100 us by TCP.
const POLLS: u32 = if cfg!(target_arch = "nvptx64") { 64 } else { 16 };
/// Lanes that load units in every poll: those of 64 bytes, one line. Many groups may poll at the same time.
const NEAR: u32 = 8;

/// Nothing was received, and the poller has an event of this stream that reports nothing new.
pub(crate) const NOTHING_NEW: Errno = Errno::EALREADY;

/// What is to be known of a poller.
struct Events {
    inbox: Inbox,
    ring: RingAddress,
    /// Where the next event stands.
    begin: u64,
}

impl Events {
    /// Loads it, beside other loads; nothing where the poller is not open. The same in all lanes.
    #[inline(always)]
    fn of(poller: Socket) -> Option<Self> {
        let position = poller.position(Direction::Receive);
        let line = RecordLine::load(&poller);
        // The leader's: it gave the direction back last.
        let position = Position(simt::from_lane(position.0, 0));
        let taken = position.has(Position::TAKEN);
        if simt::any_lane(taken | line.hinders(&poller, Direction::Receive)) {
            return None;
        }
        let (inbox, ring) = (line.inbox(), line.ring(Direction::Receive));
        Some(Self { inbox, ring, begin: position.count() })
    }

    /// Whether there is one event, which says that bytes came to the socket with that token.
    #[inline(always)]
    fn are_of(&self, token: u64) -> bool {
        // Acquire: pairs with the release of the proxy, behind which the event is in the ring.
        let [tail, _] = self.inbox.both();
        let at = self.begin as usize & (self.ring.capacity() - 1);
        let event = self.ring.start().wrapping_add(at).cast::<u64>();
        // SAFETY: an event of the ring, aligned to 16 bytes.
        let [named, events] = unsafe { Word::at(event) }.load_two();
        let one = Progress(tail).count() == self.begin + EVENT_BYTES as u64;
        one & (named == token) & (events == u64::from(POLLIN))
    }
}

/// Receives a short packet of a stream with that token; `to` holds `most` bytes. The same plan in all
/// lanes: the bytes are there; or something else is, with the direction and the socket's line; or EAGAIN or [`NOTHING_NEW`].
#[inline(always)]
pub(crate) fn receive(
    net: Net,
    handle: Handle,
    poller: Handle,
    token: u64,
    to: *mut u8,
    most: usize,
) -> ([u64; 2], RecordLine) {
    let none = |plan: Plan| (plan.words(), RecordLine::NONE);
    let (Ok(socket), Ok(poller)) = (Socket::named(net, handle), Socket::named(net, poller)) else {
        return none(Plan::NONE);
    };
    let lane = simt::lane();
    let events = Events::of(poller);
    let (line, position) = match enter(socket, net, lane) {
        Ok(entered) => entered,
        Err(plan) => return none(plan),
    };
    let lock = socket.lock_word(Direction::Receive);
    let mut result = Errno::EAGAIN;
    // A proxy wants to know of a p2p stream what its kernels do: that is left to the usual way.
    if let Some(events) = events
        && !line.info().is_p2p()
    {
        let inbox = line.inbox();
        let (begin, at) = (position.count(), 8 * lane);
        let longest = most.min(PACKET_BYTES) as u32;
        let mut passed = events.begin;
        let mut left = POLLS;
        // Counted: the polls, and one more.
        while left > 0 {
            left -= 1;
            let mut units = [Unit(0); 2];
            if lane < NEAR {
                units = inbox.two_units(2 * lane as usize);
            }
            let [tail, head] = inbox.both_relaxed();
            let written = Progress(simt::from_lane(events.inbox.tail().load(), 0)).count();
            let tail = Progress(simt::from_lane(tail, 0));
            let length = (tail.count() as u32).wrapping_sub(begin as u32);
            let short = tail.is_packet() & (length.wrapping_sub(1) < longest);
            if short & (length > 8 * NEAR) & (lane >= NEAR) {
                units = inbox.two_units(2 * lane as usize);
            }
            let missing = (at < length) & !belong(units, begin, length.wrapping_sub(at));
            if short & !simt::any_lane(missing) {
                let position = position.without(Position::LONG | Position::BY_RING);
                // SAFETY: the caller's buffer holds the packet.
                unsafe {
                    take_packet(socket, line, position, to, units, length, Progress(head));
                }
                return none(Plan::done(length));
            }
            if !short & (tail.count() != begin) | tail.is_over() {
                // Bytes of another kind, or an end.
                let line = line.with_position(Direction::Receive, position);
                return (Plan::POLL_ONCE.words(), line);
            }
            if written != passed {
                // Only the first event may be this stream's.
                let own = (passed == events.begin) & events.are_of(token);
                if simt::any_lane(!own) {
                    break;
                }
                passed = events.begin + EVENT_BYTES as u64;
                result = NOTHING_NEW;
                // What it reports is seen by the next poll at the latest, which there is.
                left += 1;
            }
            simt::pause();
        }
    }
    if lane == 0 {
        give_receive_back(lock, position);
    }
    simt::come_together();
    none(Plan::error(result.negative()))
}
