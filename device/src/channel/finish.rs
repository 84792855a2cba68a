//! The end of a call: one thread publishes how far its group is, and gives the direction back.

use crate::abi::bits::{Position, Progress};
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::word::Word;
use crate::planted::{Bug, planted};
use crate::socket::{Direction, Socket};

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
    let info = socket.info();
    // All threads' accesses before the counter moves, for the other end, and before the next group has
    // the direction: what was written into space that was not committed must not land behind its bytes.
    // A model knows of no load that is complete, and finds a race where there is none.
    let releases = matches!(how, Finish::Read | Finish::Filled) || cfg!(feature = "loom");
    let end = match direction {
        Direction::Receive => Position(position.0 + used as u64),
        Direction::Send => position.advance(used as u64),
    };
    let end = end.behind_any(position, used);
    match releases {
        _ if used == 0 || how == Finish::Packet => {}
        true => publish_tail(publishes, end, info.is_on_one_gpu()),
        false => publishes.store(Progress::new(end.count(), 0).0),
    }
    if direction == Direction::Receive {
        return give_back_receive(net, handle, end);
    }
    give_back_send(net, handle, end);
    if how == Finish::Filled {
        // For the next call: it then knows of space and of a broken connection without a read across
        // PCIe while it has bytes to send. Behind a packet the answer brings that.
        socket.remember_head(inbox.space());
    }
}

/// Gives the receive direction back, standing there.
#[inline(always)]
pub(super) fn give_back_receive(net: Net, handle: Handle, position: Position) {
    let lock = Socket::known(net, handle).lock_word(Direction::Receive);
    give_receive_back(lock, position.without(Position::TAKEN));
}

/// Gives the send direction back, standing there.
#[inline(always)]
pub(super) fn give_back_send(net: Net, handle: Handle, position: Position) {
    let lock = Socket::known(net, handle).lock_word(Direction::Send);
    give_send_back(lock, position.without(Position::TAKEN));
}

/// Frees a receive lock.
#[inline(always)]
pub(super) fn give_receive_back(lock: Word, position: Position) {
    if position.has(Position::SHARED) {
        // The next group's head must not be overtaken by this one's.
        lock.store_release_on_gpu(position.0);
    } else {
        lock.store(position.0);
    }
}

/// Frees a send lock.
#[inline(always)]
pub(super) fn give_send_back(lock: Word, position: Position) {
    // The next group's counter must not be overtaken by this one's, nor its bytes by what was not committed.
    if planted(Bug::TailsOvertake) {
        lock.store(position.0);
    } else {
        lock.store_release_on_gpu(position.0);
    }
}

/// Publishes how far a direction is, after all that the group has done: pairs with the acquire of the
/// other end's or the proxy's load. `one_gpu`: the other end is a kernel of the same GPU.
#[inline(always)]
pub(super) fn publish_tail(publishes: Word, end: Position, one_gpu: bool) {
    let word = Progress::new(end.count(), 0).0;
    if planted(Bug::SendWithoutFence) {
        publishes.store(word);
    } else if one_gpu | planted(Bug::SendWithGpuFence) {
        publishes.store_release_on_gpu(word);
    } else {
        publishes.store_release(word);
    }
}
