//! The end of a call: one thread publishes how far its group is, and gives the direction back.

use crate::abi::bits::{Position, Progress};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::socket::{Direction, Socket, tell_proxy};

/// How a call ends, which decides what it must wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// Bytes were copied out of the ring or the inbox. Each load was complete before the barrier, since
    /// its bytes had been stored elsewhere: no fence.
    Copied,
    /// The program itself has read a slice of the ring.
    Read,
    /// Part of the ring was filled.
    Filled,
    /// A packet was sent.
    Packet,
}

impl Finish {
    /// The direction that is given back.
    #[inline(always)]
    pub(crate) const fn direction(self) -> Direction {
        match self {
            Self::Copied | Self::Read => Direction::Receive,
            Self::Filled | Self::Packet => Direction::Send,
        }
    }
}

/// Publishes that `used` more bytes were consumed or filled, and gives the direction back. The thread's
/// group has met at a barrier since.
#[inline(never)]
pub(crate) fn finish(net: Net, handle: Handle, used: usize, how: Finish) {
    let socket = Socket::known(net, handle);
    let direction = how.direction();
    // All on their way before the fence. While the group has the lock, others only set SHUT in it; who
    // does so takes the lock next, and sets it again.
    let position = socket.position(direction);
    let (inbox, publishes) = (socket.inbox(), socket.publishes(direction));
    let watched = socket.info().is_p2p() && inbox.watched().load() != 0;
    // All threads' accesses before the counter moves, for the other end, and before the next group has
    // the direction: what was written into space that was not committed must not land behind its bytes.
    // A model knows of no load that is complete, and finds a race where there is none.
    let fences = matches!(how, Finish::Read | Finish::Filled) || cfg!(feature = "loom");
    if fences && !planted(Bug::SendWithoutFence) {
        simt::release_fence();
    }
    let end = match direction {
        Direction::Receive => Position(position.0 + used as u64),
        Direction::Send => position.advance(used as u64),
    };
    if used > 0 && how != Finish::Packet {
        publishes.store(Progress::new(end.count(), 0).0);
    }
    if direction == Direction::Receive {
        return give_back_receive(net, handle, watched, end);
    }
    give_back_send(net, handle, watched, end);
    if how == Finish::Filled {
        // For the next call: it then knows of space and of a broken connection without a read across
        // PCIe while it has bytes to send. Behind a packet the answer brings that.
        // Acquire: pairs with the release of the head; the space may be overwritten.
        socket.remember_head(Progress(inbox.head().load_acquire()));
    }
}

/// Gives the receive direction back, standing there; `watched`: the proxies want to know.
#[inline(always)]
pub(super) fn give_back_receive(net: Net, handle: Handle, watched: bool, position: Position) {
    if watched {
        tell_proxy(net, handle, Direction::Receive, position.count());
    }
    if position.has(Position::SHARED) {
        // The next group's head must not be overtaken by this one's.
        simt::gpu_release_fence();
    }
    Socket::known(net, handle).unlock(Direction::Receive, position);
}

/// Gives the send direction back, standing there; `watched`: the proxies want to know.
#[inline(always)]
pub(super) fn give_back_send(net: Net, handle: Handle, watched: bool, position: Position) {
    if watched {
        tell_proxy(net, handle, Direction::Send, position.count());
    }
    // The next group's counter must not be overtaken by this one's.
    if !planted(Bug::TailsOvertake) {
        simt::gpu_release_fence();
    }
    Socket::known(net, handle).unlock(Direction::Send, position);
}
