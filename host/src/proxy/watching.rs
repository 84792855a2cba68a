//! How what happens on sockets reaches their watchers, here or in another shard.

use gpunet_device::Handle;
use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN, POLLOUT};
use gpunet_device::planted::{Bug, planted};

use super::context::Context;
use super::entry::{Entry, Role};
use super::message::Message;
use super::poller::{Notice, Watch};
use super::shard::Shard;
use crate::memory::Memory;

impl Entry {
    /// Something happened on a socket that this poller watches. Connections that it was to report and
    /// has not, where it no longer watches the socket; none for an entry that is no poller: a kernel
    /// of another shard may call any handle one.
    pub(super) fn notify(&mut self, memory: &Memory, notice: Notice) -> Option<u32> {
        let Role::Poller(poller) = &mut self.role else { return None };
        Some(poller.notify(&self.channel.receive, memory, notice))
    }

    /// Writes events, of a poller. How many.
    pub(super) fn write_events(&mut self, context: &Context) -> u64 {
        self.load_head(context);
        let Role::Poller(poller) = &mut self.role else { return 0 };
        let count = poller.write(&mut self.channel.receive, context.memory());
        if count > 0 {
            self.channel.publish_receive(context.memory());
        }
        count
    }

    /// Whether it is a poller that has not reported everything yet.
    pub(super) fn owes_events(&self) -> bool {
        matches!(&self.role, Role::Poller(poller) if poller.owes_events())
    }
}

impl Shard {
    /// Notifies the pollers that watch a socket of what happened on it.
    pub(super) fn notify_watchers(&mut self, slot: usize, happened: u16) {
        let mut at = 0;
        while let Some(entry) = self.table.get(slot)
            && let Some(watch) = entry.watchers.get(at)
        {
            at += 1;
            let (socket, events) = (entry.handle, watch.select(happened));
            if events != 0 {
                let notice = Notice { socket, token: watch.token, events, connections: 0 };
                self.notify(watch.poller, notice);
            }
        }
    }

    /// Notifies the pollers that bytes came to a socket, or that no more will.
    pub(super) fn notify_readable(&mut self, slot: usize) {
        let ready = self.table.get(slot).map_or(0, |entry| entry.readiness());
        self.notify_watchers(slot, ready & !POLLOUT);
    }

    /// Notifies the pollers that a socket's bytes went, or that no more will.
    pub(super) fn notify_writable(&mut self, slot: usize) {
        let ready = self.table.get(slot).map_or(0, |entry| entry.readiness());
        self.notify_watchers(slot, POLLOUT | ready & (POLLERR | POLLHUP));
    }

    /// Notifies the watchers of a listener of connections: of each, one of them, in turn.
    pub(super) fn announce(&mut self, slot: usize, connections: u32) {
        for left in (1..=connections).rev() {
            let Some(entry) = self.table.get_mut(slot) else { return };
            let handle = entry.handle;
            let Some(watch) = entry.watchers.next_for_connection() else {
                if let Role::Listener(listener) = &mut entry.role {
                    listener.unannounced = listener.unannounced.saturating_add(left);
                }
                return;
            };
            let notice =
                Notice { socket: handle, token: watch.token, events: POLLIN, connections: 1 };
            self.notify(watch.poller, notice);
        }
    }

    /// A poller did not deliver its events of so many connections, and watches no longer, or is gone:
    /// they are to be reported to others.
    pub(super) fn pass_on(
        &mut self,
        listener: Handle,
        poller: Handle,
        connections: u32,
        gone: bool,
    ) {
        let shard = listener.shard() as usize;
        if shard != self.context.id {
            let message = Message::PassOn { listener, poller, connections, gone };
            return self.context.shared.send(shard, message);
        }
        let Some(entry) = self.table.find(listener) else { return };
        if gone {
            entry.watchers.remove(poller);
        }
        if let Role::Listener(_) = entry.role {
            self.announce(listener.slot() as usize, connections);
        }
    }

    /// Brings a notice to a poller, here or in another shard.
    pub(super) fn notify(&mut self, poller: Handle, notice: Notice) {
        let shard = poller.shard() as usize;
        if shard != self.context.id {
            return self.context.shared.send(shard, Message::Notify { poller, notice });
        }
        let found = self.table.find(poller);
        let undelivered = found.and_then(|entry| {
            let undelivered = entry.notify(self.context.memory(), notice)?;
            if entry.owes_events() {
                self.schedule.write_soon(entry);
            }
            Some(undelivered)
        });
        match undelivered {
            Some(0) => {}
            Some(connections) => self.pass_on(notice.socket, poller, connections, false),
            None if notice.connections > 0 => {
                self.pass_on(notice.socket, poller, notice.connections, true);
            }
            None => {}
        }
    }

    /// A poller begins to watch a socket, or to watch it otherwise.
    pub(super) fn begin_watch(&mut self, socket: Handle, watch: Watch) {
        let Some(entry) = self.table.find(socket) else { return };
        let slot = socket.slot() as usize;
        let listens = matches!(entry.role, Role::Listener(_));
        // A stream has one watcher, and the one before would keep it in its table for ever. Where it
        // is the same poller, an event that is in the ring has the old token; all it reported follows
        // anew.
        let before = match listens {
            true => entry.watchers.remove(watch.poller).into_iter().collect(),
            false => entry.watchers.take(),
        };
        for before in before {
            self.notify(before.poller, Notice::unwatched(socket));
        }
        let Some(entry) = self.table.find(socket) else { return };
        let alone = entry.watchers.is_empty();
        entry.watchers.add(watch);
        if !listens {
            self.watch_p2p(socket);
            let reported = self.table.get(slot).filter(|_| !planted(Bug::ReadyNotReported));
            let ready = reported.map_or(0, |entry| entry.readiness());
            return self.notify_watchers(slot, ready);
        }
        entry.load_head(&self.context);
        entry.forget_taken(&self.context.shared);
        let (pending, ended) = (entry.pending(), entry.channel.receive_ended);
        let Role::Listener(listener) = &mut entry.role else { return };
        let unannounced = std::mem::take(&mut listener.unannounced).min(pending);
        if ended {
            let ready = entry.readiness();
            self.notify_watchers(slot, ready);
        }
        self.announce(slot, if alone { pending } else { unannounced });
    }

    /// A poller no longer watches a socket.
    pub(super) fn end_watch(&mut self, socket: Handle, poller: Handle) {
        if let Some(entry) = self.table.find(socket) {
            entry.watchers.remove(poller);
        }
        self.notify(poller, Notice::unwatched(socket));
    }

    /// Has pollers write events to which something happened, or whose kernel took some.
    pub(super) fn write_events(&mut self) -> bool {
        let mut worked = false;
        for handle in std::mem::take(&mut self.schedule.writing) {
            let Some(entry) = self.table.find(handle) else { continue };
            self.schedule.writes_now(entry);
            let written = entry.write_events(&self.context);
            self.schedule.visits += 1 + written;
            worked |= written > 0;
            if entry.owes_events() {
                self.schedule.await_head(entry, self.context.memory());
            }
        }
        worked
    }
}
