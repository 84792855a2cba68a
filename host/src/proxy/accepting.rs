//! Accepting: connections go into a listener's accept ring as handles.

use std::collections::VecDeque;

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;
use gpunet_device::planted::{Bug, planted};

use super::context::Context;
use super::counted::Counted;
use super::entry::{Entry, Owner, Role};
use super::listener::{Listener, Then};
use super::shared::Shared;
use super::stream::StreamPhase;
use crate::pool::Account;

/// How long a listener backs off when something ran out; its peers wait in the system's queue.
const PAUSE_NS: u64 = 2_000_000;

impl Entry {
    /// Makes it a listener with that accept ring, whose peers wait in the system's queue beyond its share.
    pub(crate) fn start_listening(&mut self, shared: &Shared, ring: Counted, share: u32) {
        self.channel.receive = ring;
        shared.pool.reserve_share(self.handle, share);
        let listener = Listener { share: share as usize, ..Listener::default() };
        self.role = Role::Listener(Box::new(listener));
    }

    /// Forgets the handles that kernels have taken from the accept ring.
    pub(crate) fn forget_taken(&mut self, shared: &Shared) {
        let Role::Listener(listener) = &mut self.role else { return };
        let waiting = (self.channel.receive.unread() / 8) as usize;
        let taken = listener.pending.len().saturating_sub(waiting);
        if taken > 0 {
            let mut waiting = shared.waiting();
            listener.pending.drain(..taken).for_each(|handle| {
                waiting.remove(&handle.0);
                shared.pool.accepted(handle);
            });
        }
    }

    /// The handles that no kernel has taken from the accept ring, which wait no longer.
    pub(crate) fn drain_pending(&mut self, shared: &Shared) -> VecDeque<Handle> {
        self.forget_taken(shared);
        let Role::Listener(listener) = &mut self.role else { return VecDeque::new() };
        let mut waiting = shared.waiting();
        for handle in &listener.pending {
            waiting.remove(&handle.0);
        }
        std::mem::take(&mut listener.pending)
    }

    /// Connections that wait for a kernel, as its head says.
    pub(super) fn pending(&self) -> u32 {
        let Role::Listener(listener) = &self.role else { return 0 };
        listener.pending.len() as u32
    }

    /// Accepts one connection, if one waits and the listener's share, the table and the ring memory
    /// allow; else what it has to wait for.
    pub(super) fn accept_next(&mut self, context: &Context) -> Result<Entry, Then> {
        self.load_head(context);
        self.forget_taken(&context.shared);
        let Role::Listener(listener) = &self.role else { return Err(Then::Peers) };
        if self.channel.receive_ended {
            return Err(Then::Peers);
        }
        if context.now_ns < listener.pause_until_ns {
            return Err(Then::Pause(listener.pause_until_ns));
        }
        if listener.pending.len() >= listener.share {
            return Err(Then::Kernel);
        }
        match self.accept_one(&context.shared) {
            Ok(Some(made)) => {
                context.counters.accepted.add(1);
                // Before its shard has it, which may close it for a launch.
                self.note_pending(&context.shared, made.handle);
                Ok(made)
            }
            Ok(None) => Err(Then::Peers),
            Err(errno) => {
                // The table, ring memory or descriptors have run out, or the system is short
                // of something: the peer waits in its queue.
                tracing::debug!(handle = self.handle.0, %errno, "accepting pauses");
                let until_ns = context.now_ns + PAUSE_NS;
                if let Role::Listener(listener) = &mut self.role {
                    listener.pause_until_ns = until_ns;
                }
                Err(Then::Pause(until_ns))
            }
        }
    }

    /// Notes a handle that goes into the accept ring.
    fn note_pending(&mut self, shared: &Shared, handle: Handle) {
        shared.waiting().insert(handle.0);
        if let Role::Listener(listener) = &mut self.role {
            listener.pending.push_back(handle);
        }
    }

    /// Everything a connection needs is taken before it is accepted, so that none is lost.
    fn accept_one(&mut self, shared: &Shared) -> Result<Option<Entry>, Errno> {
        let Some(listener) = &mut self.socket else { return Ok(None) };
        let account = Account::Unaccepted(self.handle);
        let handle = shared.pool.allocate_handle(account)?;
        let index = shared.index(handle);
        let owner = match self.owner {
            Owner::Launch(launch) => Owner::Launch(launch),
            Owner::Host | Owner::AnyLaunch => Owner::AnyLaunch,
        };
        let mut made = Entry::new(handle, index, owner, self.wishes, None);
        made.accepted_from = self.handle;
        made.counted = shared.policy.limits.acquire_socket();
        if !made.counted {
            made.give_back(shared);
            return Err(Errno::EACCES);
        }
        listener.wish(self.wishes.receive_ring, self.wishes.send_ring);
        let accepted = listener
            .region(None)
            .and_then(|region| made.allocate_rings(shared, account, region))
            .and_then(|()| listener.accept());
        match accepted {
            Ok(Some(socket)) => {
                made.socket = Some(socket);
                if let Err(errno) = made.attach() {
                    // The peer sees its connection end; others wait behind it.
                    tracing::debug!(%errno, "a connection was not accepted");
                    made.socket = None;
                    made.give_back(shared);
                    return Err(errno);
                }
                made.start_stream(StreamPhase::Open);
                made.use_own_rings(&shared.memory);
                made.publish(&shared.memory);
                Ok(Some(made))
            }
            Ok(None) => {
                made.give_back(shared);
                Ok(None)
            }
            Err(errno) => {
                made.give_back(shared);
                Err(errno)
            }
        }
    }

    /// Puts the handle of a connection into the accept ring, where kernels find it.
    pub(super) fn push_handle(&mut self, context: &Context, handle: Handle) {
        if planted(Bug::AcceptedHandleLost) && context.counters.accepted.get() % 3 == 2 {
            return;
        }
        let (memory, receive) = (context.memory(), &mut self.channel.receive);
        memory.ring_word(&receive.location, receive.ours).store(handle.0);
        receive.ours += 8;
        self.channel.publish_receive(memory);
    }
}
