//! A server for the benchmark suite `waiters`: one block echoes, all others wait, in one of three
//! calls, for something that does not come before the launch is aborted.

use gpunet_device::poller::POLLIN;
use gpunet_device::{
    Block, Errno, Event, Group, Handle, Listener, On, Poller, Shared, Stream, kernels, simt,
};

use crate::serve;

/// Wait in accept, all blocks on the listener of the active connection.
pub const ACCEPT: u64 = 0;
/// Wait in receive, each block on a connection of its own.
pub const RECEIVE: u64 = 1;
/// Wait in a poller, each block in its own, which watches a connection of its own.
pub const POLL: u64 = 2;

/// A block's state: it is about to wait. A negative error number says how its wait ended.
pub const READY: u64 = 1;
/// A block's state: something came that nobody had sent.
pub const WOKEN: u64 = 2;

kernels! {
    /// Echoes on connections of `listener`: the first block, or with [`ACCEPT`] whichever accepts
    /// one. The others wait as `how` says; `idle` has a handle for each of them. `states` has a word
    /// for each block.
    pub fn serve_beside_waiters(
        net: Net,
        listener: Handle,
        how: u64,
        idle: Shared<u64>,
        timeout_ns: u64,
        states: Shared<u64>,
    ) {
        let block = simt::position().block as usize;
        let state = states.slice(block, 1);
        let ended = if block == 0 || how == ACCEPT {
            echo(net.block(), listener, state)
        } else {
            let connection = Handle(idle.get(block - 1).unwrap_or(Handle::NONE.0));
            if how == RECEIVE {
                receive(net.block(), connection, state)
            } else {
                poll(net.block(), connection, timeout_ns, state)
            }
        };
        note_end(state, ended);
    }
}

/// Notes how a wait ended.
#[inline(always)]
fn note_end(state: Shared<u64>, ended: Result<(), Errno>) {
    note(state, ended.map_or_else(|errno| errno.negative() as u64, |()| WOKEN));
}

#[inline(always)]
fn note(state: Shared<u64>, value: u64) {
    if Block.is_leader() {
        state.set(0, value);
    }
}

/// Echoes until it is stopped.
#[inline(always)]
fn echo(on: On, listener: Handle, state: Shared<u64>) -> Result<(), Errno> {
    let listener = Listener::borrow(on, listener);
    note(state, READY);
    let ended = serve::echo(&listener);
    Err(ended)
}

/// Waits for a byte on a connection of the host.
#[inline(always)]
fn receive(on: On, connection: Handle, state: Shared<u64>) -> Result<(), Errno> {
    let stream = Stream::borrow(on, connection);
    note(state, READY);
    let ended = stream.read(simt::shared_memory());
    ended.map(|_| ())
}

/// Waits for an event of a connection of the host.
#[inline(always)]
fn poll(on: On, connection: Handle, timeout_ns: u64, state: Shared<u64>) -> Result<(), Errno> {
    let poller = Poller::new(on)?;
    poller.add(connection, POLLIN, 1)?;
    note(state, READY);
    let events = simt::shared_memory().cast::<Event>().first(1);
    let ended = poller.wait(events, timeout_ns).map(|_| ());
    // Before the poller is closed, which asks the proxy.
    note_end(state, ended);
    ended
}
