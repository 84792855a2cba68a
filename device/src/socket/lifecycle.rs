//! How a socket's record is entered on the slow path, and closed. All of it is rare, and out of line for the
//! data path: it costs that neither registers nor a stack frame. Results are numbers, as the
//! familiar calls return them, for the same reason. One thread calls this, for its group.
//!
//! Why it is so: decision 10 of docs/explanation/decisions.md.

use crate::abi::bits::{Position, Progress};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::wait::{Deadline, Watch, stop_of, wait_until};

use super::direction::Direction;
use super::install::{adopt_rings, change, install, leave_open};
use super::lock::{lock_since, lock_to_leave};
use super::record::{CLOSING, OWNER, Socket, state};

/// How long a group's last head may take to arrive, in host memory or at a p2p peer: a microsecond is enough.
const HEAD_NS: u64 = 100_000_000;

impl Socket {
    /// Notifies the kernel at the other end of a p2p stream that no more comes (send), or that no more is
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
    fn head_arrives(&self, position: Position, watch: Watch) -> Result<(), Errno> {
        let head = self.publishes(Direction::Receive);
        let arrived = || (Progress(head.load()).count() == position.count()).then_some(());
        wait_until(self.net, self.shard(), Deadline::after(HEAD_NS), watch, arrived)
    }
}

/// Of a direction that has no ring: no number of an error.
const NO_RING: i64 = i64::MIN;

/// Takes a direction of a socket for a call that began at `begun`: where it stands, or a negative error
/// number. `found`: what stood in the lock when the calling group set it to be taken; 0: it has not.
///
/// In line, so that rings are taken over with no frame of [`try_acquire`] on the stack.
#[inline(always)]
pub(crate) fn acquire(
    net: Net,
    handle: Handle,
    direction: Direction,
    found: Position,
    wait: bool,
    begun: u64,
) -> i64 {
    let mut acquired = try_acquire(net, handle, direction, found, wait, begun);
    if acquired == NO_RING && adopt_rings(net, handle) {
        acquired = try_acquire(net, handle, direction, Position(0), wait, begun);
    }
    if acquired == NO_RING { Errno::ENOTCONN.negative() } else { acquired }
}

/// The same with the rings that the record has, or [`NO_RING`].
#[cold]
#[inline(never)]
fn try_acquire(
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
    let usable = socket.is_usable(direction);
    let found = socket.checked(direction, found);
    let shut = if direction == Direction::Send { Position::SHUT } else { 0 };
    let free = !found.has(Position::TAKEN | shut) & (found.count() != 0);
    let mut position = found;
    if !(free & usable) {
        let entered = enter(net, handle, direction, found, wait, begun);
        if entered < 0 {
            return entered;
        }
        position = Position(entered as u64);
    }
    if position.has(Position::CHECK) {
        let stopped = stop_of(net);
        if stopped < 0 {
            // Who takes the direction next knows what was sent before.
            simt::gpu_release_fence();
            socket.unlock(direction, position);
            return stopped;
        }
        // For the thread that gives the direction back. Sending may be shut down meanwhile, which stays.
        let (lock, taken) = (socket.lock_word(direction), position.with(Position::TAKEN));
        position = position.without(Position::CHECK);
        if !lock.compare_exchange(taken.0, taken.without(Position::CHECK).0) {
            let taken = taken.with(Position::SHUT);
            lock.compare_exchange(taken.0, taken.without(Position::CHECK).0);
        }
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
#[inline(always)]
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
    if socket.ring(direction).is_none() {
        return NO_RING;
    }
    // Behind the ring, as they are stored.
    let info = socket.info();
    if !info.has_bytes() {
        return Errno::ENOTCONN.negative();
    }
    let locked = lock_since(&socket, direction, wait && !info.non_blocking(), begun);
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
    match socket.head_arrives(position, Watch::Stop) {
        // That of a p2p stream lies with the peer, which may spoil it, and is the one to be misled then.
        Err(errno) if errno != Errno::ETIMEDOUT || !socket.info().is_p2p() => {
            socket.unlock(Direction::Receive, position);
            if errno == Errno::ETIMEDOUT { Errno::EBUSY.negative() } else { errno.negative() }
        }
        _ => note(position.with(Position::SHARED)),
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
        let _ = socket.head_arrives(received, Watch::Proxy);
    }
    socket.end_p2p(Direction::Send, sent);
    socket.end_p2p(Direction::Receive, received);
    0
}
