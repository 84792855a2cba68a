//! Sending where something is in the way of the [fast path](super::fast): the record is to be made,
//! another group has the direction, or there is no space in the ring. A group's leader calls this alone;
//! all its threads then carry out the plan.

use crate::abi::bits::{Position, Progress};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::simt;
use crate::socket::{Direction, Info, Socket, acquire};
use crate::wait::{self, Deadline, Watch};

use super::packet::{is_empty, renew_units, units_old};
use super::{Plan, quick};

/// The longest piece of a ring that is filled at once: the other end reads while this one fills the next.
const LONGEST_PIECE: usize = 32 << 10;
/// The same of a p2p stream, where a copy takes less than the calls for another piece.
const LONGEST_P2P_PIECE: usize = 64 << 10;
/// Of larger rings that part.
const SHARE: usize = 4;
/// As for receiving.
const ENDING_TURNS: u32 = 16;

/// Takes the send direction for a message of `length` bytes, of which a call needs `least` at once, and
/// waits for space. On an error the direction is free, else the group has it. Length 0: the program
/// fills the ring itself. `found`: what the lock held when the group set it to be taken, or 0.
#[inline(never)]
pub(crate) fn send(
    net: Net,
    handle: Handle,
    length: usize,
    least: u32,
    wait: bool,
    found: Position,
) -> Plan {
    let Ok(socket) = Socket::named(net, handle) else {
        return Plan::error(Errno::EBADF.negative());
    };
    let mut found = found;
    if found.0 == 0 {
        let plan = quick::send(net, handle, length, least);
        match Plan::found(plan.words()) {
            Some(slow) => found = slow,
            None => return plan,
        }
    }
    // One time-out for the wait for the direction and the wait for space.
    let begun = simt::now_ns();
    let acquired = acquire(net, handle, Direction::Send, found, wait, begun);
    if acquired < 0 {
        return Plan::error(acquired);
    }
    let position = Position(acquired as u64);
    let seen = socket.head_seen();
    let empty = is_empty(seen, position.count());
    let fits = length.wrapping_sub(1) < socket.info().packet_limit();
    if empty & fits & !units_old(position) {
        return Plan::packet(position.count(), length as u32);
    }
    reserve(net, handle, position, seen, least, wait, empty & fits, begun)
}

/// The wait for space in the ring, of a call that began at `begun`. `renews`: the units are to be made
/// anew on the way.
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
        let mut turns = 0;
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
    // As it stands there: units may have been renewed, and sending been shut down. A kernel that asks again
    // and again is to see that it was stopped.
    let check = if errno == Errno::EAGAIN.negative() { Position::CHECK } else { 0 };
    socket.unlock(Direction::Send, socket.position(Direction::Send).with(check));
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
        // Counters of another socket, which has the slot by now.
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
