//! Making, naming and ending sockets. The leader asks the proxy; all threads get the result.

use crate::abi::address::SocketAddr;
use crate::abi::card::{Kind, Status};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::{Operation, Reply, Request};
use crate::abi::net::Net;
use crate::abi::word::Word;
use crate::calls::{SHUT_RD, SHUT_RDWR, SOCK_NONBLOCK};
use crate::group::Group;
use crate::local::{Side, Socket, adopt_rings, begin_close, reinstall};
use crate::planted::{Bug, planted};
use crate::request::ask;
use crate::simt;
use crate::wait::{Deadline, Watch, wait_until};

use super::{PEER_NAME, led, number};

/// How long a close, or a shutdown, waits for other groups to leave the socket.
const LEAVE_NS: u64 = 2_000_000_000;

/// Words of an address that are broadcast at once.
const HALF: usize = 7;

/// See [`super::socket`].
#[inline(always)]
pub(super) unsafe fn socket<G: Group>(
    net: Net,
    group: G,
    domain: i32,
    kind: i32,
    protocol: i32,
) -> i64 {
    led(group, || number(make(net, domain, kind, protocol)))
}

#[inline(never)]
fn make(net: Net, domain: i32, kind: i32, protocol: i32) -> Result<u64, Errno> {
    let numbers = [domain as u64, (kind & !SOCK_NONBLOCK) as u64, protocol as u64, 0];
    let request = Request::new(Operation::Socket, net.launch(), Handle::NONE, numbers);
    let handle = Handle(checked(ask(net, any_shard(net), &request)?)?.number());
    let socket = Socket::open(net, handle)?;
    if kind & SOCK_NONBLOCK != 0 {
        socket.set_non_blocking(true);
    }
    Ok(handle.0)
}

/// See [`super::bind`].
#[inline(always)]
pub(super) unsafe fn bind<G: Group>(
    net: Net,
    group: G,
    handle: u64,
    address: *const SocketAddr,
) -> i64 {
    led(group, || {
        // SAFETY: the caller's promise.
        let address = unsafe { &*address };
        number(ask_with_address(net, Handle(handle), Operation::Bind, address).map(|()| 0))
    })
}

/// See [`super::listen`].
#[inline(always)]
pub(super) unsafe fn listen<G: Group>(net: Net, group: G, handle: u64, backlog: i32) -> i64 {
    led(group, || number(begin_listen(net, Handle(handle), backlog)))
}

#[inline(never)]
fn begin_listen(net: Net, handle: Handle, backlog: i32) -> Result<u64, Errno> {
    ask_about(net, handle, Operation::Listen, [backlog.max(0) as u64, 0, 0, 0])?;
    reinstall(net, handle)?;
    Ok(0)
}

/// See [`super::accept`].
#[inline(always)]
pub(super) unsafe fn accept<G: Group>(net: Net, group: G, handle: u64) -> i64 {
    led(group, || number(take_accepted(net, Handle(handle))))
}

/// The accept ring is a receive ring of 8-byte handles.
#[inline(never)]
fn take_accepted(net: Net, handle: Handle) -> Result<u64, Errno> {
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

/// See [`super::connect`].
#[inline(always)]
pub(super) unsafe fn connect<G: Group>(
    net: Net,
    group: G,
    handle: u64,
    address: *const SocketAddr,
) -> i64 {
    // SAFETY: the caller's promise.
    led(group, || number(begin_connect(net, Handle(handle), unsafe { &*address })))
}

#[inline(never)]
fn begin_connect(net: Net, handle: Handle, address: &SocketAddr) -> Result<u64, Errno> {
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

/// See [`super::shutdown`].
#[inline(always)]
pub(super) unsafe fn shutdown<G: Group>(net: Net, group: G, handle: u64, how: i32) -> i64 {
    led(group, || number(shut_down(net, Handle(handle), how)))
}

#[inline(never)]
fn shut_down(net: Net, handle: Handle, how: i32) -> Result<u64, Errno> {
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

/// See [`super::close`].
#[inline(always)]
pub(super) unsafe fn close<G: Group>(net: Net, group: G, handle: u64) -> i64 {
    led(group, || number(close_socket(net, Handle(handle))))
}

#[inline(never)]
fn close_socket(net: Net, handle: Handle) -> Result<u64, Errno> {
    let socket = Socket::open(net, handle)?;
    begin_close(net, handle, Deadline::after(LEAVE_NS))?;
    let request = Request::new(Operation::Close, net.launch(), handle, [0; 4]);
    checked(ask(net, socket.shard(), &request)?)?;
    Ok(0)
}

/// See [`super::name`].
#[inline(always)]
pub(super) unsafe fn name<G: Group>(
    net: Net,
    group: G,
    handle: u64,
    which: u32,
    to: *mut SocketAddr,
) -> i64 {
    let mut words = [0; 2 * HALF];
    let result = led(group, || {
        let operation =
            if which == PEER_NAME { Operation::PeerName } else { Operation::SocketName };
        match ask_about(net, Handle(handle), operation, [0; 4]) {
            Ok(reply) => {
                words = reply.address().to_words();
                0
            }
            Err(errno) => errno.negative(),
        }
    });
    let half = |at: usize| core::array::from_fn::<u64, HALF, _>(|index| words[at + index]);
    let (low, high) = (group.broadcast(half(0)), group.broadcast(half(HALF)));
    if result == 0 {
        let words = core::array::from_fn(|at| if at < HALF { low[at] } else { high[at - HALF] });
        // SAFETY: the caller's promise.
        unsafe { to.write(SocketAddr::from_words(&words)) };
    }
    result
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
pub(super) fn ask_about(
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
pub(super) fn checked(reply: Reply) -> Result<Reply, Errno> {
    Errno::check(reply.result()).map(|_| reply)
}

/// The shard that a block's socketless requests go to.
#[inline(always)]
pub(super) fn any_shard(net: Net) -> usize {
    (simt::position().block % net.layout().shards) as usize
}
