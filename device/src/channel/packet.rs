//! Packets: short messages whose bytes and tags travel together, so that neither end waits between
//! counter and bytes. See [`Unit`].
//!
//! A writer sends one only when the other end has taken everything before it, so a reader sees units of
//! this packet or older ones, whose tags differ. The bytes follow into the ring behind the counter: the
//! next message by the ring is published with a release, and then the ring holds both.
//!
//! Why it is so: decision 8 of docs/explanation/decisions.md.

#![allow(unsafe_code, reason = "moves bytes from and to callers' buffers and rings")]

use crate::abi::bits::{P2P_PACKET_BYTES, Position, Progress, Unit};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::{RingAddress, Span};
use crate::abi::word::writes_bytes;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::socket::{Direction, Inbox, Socket};

use super::copy;
use super::eights::{load_eight, store_eight};

/// Turns in which a thread waits for a unit whose packet was announced: the rest is on its way.
const UNIT_TURNS: u32 = if cfg!(target_arch = "nvptx64") { 64 } else { 1 };

/// Whether all that was sent before has been taken, and so the units are free.
#[inline(always)]
pub(super) fn is_empty(seen: Progress, begin: u64) -> bool {
    (seen.0 == Progress::new(begin, 0).0) | planted(Bug::PacketBeforeTaken)
}

/// Whether the units are to be written anew before a packet is sent.
#[inline(always)]
pub(super) fn units_old(position: Position) -> bool {
    position.has(Position::UNITS_OLD) & !planted(Bug::UnitsNotRenewed)
}

/// A thread's part of sending a packet, which begins at `position`: its units, by the first thread the
/// counter, then its part of the ring. `units` and `tail` are addresses.
///
/// # Safety
/// `from` is valid for `length` bytes; the group has the send direction.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
pub(crate) unsafe fn packet_out(
    rank: u32,
    size: u32,
    units: u64,
    tail: u64,
    ring: RingAddress,
    position: u64,
    from: *const u8,
    length: u32,
) {
    let (mut at, stride) = (8 * rank, 8 * size);
    // Counted: the thread's units, several at a time.
    while at < length {
        let load = |at: u32| match at < length {
            // SAFETY: the caller's promise.
            true => unsafe { load_eight(from.add(at as usize), length - at) },
            false => 0,
        };
        let store = |at: u32, bytes: u64| {
            if at < length {
                store_units(units, at, bytes, position, length);
            }
        };
        let (a, b) = (load(at), load(at + stride));
        store(at, a);
        store(at + stride, b);
        at += 2 * stride;
    }
    if rank == 0 {
        announce(tail, position, length);
    }
    // SAFETY: the caller's promise.
    unsafe { copy::copy_in(rank, size, from, ring, Span::new(position, length as usize)) };
}

/// Says that a packet was sent. No release: the reader takes the units for what their tags say, and waits
/// for the rest.
#[inline(always)]
pub(super) fn announce(tail: u64, begin: u64, length: u32) {
    let end = begin + u64::from(length);
    Socket::at(tail).store(Progress::new(end, Progress::PACKET).0);
}

/// Stores the units of eight bytes of a packet of `length` bytes that begins at `begin`.
#[inline(always)]
pub(super) fn store_units(units: u64, at: u32, bytes: u64, begin: u64, length: u32) {
    let [first, second] = [bytes, bytes >> 32].map(|four| Unit::new(four as u32, begin).0);
    let word = Socket::at(units + 2 * u64::from(at));
    // A model has as many units as its packets need.
    if cfg!(feature = "loom") && length <= at + 4 {
        word.store(first);
    } else {
        word.store_two([first, second]);
    }
}

/// Whether two units hold all of eight bytes of a packet that begins there, of which `left` are to come.
#[inline(always)]
pub(super) fn belong([first, second]: [Unit; 2], begin: u64, left: u32) -> bool {
    first.belongs(begin) & (second.belongs(begin) | (left <= 4))
}

/// The bytes of two units.
#[inline(always)]
pub(super) fn bytes_of([first, second]: [Unit; 2]) -> u64 {
    u64::from(first.bytes()) | u64::from(second.bytes()) << 32
}

/// A thread's part of receiving a packet, which begins at `position`: its units from `at` on, each
/// `stride` bytes behind the last. Whether all of them had come.
///
/// # Safety
/// `to` is valid for `length` bytes; the group has the receive direction.
#[inline(never)]
pub(crate) unsafe fn packet_in(
    at: u32,
    stride: u32,
    inbox: Inbox,
    position: u32,
    to: *mut u8,
    length: u32,
) -> bool {
    let (mut at, mut turns) = (at, 0);
    let begin = u64::from(position);
    // Counted: each turn moves two pairs of units, or is one of `UNIT_TURNS`.
    while at < length {
        let load = |at: u32| match at < length {
            true => inbox.two_units(at as usize / 4),
            false => [Unit::new(0, begin); 2],
        };
        let places = [at, at + stride, at + 2 * stride, at + 3 * stride];
        let units = places.map(load);
        let lacks = |n: usize| !belong(units[n], begin, length.wrapping_sub(places[n]));
        if !(lacks(0) | lacks(1) | lacks(2) | lacks(3)) {
            let store = |n: usize| {
                let at = places[n];
                if at < length {
                    // SAFETY: the caller's promise.
                    unsafe { store_eight(to.add(at as usize), bytes_of(units[n]), length - at) };
                }
            };
            store(0);
            store(1);
            store(2);
            store(3);
            at += 4 * stride;
        } else if turns == UNIT_TURNS {
            return false;
        } else {
            simt::pause();
            turns += 1;
        }
    }
    true
}

/// Copies what the units hold, whatever packets they are of. One thread does all of it.
///
/// # Safety
/// `to` is valid for `length` bytes; the group has the receive direction.
#[cold]
#[inline(never)]
pub(super) unsafe fn take_units(inbox: Inbox, to: *mut u8, length: u32) {
    let mut at = 0;
    // Counted: two units a turn.
    while at < length {
        let eight = bytes_of(inbox.two_units(at as usize / 4));
        // SAFETY: the caller's promise.
        unsafe { store_eight(to.add(at as usize), eight, length - at) };
        at = simt::opaque_half(at + 8);
    }
}

/// A thread's part of putting a packet, which begins at `begin`, into the group's own ring. Its sender puts the
/// same bytes there, but perhaps later. Used where a slice shows the ring, and where a buffer has no room for all
/// of the packet. The thread takes the units of the eight bytes at `at`, at `at + stride` and so on. False if
/// some of them did not come.
///
/// # Safety
/// The group has the receive direction of that ring, and the packet is no longer than the ring.
#[cold]
#[inline(never)]
pub(super) unsafe fn packet_to_ring(
    at: u32,
    stride: u32,
    inbox: Inbox,
    begin: u64,
    ring: RingAddress,
    length: u32,
) -> bool {
    let (mut at, mut turns) = (at, 0);
    let place = |byte: u32| {
        ring.start().wrapping_add((begin as usize + byte as usize) & (ring.capacity() - 1))
    };
    let store = |at: u32, eight: u64| {
        if (length - at >= 8) & begin.is_multiple_of(8) {
            writes_bytes(place(at), 8);
            // SAFETY: inside the ring, by the caller's promise, and aligned; its sender writes nothing else there
            // before the packet was received.
            return unsafe { simt::store_plain(place(at).cast(), eight.to_le()) };
        }
        let mut byte = 0;
        // Counted: the bytes.
        while byte < (length - at).min(8) {
            writes_bytes(place(at + byte), 1);
            // SAFETY: as above.
            unsafe { simt::store_plain(place(at + byte), (eight >> (8 * byte)) as u8) };
            byte = simt::opaque_half(byte + 1);
        }
    };
    // Counted: each turn moves two pairs of units, or is one of `UNIT_TURNS`.
    while at < length {
        let load = |at: u32| match at < length {
            true => inbox.two_units(at as usize / 4),
            false => [Unit::new(0, begin); 2],
        };
        let next = at + stride;
        let (a, b) = (load(at), load(next));
        let left = length - at;
        if belong(a, begin, left) & belong(b, begin, left.wrapping_sub(stride)) {
            store(at, bytes_of(a));
            if next < length {
                store(next, bytes_of(b));
            }
            at = next + stride;
        } else if turns == UNIT_TURNS {
            return false;
        } else {
            simt::pause();
            turns += 1;
        }
    }
    true
}

/// Where the packet begins that ends where a counter says, if all its units are there; else 0. It begins
/// where the reader stands: unit 0 alone does not show it, since it may still be the last packet's,
/// and then looks like the beginning of both. Of one that is in the ring already: where the reader stands
/// inside it.
#[cold]
#[inline(never)]
pub(crate) fn find(net: Net, handle: Handle, tail: Progress) -> u64 {
    let socket = Socket::known(net, handle);
    let inbox = socket.inbox();
    let begin = socket.position(Direction::Receive).count();
    let mut whole = tail.count().wrapping_sub(begin).wrapping_sub(1) < P2P_PACKET_BYTES as u64;
    let length = tail.count().wrapping_sub(begin) as u32;
    let unpacked = socket.unpacked().load() == tail.count();
    let mut at = 0;
    // Counted: the units, eight at a time.
    while whole && !unpacked && 4 * at < length {
        let two = |n: u32| match 4 * (at + n) < length {
            true => inbox.two_units((at + n) as usize),
            false => [Unit::new(0, begin); 2],
        };
        let (a, b, c, d) = (two(0), two(2), two(4), two(6));
        let left = |n: u32| length.wrapping_sub(4 * (at + n));
        whole = belong(a, begin, left(0))
            & belong(b, begin, left(2))
            & belong(c, begin, left(4))
            & belong(d, begin, left(6));
        at += 8;
    }
    if !whole {
        return 0;
    }
    // What is written into the ring next lands behind what its sender wrote there.
    simt::acquire_fence();
    begin
}

/// Makes the units of a packet area anew, so that none has the tag of a packet that begins at `position`
/// or later. The calling group has the send direction, the other end has taken everything, and the bytes
/// that are sent next go by the ring, published with a release.
#[cold]
#[inline(never)]
pub(crate) fn renew_units(net: Net, handle: Handle, position: Position, limit: usize) {
    let socket = Socket::known(net, handle);
    let mut at = socket.units();
    let end = at + 2 * limit as u64;
    // Counted: the units.
    while at < end {
        Socket::at(at).store(Unit::blank(position.count()).0);
        at += 8;
    }
    let renewed = position.without(Position::UNITS_OLD).with(Position::TAKEN);
    socket.lock_word(Direction::Send).store(renewed.0);
}
