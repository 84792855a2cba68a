//! Launches of a sharing scene with sockets of their own: one that leaves its socket to others
//! (`SocketOption::Detached`) and ends, and two that use one handle at the same time.
//!
//! Where the owner of such a handle ends first (`OpenStreams::owner_ends`), the calls of the other launch give
//! EBADF soon, and until then what belongs to the stream.

use std::sync::atomic::Ordering;

use gpunet_device::abi::errno::Errno;
use gpunet_device::calls::MSG_DONTWAIT;
use gpunet_device::{Group, Handle, On, SocketAddr, Stream, calls, simt};

use super::group_calls::{broadcast_by_leader, close};
use super::inside_call;
use super::job::{Owning, Role};
use super::open_streams::{Asks, Entry, FAILED, OpenStreams};
use super::passing::{detach, send_all, send_stream};
use super::peers::pattern;
use super::plan::Plan;
use super::was_notified;

/// A call on a handle whose owner has ended returns after so long.
const EBADF_NS: u64 = 50_000_000;
/// Turns for which a launch waits for another, or goes on after its handle is dead.
const TURNS: u64 = 2_000_000;

/// What each group of such a launch runs; of all but the first kind one group alone.
pub(crate) fn work<G: Group>(
    on: On<G>,
    plan: &Plan,
    queue: &OpenStreams,
    owning: &Owning,
) -> Result<(), Errno> {
    if simt::position().block != 0 || plan.member() != 0 {
        return Ok(());
    }
    match owning.role {
        Role::Begins => begin(on, plan, queue, owning),
        Role::Owns => {
            let owned = own(on, plan, queue, owning);
            if owned.is_err() && on.group().is_leader() {
                queue.shared.store(FAILED, Ordering::Relaxed);
            }
            owned
        }
        Role::Uses => {
            let outcome = use_shared(on, plan, queue, owning);
            if on.group().is_leader() {
                queue.used.store(true, Ordering::Relaxed);
            }
            outcome
        }
    }
}

fn connect<G: Group>(on: On<G>, plan: &Plan, port: u16) -> Result<Handle, Errno> {
    let address = SocketAddr::v4([127, 0, 0, 1], port);
    plan.timed(on, "connect", || Stream::connect(on, &address).map(Stream::into_handle))
}

fn begin<G: Group>(
    on: On<G>,
    plan: &Plan,
    queue: &OpenStreams,
    owning: &Owning,
) -> Result<(), Errno> {
    let handle = connect(on, plan, owning.port)?;
    let mut asks = Asks { number: owning.number, at: 0, total: owning.total };
    while asks.at < owning.at {
        let Some(more) = converse(on, plan, handle, asks)? else { break };
        asks = more;
    }
    let mut entry = Entry { handle, asks: Some(asks), converses: true, detached: false };
    detach(on, plan, &mut entry)?;
    send_stream(on, queue, entry);
    Ok(())
}

/// Sends a piece and receives it; what is left of the conversation.
pub(super) fn converse<G: Group>(
    on: On<G>,
    plan: &Plan,
    handle: Handle,
    asks: Asks,
) -> Result<Option<Asks>, Errno> {
    let left = (asks.total - asks.at) as usize;
    let buffer = plan.buffer();
    let buffer = buffer.first(left.min(buffer.len()));
    fill(on, plan, asks.number, asks.at, buffer.len());
    send_all(on, plan, handle, buffer)?;
    let mut got = 0;
    while got < buffer.len() {
        let more =
            receive(on, plan, handle, asks.number, asks.at + got as u64, buffer.len() - got)?;
        if more == 0 {
            plan.complain(on, &format!("conversation {}: the echo ended early", asks.number));
            return Ok(None);
        }
        got += more;
    }
    let asks = Asks { at: asks.at + got as u64, ..asks };
    Ok((asks.at < asks.total).then_some(asks))
}

/// Draws bytes of a conversation.
fn fill<G: Group>(on: On<G>, plan: &Plan, number: u64, at: u64, length: usize) {
    let (rank, size) = (on.group().rank(), on.group().size());
    on.group().barrier();
    for index in (rank..length).step_by(size) {
        plan.buffer().set(index, pattern(number, at + index as u64));
    }
    on.group().barrier();
}

/// Receives and checks bytes of a conversation, so many at most.
fn receive<G: Group>(
    on: On<G>,
    plan: &Plan,
    handle: Handle,
    number: u64,
    at: u64,
    most: usize,
) -> Result<usize, Errno> {
    let (net, group) = (on.net(), on.group());
    let buffer = plan.buffer().first(most);
    group.barrier();
    let call = || plan.timed(on, "recv", || calls::grecv(net, group, handle, buffer, 0));
    let got = Errno::check(inside_call(handle, group.is_leader(), call))? as usize;
    group.barrier();
    for index in 0..got {
        let at = at + index as u64;
        if buffer.get(index) != Some(pattern(number, at)) {
            plan.complain(on, &format!("conversation {number}: byte {at} is wrong"));
            break;
        }
    }
    Ok(got)
}

/// The launch that owns the handle: the other receives what comes back.
fn own<G: Group>(
    on: On<G>,
    plan: &Plan,
    queue: &OpenStreams,
    owning: &Owning,
) -> Result<(), Errno> {
    let handle = connect(on, plan, owning.port)?;
    on.group().barrier();
    if on.group().is_leader() {
        queue.shared.store(handle.0, Ordering::Relaxed);
    }
    let ends_first = queue.owner_ends.load(Ordering::Relaxed);
    let total = if ends_first { owning.at } else { owning.total };
    let mut sent = 0;
    while sent < total {
        let buffer = plan.buffer();
        let buffer = buffer.first((total - sent) as usize);
        fill(on, plan, owning.number, sent, buffer.len());
        send_all(on, plan, handle, buffer)?;
        sent += buffer.len() as u64;
    }
    if on.group().is_leader() {
        queue.owner_sent.store(true, Ordering::Relaxed);
    }
    let mut turns = 0;
    // In the other kind of scene it ends when it likes.
    while !ends_first
        && broadcast_by_leader(on, || u64::from(queue.used.load(Ordering::Relaxed))) == 0
    {
        simt::pause();
        turns += 1;
        if turns > TURNS {
            plan.complain(on, "the other launch does not end");
            break;
        }
    }
    was_notified();
    if owning.leaves || ends_first {
        if on.group().is_leader() {
            queue.leave(handle);
        }
        return Ok(());
    }
    close(on, plan, Stream::from_handle(on, handle));
    Ok(())
}

/// Sends beside the launch that owns the handle. What comes back is received while that one sends, too:
/// otherwise all memory on the way would be full at some point, and both wait for space for ever. Then
/// nobody receives it, so that a send may wait for space when the owner ends.
fn send_along<G: Group>(
    on: On<G>,
    plan: &Plan,
    queue: &OpenStreams,
    handle: Handle,
    length: usize,
) -> Result<(), Errno> {
    let (net, group) = (on.net(), on.group());
    let buffer = plan.buffer();
    send_all(on, plan, handle, buffer.first(length))?;
    // Counted on what was sent: the echo has no more.
    while broadcast_by_leader(on, || u64::from(queue.owner_sent.load(Ordering::Relaxed))) == 0 {
        let call =
            || plan.timed(on, "recv", || calls::grecv(net, group, handle, buffer, MSG_DONTWAIT));
        match Errno::check(inside_call(handle, group.is_leader(), call)) {
            Err(Errno::EAGAIN | Errno::EBUSY) | Ok(0) => break,
            Err(errno) => return Err(errno),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// The launch that uses it.
fn use_shared<G: Group>(
    on: On<G>,
    plan: &Plan,
    queue: &OpenStreams,
    owning: &Owning,
) -> Result<(), Errno> {
    let ends_first = queue.owner_ends.load(Ordering::Relaxed);
    let mut turns = 0;
    let handle = loop {
        match broadcast_by_leader(on, || queue.shared.load(Ordering::Relaxed)) {
            0 if turns > TURNS => return Ok(()),
            FAILED => return Ok(()),
            0 => simt::pause(),
            handle => break Handle(handle),
        }
        turns += 1;
    };
    was_notified();
    let mut got = 0;
    let mut dead = 0;
    while got < owning.total && dead < 3 {
        let most = (owning.total - got) as usize;
        let outcome = match owning.sends && ends_first {
            true => send_along(on, plan, queue, handle, most.min(100)).map(|()| 0),
            false => receive(on, plan, handle, owning.number, got, most),
        };
        if ends_first {
            let over = broadcast_by_leader(on, || {
                let over_at = queue.owner_over_at.load(Ordering::Relaxed);
                u64::from(over_at != 0 && simt::now_ns() > over_at + EBADF_NS)
            });
            if over != 0 && outcome != Err(Errno::EBADF) {
                plan.complain(on, &format!("a handle whose owner has ended gave {outcome:?}"));
                return Ok(());
            }
        }
        match outcome {
            Err(Errno::EBADF) if ends_first => dead += 1,
            // It is being closed, as any socket of a launch that ends; soon its handle is dead.
            Ok(0) | Err(_) if ends_first => simt::pause(),
            Ok(0) => {
                plan.complain(on, "a shared stream ended early");
                return Ok(());
            }
            Ok(bytes) => got += bytes as u64,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
