//! Skips bytes of a p2p stream, so that a simulation reaches counts that it could not send byte by byte.

use crate::abi::bits::{Position, Progress};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::simt;
use crate::socket::{Direction, Socket};
use crate::wait::{Deadline, Watch, wait_until};

/// How long the other end of a stream may take to skip as much.
const SKIP_NS: u64 = 2_000_000_000;

/// Sends more bytes of a p2p stream than a simulation could, without any of them: as if they had gone by
/// the ring. The other end skips as many. One thread calls it, for its group.
pub fn skip_send(net: Net, handle: Handle, bytes: u64) -> Result<(), Errno> {
    let socket = Socket::open(net, handle)?;
    let shard = socket.shard();
    let position = socket.lock(Direction::Send, true)?;
    let end = position.advance(bytes);
    let arrives = |count: u64| {
        wait_until(net, shard, Deadline::after(SKIP_NS), Watch::Stop, || {
            let head = socket.progress(Direction::Send);
            let over = head.is_over().then_some(Err(Errno::EPIPE));
            if head.count() == count { Some(Ok(head)) } else { over }
        })
        .flatten()
    };
    let begins = arrives(position.count());
    if let Err(errno) = begins {
        simt::gpu_release_fence();
        socket.unlock(Direction::Send, position);
        return Err(errno);
    }
    simt::release_fence();
    socket.publishes(Direction::Send).store(Progress::new(end.count(), 0).0);
    let skipped = arrives(end.count()).map(|head| socket.remember_head(head));
    simt::gpu_release_fence();
    socket.unlock(Direction::Send, end);
    skipped
}

/// The other end of [`skip_send`]: the calling thread leads the group that receives.
pub fn skip_receive(net: Net, handle: Handle, bytes: u64) -> Result<(), Errno> {
    let socket = Socket::open(net, handle)?;
    let position = socket.lock(Direction::Receive, true)?;
    let end = Position(position.0 + bytes);
    let deadline = Deadline::after(SKIP_NS);
    let skipped = wait_until(net, socket.shard(), deadline, Watch::Stop, || {
        let tail = socket.progress(Direction::Receive);
        let over = tail.is_over().then_some(Err(Errno::ECONNRESET));
        if tail.count() == end.count() { Some(Ok(())) } else { over }
    });
    let skipped = skipped.flatten();
    if skipped.is_ok() {
        socket.publishes(Direction::Receive).store(Progress::new(end.count(), 0).0);
    }
    simt::gpu_release_fence();
    socket.unlock(Direction::Receive, if skipped.is_ok() { end } else { position });
    skipped
}
