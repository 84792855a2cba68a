//! Receiving and sending where nothing is in the way: the record is made, the direction is free, and
//! bytes are there or come soon. For groups whose first warp is whole; all its lanes run this together.
//!
//! A warp takes some two nanoseconds for an instruction, so a message of 64 bytes between two kernels is
//! as much a matter of instructions as of memory. This code is in line in the exported functions, calls
//! nothing, and uses no register that a function has to keep for its caller. Whatever is unusual is left
//! to the long way ([`receive`](super::receive), [`send`](super::send)), with the direction if it was
//! got.

#![allow(unsafe_code, reason = "moves a short packet")]

use crate::abi::bits::{PACKET_BYTES, Position, Progress, Unit};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::word::writes_bytes;
use crate::group::GroupKind;
use crate::simt;
use crate::socket::{Direction, Socket, group_name};

use super::Plan;
use super::packet::{load_bytes, store_bytes};
use super::receive::units;
use super::send::most_at_once;

/// Polls before the long way is taken, which looks at the deadline: some 40 us by TCP.
const POLLS: u32 = if cfg!(target_arch = "nvptx64") { 32 } else { 1 };

const HALF: u32 = PACKET_BYTES as u32 / 2;

/// Receives a short packet, or finds bytes in the ring; `to` holds `most` bytes. The same plan in all
/// lanes.
#[inline(always)]
pub(crate) fn receive(net: Net, handle: Handle, kind: GroupKind, to: *mut u8, most: usize) -> Plan {
    let Ok(socket) = Socket::named(net, handle) else { return Plan::slow(Position(0)) };
    let lane = simt::lane();
    // All on their way before the first is looked at.
    let (fetched, is_socket, in_use) = socket.fetch(Direction::Receive);
    let lock = socket.lock_word(Direction::Receive);
    let found = lock.set_on_gpu_if(Position::TAKEN, lane == 0);
    // Lanes are threads in a row.
    let group = group_name(net, kind as u32).wrapping_sub(u64::from(lane) << 2);
    let position = Position(simt::from_lane(found, 0));
    let mine = position.has(Position::OWNED) & (fetched.owner == group);
    let free = !position.has(Position::TAKEN) & (mine | position.has(Position::SHARED));
    let usable = !fetched.ring.is_none() & fetched.info.has_bytes() & !fetched.info.non_blocking();
    if simt::any_lane(!(is_socket & in_use & free & usable)) {
        return Plan::slow(position.with(FOUND));
    }
    let begin = position.count();
    let at = 4 * lane;
    let longest = most.min(PACKET_BYTES) as u32;
    let inbox = fetched.inbox;
    let mut left = POLLS;
    // Counted: the polls.
    while left > 0 {
        left -= 1;
        let (near, far) = units(inbox);
        let mut watched = 0;
        if fetched.info.is_p2p() {
            watched = inbox.watched().load();
        }
        let [tail, head] = inbox.both();
        let tail = Progress(tail);
        let length = (tail.count() as u32).wrapping_sub(begin as u32);
        let short = tail.is_packet() & (length.wrapping_sub(1) < longest) & (watched == 0);
        let missing = !short
            | (at < length) & !near.belongs(begin)
            | (at + HALF < length) & !far.belongs(begin);
        if !simt::any_lane(missing) {
            // SAFETY: the caller's buffer holds the packet.
            unsafe {
                if at < length {
                    store_bytes(to.add(at as usize), near.bytes(), (length - at) as usize);
                }
                if at + HALF < length {
                    let at = at + HALF;
                    store_bytes(to.add(at as usize), far.bytes(), (length - at) as usize);
                }
            }
            // What each lane has copied is there for all.
            simt::whole_warp_barrier();
            if lane == 0 {
                let end = Position(position.0 + u64::from(length));
                // No fence: nobody has read the ring.
                Socket::at(fetched.publishes).store(Progress::new(end.count(), 0).0);
                if end.has(Position::SHARED) {
                    // The next group's head must not be overtaken by this one's.
                    simt::gpu_release_fence();
                }
                lock.store(end.0);
                // It came with the rest, and spares the answer a read.
                socket.remember_head(Progress(head));
            }
            simt::come_together();
            return Plan::done(length);
        }
        if simt::any_lane((tail.count() != begin) | tail.is_over()) {
            // Bytes in the ring are taken from there; the rest is for the long way.
            let seen = Progress(simt::from_lane(tail.0, 0));
            let available = seen.count().wrapping_sub(begin);
            let plain = !seen.is_packet() & !seen.is_over();
            if plain & (available.wrapping_sub(1) < fetched.ring.capacity() as u64) {
                if lane == 0 {
                    socket.remember_head(Progress(head));
                }
                return Plan::ring(fetched.ring, begin, available as usize);
            }
            // A packet's units are on their way.
            if !simt::any_lane(short) {
                break;
            }
        }
        simt::pause();
    }
    Plan::slow(position)
}

/// In what a lock held: it is not certain that the group has got it.
const FOUND: u64 = 1 << 58;

/// What the long way is to begin with: the position of a direction that the group has, or what the lock
/// held when the group tried to get it.
#[inline(always)]
pub(crate) fn held([_, span]: [u64; 2]) -> (Position, Position) {
    let word = Position(span);
    match word.has(FOUND) {
        true => (Position(0), word.without(FOUND)),
        false => (word, Position(0)),
    }
}

/// Sends a short packet, or finds space in the ring. The same plan in all lanes.
#[inline(always)]
pub(crate) fn send(net: Net, handle: Handle, from: *const u8, length: usize) -> Plan {
    let Ok(socket) = Socket::named(net, handle) else { return Plan::slow(Position(0)) };
    let lane = simt::lane();
    // All on their way before the first is looked at.
    let (fetched, is_socket, in_use) = socket.fetch(Direction::Send);
    let lock = socket.lock_word(Direction::Send);
    let found = lock.set_on_gpu_if(Position::TAKEN, lane == 0);
    let (at, size) = (4 * lane, length as u32);
    let short = length <= PACKET_BYTES;
    let (mut near, mut far) = (0, 0);
    // SAFETY: the caller's buffer holds the message.
    unsafe {
        if short & (at < size) {
            near = load_bytes(from.add(at as usize), size - at);
        }
        if short & (at + HALF < size) {
            far = load_bytes(from.add((at + HALF) as usize), size - at - HALF);
        }
    }
    let position = Position(simt::from_lane(found, 0));
    let seen = Progress(simt::from_lane(fetched.head_seen.0, 0));
    let free = !position.has(Position::TAKEN | Position::SHUT) & (position.count() != 0);
    let usable = !fetched.ring.is_none() & fetched.info.has_bytes();
    if simt::any_lane(!(is_socket & in_use & free & usable)) {
        return Plan::slow(position.with(FOUND));
    }
    let begin = position.count();
    let empty = seen.0 == Progress::new(begin, 0).0;
    let packet = empty & (length <= fetched.info.packet_limit());
    if packet & position.has(Position::UNITS_OLD) {
        return Plan::slow(position);
    }
    if packet & !short {
        return Plan::packet(begin, size);
    }
    if !packet {
        let capacity = fetched.ring.capacity();
        let used = begin.wrapping_sub(seen.count()) as usize;
        if seen.is_over() | (used >= capacity) {
            return Plan::slow(position);
        }
        let most = most_at_once(fetched.info, capacity);
        return Plan::ring(fetched.ring, begin, (capacity - used).min(most));
    }
    // On its way while the packet is.
    let mut watched = 0;
    if fetched.info.is_p2p() {
        watched = fetched.inbox.watched().load();
    }
    if at < size {
        Socket::at(fetched.units + 2 * u64::from(at)).store(Unit::new(near, begin).0);
    }
    if at + HALF < size {
        Socket::at(fetched.units + 2 * u64::from(at + HALF)).store(Unit::new(far, begin).0);
    }
    let end = begin + u64::from(size);
    if lane == 0 {
        // No fence: the reader takes the units for what their tags say, and waits for the rest.
        Socket::at(fetched.publishes).store(Progress::new(end, Progress::PACKET).0);
    }
    // The ring follows: whoever sends by it next publishes these bytes, too.
    let ring = fetched.ring;
    let place = |at: u32| ring.start().wrapping_add((begin as usize + at as usize) & (ring.capacity() - 1));
    // SAFETY: inside the ring, whose send direction the group has.
    unsafe {
        if at < size {
            store_in_ring(place, at, near, size);
        }
        if at + HALF < size {
            store_in_ring(place, at + HALF, far, size);
        }
    }
    // All lanes' bytes, before whoever has the direction next says that the ring holds them.
    simt::whole_warp_barrier();
    if simt::any_lane(watched != 0) {
        // The long way tells the proxy, and gives the direction back.
        return Plan::sent(size);
    }
    if lane == 0 {
        // The next group's counter must not be overtaken by this one's.
        simt::gpu_release_fence();
        lock.store(position.advance(size.into()).0);
    }
    simt::come_together();
    Plan::done(size)
}

/// Stores up to four bytes of a message of `size` bytes into the ring.
///
/// # Safety
/// The places lie in the ring, whose send direction the group has.
#[inline(always)]
unsafe fn store_in_ring(place: impl Fn(u32) -> *mut u8, at: u32, four: u32, size: u32) {
    let first = place(at);
    // SAFETY: the caller's promise.
    unsafe {
        if (at + 4 <= size) & first.addr().is_multiple_of(4) {
            writes_bytes(first, 4);
            simt::store_plain(first.cast(), four.to_le());
            return;
        }
        for byte in 0..4 {
            if at + byte < size {
                writes_bytes(place(at + byte), 1);
                simt::store_plain(place(at + byte), (four >> (8 * byte)) as u8);
            }
        }
    }
}
