//! Sending, as far as a group's planning threads do it: take the direction, send a short packet, or wait
//! for space in the ring.

#![allow(unsafe_code, reason = "sends a short packet")]

use crate::abi::bits::{PACKET_BYTES, Position, Progress};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::RingPlace;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::socket::{Direction, Info, Socket, enter};
use crate::wait::{self, Deadline, Watch};

use super::finish::give_back_send;
use super::packet::{packet_out, renew_units};
use super::{Crew, Plan};

/// The longest piece of a ring that is filled at once: the other end reads while this one fills the next.
const LONGEST_PIECE: usize = 32 << 10;
/// The same of a p2p stream, where a copy takes less than the calls for another piece.
const LONGEST_P2P_PIECE: usize = 64 << 10;
/// Of larger rings that part.
const SHARE: usize = 4;
/// As for receiving.
const ENDING_TURNS: u32 = 16;

/// Takes the send direction for a message of `length` bytes, of which a call needs `least` at once. All
/// planning threads call it, and the leader's plan counts. A short packet is sent at once. On an error
/// and behind such a packet the direction is free, else the group has it. A null `from`: the program
/// fills the ring itself. `held`: where the direction stands that the group has already, or 0; `found`:
/// what the lock held when the group tried to get it, or 0. All threads of a whole warp get the plan.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
pub(crate) fn send(
    net: Net,
    handle: Handle,
    crew: Crew,
    from: *const u8,
    length: usize,
    least: u32,
    wait: bool,
    held: Position,
    found: Position,
) -> Plan {
    let mut plan = Plan::error(Errno::EBADF.negative());
    let (mut position, mut watched) = (held, 0);
    let (mut units, mut tail, mut ring) = (0, 0, 0);
    if crew.leads()
        && let Ok(socket) = Socket::named(net, handle)
    {
        let mut entered = held.0 as i64;
        // One time-out for the wait for the direction and the wait for space.
        let mut begun = 0;
        // Counted: once more where the record was to be made, or another group had the direction.
        while entered >= 0 {
            if entered == 0 {
                position = found;
                if found.0 == 0 {
                    let lock = socket.lock_word(Direction::Send);
                    position = Position(lock.set_on_gpu(Position::TAKEN));
                }
            }
            // Behind the lock: what it says then is of the socket whose lock it is.
            let (fetched, is_socket, in_use) = socket.fetch(Direction::Send);
            position = socket.checked(Direction::Send, position);
            let free = !position.has(Position::TAKEN | Position::SHUT) & (position.count() != 0);
            let good = is_socket & (in_use | (entered > 0));
            if good & free & !fetched.ring.is_none() & fetched.info.has_bytes() {
                // All that was sent before has been taken, and so the units are free.
                let taken = fetched.head_seen.0 == Progress::new(position.count(), 0).0;
                let empty = taken | planted(Bug::PacketBeforeTaken);
                let fits = length.wrapping_sub(1) < fetched.info.packet_limit();
                let old = position.has(Position::UNITS_OLD) & !planted(Bug::UnitsNotRenewed);
                if empty & fits & !old {
                    plan = Plan::packet(position.count(), length as u32);
                    (units, tail, ring) = (fetched.units, fetched.publishes, fetched.ring.0);
                    if fetched.info.is_p2p() {
                        // On its way while the packet is.
                        watched = fetched.inbox.watched().load();
                    }
                } else {
                    let renews = empty & fits;
                    let seen = fetched.head_seen;
                    plan = reserve(net, handle, position, seen, least, wait, renews, begun);
                }
                break;
            }
            begun = if begun == 0 { simt::now_ns() } else { begun };
            entered = enter(net, handle, Direction::Send, position, wait, begun);
            position = Position(entered as u64);
        }
        if entered < 0 {
            plan = Plan::error(entered);
        }
    }
    let short = crew.is_warp() & (length <= PACKET_BYTES) & !from.is_null();
    if short && simt::any_lane(crew.leads() & plan.is_packet()) {
        let begin = simt::from_lane(position.0, 0);
        let ring = RingPlace(simt::from_lane(ring, 0));
        let (units, tail) = (simt::from_lane(units, 0), simt::from_lane(tail, 0));
        let begin = Position(begin).count();
        let lane = crew.lane();
        // SAFETY: the caller's buffer holds the message.
        unsafe { packet_out(lane, simt::WARP, units, tail, ring, begin, from, length as u32) };
        // All lanes' bytes, before whoever has the direction next says that the ring holds them.
        simt::whole_warp_barrier();
        if crew.leads() {
            let watched = (watched != 0) & !planted(Bug::WatchedIgnored);
            give_back_send(net, handle, watched, position.advance(length as u64));
            plan = Plan::done(length as u32);
        }
    }
    plan.of_leader(crew)
}

/// The leader's wait for space in the ring, of a call that began at `begun` (0: now). `renews`: the units are to be made anew on the way.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
fn reserve(
    net: Net,
    handle: Handle,
    position: Position,
    seen: Progress,
    least: u32,
    wait: bool,
    renews: bool,
    begun: u64,
) -> Plan {
    let socket = Socket::known(net, handle);
    let (info, ring) = (socket.info(), socket.ring(Direction::Send));
    let capacity = ring.capacity();
    if renews {
        renew_units(net, handle, position, info.packet_limit());
    }
    if least as usize > capacity {
        return give_back(net, handle, Errno::EMSGSIZE.negative());
    }
    // What was seen may be old, and then there is more space, never less.
    let used = position.count().wrapping_sub(seen.count()) as usize;
    let enough = (used <= capacity) & (capacity.wrapping_sub(used) >= least.max(1) as usize);
    let mut space = if enough & !seen.is_over() { (capacity - used) as i64 } else { 0 };
    if space == 0 {
        let waits = wait & !info.non_blocking() & (least > 0);
        let (begun, mut turns) = (if begun == 0 { simt::now_ns() } else { begun }, 0);
        space = wait::turn_by_turn(|| {
            let asks = !waits | (turns as u32).is_multiple_of(ENDING_TURNS);
            let space = check(net, handle, position, least, asks);
            if (space != 0) | !waits {
                return Some(space);
            }
            simt::pause();
            turns = end_turn(net, handle, begun, turns as u32);
            (turns < 0).then_some(turns)
        });
        simt::progress();
    }
    match space {
        1.. => {
            let most = most_at_once(info, capacity);
            let length = (space as usize).min(most.max(least as usize));
            Plan::ring(ring, position.count(), length)
        }
        0 if least == 0 => give_back(net, handle, 0),
        0 => give_back(net, handle, Errno::EAGAIN.negative()),
        errno => give_back(net, handle, errno),
    }
}

/// Bytes of a ring that are filled at once.
#[inline(always)]
pub(super) fn most_at_once(info: Info, capacity: usize) -> usize {
    let piece = if info.is_p2p() { LONGEST_P2P_PIECE } else { LONGEST_PIECE };
    piece.max(capacity / SHARE)
}

/// Gives the direction back as it was.
#[cold]
#[inline(never)]
fn give_back(net: Net, handle: Handle, errno: i64) -> Plan {
    let socket = Socket::known(net, handle);
    // Who takes the direction next knows what was sent before.
    simt::gpu_release_fence();
    // As it stands there: units may have been renewed, and sending been shut down.
    socket.unlock(Direction::Send, socket.position(Direction::Send));
    Plan::error(errno)
}

/// Ends a turn of a wait: see [`wait::end_turn`].
#[cold]
#[inline(never)]
fn end_turn(net: Net, handle: Handle, begun: u64, turns: u32) -> i64 {
    let socket = Socket::known(net, handle);
    let deadline = Deadline::since_or_never(begun, socket.timeout(Direction::Send));
    wait::end_turn(net, socket.shard(), deadline, Watch::Stop, begun, turns)
}

/// Looks how far the other end has received: so much space, a negative error number, or 0 for neither
/// yet. `asks`: also the proxy of a p2p stream, whether that is over.
#[cold]
#[inline(never)]
fn check(net: Net, handle: Handle, position: Position, least: u32, asks: bool) -> i64 {
    let socket = Socket::known(net, handle);
    let open = socket.is_open();
    let shut = socket.position(Direction::Send).has(Position::SHUT);
    let head = match asks {
        true => socket.progress(Direction::Send),
        // Acquire: pairs with the release of the head; the space may be overwritten.
        false => Progress(socket.inbox().head().load_acquire()),
    };
    let capacity = socket.ring(Direction::Send).capacity();
    let used = position.count().wrapping_sub(head.count()) as usize;
    match () {
        // Counters of another socket, which has the place by now.
        () if used > capacity => Errno::EBADF.negative(),
        () if head.has_failed() => {
            socket.remember_head(Progress::new(0, Progress::FAILED));
            socket.failure().negative()
        }
        () if head.is_over() || shut => Errno::EPIPE.negative(),
        () if capacity - used >= least.max(1) as usize => {
            socket.remember_head(head);
            (capacity - used) as i64
        }
        () if !open => Errno::EBADF.negative(),
        () => 0,
    }
}
