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
        let locked = lock_since(self, direction, wait, simt::now_ns());
        Errno::check(locked).map(Position)
    }
}

/// The same for a call that began at `begun`: where the direction stands, or a negative error number.
#[inline(always)]
pub(super) fn lock_since(socket: &Socket, direction: Direction, wait: bool, begun: u64) -> i64 {
    let deadline = match wait {
        true => Deadline::since_or_never(begun, socket.timeout(direction)),
        false => Deadline::after(BRIEFLY_NS),
    };
    match take(socket.net, socket.handle, direction, deadline, Watch::Stop) {
        TIMED_OUT if !wait => Errno::EBUSY.negative(),
        locked => locked,
    }
}

/// Takes a direction so that nobody uses it any more: where it stands, or a negative error number.
#[inline(always)]
pub(crate) fn lock_to_leave(net: Net, handle: Handle, direction: Direction) -> i64 {
    take(net, handle, direction, Deadline::after(LEAVE_NS), Watch::Proxy)
}

const TIMED_OUT: i64 = Errno::ETIMEDOUT.negative();

/// Waits until no group has a direction, and takes it: where it stands, or a negative error number. Who watches
/// the stop word wants to use the socket, which must be open.
#[inline(never)]
fn take(net: Net, handle: Handle, direction: Direction, deadline: Deadline, watch: Watch) -> i64 {
    let socket = Socket::known(net, handle);
    let locked = wait_until(net, socket.shard(), deadline, watch, || {
        if watch == Watch::Stop && !socket.is_open() {
            return Some(Errno::EBADF.negative());
        }
        socket.lock_if_free(direction).map(|position| position.0 as i64)
    });
    locked.unwrap_or_else(Errno::negative)
}
