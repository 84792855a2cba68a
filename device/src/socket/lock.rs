//! Taking a direction of a socket, which one group at a time has. One thread calls this, for its group.

use crate::abi::bits::Position;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::simt;
use crate::wait::{Deadline, Watch, wait_until};

use super::direction::Direction;
use super::record::Socket;

/// How long a call that does not wait still tries to get a direction: the group's own last call
/// may be about to give it back.
const BRIEFLY_NS: u64 = 20_000;
/// How long a close, or a shutdown, waits for other groups to leave the socket.
const LEAVE_NS: u64 = 2_000_000_000;

impl Socket {
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
}

/// Takes a direction, and waits for it if it may: where it stands, or a negative error number.
#[inline(never)]
pub(super) fn lock(net: Net, handle: Handle, direction: Direction, wait: bool, begun: u64) -> i64 {
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

/// Takes a direction so that nobody uses it any more: where it stands, or a negative error number.
#[inline(never)]
pub(crate) fn lock_to_leave(net: Net, handle: Handle, direction: Direction) -> i64 {
    let locked = Socket::known(net, handle).lock_within(direction, LEAVE_NS);
    locked.map_or_else(Errno::negative, |position| position.0 as i64)
}
