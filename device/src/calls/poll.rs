//! `gpoll`: which of a few sockets are ready. For thousands, see [`crate::Poller`].

use crate::abi::card::{Kind, Status};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::buf::Shared;
use crate::group::Group;
use crate::local::{Side, Socket, adopt_rings};
use crate::wait::{Deadline, group_until};

/// Something can be received, or accepted, or the peer has closed.
pub const POLLIN: u16 = 0x001;
/// Something can be sent.
pub const POLLOUT: u16 = 0x004;
/// The socket has failed. Reported without being asked for, like the next two.
pub const POLLERR: u16 = 0x008;
/// Both directions are over, or there is no connection.
pub const POLLHUP: u16 = 0x010;
/// The handle names no open socket.
pub const POLLNVAL: u16 = 0x020;
/// The peer will send no more.
pub const POLLRDHUP: u16 = 0x2000;

/// A socket to poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PollFd {
    /// The socket.
    pub handle: Handle,
    /// What to look for.
    pub events: u16,
    /// What was found.
    pub revents: u16,
    /// Unused.
    pub reserved: u32,
}

const _: () = assert!(size_of::<PollFd>() == 16);

// SAFETY: numbers without padding.
#[allow(unsafe_code, reason = "any bytes are a PollFd")]
unsafe impl crate::buf::Plain for PollFd {}

/// Waits until one of the sockets is ready or `timeout_ms` is over (negative: no limit, 0: a
/// look). How many are ready; their `revents` are set, all others' cleared.
#[inline(always)]
pub fn gpoll<G: Group>(net: Net, group: G, sockets: Shared<PollFd>, timeout_ms: i64) -> i64 {
    group.agree("gpoll", &[sockets.as_ptr() as u64, sockets.len() as u64, timeout_ms as u64]);
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
            entry.revents = look(net, entry.handle, entry.events);
            sockets.set(at, entry);
            any |= entry.revents != 0;
            at += group.size();
        }
        any
    });
    match waited {
        Ok(()) | Err(Errno::ETIMEDOUT) => {}
        Err(errno) => return errno.negative(),
    }
    group.barrier();
    let mut ready = 0;
    if group.is_leader() {
        for at in 0..sockets.len() {
            ready += u64::from(sockets.get(at).is_some_and(|entry| entry.revents != 0));
        }
    }
    group.broadcast([ready])[0] as i64
}

/// What one socket is ready for.
#[inline(never)]
fn look(net: Net, handle: Handle, events: u16) -> u16 {
    let Ok(socket) = Socket::open(net, handle) else { return POLLNVAL };
    let wanted = events & (POLLIN | POLLOUT | POLLRDHUP) | POLLERR | POLLHUP;
    let incoming = || socket.whole_progress(Side::Receive);
    let waiting = |count: u64| count > socket.position(Side::Receive);
    let found = match socket.kind() {
        Some(Kind::Listener | Kind::Poller) => {
            let progress = incoming();
            let failed = if progress.has_failed() { POLLERR } else { 0 };
            failed | if waiting(progress.count()) || progress.is_over() { POLLIN } else { 0 }
        }
        Some(Kind::Stream) => {
            let (incoming, outgoing) = (incoming(), socket.whole_progress(Side::Send));
            // Read last and written first: a socket that failed as a whole is never seen half so.
            let status = socket.status();
            let gone = status.state() == Status::FAILED;
            let (no_more_in, no_more_out) = (incoming.is_over() | gone, outgoing.is_over() | gone);
            let mut found = 0;
            if waiting(incoming.count()) || no_more_in {
                found |= POLLIN;
            }
            if no_more_in {
                found |= POLLRDHUP;
            }
            let mut ring = socket.ring(Side::Send);
            if ring.is_none() && adopt_rings(net, handle) {
                ring = socket.ring(Side::Send);
            }
            let capacity = if ring.is_none() { 0 } else { ring.capacity() as i64 };
            // The proxy may be ahead of the position for a moment: a small message is announced
            // before its group gives the side back.
            let used = socket.position(Side::Send).wrapping_sub(outgoing.count()) as i64;
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
