//! How a socket's record is made, entered on the slow path, and closed. All of it is rare, and stays out of
//! line: it costs the data path neither registers nor a stack frame. Results are numbers, as the
//! familiar calls return them, for the same reason. One thread calls this, for its group.
//!
//! Why it is so: decision 10 of docs/explanation/decisions.md.

use crate::abi::bits::{
    P2P_PACKET_BYTES, PACKET_BYTES, Position, Progress, Tagged, Unit, WatchedProgress,
};
use crate::abi::descriptor::{Kind, RingLocation, SocketDescriptor, Status};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::layout::{HEAD_AT, TAIL_AT, UNITS_AT};
use crate::abi::net::Net;
use crate::abi::ring::RingAddress;
use crate::abi::word::Word;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::wait::{Deadline, Watch, wait_until};

use super::record::{
    CLOSING, Direction, HEAD, INBOX, INFO, INSTALLING, Info, OPEN, OWNER, RECEIVE_RING, SEND_RING,
    Socket, TAIL, UNITS, bare, open_in, state,
};

/// How long a call that does not wait still tries to get a direction: the group's own last call
/// may be about to give it back.
const BRIEFLY_NS: u64 = 20_000;
/// How long a close waits for the last head to arrive in host memory: a microsecond is enough.
const HEAD_NS: u64 = 100_000_000;
/// How long a record may be in the making: a few loads by another group.
const INSTALL_NS: u64 = 5_000_000_000;

/// How long a close, or a shutdown, waits for other groups to leave the socket.
const LEAVE_NS: u64 = 2_000_000_000;

impl Socket {
    /// The socket that `handle` names; EBADF for any that is not open.
    #[inline(always)]
    pub(crate) fn open(net: Net, handle: Handle) -> Result<Self, Errno> {
        Errno::check(install(net, handle))?;
        Ok(Self::known(net, handle))
    }

    /// Takes a direction, and waits for it if it may; EBUSY where another group has it.
    #[inline(always)]
    pub(crate) fn lock(&self, direction: Direction, wait: bool) -> Result<Position, Errno> {
        let locked = lock(self.net, self.handle, direction, wait, simt::now_ns());
        Errno::check(locked).map(Position)
    }

    /// Waits until no group has a direction, and takes it.
    #[inline(always)]
    fn lock_within(&self, direction: Direction, ns: u64) -> Result<Position, Errno> {
        let deadline = Deadline::after(ns);
        let free = || self.lock_if_free(direction);
        wait_until(self.net, self.shard(), deadline, Watch::Proxy, free)
    }

    /// Tells the kernel at the other end of a p2p stream that no more comes (send), or that no more is
    /// taken (receive); the calling group has the direction. The proxies do so, too, later.
    #[inline(always)]
    pub(crate) fn end_p2p(&self, direction: Direction, position: Position) {
        if self.info().is_p2p() && !self.ring(direction).is_none() {
            // Release: all that was sent is in the ring, a packet, too.
            simt::release_fence();
            let progress = Progress::new(position.count(), Progress::ENDED);
            self.publishes(direction).store(progress.0);
        }
    }

    /// Waits until the last head of a group that received alone has arrived.
    #[inline(always)]
    fn head_arrives(&self, position: Position, ns: u64) -> Result<(), Errno> {
        let head = self.publishes(Direction::Receive);
        let arrived = || (Progress(head.load()).count() == position.count()).then_some(());
        wait_until(self.net, self.shard(), Deadline::after(ns), Watch::Proxy, arrived)
    }
}

/// The descriptor of a socket, if it is this generation's. One that is being replaced is waited for: a stream
/// that connects gets its rings in a second one.
#[inline(always)]
fn descriptor(socket: Socket) -> Option<SocketDescriptor> {
    let generation = u64::from(socket.handle.generation());
    let words = socket.net.descriptor(socket.index());
    let deadline = Deadline::after(INSTALL_NS);
    let whole = wait_until(socket.net, socket.shard(), deadline, Watch::Stop, || {
        // Acquire: the proxy takes the kind out of this word first and writes it last, never the same one
        // twice, so a descriptor whose word 0 is the same before and after was not changed in between.
        let identity = words.get(0).load_acquire();
        if identity >> 8 != generation {
            return Some(None);
        }
        let read = words.read();
        simt::acquire_fence();
        let same = read[0] == identity && words.get(0).load() == identity;
        same.then(|| SocketDescriptor::from_words(&read)).filter(Option::is_some)
    });
    whole.ok().flatten()
}

/// Makes the record of what the descriptor says, and opens it: the calling thread has made it *installing*.
/// False: the descriptor is not the socket's any more, or the host has closed the socket meanwhile. `anew`: it
/// had no record before.
#[inline(never)]
fn fill(net: Net, handle: Handle, anew: bool) -> bool {
    let socket = Socket::known(net, handle);
    let Some(descriptor) = descriptor(socket) else { return false };
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
    // Those of a p2p stream come with the numbers of what the proxy is told.
    let (receive, send) =
        (WatchedProgress(descriptor.receive.base), WatchedProgress(descriptor.send.base));
    info |= (receive.number() | send.number() << 4) << Info::PROGRESS_NUMBERS_SHIFT;
    let p2p = descriptor.inboxes.as_ref().and_then(|pages| net.p2p_inboxes(pages));
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
            let goes_on = send.count() >= last.count()
                && !last.has(Position::UNITS_OLD)
                && !Unit::are_apart(last.count(), send.count());
            let old = if p2p.is_some() || goes_on { 0 } else { Position::UNITS_OLD };
            Position::new(send.count()).with(old)
        }
    };
    // As if it were over: the first send looks whether it is.
    socket.remember_head(Progress::new(position.count(), Progress::ENDED));
    // Release: who takes a direction, or sees OPEN, sees the record.
    simt::release_fence();
    socket.unlock(Direction::Receive, Position::new(receive.count().max(1)));
    socket.unlock(Direction::Send, position);
    simt::gpu_release_fence();
    change(socket.state_word(), state(handle, INSTALLING), open_in(net, handle))
}

/// Takes a STATE word on, unless the host has closed the socket meanwhile: what it writes stands until the
/// next socket has the slot. Never a plain store.
#[inline(always)]
fn change(word: Word, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to)
}

/// Makes the record of a socket from its descriptor, or waits for the group that does; 0 or why not.
#[inline(never)]
fn install(net: Net, handle: Handle) -> i64 {
    let Ok(socket) = Socket::named(net, handle) else { return Errno::EBADF.negative() };
    let word = socket.state_word();
    let deadline = Deadline::after(INSTALL_NS);
    let installed = wait_until(net, socket.shard(), deadline, Watch::Stop, || {
        // Acquire: who sees OPEN sees the record.
        let seen = word.load_acquire();
        if socket.is_in_use(seen) {
            return Some(0);
        }
        if bare(seen) == state(handle, CLOSING) {
            return Some(Errno::EBADF.negative());
        }
        if bare(seen) == state(handle, INSTALLING) {
            return None;
        }
        // Another launch or another generation. The descriptor tells whether ours is alive.
        if net.descriptor(socket.index()).get(0).load_acquire() >> 8
            != u64::from(handle.generation())
        {
            return Some(Errno::EBADF.negative());
        }
        if bare(seen) == state(handle, OPEN) {
            let known = word.compare_exchange(seen, open_in(net, handle));
            return known.then_some(0);
        }
        if !word.compare_exchange(seen, state(handle, INSTALLING)) {
            return None;
        }
        if fill(net, handle, true) {
            return Some(0);
        }
        // It went meanwhile. What stood there was of another socket, or of none.
        change(word, state(handle, INSTALLING), seen);
        Some(Errno::EBADF.negative())
    });
    installed.unwrap_or_else(Errno::negative)
}

/// Takes an open socket into another state; the word that stood there, or a negative error number.
/// Another launch that uses the socket may write its epoch at any time, which is no reason to fail.
#[inline(never)]
fn leave_open(net: Net, handle: Handle, to: u64) -> i64 {
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
    if fill(net, handle, false) {
        return 0;
    }
    // The host has closed it, and waits until nobody has a direction.
    for (direction, position) in [(Direction::Receive, received), (Direction::Send, sent)] {
        if position >= 0 {
            socket.unlock(direction, Position(position as u64));
        }
    }
    change(word, state(handle, INSTALLING), state(handle, CLOSING));
    Errno::EBADF.negative()
}

/// Takes over the rings that a connect has brought since the record was made: those of a p2p stream
/// come with the answer of the other end. Whether there are any now.
#[cold]
#[inline(never)]
pub(crate) fn adopt_rings(net: Net, handle: Handle) -> bool {
    let Ok(socket) = Socket::open(net, handle) else { return false };
    if !socket.ring(Direction::Send).is_none() {
        return true;
    }
    let connected = socket.status().state() == Status::CONNECTED;
    let has_rings = |descriptor: SocketDescriptor| {
        descriptor.kind == Kind::Stream && descriptor.send.capacity != 0
    };
    connected && descriptor(socket).is_some_and(has_rings) && reinstall(net, handle) == 0
}

/// Takes a direction of a socket for a call that began at `begun`: where it stands, or a negative error
/// number. `found`: what stood in the lock when the calling group set it to be taken; 0: it has not.
#[cold]
#[inline(never)]
pub(crate) fn acquire(
    net: Net,
    handle: Handle,
    direction: Direction,
    found: Position,
    wait: bool,
    begun: u64,
) -> i64 {
    let socket = Socket::known(net, handle);
    let mut found = found;
    if found.0 == 0 {
        found = Position(socket.lock_word(direction).set_on_gpu(Position::TAKEN));
    }
    // Behind the lock: what it says then is of the socket whose lock it is.
    let (fetched, is_socket, in_use) = socket.fetch(direction);
    let found = socket.checked(direction, found);
    let shut = if direction == Direction::Send { Position::SHUT } else { 0 };
    let free = !found.has(Position::TAKEN | shut) & (found.count() != 0);
    let usable = !fetched.ring.is_none() & fetched.info.has_bytes();
    let mut position = found;
    if !(is_socket & in_use & free & usable) {
        let entered = enter(net, handle, direction, found, wait, begun);
        if entered < 0 {
            return entered;
        }
        position = Position(entered as u64);
    }
    let group = group_name(net);
    let mine = position.has(Position::OWNED) & (socket.owner() == group);
    match (direction == Direction::Send) | mine | position.has(Position::SHARED) {
        true => position.0 as i64,
        false => own(net, handle, group, position),
    }
}

/// Takes a direction of a socket where the short way did not do: its record is to be made, another group
/// has the direction, or there is something wrong. Where it stands, or a negative error number. `found`
/// is what stood in the lock when the calling group set it to be taken, `begun` when the call began.
#[inline(never)]
fn enter(
    net: Net,
    handle: Handle,
    direction: Direction,
    found: Position,
    wait: bool,
    begun: u64,
) -> i64 {
    let socket = Socket::known(net, handle);
    if !found.has(Position::TAKEN) && found.count() != 0 {
        // The calling group has it. Of another socket, it is given back to that one; a record that is
        // made meanwhile is left alone. Sending may be shut down meanwhile, which stays.
        simt::gpu_release_fence();
        let lock = socket.lock_word(direction);
        let taken = found.with(Position::TAKEN);
        if !lock.compare_exchange(taken.0, found.0) {
            let (taken, found) = (taken.with(Position::SHUT), found.with(Position::SHUT));
            lock.compare_exchange(taken.0, found.0);
        }
    }
    let installed = install(net, handle);
    if installed != 0 {
        return installed;
    }
    let has_ring = !socket.ring(direction).is_none() || adopt_rings(net, handle);
    let info = socket.info();
    if !has_ring || !info.has_bytes() {
        return Errno::ENOTCONN.negative();
    }
    let locked = lock(net, handle, direction, wait && !info.non_blocking(), begun);
    if locked < 0 {
        return locked;
    }
    let position = Position(locked as u64);
    let errno = match () {
        () if !socket.is_still_here() => Errno::EBADF,
        () if direction == Direction::Send && position.has(Position::SHUT) => Errno::EPIPE,
        () => return locked,
    };
    // Who takes the direction next knows what was sent before.
    simt::gpu_release_fence();
    socket.unlock(direction, position);
    errno.negative()
}

/// Takes a direction, and waits for it if it may: where it stands, or a negative error number.
#[inline(never)]
fn lock(net: Net, handle: Handle, direction: Direction, wait: bool, begun: u64) -> i64 {
    let socket = Socket::known(net, handle);
    let deadline = match wait {
        true => Deadline::since_or_never(begun, socket.timeout(direction)),
        false => Deadline::after(BRIEFLY_NS),
    };
    let locked = wait_until(net, socket.shard(), deadline, Watch::Stop, || {
        if !socket.is_open() {
            return Some(Errno::EBADF.negative());
        }
        socket.lock_if_free(direction).map(|position| position.0 as i64)
    });
    match locked {
        Ok(position) => position,
        Err(Errno::ETIMEDOUT) if !wait => Errno::EBUSY.negative(),
        Err(errno) => errno.negative(),
    }
}

/// Names a group by the thread that leads it, which stores its heads: those of a block and of its first
/// warp come from one thread, and so in order.
#[inline(always)]
pub(crate) fn group_name(net: Net) -> u64 {
    let position = simt::position();
    let leader = u64::from(position.block) << 10 | u64::from(position.thread);
    net.epoch() << 44 | (leader + 1)
}

/// The calling group has the receive direction, which is not known as its own; where it stands, with
/// what is known now, or a negative error number, and then the direction is given back.
///
/// Heads of one thread come in order, since its calls do, so the direction is given back without a fence,
/// which would cost every group that receives alone. Nothing makes one thread wait for another: where a
/// second one comes, it waits until the first one's last head is there, and from then on all of them
/// fence.
#[cold]
#[inline(never)]
pub(crate) fn own(net: Net, handle: Handle, group: u64, position: Position) -> i64 {
    let socket = Socket::known(net, handle);
    let note = |position: Position| {
        // For the thread of the group that gives the direction back.
        socket.lock_word(Direction::Receive).store(position.with(Position::TAKEN).0);
        position.0 as i64
    };
    if !position.has(Position::OWNED) {
        socket.record.get(OWNER).store(group);
        // For the next one to see: until now an earlier socket's head stands there.
        let head = Progress::new(position.count(), 0);
        socket.publishes(Direction::Receive).store(head.0);
        simt::gpu_release_fence();
        return note(position.with(Position::OWNED));
    }
    if planted(Bug::HeadsOvertake) {
        return note(position.with(Position::SHARED));
    }
    match socket.head_arrives(position, INSTALL_NS) {
        Ok(()) => note(position.with(Position::SHARED)),
        Err(errno) => {
            socket.unlock(Direction::Receive, position);
            if errno == Errno::ETIMEDOUT { Errno::EBUSY.negative() } else { errno.negative() }
        }
    }
}

/// Makes every call on the socket fail from now on, and waits until no group uses it; 0 or why not. Its
/// locks stay taken.
#[inline(never)]
pub(crate) fn begin_close(net: Net, handle: Handle) -> i64 {
    let socket = Socket::known(net, handle);
    let seen = leave_open(net, handle, CLOSING);
    if seen < 0 {
        return seen;
    }
    let received = lock_to_leave(net, handle, Direction::Receive);
    let sent = if received < 0 { received } else { lock_to_leave(net, handle, Direction::Send) };
    if sent < 0 {
        // A group keeps a slice open: it may go on, and the close be tried again. The state first: the host
        // frees what is closing and has no lock taken.
        change(socket.state_word(), state(handle, CLOSING), seen as u64);
        if received >= 0 {
            socket.unlock(Direction::Receive, Position(received as u64));
        }
        let gone = Errno::ENETDOWN.negative();
        return if sent == gone { gone } else { Errno::EBUSY.negative() };
    }
    let (received, sent) = (Position(received as u64), Position(sent as u64));
    if received.has(Position::OWNED) {
        // The last head must not arrive when the slot is another socket's, or behind the end. A
        // hostile one may never be right, which is no reason to keep the socket.
        let _ = socket.head_arrives(received, HEAD_NS);
    }
    socket.end_p2p(Direction::Send, sent);
    socket.end_p2p(Direction::Receive, received);
    0
}

/// Takes a direction so that nobody uses it any more: where it stands, or a negative error number.
#[inline(never)]
pub(crate) fn lock_to_leave(net: Net, handle: Handle, direction: Direction) -> i64 {
    let locked = Socket::known(net, handle).lock_within(direction, LEAVE_NS);
    locked.map_or_else(Errno::negative, |position| position.0 as i64)
}
