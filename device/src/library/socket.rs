//! Making, naming and ending sockets. The leader asks the proxy; all threads get the result.

use core::ptr::null_mut;

use crate::abi::address::{ADDRESS_WORDS, SocketAddr};
use crate::abi::bits::{Position, Progress};
use crate::abi::call::{SHUT_RD, SHUT_RDWR, SOCK_NONBLOCK};
use crate::abi::descriptor::{Kind, Status};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::Operation;
use crate::abi::net::Net;
use crate::abi::word::Word;
use crate::group::AnyGroup;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::socket::{
    Direction, FIRST_SHARD, Payload, Socket, adopt_rings, ask, begin_close, lock_to_leave,
    reinstall,
};
use crate::wait::{Deadline, Watch, stop_of, wait_until};

use super::{PEER_NAME, led};

/// See [`super::socket`].
#[inline(always)]
pub(super) unsafe fn socket(
    net: Net,
    group: AnyGroup,
    domain: i32,
    kind: i32,
    protocol: i32,
) -> i64 {
    led(group, || make(net, domain, kind, protocol))
}

#[inline(never)]
fn make(net: Net, domain: i32, kind: i32, protocol: i32) -> i64 {
    let (domain, kind_alone) = (domain as u64, (kind & !SOCK_NONBLOCK) as u64);
    let (shard, none) = (FIRST_SHARD, Payload::NONE);
    let (operation, protocol) = (Operation::Socket, protocol as u64);
    let handle =
        ask(net, shard, operation, Handle::NONE, domain, kind_alone, protocol, none, null_mut());
    if handle < 0 {
        return handle;
    }
    match Socket::open(net, Handle(handle as u64)) {
        Ok(socket) => {
            if kind & SOCK_NONBLOCK != 0 {
                socket.set_non_blocking(true);
            }
            handle
        }
        Err(errno) => errno.negative(),
    }
}

/// See [`super::bind`].
#[inline(always)]
pub(super) unsafe fn bind(
    net: Net,
    group: AnyGroup,
    handle: u64,
    address: *const SocketAddr,
) -> i64 {
    // SAFETY: the caller's promise.
    led(group, || unsafe { ask_with_address(net, Handle(handle), Operation::Bind, address) })
}

/// See [`super::listen`].
#[inline(always)]
pub(super) unsafe fn listen(net: Net, group: AnyGroup, handle: u64, backlog: i32) -> i64 {
    led(group, || begin_listen(net, Handle(handle), backlog))
}

#[inline(never)]
fn begin_listen(net: Net, handle: Handle, backlog: i32) -> i64 {
    let asked = ask_about(net, handle, Operation::Listen, backlog.max(0) as u64, 0);
    if asked < 0 { asked } else { reinstall(net, handle) }
}

/// See [`super::accept`].
#[inline(always)]
pub(super) unsafe fn accept(net: Net, group: AnyGroup, handle: u64) -> i64 {
    led(group, || receive_accepted(net, Handle(handle)))
}

/// The accept ring is a receive ring of 8-byte handles.
#[inline(never)]
fn receive_accepted(net: Net, handle: Handle) -> i64 {
    let socket = match Socket::open(net, handle) {
        Ok(socket) => socket,
        Err(errno) => return errno.negative(),
    };
    let (info, ring) = (socket.info(), socket.ring(Direction::Receive));
    if info.kind() != Some(Kind::Listener) || ring.is_none() {
        return Errno::EINVAL.negative();
    }
    // A server whose connections are always there already is to be stopped, too.
    let stopped = stop_of(net);
    if stopped < 0 {
        return stopped;
    }
    let wait = !info.non_blocking();
    let deadline = Deadline::after_or_never(socket.timeout(Direction::Receive));
    let position = match socket.lock(Direction::Receive, wait) {
        Ok(position) => position,
        Err(errno) => return errno.negative(),
    };
    let mut result = Errno::EBADF.negative();
    // Another socket may have the slot by now, and then this is its direction.
    if socket.is_still_here() {
        result = match wait {
            true => {
                let inbox = socket.inbox();
                let ready = || {
                    // Without an acquire, which invalidates the cache of all blocks on the multiprocessor.
                    let seen = Progress(inbox.tail().load());
                    let quiet = (seen.count() <= position.count()) & !seen.is_over();
                    if quiet & socket.is_open() {
                        return None;
                    }
                    let state = accept_state(net, handle, position);
                    (state != 0).then_some(state)
                };
                let waited = wait_until(net, socket.shard(), deadline, Watch::Stop, ready);
                waited.unwrap_or_else(Errno::negative)
            }
            false => match accept_state(net, handle, position) {
                0 => Errno::EAGAIN.negative(),
                state => state,
            },
        };
    }
    if result < 0 {
        socket.unlock(Direction::Receive, position);
        return result;
    }
    let offset = position.count() as usize & (ring.capacity() - 1);
    // SAFETY: positions of a listener move by 8 from an aligned base, so the word lies in the
    // ring and is aligned; the proxy wrote it before it published the counter.
    let accepted = unsafe { Word::at(ring.start().add(offset).cast()) }.load();
    // The handle was read before the proxy may write there again, and the next group starts here.
    simt::release_fence();
    let next = Position(position.0 + 8);
    socket.publishes(Direction::Receive).store(Progress::new(next.count(), 0).0);
    if !planted(Bug::HeadsOvertake) {
        // The next group's counter must not be overtaken by this one.
        simt::gpu_release_fence();
    }
    socket.unlock(Direction::Receive, next);
    match Socket::open(net, Handle(accepted)) {
        Ok(_) => accepted as i64,
        Err(errno) => errno.negative(),
    }
}

/// Whether a connection waits: 1, 0 for not yet, or a negative error number.
#[inline(never)]
fn accept_state(net: Net, handle: Handle, position: Position) -> i64 {
    let socket = Socket::known(net, handle);
    let progress = socket.progress(Direction::Receive);
    match () {
        () if progress.count() > position.count() => 1,
        () if progress.has_failed() => socket.failure().negative(),
        () if progress.is_over() => Errno::EINVAL.negative(),
        () if !socket.is_open() => Errno::EBADF.negative(),
        () => 0,
    }
}

/// See [`super::connect`].
#[inline(always)]
pub(super) unsafe fn connect(
    net: Net,
    group: AnyGroup,
    handle: u64,
    address: *const SocketAddr,
) -> i64 {
    // SAFETY: the caller's promise.
    led(group, || unsafe { begin_connect(net, Handle(handle), address) })
}

/// # Safety
/// `address` is valid to read.
#[inline(never)]
unsafe fn begin_connect(net: Net, handle: Handle, address: *const SocketAddr) -> i64 {
    let stopped = stop_of(net);
    if stopped < 0 {
        return stopped;
    }
    // SAFETY: the caller's promise.
    let asked = unsafe { ask_with_address(net, handle, Operation::Connect, address) };
    if asked < 0 {
        return asked;
    }
    let installed = reinstall(net, handle);
    if installed < 0 {
        return installed;
    }
    let socket = Socket::known(net, handle);
    let deadline = match socket.info().non_blocking() {
        true => Deadline::after(0),
        false => Deadline::after_or_never(socket.timeout(Direction::Send)),
    };
    let ready = || match socket.status().state() {
        Status::CONNECTED => Some(0),
        Status::FAILED => Some(socket.failure().negative()),
        _ if !socket.is_open() => Some(Errno::EBADF.negative()),
        _ if socket.info().non_blocking() => Some(Errno::EINPROGRESS.negative()),
        _ => None,
    };
    let waited = wait_until(net, socket.shard(), deadline, Watch::Stop, ready);
    let result = waited.unwrap_or_else(Errno::negative);
    // Those of a p2p stream have come with the answer.
    if result == 0 && socket.ring(Direction::Send).is_none() && !adopt_rings(net, handle) {
        return Errno::EBADF.negative();
    }
    result
}

/// See [`super::shutdown`].
#[inline(always)]
pub(super) unsafe fn shutdown(net: Net, group: AnyGroup, handle: u64, how: i32) -> i64 {
    led(group, || shut_down(net, Handle(handle), how))
}

#[inline(never)]
fn shut_down(net: Net, handle: Handle, how: i32) -> i64 {
    let socket = match Socket::open(net, handle) {
        Ok(socket) => socket,
        Err(errno) => return errno.negative(),
    };
    if !(SHUT_RD..=SHUT_RDWR).contains(&how) {
        return Errno::EINVAL.negative();
    }
    let lock = socket.lock_word(Direction::Send);
    let ends_sending = how != SHUT_RD;
    let mut held = -1;
    // The proxy has nothing to end where there is no connection.
    if ends_sending && socket.status().state() == Status::CONNECTED {
        // Groups that wait for space leave when they see this, and others send no more. What this group
        // sent before is on its way already.
        lock.set_on_gpu(Position::SHUT);
        // Until the end is published: nobody sends behind it. Where another group does not leave the
        // direction, it is published all the same.
        held = lock_to_leave(net, handle, Direction::Send);
    }
    let asked = ask_about(net, handle, Operation::Shutdown, how as u64, 0);
    let shut = ends_sending && asked >= 0;
    if held >= 0 {
        let position = Position(held as u64);
        if shut {
            socket.end_p2p(Direction::Send, position);
        }
        // Who takes the direction next knows what was sent before, and that it was shut down.
        simt::gpu_release_fence();
        let flags = if shut && !planted(Bug::ShutNotKept) { Position::SHUT } else { 0 };
        socket.unlock(Direction::Send, position.without(Position::SHUT).with(flags));
    } else if shut {
        // Another group has the direction, and may give it back as it knew it: the next send then asks.
        lock.set_on_gpu(Position::SHUT);
        socket.remember_head(Progress::new(0, Progress::ENDED));
    }
    asked.min(0)
}

/// See [`super::close`].
#[inline(always)]
pub(super) unsafe fn close(net: Net, group: AnyGroup, handle: u64) -> i64 {
    led(group, || close_socket(net, Handle(handle)))
}

#[inline(never)]
fn close_socket(net: Net, handle: Handle) -> i64 {
    if let Err(errno) = Socket::open(net, handle) {
        return errno.negative();
    }
    let closed = begin_close(net, handle);
    if closed < 0 {
        return closed;
    }
    let (shard, none) = (handle.shard() as usize, Payload::NONE);
    ask(net, shard, Operation::Close, handle, 0, 0, 0, none, null_mut()).min(0)
}

/// See [`super::name`].
#[inline(always)]
pub(super) unsafe fn name(
    net: Net,
    group: AnyGroup,
    handle: u64,
    which: u32,
    to: *mut SocketAddr,
) -> i64 {
    let to = to.cast::<u64>();
    // SAFETY: the caller's promise.
    let result = led(group, || unsafe { ask_name(net, Handle(handle), which, to) });
    let mut at = 0;
    // Counted: the words of an address, which the leader has got.
    while at < ADDRESS_WORDS && result == 0 {
        // SAFETY: the caller's promise: room for an address, in every thread.
        unsafe {
            let to = to.add(at);
            let word = if group.is_leader() { to.read() } else { 0 };
            let word = group.broadcast(word);
            to.write(word);
        }
        at = simt::opaque(at + 1);
    }
    result
}

/// # Safety
/// There is room for an address at `to`.
#[inline(never)]
unsafe fn ask_name(net: Net, handle: Handle, which: u32, to: *mut u64) -> i64 {
    if let Err(errno) = Socket::open(net, handle) {
        return errno.negative();
    }
    let operation = if which == PEER_NAME { Operation::PeerName } else { Operation::SocketName };
    let shard = handle.shard() as usize;
    ask(net, shard, operation, handle, 0, 0, 0, Payload::NONE, to).min(0)
}

/// Asks the proxy about a socket and an address; 0 or a negative error number.
///
/// # Safety
/// `address` is valid to read.
#[inline(never)]
unsafe fn ask_with_address(
    net: Net,
    handle: Handle,
    operation: Operation,
    address: *const SocketAddr,
) -> i64 {
    if let Err(errno) = Socket::open(net, handle) {
        return errno.negative();
    }
    // SAFETY: the caller's promise. An address lies in memory as its words cross.
    let payload = unsafe { Payload::new(address.cast(), size_of::<SocketAddr>()) };
    let shard = handle.shard() as usize;
    ask(net, shard, operation, handle, 0, 0, 0, payload, null_mut()).min(0)
}

/// Asks the proxy about a socket; the reply's number, or a negative error number.
#[inline(never)]
pub(super) fn ask_about(
    net: Net,
    handle: Handle,
    operation: Operation,
    first: u64,
    second: u64,
) -> i64 {
    if let Err(errno) = Socket::open(net, handle) {
        return errno.negative();
    }
    let shard = handle.shard() as usize;
    ask(net, shard, operation, handle, first, second, 0, Payload::NONE, null_mut())
}
