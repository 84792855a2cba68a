//! Receiving and sending where nothing is in the way: the record is made, the direction is free, and
//! bytes are there or come soon. For groups whose first warp is whole; all its lanes run this together.
//!
//! A message of 64 bytes between two kernels is as much a matter of instructions as of memory: with the
//! same steps in functions out of line it took three times as long. This code is in line in the exported
//! functions and calls nothing. It moves packets of up to 256 bytes, and up to 4 KiB between ring and
//! buffer where both are aligned; what is longer is left to all threads ([`job`](super::job)), and
//! whatever is unusual to the long way ([`receive`](super::receive), [`send`](super::send)), with the
//! direction if it was got.

#![allow(unsafe_code, reason = "moves a short packet")]

use crate::abi::bits::{P2P_PACKET_BYTES, PACKET_BYTES, Position, Progress, Unit};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::RingPlace;
use crate::abi::word::{reads_bytes, writes_bytes};
use crate::planted::{Bug, planted};
use crate::simt;
use crate::socket::{Direction, Socket, group_name};

use super::Plan;
use super::job::{FOUND, Job, give_back};
use super::packet::{load_bytes, store_bytes};
use super::receive::units;
use super::send::most_at_once;

/// Polls before the long way is taken, which looks at the deadline: some 40 us by TCP.
const POLLS: u32 = if cfg!(target_arch = "nvptx64") { 32 } else { 1 };

const HALF: u32 = PACKET_BYTES as u32 / 2;

/// Units in a line of memory.
const LINE_UNITS: u32 = 16;

/// Bytes of a ring that a warp copies by itself: for more it pays to have all threads of a block.
const COPIED_HERE: u32 = 4096;

/// In a receive lock: the last packet was longer than the units of one line. The next one probably is, too.
const LONG: u64 = Position::LONG_PACKETS;

/// Receives a short packet, or finds bytes; `to` holds `most` bytes. The same job in all lanes.
#[inline(always)]
pub(crate) fn receive(net: Net, handle: Handle, to: *mut u8, most: usize) -> Job {
    let Ok(socket) = Socket::named(net, handle) else { return Job::NONE };
    let lane = simt::lane();
    // All on their way before the first is looked at.
    let lock = socket.lock_word(Direction::Receive);
    let found = lock.set_on_gpu_if(Position::TAKEN, lane == 0);
    let (fetched, is_socket, in_use) = socket.fetch(Direction::Receive);
    // Lanes are threads in a row.
    let group = group_name(net).wrapping_sub(lane.into());
    let position = Position(simt::from_lane(found, 0));
    let mine = position.has(Position::OWNED) & (fetched.owner == group);
    let free = !position.has(Position::TAKEN) & (mine | position.has(Position::SHARED));
    let usable = !fetched.ring.is_none() & fetched.info.has_bytes() & !fetched.info.non_blocking();
    if simt::any_lane(!(is_socket & in_use & free & usable)) {
        return Job::only(Plan::slow(position.with(FOUND)));
    }
    let job = |plan: Plan| Job {
        plan: plan.words(),
        units: fetched.inbox.address() | u64::from(fetched.info.is_p2p()),
        publishes: fetched.publishes,
        ring: fetched.ring,
        position,
    };
    let begin = position.count();
    let at = 4 * lane;
    let longest = most.min(PACKET_BYTES) as u32;
    let inbox = fetched.inbox;
    let mut wide = position.has(LONG) | fetched.info.is_p2p();
    let mut left = POLLS;
    // Counted: the polls.
    while left > 0 {
        left -= 1;
        // One line of units, and the counters; where longer packets come, all of them.
        let (mut near, mut far) = (Unit(0), Unit(0));
        if wide | (lane < LINE_UNITS) {
            near = units(inbox).0;
        }
        if wide {
            far = units(inbox).1;
        }
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
            // The same in all lanes, whatever a hostile peer writes there meanwhile.
            let length = simt::from_lane(length.into(), 0) as u32;
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
                let long = if length > 4 * LINE_UNITS { LONG } else { 0 };
                let end = Position(position.without(LONG).0 + u64::from(length)).with(long);
                // It came with the rest, and spares the answer a read.
                socket.remember_head(Progress(head));
                // No fence: nobody has read the ring.
                give_back(fetched.publishes, lock, end);
            }
            simt::come_together();
            return Job::only(Plan::done(length));
        }
        if simt::any_lane((tail.count() != begin) | tail.is_over()) {
            let seen = Progress(simt::from_lane(tail.0, 0));
            let available = seen.count().wrapping_sub(begin);
            let some = available.wrapping_sub(1) < fetched.ring.capacity() as u64;
            if seen.is_over() | !some | simt::any_lane(watched != 0) {
                break;
            }
            if lane == 0 {
                socket.remember_head(Progress(head));
            }
            if !seen.is_packet() {
                // Acquire, above: the bytes are in the ring.
                let bytes = available.min(most as u64) as u32;
                let Some(from) = whole_lines(fetched.ring, begin, to, bytes) else {
                    return job(Plan::ring(fetched.ring, begin, available as usize));
                };
                reads_bytes(from, bytes as usize);
                // SAFETY: in the ring, and in the caller's buffer.
                unsafe { copy_lines(lane, from, to, bytes) };
                // Each load was complete before, since its bytes had been stored elsewhere: no fence.
                simt::whole_warp_barrier();
                if lane == 0 {
                    give_back(fetched.publishes, lock, Position(position.0 + u64::from(bytes)));
                }
                simt::come_together();
                return Job::only(Plan::done(bytes));
            }
            let begins = simt::any_lane((lane == 0) & near.belongs(begin));
            if fetched.info.is_p2p() & begins & (available > PACKET_BYTES as u64) {
                if available <= (most as u64).min(P2P_PACKET_BYTES as u64) {
                    return job(Plan::packet(begin, available as u32));
                }
                break;
            }
            if !fetched.info.is_p2p() & wide {
                // In the ring, too, and that is certain: the rest of the units may take as long.
                return job(Plan::ring(fetched.ring, begin, available as usize));
            }
            // Units that were not read, or are on their way.
            wide = true;
        }
        simt::pause();
    }
    Job::only(Plan::slow(position))
}

/// Where so many bytes lie in a ring from a position on, if a warp copies them by itself: few, in one
/// piece, and aligned to lines as the buffer is.
#[inline(always)]
fn whole_lines(ring: RingPlace, begin: u64, buffer: *const u8, bytes: u32) -> Option<*mut u8> {
    let offset = begin as usize & (ring.capacity() - 1);
    let aligned = (offset | buffer.addr()).is_multiple_of(16);
    let fits = (bytes <= COPIED_HERE) & (offset + bytes as usize <= ring.capacity());
    (aligned & fits).then(|| ring.start().wrapping_add(offset))
}

/// A lane's part of a copy between two places that are aligned to lines.
///
/// # Safety
/// Both are valid for so many bytes.
#[inline(always)]
unsafe fn copy_lines(lane: u32, from: *const u8, to: *mut u8, bytes: u32) {
    let lines = bytes / 16;
    let (mut source, mut target) = (from.cast::<[u64; 2]>(), to.cast::<[u64; 2]>());
    let mut at = lane;
    // SAFETY: the caller's promise: lines below `lines`, bytes below `bytes`.
    unsafe {
        source = source.wrapping_add(lane as usize);
        target = target.wrapping_add(lane as usize);
        // Counted: the lines, four of a lane at a time.
        while at < lines {
            let load = |n: u32| {
                let mine = at + n * simt::WARP < lines;
                (mine, simt::load_line_if(mine, source.wrapping_add((n * simt::WARP) as usize)))
            };
            let (a, b, c, d) = (load(0), load(1), load(2), load(3));
            let store = |n: u32, (mine, line): (bool, [u64; 2])| {
                simt::store_line_if(mine, target.wrapping_add((n * simt::WARP) as usize), line);
            };
            store(0, a);
            store(1, b);
            store(2, c);
            store(3, d);
            at += 4 * simt::WARP;
            source = source.wrapping_add(4 * simt::WARP as usize);
            target = target.wrapping_add(4 * simt::WARP as usize);
        }
        let last = 16 * lines + lane;
        if last < bytes {
            let byte = simt::load_plain(from.add(last as usize));
            simt::store_plain(to.add(last as usize), byte);
        }
    }
}

/// Sends a short packet, or finds space in the ring. The same job in all lanes.
#[inline(always)]
pub(crate) fn send(net: Net, handle: Handle, from: *const u8, length: usize) -> Job {
    let Ok(socket) = Socket::named(net, handle) else { return Job::NONE };
    let lane = simt::lane();
    // All on their way before the first is looked at.
    let lock = socket.lock_word(Direction::Send);
    let found = lock.set_on_gpu_if(Position::TAKEN, lane == 0);
    let (fetched, is_socket, in_use) = socket.fetch(Direction::Send);
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
        return Job::only(Plan::slow(position.with(FOUND)));
    }
    let begin = position.count();
    let empty = (seen.0 == Progress::new(begin, 0).0) | planted(Bug::PacketBeforeTaken);
    let packet = empty & (length <= fetched.info.packet_limit());
    if packet & position.has(Position::UNITS_OLD) & !planted(Bug::UnitsNotRenewed) {
        return Job::only(Plan::slow(position));
    }
    let job = |plan: Plan| Job {
        plan: plan.words(),
        units: fetched.units,
        publishes: fetched.publishes,
        ring: fetched.ring,
        position,
    };
    // Where the proxies want to know, the long way tells them.
    let mut watched = 0;
    if fetched.info.is_p2p() & !(packet & short) {
        watched = simt::from_lane(fetched.inbox.watched().load(), 0);
    }
    if packet & !short {
        return match watched {
            0 => job(Plan::packet(begin, size)),
            _ => Job::only(Plan::slow(position)),
        };
    }
    if !packet {
        let capacity = fetched.ring.capacity();
        let used = begin.wrapping_sub(seen.count()) as usize;
        if seen.is_over() | (used >= capacity) {
            return Job::only(Plan::slow(position));
        }
        let space = capacity - used;
        let to = whole_lines(fetched.ring, begin, from, size);
        let (Some(to), true, false) = (to, length <= space, fetched.info.is_p2p()) else {
            let most = most_at_once(fetched.info, capacity);
            let plan = Plan::ring(fetched.ring, begin, space.min(most));
            return if watched == 0 { job(plan) } else { Job::only(plan) };
        };
        writes_bytes(to, length);
        // SAFETY: in the ring, and in the caller's buffer.
        unsafe { copy_lines(lane, from, to, size) };
        simt::whole_warp_barrier();
        if lane == 0 {
            // All lanes' bytes before the counter, for the proxy.
            if !planted(Bug::SendWithoutFence) {
                simt::release_fence();
            }
            let end = position.advance(size.into());
            Socket::at(fetched.publishes).store(Progress::new(end.count(), 0).0);
            // The next group's counter must not be overtaken by this one's.
            if !planted(Bug::TailsOvertake) {
                simt::gpu_release_fence();
            }
            lock.store(end.0);
            // For the next call: it then knows of space and of a broken connection.
            socket.remember_head(Progress(fetched.inbox.head().load_acquire()));
        }
        simt::come_together();
        return Job::only(Plan::done(size));
    }
    // On its way while the packet is.
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
    let place =
        |at: u32| ring.start().wrapping_add((begin as usize + at as usize) & (ring.capacity() - 1));
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
    if simt::any_lane(watched != 0) && !planted(Bug::WatchedIgnored) {
        // The long way tells the proxy, and gives the direction back.
        return Job::only(Plan::sent(size));
    }
    if lane == 0 {
        // The next group's counter must not be overtaken by this one's.
        if !planted(Bug::TailsOvertake) {
            simt::gpu_release_fence();
        }
        lock.store(position.advance(size.into()).0);
    }
    simt::come_together();
    Job::only(Plan::done(size))
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
