//! The fast path: short packets where nothing is in the way. The record is made, the direction is free,
//! and a packet of up to 256 bytes is there, or comes soon, or can be sent. For groups whose warps are all
//! whole; the lanes of the first one run this together.
//!
//! A message of 64 bytes between two kernels is as much a matter of instructions as of memory: with the
//! same steps in functions out of line it took three times as long. This code is in line in the exported
//! functions, calls nothing, and needs few registers beside those that are a function's to change. What is
//! longer or unusual is left to all threads ([`long`](super::long), [`job`](super::job)) or to the leader
//! ([`receive`](super::receive), [`send`](super::send)), with the direction if it was got.
//!
//! A lane moves eight bytes of a packet, two units, by one access of memory.
//!
//! Why it is so: decision 9 of docs/explanation/decisions.md.

#![allow(unsafe_code, reason = "moves a short packet")]

use crate::abi::bits::{PACKET_BYTES, Position, Progress, Unit};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::RingAddress;
use crate::abi::word::writes_bytes;
use crate::simt;
use crate::socket::{Direction, Info, RecordLine, Socket, group_name};

use super::Plan;
use super::eights::{is_in_eights, load_eight_at_once, store_eight_at_once};
use super::finish::{give_receive_back, give_send_back};
use super::packet::{announce, belong, bytes_of, is_empty, store_units, units_old};
use super::send::most_at_once;

/// Polls before the leader waits alone, which looks at the deadline: some 80 us by TCP.
pub(super) const POLLS: u32 = if cfg!(target_arch = "nvptx64") { 64 } else { 1 };

/// So many calls that do not wait and find nothing, and the next one looks whether the launch was stopped.
const EMPTY_LOOKS: u32 = 32;

/// What polls have found: nothing, ...
const NOTHING: u32 = 0;
/// ... a packet, all of it, ...
const PACKET: u32 = 1;
/// ... something that is not for the fast path, ...
const OTHER: u32 = 2;
/// ... or that there is nothing, in a call that does not wait.
const EMPTY: u32 = 3;

// A model has fewer units.
const _: () = assert!(8 * simt::WARP as usize == PACKET_BYTES || cfg!(feature = "loom"));

/// Takes the receive direction, if that is free and the group's own. The same in all lanes: the record, and
/// where the direction stands, or what is to be done else.
#[inline(always)]
pub(super) fn enter(socket: Socket, net: Net, lane: u32) -> Result<(RecordLine, Position), Plan> {
    // Both on their way before the first is looked at.
    let lock = socket.lock_word(Direction::Receive);
    let found = lock.set_on_gpu_if(Position::TAKEN, lane == 0);
    let line = RecordLine::load(&socket);
    // Lanes are threads in a row.
    let group = group_name(net).wrapping_sub(lane.into());
    let position = Position(simt::from_lane(found, 0));
    let shared = position.has(Position::SHARED);
    let owned = position.has(Position::OWNED) & !line.is_owned_beside(group);
    let free = !position.has(Position::TAKEN | Position::CHECK) & (shared | owned);
    if simt::any_lane(!free | line.hinders(&socket, Direction::Receive)) {
        return Err(Plan::slow(position));
    }
    Ok((line, position))
}

/// Receives a short packet; `to` holds `most` bytes. A call that does not wait looks once: a packet
/// is taken, EAGAIN, or what else is there is left to the leader. The same plan in all lanes; to poll: with
/// the socket's line.
#[inline(always)]
pub(crate) fn receive(
    net: Net,
    handle: Handle,
    to: *mut u8,
    most: usize,
    waits: bool,
) -> ([u64; 2], RecordLine) {
    let none = |plan: Plan| (plan.words(), RecordLine::NONE);
    let Ok(socket) = Socket::named(net, handle) else { return none(Plan::NONE) };
    let lane = simt::lane();
    let (line, position) = match enter(socket, net, lane) {
        Ok(entered) => entered,
        Err(plan) => return none(plan),
    };
    let (inbox, info) = (line.inbox(), line.info());
    let (p2p, waits) = (info.is_p2p(), waits & !info.non_blocking());
    let (begin, at) = (position.count(), 8 * lane);
    let longest = most.min(PACKET_BYTES) as u32;
    let mut left = POLLS;
    let mut found = if waits & position.has(Position::LONG) { OTHER } else { NOTHING };
    let mut ending = Progress(0);
    if p2p & !waits {
        // Whether the proxy has seen the stream end. The word crosses PCIe while the units are looked at; only a
        // call that finds none waits for it.
        ending = Progress(socket.proxy_inbox().tail().load());
    }
    let (mut units, mut length, mut head) = ([Unit(0); 2], 0, 0);
    // Counted: the polls.
    while left > 0 && found == NOTHING {
        left -= 1;
        units = inbox.two_units(2 * lane as usize);
        // No acquire: the units say by themselves whether they belong to the packet.
        let [tail, taken] = inbox.both_relaxed();
        let tail = Progress(tail);
        head = taken;
        length = (tail.count() as u32).wrapping_sub(begin as u32);
        let short = tail.is_packet() & (length.wrapping_sub(1) < longest);
        let missing = (at < length) & !belong(units, begin, length.wrapping_sub(at));
        if !simt::any_lane(!short | missing) {
            found = PACKET;
        } else if simt::any_lane(!short & (tail.count() != begin) | tail.is_over()) {
            // Bytes of another kind, or an end.
            found = OTHER;
        } else if !waits && !simt::any_lane(short) {
            // Where a p2p stream has failed, perhaps only its head says so.
            let over = ending.is_over() | (p2p & Progress(head).has_failed());
            found = if simt::any_lane((tail.count() != begin) | over) { OTHER } else { EMPTY };
        } else {
            // Nothing has come, or some units of a packet are on their way.
            simt::pause();
        }
    }
    // What was found becomes a plan here: a poll that finds nothing should be short.
    match simt::opaque_half(found) {
        PACKET => {
            // The same in all lanes, whatever a hostile peer writes there meanwhile: what one lane counts as
            // received another must have copied.
            let length = simt::half_from_lane(length, 0);
            // SAFETY: the caller's buffer holds the packet.
            unsafe { take_packet(socket, line, position, to, units, length, Progress(head)) };
            none(Plan::done(length))
        }
        EMPTY => {
            let looks = line.empty_looks();
            if lane == 0 {
                give_back_empty(socket, position, looks);
            }
            simt::come_together();
            none(Plan::error(Errno::EAGAIN.negative()))
        }
        OTHER => {
            let poll = if waits { Plan::POLL } else { Plan::POLL_ONCE };
            (poll.words(), line.with_position(Direction::Receive, position))
        }
        _ => none(Plan::slow(position)),
    }
}

/// Gives the receive direction back where a call that does not wait has found nothing. `looks`: how many such
/// calls there were.
#[inline(always)]
pub(super) fn give_back_empty(socket: Socket, position: Position, looks: u32) {
    socket.count_empty_look(looks);
    // A kernel that asks again and again must see that it was stopped.
    let check = if looks.is_multiple_of(EMPTY_LOOKS) { Position::CHECK } else { 0 };
    give_receive_back(socket.lock_word(Direction::Receive), position.with(check));
}

/// Copies a packet out of its units, all of which have come, publishes the head and gives the direction back.
/// `head`: how far the other end has received.
///
/// # Safety
/// `to` is valid for `length` bytes; the group has the receive direction, which stands at `position`.
#[inline(always)]
pub(super) unsafe fn take_packet(
    socket: Socket,
    line: RecordLine,
    position: Position,
    to: *mut u8,
    units: [Unit; 2],
    length: u32,
    head: Progress,
) {
    let (at, publishes) = (8 * simt::lane(), line.publishes(Direction::Receive));
    if is_in_eights(to.addr(), length as usize) {
        if at < length {
            // SAFETY: the caller's promise, and aligned.
            unsafe { to.add(at as usize).cast::<u64>().write(bytes_of(units).to_le()) };
        }
    } else if at < length {
        // SAFETY: the caller's promise.
        unsafe { store_eight_at_once(to.add(at as usize), bytes_of(units), length - at) };
    }
    // What each lane has copied is there for all.
    simt::whole_warp_barrier();
    if at == 0 {
        // It came with the rest, and spares the answer a read.
        socket.remember_head(head);
        // No fence: nobody has read the ring.
        let end = Position(position.0 + u64::from(length)).behind_short(position);
        Socket::at(publishes).store(Progress::new(end.count(), 0).0);
        give_receive_back(socket.lock_word(Direction::Receive), end);
    }
    simt::come_together();
}

/// Sends a short packet of up to 256 bytes. The same plan in all lanes.
#[inline(always)]
pub(crate) fn send(net: Net, handle: Handle, from: *const u8, length: usize) -> Plan {
    let Ok(socket) = Socket::named(net, handle) else { return Plan::NONE };
    let lane = simt::lane();
    // All on their way before the first is looked at, where the message is in eights.
    let lock = socket.lock_word(Direction::Send);
    let found = lock.set_on_gpu_if(Position::TAKEN, lane == 0);
    let (at, size) = (8 * lane, length as u32);
    let mut bytes = 0;
    if is_in_eights(from.addr(), length) {
        // The same in all lanes, or they would come apart: those behind the message load its end.
        // SAFETY: the caller's buffer holds the message, of eight bytes or more, and is aligned.
        bytes = u64::from_le(unsafe { from.add(at.min(size - 8) as usize).cast::<u64>().read() });
    } else if at < size {
        // SAFETY: as above.
        bytes = unsafe { load_eight_at_once(from.add(at as usize), size - at) };
    }
    let line = RecordLine::load(&socket);
    let position = Position(simt::from_lane(found, 0));
    let begin = position.count();
    let usable = is_free(position) & !line.hinders(&socket, Direction::Send);
    let no_packet = units_old(position) | line.forbids_packet(|seen| is_empty(seen, begin), length);
    if simt::any_lane(!usable | no_packet) {
        if simt::any_lane(!usable) {
            return Plan::slow(position);
        }
        return plan(line, position, length, PACKET_BYTES, size);
    }
    let (units, publishes) = (line.units(), line.publishes(Direction::Send));
    if at < size {
        store_units(units, at, bytes, begin, size);
    }
    if lane == 0 {
        announce(publishes, begin, size);
    }
    // The ring follows: whoever sends by it next publishes these bytes, too.
    let ring = line.ring(Direction::Send);
    let mask = ring.capacity() - 1;
    let address = |n: usize| ring.start().wrapping_add((begin as usize + n) & mask);
    if begin.is_multiple_of(8) {
        if at < size {
            let to = address(at as usize);
            writes_bytes(to, 8);
            // SAFETY: inside the ring, whose send direction the group has, and which is empty: what
            // stands behind the message is for nobody.
            unsafe { simt::store_plain(to.cast(), bytes.to_le()) };
        }
    } else {
        let (mut at, end, mut rest) = (at, size.min(at + 8), bytes);
        // Counted: the lane's bytes.
        while at < end {
            let to = address(at as usize);
            writes_bytes(to, 1);
            // SAFETY: as above.
            unsafe { simt::store_plain(to, rest as u8) };
            rest >>= 8;
            at = simt::opaque_half(at + 1);
        }
    }
    // All lanes' bytes, before whoever has the direction next says that the ring holds them.
    simt::whole_warp_barrier();
    if lane == 0 {
        give_send_back(lock, position.advance(size.into()).behind_short(position));
    }
    simt::come_together();
    Plan::done(size)
}

/// Takes the send direction for a message of any length, and finds how it goes out: as a packet of at most
/// `longest` bytes, or by the ring. The same plan in all lanes, with the socket's line.
#[inline(always)]
pub(crate) fn plan_send(
    net: Net,
    handle: Handle,
    length: usize,
    longest: usize,
) -> ([u64; 2], RecordLine) {
    let (line, position) = match enter_send(net, handle) {
        Ok(entered) => entered,
        Err(plan) => return (plan.words(), RecordLine::NONE),
    };
    let plan = plan(line, position, length, longest, 1);
    (plan.words(), line.with_position(Direction::Send, position))
}

/// The same by the ring alone.
#[inline(always)]
pub(crate) fn plan_ring(net: Net, handle: Handle) -> ([u64; 2], RecordLine) {
    let none = |plan: Plan| (plan.words(), RecordLine::NONE);
    let (line, position) = match enter_send(net, handle) {
        Ok(entered) => entered,
        Err(plan) => return none(plan),
    };
    let (info, ring, seen) = (line.info(), line.ring(Direction::Send), line.head_seen());
    let Some(plan) = space(info, ring, position.count(), seen, 1) else {
        return none(Plan::slow(position));
    };
    (plan.words(), line.with_position(Direction::Send, position))
}

/// Takes the send direction, if that is free. The same in all lanes: the record, and where the direction stands,
/// or what is to be done else.
#[inline(always)]
fn enter_send(net: Net, handle: Handle) -> Result<(RecordLine, Position), Plan> {
    let Ok(socket) = Socket::named(net, handle) else { return Err(Plan::NONE) };
    let lock = socket.lock_word(Direction::Send);
    let found = lock.set_on_gpu_if(Position::TAKEN, simt::lane() == 0);
    let line = RecordLine::load(&socket);
    let position = Position(simt::from_lane(found, 0));
    if simt::any_lane(!is_free(position) | line.hinders(&socket, Direction::Send)) {
        return Err(Plan::slow(position));
    }
    Ok((line, position))
}

/// Whether a send lock that held that was free.
#[inline(always)]
pub(super) fn is_free(position: Position) -> bool {
    let flags = Position::TAKEN | Position::SHUT | Position::CHECK;
    !position.has(flags) & (position.count() != 0)
}

/// How a message goes out: as a packet where all before it was taken, or by the ring if there is space for `least`
/// bytes.
#[inline(always)]
fn plan(line: RecordLine, position: Position, length: usize, longest: usize, least: u32) -> Plan {
    let (info, ring, seen) = (line.info(), line.ring(Direction::Send), line.head_seen());
    plan_of(info, ring, seen, position, length, longest, least)
}

/// The same by the words of the record.
#[inline(always)]
pub(super) fn plan_of(
    info: Info,
    ring: RingAddress,
    seen: Progress,
    position: Position,
    length: usize,
    longest: usize,
    least: u32,
) -> Plan {
    let begin = position.count();
    // A slice has no length yet.
    let short = length.wrapping_sub(1) < longest.min(info.packet_limit());
    let packet = is_empty(seen, begin) & short;
    match space(info, ring, begin, seen, least) {
        Some(_) if packet & units_old(position) => Plan::slow(position),
        Some(_) if packet => Plan::packet(begin, length as u32),
        Some(plan) => plan,
        None => Plan::slow(position),
    }
}

/// The space in the ring behind a position, where it is at least `least` bytes; sizes of rings have 32 bits.
/// `seen`: how far the other end has received, as last seen.
#[inline(always)]
fn space(info: Info, ring: RingAddress, begin: u64, seen: Progress, least: u32) -> Option<Plan> {
    let capacity = ring.capacity_u32();
    let used = begin.wrapping_sub(seen.count());
    let space = capacity.saturating_sub(used as u32);
    let most = space.min(most_at_once(info, capacity as usize) as u32);
    // All of the count: a head of the slot's last stream, left there late, differs in its upper half alone.
    let fits = !seen.is_over() & (used >> 32 == 0) & (most >= least.max(1));
    fits.then(|| Plan::ring(ring, begin, most as usize))
}
