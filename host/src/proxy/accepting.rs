//! Accepting: connections go into a listener's accept ring as handles.

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;
use gpunet_device::planted::{Bug, planted};

use super::closing::Closing;
use super::context::Context;
use super::entry::{Entry, Owner, Role};
use super::message::Message;
use super::notices::Notices;
use super::pump::Turn;
use super::shared::{Readiness, Shared};
use super::sockets::Sockets;
use super::stream::StreamPhase;
use crate::pool::Account;

/// How long a listener backs off when something ran out; its peers wait in the system's queue.
const PAUSE_NS: u64 = 2_000_000;
/// Connections accepted in one turn, so that other sockets get theirs.
const ACCEPTS: usize = 16;

/// What a listener waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Its next turn: there may be more.
    Again,
    /// Its descriptor.
    Peers,
    /// A kernel that accepts.
    Kernel,
    /// A time, since something ran out.
    Pause(u64),
    /// The same: it has just run out.
    Short(u64),
}

/// Accepts at a listener, and has it wait for what has to come before there is more.
pub(super) fn accept(sockets: &mut Sockets, handle: Handle, io: &mut dyn Readiness) -> Turn {
    let (mut connections, mut then) = (0, Then::Again);
    for _ in 0..ACCEPTS {
        let Some(visit) = sockets.visit(handle) else { return Turn::Idle };
        match next(visit.entry, visit.context) {
            Ok(made) => {
                let connection = made.handle;
                // Its shard has it before a kernel can.
                sockets.hand_over(made, io);
                if let Some(visit) = sockets.visit(handle) {
                    push(visit.entry, visit.context, connection);
                }
                connections += 1;
            }
            Err(why) => {
                then = why;
                break;
            }
        }
    }
    let Some(mut visit) = sockets.visit(handle) else { return Turn::Idle };
    match then {
        Then::Again => visit.schedule.busy.add(visit.entry, 1),
        Then::Kernel => visit.wait_for_head(),
        Then::Pause(until_ns) => visit.schedule.timers.arm(visit.entry, until_ns),
        Then::Short(until_ns) => {
            visit.schedule.timers.arm(visit.entry, until_ns);
            make_room(sockets, io);
        }
        Then::Peers => {}
    }
    Notices(sockets).announce(handle, connections);
    let more = matches!(then, Then::Again | Then::Peers);
    if connections > 0 && more { Turn::Progress } else { Turn::Idle }
}

/// Has a closed socket go that makes no progress: of this shard, or else of others.
pub(super) fn make_room(sockets: &mut Sockets, io: &mut dyn Readiness) -> bool {
    if (Closing { sockets, io }).make_room() {
        return true;
    }
    let Context { id, shared, .. } = &sockets.context;
    for other in (0..shared.queues.len()).filter(|other| other != id) {
        shared.send(other, Message::MakeRoom);
    }
    false
}

/// Accepts one connection, if one waits and the listener's share, the table and the ring memory
/// allow; else what it has to wait for.
fn next(entry: &mut Entry, context: &Context) -> Result<Entry, Then> {
    entry.channel.load_head(context);
    let Role::Listener(listener) = &mut entry.role else { return Err(Then::Peers) };
    listener.forget_taken(&entry.channel.receive, &context.shared);
    if entry.channel.endings.receive {
        return Err(Then::Peers);
    }
    if context.now_ns < listener.pause_until_ns {
        return Err(Then::Pause(listener.pause_until_ns));
    }
    if listener.waiting() >= listener.share {
        return Err(Then::Kernel);
    }
    let accepted = accept_one(entry, &context.shared);
    let Role::Listener(listener) = &mut entry.role else { return Err(Then::Peers) };
    match accepted {
        Ok(Some(made)) => {
            context.counters.accepted.add(1);
            // Before its shard has it, which may close it for a launch.
            listener.note(&context.shared, made.handle);
            Ok(made)
        }
        Ok(None) => Err(Then::Peers),
        Err(errno) => {
            // The table, ring memory or descriptors have run out, or the system is short
            // of something: the peer waits in its queue.
            tracing::debug!(handle = entry.handle.0, %errno, "accepting pauses");
            listener.pause_until_ns = context.now_ns + PAUSE_NS;
            let ran_out =
                matches!(errno, Errno::ENFILE | Errno::EMFILE | Errno::ENOBUFS | Errno::ENOMEM);
            let then = if ran_out { Then::Short } else { Then::Pause };
            Err(then(listener.pause_until_ns))
        }
    }
}

/// Everything a connection needs is taken before it is accepted, so that none is lost.
fn accept_one(entry: &mut Entry, shared: &Shared) -> Result<Option<Entry>, Errno> {
    let Some(listener) = &mut entry.socket else { return Ok(None) };
    let account = Account::Unaccepted(entry.handle);
    let handle = shared.pool.allocate_handle(account)?;
    let owner = match entry.owner {
        Owner::Launch(launch) => Owner::Launch(launch),
        Owner::Host | Owner::AnyLaunch => Owner::AnyLaunch,
    };
    let sizes = entry.wishes.rings;
    let mut made = Entry::new(handle, shared.index(handle), owner, entry.wishes, None);
    made.accepted_from = entry.handle;
    made.counted = shared.policy.limits.acquire_socket();
    let accepted = if made.counted { Ok(()) } else { Err(Errno::EACCES) }
        .and_then(|()| listener.region(None, sizes))
        .and_then(|region| made.channel.allocate(shared, account, region, sizes))
        .and_then(|()| listener.accept());
    let attached = accepted.and_then(|accepted| {
        made.socket = accepted;
        // Where it fails the peer sees its connection end; other peers wait.
        made.attach().inspect_err(|errno| tracing::debug!(%errno, "a connection was not accepted"))
    });
    if attached.is_ok() && made.socket.is_some() {
        made.start_stream(StreamPhase::Open);
        made.use_brought_rings(&shared.memory);
        made.publish(&shared.memory);
        return Ok(Some(made));
    }
    made.socket = None;
    made.give_back(shared);
    attached.map(|()| None)
}

/// Puts the handle of a connection into the accept ring, where kernels find it.
fn push(entry: &mut Entry, context: &Context, handle: Handle) {
    if planted(Bug::AcceptedHandleLost) && context.counters.accepted.get() % 3 == 2 {
        return;
    }
    let (memory, receive) = (context.memory(), &mut entry.channel.receive);
    memory.ring_word(&receive.location, receive.ours).store(handle.0);
    receive.ours += 8;
    entry.channel.publish_receive(memory);
}

/// Sees which connections kernels have taken from the accept rings.
pub(super) fn commit_accepts(sockets: &mut Sockets) {
    let Sockets { context, table, .. } = sockets;
    for entry in table.iter_mut() {
        if let Role::Listener(listener) = &mut entry.role {
            entry.channel.load_head(context);
            listener.forget_taken(&entry.channel.receive, &context.shared);
        }
    }
}
