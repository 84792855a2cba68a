//! Which of a few sockets are ready.

use crate::abi::call::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDHUP, PollFd};
use crate::abi::descriptor::{Kind, Status};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::buf::Shared;
use crate::group::AnyGroup;
use crate::socket::{Direction, Socket, adopt_rings};
use crate::wait::{Deadline, group_until, stop_now_and_then};

/// See [`super::poll`].
#[inline(always)]
pub(super) unsafe fn poll(
    net: Net,
    group: AnyGroup,
    sockets: *mut PollFd,
    count: usize,
    timeout_ms: i64,
) -> i64 {
    // SAFETY: the caller's promise.
    let sockets = unsafe { Shared::from_raw(sockets, count) };
    // What threads wrote into `sockets` before is there for all.
    group.barrier();
    let deadline = match u64::try_from(timeout_ms) {
        Ok(ms) => Deadline::after(ms.saturating_mul(1_000_000)),
        Err(_) => Deadline::NEVER,
    };
    let waited = group_until(net, group, deadline, || {
        let mut any = false;
        let mut at = group.rank();
        // Counted: the entries.
        while let Some(mut entry) = sockets.get(at) {
            entry.revents = readiness(net, entry.handle, entry.events);
            sockets.set(at, entry);
            any |= entry.revents != 0;
            at += group.size();
        }
        group.any(any)
    });
    match waited {
        Ok(()) | Err(Errno::ETIMEDOUT) => {}
        Err(errno) => return errno.negative(),
    }
    group.barrier();
    let mut ready = 0;
    if group.is_leader() {
        for at in 0..sockets.len() {
            ready += i64::from(sockets.get(at).is_some_and(|entry| entry.revents != 0));
        }
        let stopped = stop_now_and_then(net);
        ready = if stopped < 0 { stopped } else { ready };
    }
    group.broadcast(ready as u64) as i64
}

/// What one socket is ready for.
#[inline(never)]
fn readiness(net: Net, handle: Handle, events: u16) -> u16 {
    let Ok(socket) = Socket::open(net, handle) else { return POLLNVAL };
    let wanted = events & (POLLIN | POLLOUT | POLLRDHUP) | POLLERR | POLLHUP;
    // Units of a packet that the counter announces may still be on their way: a receive waits for them.
    let incoming = || socket.progress(Direction::Receive);
    let waiting = |count: u64| count > socket.position(Direction::Receive).count();
    let found = match socket.info().kind() {
        Some(Kind::Listener | Kind::Poller) => {
            let progress = incoming();
            let failed = if progress.has_failed() { POLLERR } else { 0 };
            failed | if waiting(progress.count()) || progress.is_over() { POLLIN } else { 0 }
        }
        Some(Kind::Stream) => {
            let mut ring = socket.ring(Direction::Send);
            if ring.is_none() && adopt_rings(net, handle) {
                ring = socket.ring(Direction::Send);
            }
            let (incoming, outgoing) = (incoming(), socket.progress(Direction::Send));
            // Read last and written first: a socket that failed as a whole is never seen half so.
            let status = socket.status();
            let gone = status.state() == Status::FAILED;
            let (no_more_in, no_more_out) = (incoming.is_over() | gone, outgoing.is_over() | gone);
            let mut found = 0;
            // Without rings the record has no position, and the proxy's count may begin anywhere.
            if !ring.is_none() && waiting(incoming.count()) || no_more_in {
                found |= POLLIN;
            }
            if no_more_in {
                found |= POLLRDHUP;
            }
            let capacity = if ring.is_none() { 0 } else { ring.capacity() as i64 };
            // The proxy may be ahead of the position for a moment: a packet is announced
            // before its group gives the direction back.
            let used =
                socket.position(Direction::Send).count().wrapping_sub(outgoing.count()) as i64;
            let writable = used < capacity || no_more_out;
            if status.state() != Status::CONNECTING && writable {
                found |= POLLOUT;
            }
            if incoming.has_failed() || outgoing.has_failed() || gone {
                found |= POLLERR;
            }
            if no_more_in && no_more_out {
                found |= POLLHUP;
            }
            found
        }
        _ => POLLHUP | POLLOUT,
    };
    found & wanted
}
