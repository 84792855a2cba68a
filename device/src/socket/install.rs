//! How a socket's record is made of the descriptor that the proxy writes, by whichever group names the handle
//! first, and made again when a connect or listen has brought rings. Rare, and out of line, as all of
//! [`lifecycle`](super::lifecycle). One thread calls this, for its group.
//!
//! Why it is so: decision 10 of docs/explanation/decisions.md.

use crate::abi::bits::{P2P_PACKET_BYTES, PACKET_BYTES, Position, Progress, Tagged, Unit};
use crate::abi::descriptor::{RingLocation, SocketDescriptor, Status};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::layout::{HEAD_AT, TAIL_AT, UNITS_AT};
use crate::abi::net::Net;
use crate::abi::ring::RingAddress;
use crate::abi::word::Word;
use crate::simt;
use crate::wait::{Deadline, Watch, wait_until};

use super::direction::Direction;
use super::lock::lock_to_leave;
use super::record::{
    CLOSING, HEAD, INBOX, INFO, INSTALLING, Info, OPEN, OWNER, RECEIVE_RING, SEND_RING, Socket,
    TAIL, UNITS, bare, open_in, state,
};

/// How long a record may be in the making: a few loads by another group.
const INSTALL_NS: u64 = 5_000_000_000;

impl Socket {
    /// The socket that `handle` names; EBADF for any that is not open.
    #[inline(always)]
    pub(crate) fn open(net: Net, handle: Handle) -> Result<Self, Errno> {
        Errno::check(install(net, handle))?;
        Ok(Self::known(net, handle))
    }
}

/// Of a turn: another group makes the record, or the proxy writes the descriptor. To be tried again.
const AGAIN: i64 = 1;

/// The descriptor of a socket, if it is this generation's; [`AGAIN`] or EBADF. One that is being replaced is to
/// be waited for: a stream that connects gets its rings in a second one.
#[inline(always)]
fn descriptor(socket: Socket) -> Result<SocketDescriptor, i64> {
    let words = socket.net.descriptor(socket.index());
    // Acquire: the proxy takes the kind out of this word first and writes it last, never the same one
    // twice, so a descriptor whose word 0 is the same before and after was not changed in between.
    let identity = words.get(0).load_acquire();
    if identity >> 8 != u64::from(socket.handle.generation()) {
        return Err(Errno::EBADF.negative());
    }
    let read = words.read();
    simt::acquire_fence();
    let same = read[0] == identity && words.get(0).load() == identity;
    same.then(|| SocketDescriptor::from_words(&read)).flatten().ok_or(AGAIN)
}

/// Makes the record of what the descriptor says, and opens it: the calling thread has made it *installing*. 0,
/// [`AGAIN`], or EBADF: the descriptor is not the socket's any more, or the host has closed the socket
/// meanwhile. `anew`: it had no record before. It waits for nothing, so that no frame of a wait comes on top of
/// its own, which is large: the driver reserves the deepest stack for every thread that a GPU can hold.
#[inline(never)]
fn fill(net: Net, handle: Handle, anew: bool) -> i64 {
    let socket = Socket::known(net, handle);
    let descriptor = match descriptor(socket) {
        Ok(descriptor) => descriptor,
        Err(why) => return why,
    };
    let index = socket.index();
    let generation = handle.generation();
    let set = |word: usize, value: u64| {
        socket.record.get(word).store(Tagged::new(value, generation).0);
    };
    let at = |word: usize, address: *mut u64| set(word, address.expose_provenance() as u64);
    let mut info = descriptor.kind as u64;
    if anew {
        socket.set_timeout(Direction::Receive, descriptor.timeout_ns);
        socket.set_timeout(Direction::Send, descriptor.timeout_ns);
    } else {
        info |= socket.info().0 & Info::NON_BLOCKING;
    }
    let (receive, send) = (descriptor.receive.base, descriptor.send.base);
    let p2p = descriptor.inboxes.as_ref().and_then(|pages| net.p2p_inboxes(pages));
    if descriptor.inboxes.is_some_and(|pages| pages.one_gpu) {
        info |= Info::ONE_GPU;
    }
    // What one end sends the other receives.
    if let Some([own, peer]) = p2p {
        info |= Info::P2P | (P2P_PACKET_BYTES as u64) << Info::LIMIT_SHIFT;
        at(INBOX, own);
        at(HEAD, peer.wrapping_add(HEAD_AT));
        at(TAIL, peer.wrapping_add(TAIL_AT));
        at(UNITS, peer.wrapping_add(UNITS_AT));
    } else {
        // What the proxy cannot send at once it puts into the ring, which must be in its reach.
        if descriptor.send.region == 0 {
            info |= (PACKET_BYTES as u64) << Info::LIMIT_SHIFT;
        }
        at(INBOX, net.inbox(index));
        at(HEAD, net.receive_head(index));
        at(TAIL, net.send_tail(index));
        at(UNITS, net.send_units(index));
    }
    let ring = |location: &RingLocation| RingAddress::new(net.ring(location), location.capacity).0;
    set(RECEIVE_RING, ring(&descriptor.receive));
    set(SEND_RING, ring(&descriptor.send));
    set(INFO, info);
    socket.record.get(OWNER).store(0);
    socket.unpacked().store(0);
    // Units of the last socket's packets are still there. Positions go on, and so their tags differ
    // unless a window or more was passed.
    let last = socket.position(Direction::Send).without(Position::TAKEN | Position::SHUT);
    let position = match descriptor.send.capacity {
        // It sends nothing. Not 0, which stands in a lock that was never made.
        0 => Position(last.0.max(1)),
        _ => {
            let goes_on = send >= last.count()
                && !last.has(Position::UNITS_OLD)
                && !Unit::are_apart(last.count(), send);
            let old = if p2p.is_some() || goes_on { 0 } else { Position::UNITS_OLD };
            Position::new(send).with(old)
        }
    };
    // As if it were over: the first send looks whether it is.
    socket.remember_head(Progress::new(position.count(), Progress::ENDED));
    // Release: who takes a direction, or sees OPEN, sees the record.
    simt::release_fence();
    socket.unlock(Direction::Receive, Position::new(receive.max(1)));
    socket.unlock(Direction::Send, position);
    simt::gpu_release_fence();
    match change(socket.state_word(), state(handle, INSTALLING), open_in(net, handle)) {
        true => 0,
        false => Errno::EBADF.negative(),
    }
}

/// Takes a STATE word on, unless the host has closed the socket meanwhile: what it writes stands until the
/// next socket has the slot. Never a plain store.
#[inline(always)]
pub(super) fn change(word: Word, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to)
}

/// Makes the record of a socket from its descriptor, or waits for the group that does; 0 or why not.
#[inline(never)]
pub(super) fn install(net: Net, handle: Handle) -> i64 {
    let Ok(socket) = Socket::named(net, handle) else { return Errno::EBADF.negative() };
    let deadline = Deadline::after(INSTALL_NS);
    let installed = wait_until(net, socket.shard(), deadline, Watch::Stop, || {
        let installed = try_install(net, handle);
        (installed != AGAIN).then_some(installed)
    });
    installed.unwrap_or_else(Errno::negative)
}

/// A turn of it: 0, why not, or [`AGAIN`].
#[inline(never)]
fn try_install(net: Net, handle: Handle) -> i64 {
    let socket = Socket::known(net, handle);
    let word = socket.state_word();
    // Acquire: who sees OPEN sees the record.
    let seen = word.load_acquire();
    if socket.is_in_use(seen) {
        return 0;
    }
    if bare(seen) == state(handle, CLOSING) {
        return Errno::EBADF.negative();
    }
    if bare(seen) == state(handle, INSTALLING) {
        return AGAIN;
    }
    // Another launch or another generation. The descriptor says whether ours is alive.
    let identity = net.descriptor(socket.index()).get(0).load_acquire();
    if identity >> 8 != u64::from(handle.generation()) {
        return Errno::EBADF.negative();
    }
    if bare(seen) == state(handle, OPEN) {
        let known = word.compare_exchange(seen, open_in(net, handle));
        return if known { 0 } else { AGAIN };
    }
    if !word.compare_exchange(seen, state(handle, INSTALLING)) {
        return AGAIN;
    }
    let filled = fill(net, handle, true);
    if filled != 0 {
        // It went meanwhile, or changes. What stood there was of another socket, or of none.
        change(word, state(handle, INSTALLING), seen);
    }
    filled
}

/// Takes an open socket into another state; the word that stood there, or a negative error number.
/// Another launch that uses the socket may write its epoch at any time, which is no reason to fail.
#[inline(never)]
pub(super) fn leave_open(net: Net, handle: Handle, to: u64) -> i64 {
    let socket = Socket::known(net, handle);
    let word = socket.state_word();
    let deadline = Deadline::after(INSTALL_NS);
    let left = wait_until(net, socket.shard(), deadline, Watch::Proxy, || {
        let seen = word.load();
        if bare(seen) == state(handle, INSTALLING) {
            return None;
        }
        if bare(seen) != state(handle, OPEN) {
            return Some(Errno::EBADF.negative());
        }
        word.compare_exchange(seen, state(handle, to)).then_some(seen as i64)
    });
    left.unwrap_or_else(Errno::negative)
}

/// Takes over the rings that a connect or listen of this group has just brought; 0 or why not.
#[inline(never)]
pub(crate) fn reinstall(net: Net, handle: Handle) -> i64 {
    let Ok(socket) = Socket::named(net, handle) else { return Errno::EBADF.negative() };
    let word = socket.state_word();
    let seen = leave_open(net, handle, INSTALLING);
    if seen < 0 {
        return seen;
    }
    if !socket.ring(Direction::Send).is_none() {
        // Another group was first, and may have used them.
        return match change(word, state(handle, INSTALLING), seen as u64) {
            true => 0,
            false => Errno::EBADF.negative(),
        };
    }
    // A group that has just learnt that there is no connection yet is about to give its direction
    // back, which must not come behind the new position.
    let received = lock_to_leave(net, handle, Direction::Receive);
    let sent = lock_to_leave(net, handle, Direction::Send);
    let deadline = Deadline::after(INSTALL_NS);
    let filled = wait_until(net, socket.shard(), deadline, Watch::Stop, || {
        let filled = fill(net, handle, false);
        (filled != AGAIN).then_some(filled)
    });
    if filled == Ok(0) {
        return 0;
    }
    // The host has closed it, and waits until nobody has a direction.
    if received >= 0 {
        socket.unlock(Direction::Receive, Position(received as u64));
    }
    if sent >= 0 {
        socket.unlock(Direction::Send, Position(sent as u64));
    }
    change(word, state(handle, INSTALLING), state(handle, CLOSING));
    match filled {
        // The launch was stopped meanwhile.
        Err(errno) if errno != Errno::ETIMEDOUT => errno.negative(),
        _ => Errno::EBADF.negative(),
    }
}

/// Takes over the rings that a connect has brought since the record was made: those of a p2p stream
/// come with the answer of the other end. Whether there are any now. The socket is open.
#[cold]
#[inline(never)]
pub(crate) fn adopt_rings(net: Net, handle: Handle) -> bool {
    let socket = Socket::known(net, handle);
    let has_rings = || !socket.ring(Direction::Send).is_none();
    if has_rings() {
        return true;
    }
    if socket.status().state() != Status::CONNECTED {
        return false;
    }
    // The proxy writes the descriptor before it says that the stream is connected.
    let words = net.descriptor(socket.index());
    let first = words.get(0).load_acquire();
    let capacities = words.get(SocketDescriptor::CAPACITIES).load();
    first >> 8 == u64::from(handle.generation())
        && SocketDescriptor::may_have_rings(first, capacities)
        && reinstall(net, handle) == 0
        && has_rings()
}
