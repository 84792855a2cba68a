//! Kernels of the benchmark suite `scale`: a server of very many connections, a poller a block, and what
//! brings connections into a passive state.
//!
//! The sockets are the host's, handed over, so that they stay when a launch ends. Each block serves every
//! n-th of them, where n is the number of blocks. `states` has a word for each block: [`READY`], or the
//! error number that ended it, negative.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::{self, MSG_DONTWAIT};
use gpunet_device::poller::POLLIN;
use gpunet_device::{
    Block, Errno, Event, Group, Handle, Listener, On, Poller, Shared, SharedBuf, SocketAddr,
    Stream, kernels, simt,
};

/// A block's state: it has added its sockets and waits, or has done its work.
pub const READY: u64 = 1;
/// Events that a block takes at once.
const EVENTS: usize = 64;
/// Bytes of shared memory for them.
const EVENT_BYTES: usize = EVENTS * size_of::<Event>();
/// Shared memory of a block: events, and a piece of a message.
pub const SHARED_MEMORY: u32 = EVENT_BYTES as u32 + (4 << 10);
/// How long no byte has been taken by any of a block's peers when they are taken to be full.
const STALLED_NS: u64 = 50_000_000;

kernels! {
    /// Echoes on the first `watched` sockets, each in its block's poller, until it is stopped. The next
    /// `owed` ones are in a second poller of the block, from which no event is taken.
    pub fn serve_many(
        net: Net,
        sockets: Shared<u64>,
        watched: u64,
        owed: u64,
        states: Shared<u64>,
    ) {
        let state = states.slice(simt::position().block as usize, 1);
        note(state, serve(net.block(), sockets, watched, owed, state));
    }

    /// Sends on every socket as much as fits, its peer reads nothing, and closes it.
    pub fn close_unsent(net: Net, sockets: Shared<u64>, states: Shared<u64>) {
        let state = states.slice(simt::position().block as usize, 1);
        note(state, fill_and_close(net.block(), sockets));
    }

    /// Connects kernel to kernel, one stream for each word of `accepted`, which gets the handle of the
    /// end that was accepted. Both ends stay open when the kernel ends. One block.
    pub fn connect_p2p(
        net: Net,
        listener: Handle,
        server: SocketAddr,
        transport: u64,
        ring: u64,
        accepted: Shared<u64>,
        states: Shared<u64>,
    ) {
        let listener = Listener::borrow(net.block(), listener);
        let connected = connect(net.block(), &listener, &server, transport, ring, accepted);
        note(states, connected);
    }
}

#[inline(always)]
fn note(state: Shared<u64>, outcome: Result<(), Errno>) {
    if Block.is_leader() {
        state.set(0, outcome.map_or_else(|errno| errno.negative() as u64, |()| READY));
    }
}

#[inline(always)]
fn socket_at(sockets: Shared<u64>, at: u64) -> Handle {
    Handle(sockets.get(at as usize).unwrap_or(Handle::NONE.0))
}

#[inline(always)]
fn serve(
    on: On,
    sockets: Shared<u64>,
    watched: u64,
    owed: u64,
    state: Shared<u64>,
) -> Result<(), Errno> {
    let poller = Poller::new(on)?;
    let untaken = Poller::new(on)?;
    let position = simt::position();
    let mut at = u64::from(position.block);
    while at < watched + owed {
        let socket = socket_at(sockets, at);
        if at < watched {
            poller.add(socket, POLLIN, at)?;
        } else {
            untaken.add(socket, POLLIN, at)?;
        }
        at += u64::from(position.blocks);
    }
    note(state, Ok(()));
    let memory = simt::shared_memory();
    let events = memory.first(EVENT_BYTES).cast::<Event>();
    let piece = memory.slice(EVENT_BYTES, memory.len() - EVENT_BYTES);
    loop {
        let count = poller.wait(events, 0)?;
        for index in 0..count {
            let token = events.get(index).map_or(0, |event| event.token);
            echo(on, &poller, socket_at(sockets, token), piece)?;
        }
        // All threads have read the events before the next wait overwrites them.
        Block.barrier();
    }
}

/// Sends back what has come. A socket that has ended is no longer watched.
#[inline(always)]
fn echo(on: On, poller: &Poller, socket: Handle, piece: SharedBuf) -> Result<(), Errno> {
    loop {
        let got = calls::grecv(on.net(), on.group(), socket, piece, MSG_DONTWAIT);
        if got == Errno::EAGAIN.negative() {
            return Ok(());
        }
        let ended = got <= 0 || {
            let sent = calls::gsend(on.net(), on.group(), socket, piece.first(got as usize), 0);
            sent != got
        };
        if ended {
            return poller.remove(socket);
        }
    }
}

#[inline(always)]
fn fill_and_close(on: On, sockets: Shared<u64>) -> Result<(), Errno> {
    let position = simt::position();
    let (first, step) = (position.block as usize, position.blocks as usize);
    let mut at = first;
    while at < sockets.len() {
        // The system rounds it up to its smallest.
        let option = SocketOption::SystemSendBuffer;
        let socket = socket_at(sockets, at as u64);
        Errno::check(calls::gsetsockopt(on.net(), on.group(), socket, option, 1))?;
        at += step;
    }
    let piece = simt::shared_memory();
    let mut progress_ns = simt::now_ns();
    loop {
        let mut at = first;
        let mut moved = false;
        while at < sockets.len() {
            let socket = socket_at(sockets, at as u64);
            let sent = calls::gsend(on.net(), on.group(), socket, piece, MSG_DONTWAIT);
            if sent < 0 && sent != Errno::EAGAIN.negative() {
                return Errno::check(sent).map(|_| ());
            }
            moved |= sent > 0;
            at += step;
        }
        let now = simt::now_ns();
        if moved {
            progress_ns = now;
        }
        // Each thread has a clock; all go on, or none.
        if Block.any(now - progress_ns > STALLED_NS) {
            break;
        }
    }
    let mut at = first;
    while at < sockets.len() {
        Stream::from_handle(on, socket_at(sockets, at as u64)).close()?;
        at += step;
    }
    Ok(())
}

#[inline(always)]
fn connect(
    on: On,
    listener: &Listener,
    server: &SocketAddr,
    transport: u64,
    ring: u64,
    accepted: Shared<u64>,
) -> Result<(), Errno> {
    for at in 0..accepted.len() {
        let ours: Stream = Stream::connect_with_rings(on, server, ring, ring)?;
        let theirs = listener.accept()?;
        let option = SocketOption::Transport;
        let by = calls::ggetsockopt(on.net(), on.group(), theirs.handle(), option);
        if by != transport as i64 {
            return Err(Errno::EPROTONOSUPPORT);
        }
        ours.set(SocketOption::Detached, 1)?;
        theirs.set(SocketOption::Detached, 1)?;
        let _ = ours.into_handle();
        let theirs = theirs.into_handle();
        if Block.is_leader() {
            accepted.set(at, theirs.0);
        }
    }
    Ok(())
}
