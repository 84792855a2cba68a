//! A warp's part in models: lane after lane, by one thread.

#![allow(clippy::missing_errors_doc, reason = "each: a handle that names no open socket")]

use crate::abi::bits::{PACKET_UNITS, Position, Progress, Unit};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::Span;
use crate::socket::{Direction, Socket, group_name, own};
use crate::wait::{Deadline, Watch, wait_until};

use super::packet::{packet_out, renew_units};
use super::{Finish, copy, finish};

/// Sends a packet, once the other end has taken all that was sent before; waits for that.
#[allow(unsafe_code, reason = "sends from a slice")]
pub fn send_packet(net: Net, handle: Handle, message: &[u8]) -> Result<(), Errno> {
    let socket = Socket::open(net, handle)?;
    let mut position = wait_until(net, socket.shard(), Deadline::NEVER, Watch::Stop, || {
        let head = socket.progress(Direction::Send);
        let position = socket.lock_if_free(Direction::Send)?;
        if head.count() == position.count() {
            return Some(position);
        }
        socket.unlock(Direction::Send, position);
        None
    })?;
    if position.has(Position::UNITS_OLD) {
        // Of the first message in a model nobody else knows.
        renew_units(net, handle, position, 4 * PACKET_UNITS);
        position = position.without(Position::UNITS_OLD);
    }
    let (units, tail) = (socket.units(), socket.publishes(Direction::Send).address());
    let (ring, begin) = (socket.ring(Direction::Send), position.count());
    let (from, length) = (message.as_ptr(), message.len() as u32);
    // SAFETY: the message's own length.
    unsafe { packet_out(0, 1, units, tail, ring, begin, from, length) };
    finish(net, handle, message.len(), Finish::Packet);
    Ok(())
}

/// Takes a packet if one is there as a whole, or what is in the ring; how many bytes. A call would put a
/// packet whose units it misses into the ring itself, beside the sender, which stores the same bytes: to
/// loom that is a race.
#[allow(unsafe_code, reason = "receives into a slice")]
pub fn receive_whole(net: Net, handle: Handle, to: &mut [u8]) -> Result<usize, Errno> {
    let socket = Socket::open(net, handle)?;
    let position = socket.lock(Direction::Receive, true)?;
    let position = match position.has(Position::OWNED) {
        true => position,
        false => Position(Errno::check(own(net, handle, group_name(net), position))?),
    };
    let (begin, inbox) = (position.count(), socket.inbox());
    // The counter last: it may be newer than the units.
    let units: [Unit; PACKET_UNITS] = core::array::from_fn(|at| inbox.unit(at));
    let tail = Progress(inbox.tail().load_acquire());
    let length = (tail.count().wrapping_sub(begin) as i64).max(0) as usize;
    let fits = (1..=to.len()).contains(&length);
    if fits && !tail.is_packet() {
        let (ring, span) = (socket.ring(Direction::Receive), Span::new(begin, length));
        // SAFETY: the buffer holds so many bytes.
        unsafe { copy::copy_out(0, 1, ring, span, to.as_mut_ptr()) };
        finish(net, handle, length, Finish::Copied);
        return Ok(length);
    }
    if !fits || !(0..length).all(|at| units[at / 4].belongs(begin)) {
        socket.unlock(Direction::Receive, position);
        return Ok(0);
    }
    for (at, byte) in to[..length].iter_mut().enumerate() {
        *byte = (units[at / 4].bytes() >> (8 * (at % 4))) as u8;
    }
    let end = Position(position.0 + length as u64);
    socket.publishes(Direction::Receive).store(Progress::new(end.count(), 0).0);
    socket.unlock(Direction::Receive, end);
    Ok(length)
}

/// Waits until no group has the send direction, and it stands there. Groups that meet there are beyond
/// loom, which does not know that their read-modify-writes are in one order with the store that follows.
pub fn until_sent(net: Net, handle: Handle, position: u64) -> Result<(), Errno> {
    let socket = Socket::open(net, handle)?;
    let stands = || {
        let now = socket.position(Direction::Send);
        (now.count() == position && !now.has(Position::TAKEN)).then_some(())
    };
    wait_until(net, socket.shard(), Deadline::NEVER, Watch::Stop, stands)
}

/// Where the record of a socket says that its rings are, and the receive direction's position.
pub fn rings(net: Net, handle: Handle) -> Result<[u64; 3], Errno> {
    let socket = Socket::open(net, handle)?;
    let [receive, send] = [Direction::Receive, Direction::Send].map(|at| socket.ring(at).0);
    Ok([receive, send, socket.position(Direction::Receive).count()])
}
