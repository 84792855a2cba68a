//! The familiar calls. Each is cooperative over a group: all its threads call with the same
//! arguments and get the same result; negative error numbers on failure.
//!
//! The net is the first argument, the group the second. [`crate::Stream`] and its siblings are
//! the same calls as types. A single thread that is its own group may call from divergent code.

mod data;
mod option;
mod poll;
mod system;

pub use data::{MSG_DONTWAIT, MSG_PEEK, grecv, gsend};
pub(crate) use data::{receive, send, send_from};
pub use option::{ggetsockopt, gsetsockopt};
pub use poll::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDHUP, PollFd, gpoll};
pub use system::{Line, ggettimeofday, gprint};

use crate::abi::address::SocketAddr;
use crate::abi::card::{Kind, Status};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::{Operation, Reply, Request};
use crate::abi::net::Net;
use crate::abi::word::Word;
use crate::group::Group;
use crate::local::{Side, Socket, adopt_rings, begin_close, reinstall};
use crate::planted::{Bug, planted};
use crate::request::ask;
use crate::simt;
use crate::wait::{Deadline, Watch, wait_until};

/// Byte streams, the one type of socket there is.
pub const SOCK_STREAM: i32 = 1;
/// With [`SOCK_STREAM`]: non-blocking from the start.
pub const SOCK_NONBLOCK: i32 = 0o4000;
/// [`gshutdown`]: no more receiving.
pub const SHUT_RD: i32 = 0;
/// [`gshutdown`]: no more sending.
pub const SHUT_WR: i32 = 1;
/// [`gshutdown`]: neither.
pub const SHUT_RDWR: i32 = 2;

/// How long a close, or a shutdown, waits for other groups to leave the socket.
const LEAVE_NS: u64 = 2_000_000_000;

/// The leader does it; all threads get the result.
#[inline(always)]
fn led<G: Group>(
    group: G,
    call: &'static str,
    arguments: &[u64],
    leader: impl FnOnce() -> Result<u64, Errno>,
) -> i64 {
    group.agree(call, arguments);
    let result = if group.is_leader() {
        leader().map_or_else(Errno::negative, |value| value as i64)
    } else {
        0
    };
    group.broadcast([result as u64])[0] as i64
}

/// A handle and an address, for threads to compare.
#[inline(always)]
fn with_address(handle: Handle, address: &SocketAddr) -> [u64; 15] {
    let words = address.to_words();
    core::array::from_fn(|at| if at == 0 { handle.0 } else { words[at - 1] })
}

/// Asks the proxy about a socket and an address.
#[inline(never)]
fn ask_with_address(
    net: Net,
    handle: Handle,
    operation: Operation,
    address: &SocketAddr,
) -> Result<(), Errno> {
    let socket = Socket::open(net, handle)?;
    let request = Request::new(operation, net.launch(), handle, [0; 4]);
    checked(ask(net, socket.shard(), &request.with_address(address))?)?;
    Ok(())
}

/// Asks the proxy about a socket; EBADF and other errors of the reply as such.
#[inline(never)]
fn ask_about(
    net: Net,
    handle: Handle,
    operation: Operation,
    numbers: [u64; 4],
) -> Result<Reply, Errno> {
    let socket = Socket::open(net, handle)?;
    let request = Request::new(operation, net.launch(), handle, numbers);
    checked(ask(net, socket.shard(), &request)?)
}

#[inline(always)]
fn checked(reply: Reply) -> Result<Reply, Errno> {
    Errno::check(reply.result()).map(|_| reply)
}

/// The shard that a block's socketless requests go to.
#[inline(always)]
fn any_shard(net: Net) -> usize {
    (simt::position().block % net.layout().shards) as usize
}

/// Makes a socket: `domain` as in [`crate::Domain`] (AF_INET 2, AF_INET6 10, AF_UNIX 1), `kind`
/// [`SOCK_STREAM`], perhaps with [`SOCK_NONBLOCK`], `protocol` 0. Its handle.
#[inline(always)]
pub fn gsocket<G: Group>(net: Net, group: G, domain: i32, kind: i32, protocol: i32) -> i64 {
    let arguments = [domain as u64, kind as u64, protocol as u64];
    led(group, "gsocket", &arguments, || {
        let numbers = [domain as u64, (kind & !SOCK_NONBLOCK) as u64, protocol as u64, 0];
        let request = Request::new(Operation::Socket, net.launch(), Handle::NONE, numbers);
        let handle = Handle(checked(ask(net, any_shard(net), &request)?)?.number());
        let socket = Socket::open(net, handle)?;
        if kind & SOCK_NONBLOCK != 0 {
            socket.set_non_blocking(true);
        }
        Ok(handle.0)
    })
}

/// Gives the socket its own address.
#[inline(always)]
pub fn gbind<G: Group>(net: Net, group: G, handle: Handle, address: &SocketAddr) -> i64 {
    led(group, "gbind", &with_address(handle, address), || {
        ask_with_address(net, handle, Operation::Bind, address)?;
        Ok(0)
    })
}

/// Turns the socket into a listener that keeps up to `backlog` accepted connections waiting.
#[inline(always)]
pub fn glisten<G: Group>(net: Net, group: G, handle: Handle, backlog: i32) -> i64 {
    led(group, "glisten", &[handle.0, backlog as u64], || {
        ask_about(net, handle, Operation::Listen, [backlog.max(0) as u64, 0, 0, 0])?;
        reinstall(net, handle)?;
        Ok(0)
    })
}

/// Takes the next accepted connection of a listener. Its handle.
#[inline(always)]
pub fn gaccept<G: Group>(net: Net, group: G, handle: Handle) -> i64 {
    led(group, "gaccept", &[handle.0], || accept(net, handle))
}

/// The accept ring is a receive ring of 8-byte handles.
#[allow(unsafe_code, reason = "reads a handle from the accept ring")]
#[inline(never)]
fn accept(net: Net, handle: Handle) -> Result<u64, Errno> {
    let socket = Socket::open(net, handle)?;
    if socket.kind() != Some(Kind::Listener) {
        return Err(Errno::EINVAL);
    }
    let ring = socket.ring(Side::Receive);
    if ring.is_none() {
        return Err(Errno::EINVAL);
    }
    let wait = !socket.non_blocking();
    let deadline = Deadline::after_or_never(socket.timeout(Side::Receive));
    let position = socket.lock(Side::Receive, wait)?;
    if !socket.is_still_here() {
        // Another socket has the place by now, and this is its side.
        socket.unlock(Side::Receive, position);
        return Err(Errno::EBADF);
    }
    let ready = || {
        let progress = socket.progress(Side::Receive);
        if progress.count() > position {
            Some(Ok(()))
        } else if progress.is_over() {
            Some(Err(if progress.has_failed() { socket.failure() } else { Errno::EINVAL }))
        } else if !socket.is_open() {
            Some(Err(Errno::EBADF))
        } else {
            None
        }
    };
    let outcome = if wait {
        wait_until(net, socket.shard(), deadline, Watch::Stop, ready).and_then(|inner| inner)
    } else {
        ready().unwrap_or(Err(Errno::EAGAIN))
    };
    if let Err(errno) = outcome {
        socket.unlock(Side::Receive, position);
        return Err(errno);
    }
    let offset = position as usize & (ring.capacity() - 1);
    // SAFETY: positions of a listener move by 8 from an aligned base, so the word lies in the
    // ring and is aligned; the proxy wrote it before it published the counter.
    let accepted = unsafe { Word::at(ring.start().add(offset).cast()) }.load();
    // The handle was read before the proxy may write there again, and the next group starts here.
    simt::release_fence();
    socket.counter(Side::Receive).store(position + 8);
    socket.note_position(Side::Receive, position + 8);
    if !planted(Bug::HeadsOvertake) {
        // The next group's counter must not be overtaken by this one.
        simt::gpu_release_fence();
    }
    socket.unlock(Side::Receive, position + 8);
    Socket::open(net, Handle(accepted)).map(|_| accepted)
}

/// Connects to `address`; EINPROGRESS on a non-blocking socket, which is then writable once it is
/// connected.
#[inline(always)]
pub fn gconnect<G: Group>(net: Net, group: G, handle: Handle, address: &SocketAddr) -> i64 {
    led(group, "gconnect", &with_address(handle, address), || connect(net, handle, address))
}

#[inline(never)]
fn connect(net: Net, handle: Handle, address: &SocketAddr) -> Result<u64, Errno> {
    let socket = Socket::open(net, handle)?;
    ask_with_address(net, handle, Operation::Connect, address)?;
    reinstall(net, handle)?;
    let ready = || match socket.status().state() {
        Status::CONNECTED => Some(Ok(0)),
        Status::FAILED => Some(Err(socket.failure())),
        _ if !socket.is_open() => Some(Err(Errno::EBADF)),
        _ => None,
    };
    if socket.non_blocking() {
        return ready().unwrap_or(Err(Errno::EINPROGRESS));
    }
    let deadline = Deadline::after_or_never(socket.timeout(Side::Send));
    wait_until(net, socket.shard(), deadline, Watch::Stop, ready)??;
    // Those of a direct stream have come with the answer.
    if socket.ring(Side::Send).is_none() && !adopt_rings(net, handle) {
        return Err(Errno::EBADF);
    }
    Ok(0)
}

/// Ends one direction or both; what was sent before still arrives. What other groups send meanwhile
/// arrives, too, or they get EPIPE; but what a group commits that keeps a window of the ring open for
/// longer than 2 s may be lost.
#[inline(always)]
pub fn gshutdown<G: Group>(net: Net, group: G, handle: Handle, how: i32) -> i64 {
    led(group, "gshutdown", &[handle.0, how as u64], || shutdown(net, handle, how))
}

#[inline(never)]
fn shutdown(net: Net, handle: Handle, how: i32) -> Result<u64, Errno> {
    let socket = Socket::open(net, handle)?;
    if !(SHUT_RD..=SHUT_RDWR).contains(&how) {
        return Err(Errno::EINVAL);
    }
    let ends_sending = how != SHUT_RD;
    // Until the end is told: nobody sends behind it.
    let held = if ends_sending { hold_send(net, socket) } else { None };
    let asked = ask_about(net, handle, Operation::Shutdown, [how as u64, 0, 0, 0]);
    if ends_sending && asked.is_ok() {
        // The next send must not go by what was known before.
        socket.shut_send();
    }
    if let Some(position) = held {
        socket.release_send(position, asked.is_ok());
    }
    asked.map(|_| 0)
}

/// Takes the send side of a connection, so that what was sent before is published; none where another
/// group does not leave it.
fn hold_send(net: Net, socket: Socket) -> Option<u64> {
    if socket.status().state() != Status::CONNECTED {
        // The proxy has nothing to end there.
        return None;
    }
    // Groups that wait for space leave when they see this, and others send no more. What this group
    // sent before is on its way already.
    socket.shut_send();
    let free = || socket.lock_if_free(Side::Send);
    wait_until(net, socket.shard(), Deadline::after(LEAVE_NS), Watch::Proxy, free).ok()
}

/// Closes the socket: calls of other groups on it return EBADF, what is unsent is sent. EBUSY if
/// another group does not leave it (it holds a window of the ring). A poller no longer tells of it,
/// as after [`Poller::remove`](crate::Poller::remove).
#[inline(always)]
pub fn gclose<G: Group>(net: Net, group: G, handle: Handle) -> i64 {
    led(group, "gclose", &[handle.0], || close(net, handle))
}

#[inline(never)]
fn close(net: Net, handle: Handle) -> Result<u64, Errno> {
    let socket = Socket::open(net, handle)?;
    begin_close(net, handle, Deadline::after(LEAVE_NS))?;
    let request = Request::new(Operation::Close, net.launch(), handle, [0; 4]);
    checked(ask(net, socket.shard(), &request)?)?;
    Ok(0)
}

/// An address that the proxy knows, to all threads.
#[inline(always)]
fn name_of<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    operation: Operation,
    call: &'static str,
) -> Result<SocketAddr, Errno> {
    group.agree(call, &[handle.0]);
    let mut result = 0;
    let mut words = [0; 14];
    if group.is_leader() {
        match ask_about(net, handle, operation, [0; 4]) {
            Ok(reply) => words = reply.address().to_words(),
            Err(errno) => result = errno.0 as u64,
        }
    }
    let half = |at: usize| core::array::from_fn::<u64, 7, _>(|index| words[at + index]);
    let [result] = group.broadcast([result]);
    let (low, high) = (group.broadcast(half(0)), group.broadcast(half(7)));
    if result != 0 {
        return Err(Errno(result as i32));
    }
    let words = core::array::from_fn(|at| if at < 7 { low[at] } else { high[at - 7] });
    Ok(SocketAddr::from_words(&words))
}

/// The peer's address.
#[inline(always)]
pub fn ggetpeername<G: Group>(net: Net, group: G, handle: Handle) -> Result<SocketAddr, Errno> {
    name_of(net, group, handle, Operation::PeerName, "ggetpeername")
}

/// The socket's own address.
#[inline(always)]
pub fn ggetsockname<G: Group>(net: Net, group: G, handle: Handle) -> Result<SocketAddr, Errno> {
    name_of(net, group, handle, Operation::SocketName, "ggetsockname")
}
