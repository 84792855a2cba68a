//! How what happens on sockets reaches the pollers that watch them, here or in another shard. It touches the
//! pollers and the watchers of sockets; what happened is in the schedule.

use gpunet_device::Handle;
use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN, POLLOUT};
use gpunet_device::planted::{Bug, planted};

use super::entry::{Entry, Role};
use super::message::Message;
use super::schedule::News;
use super::sockets::Sockets;
use super::visit::Visit;
use super::watchers::{Notice, Watch};
use crate::transport::{Carrier, Endpoint};

/// See the module.
pub(super) struct Notices<'a>(pub(super) &'a mut Sockets);

impl Notices<'_> {
    /// Notifies pollers of what happened in this turn, and has them write their events. Whether any wrote.
    pub(super) fn deliver(&mut self) -> bool {
        while let Some(handle) = self.0.schedule.news.pop() {
            let Some(visit) = self.0.visit(handle) else { continue };
            visit.schedule.news.visits(visit.entry);
            let happened = happened(visit.entry);
            self.notify_watchers(handle, happened);
        }
        let mut worked = false;
        for _ in 0..self.0.schedule.writing.len() {
            let next = self.0.schedule.writing.pop();
            let Some(mut visit) = next.and_then(|handle| self.0.visit(handle)) else { continue };
            visit.schedule.writing.visits(visit.entry);
            worked |= write_events(&mut visit);
        }
        worked
    }

    /// Notifies the pollers that watch a socket.
    fn notify_watchers(&mut self, socket: Handle, happened: u16) {
        let mut at = 0;
        while let Some(entry) = self.0.table.find(socket)
            && let Some(watch) = entry.watchers.get(at)
        {
            at += 1;
            let events = watch.select(happened);
            if events != 0 {
                let notice = Notice { socket, token: watch.token, events, connections: 0 };
                self.notify(watch.poller, notice);
            }
        }
    }

    /// Notifies the watchers of a listener of connections: of each, one of them, in turn.
    pub(super) fn announce(&mut self, listener: Handle, connections: u32) {
        for left in (1..=connections).rev() {
            let Some(entry) = self.0.table.find(listener) else { return };
            let Some(watch) = entry.watchers.next_for_connection() else {
                if let Role::Listener(listener) = &mut entry.role {
                    listener.unannounced = listener.unannounced.saturating_add(left);
                }
                return;
            };
            let notice =
                Notice { socket: listener, token: watch.token, events: POLLIN, connections: 1 };
            self.notify(watch.poller, notice);
        }
    }

    /// A poller did not deliver its events of that many connections, and watches no longer, or is gone:
    /// they must be reported to others.
    pub(super) fn pass_on(
        &mut self,
        listener: Handle,
        poller: Handle,
        connections: u32,
        gone: bool,
    ) {
        let shard = listener.shard() as usize;
        if shard != self.0.context.id {
            let message = Message::PassOn { listener, poller, connections, gone };
            return self.0.context.shared.send(shard, message);
        }
        let Some(entry) = self.0.table.find(listener) else { return };
        if gone {
            entry.watchers.remove(poller);
        }
        if let Role::Listener(_) = entry.role {
            self.announce(listener, connections);
        }
    }

    /// Brings a notice to a poller, here or in another shard.
    pub(super) fn notify(&mut self, poller: Handle, notice: Notice) {
        let shard = poller.shard() as usize;
        if shard != self.0.context.id {
            return self.0.context.shared.send(shard, Message::Notify { poller, notice });
        }
        let Sockets { context, table, schedule } = &mut *self.0;
        // None for a socket that is no poller: a kernel of another shard may call any handle one.
        let undelivered = table.find(poller).and_then(|entry| {
            let Role::Poller(poller) = &mut entry.role else { return None };
            let undelivered = poller.notify(&entry.channel.receive, context.memory(), notice);
            if poller.owes_events() {
                schedule.writing.add(entry);
            }
            Some(undelivered)
        });
        let gone = undelivered.is_none();
        let connections = undelivered.unwrap_or(notice.connections);
        if connections > 0 {
            self.pass_on(notice.socket, poller, connections, gone);
        }
    }

    /// A poller begins to watch a socket, or to watch it otherwise.
    pub(super) fn begin_watch(&mut self, socket: Handle, watch: Watch) {
        let Some(entry) = self.0.table.find(socket) else { return };
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
        let Some(mut visit) = self.0.visit(socket) else { return };
        let alone = visit.entry.watchers.is_empty();
        visit.entry.watchers.add(watch);
        let Visit { entry, schedule, context } = &mut visit;
        let Role::Listener(listener) = &mut entry.role else {
            if !planted(Bug::ReadyNotReported) {
                visit.schedule.report(visit.entry, News::READY);
            }
            return;
        };
        entry.channel.load_head(context);
        listener.forget_taken(&entry.channel.receive, &context.shared);
        let pending = listener.waiting() as u32;
        let unannounced = std::mem::take(&mut listener.unannounced).min(pending);
        if entry.channel.endings.receive {
            schedule.report(entry, News::READY);
        }
        self.announce(socket, if alone { pending } else { unannounced });
    }

    /// A poller no longer watches a socket.
    pub(super) fn end_watch(&mut self, socket: Handle, poller: Handle) {
        if let Some(entry) = self.0.table.find(socket) {
            entry.watchers.remove(poller);
        }
        self.notify(poller, Notice::unwatched(socket));
    }
}

/// What pollers may know of what happened on a socket since they were notified last.
fn happened(entry: &mut Entry) -> u16 {
    let News { readable, writable, ready } = std::mem::take(&mut entry.marks.what);
    let now = entry.readiness();
    let mut happened = if ready { now } else { 0 };
    if readable {
        happened |= now & !POLLOUT;
    }
    if writable {
        happened |= POLLOUT | now & (POLLERR | POLLHUP);
    }
    let carrier = entry.socket.as_ref().and_then(Endpoint::carrier);
    if let (Some(Carrier::Kernels(_)), false) = (carrier, entry.channel.endings.send) {
        // The poller's kernel looks at the space itself.
        happened &= !POLLOUT;
    }
    happened
}

/// Has a poller write the events that it owes. Whether it wrote any.
fn write_events(visit: &mut Visit<'_>) -> bool {
    let Visit { entry, schedule, context } = visit;
    entry.channel.load_head(context);
    let Role::Poller(poller) = &mut entry.role else { return false };
    let written = poller.write(&mut entry.channel.receive, context.memory());
    let owes = poller.owes_events();
    schedule.visits += written;
    if written > 0 {
        entry.channel.publish_receive(context.memory());
    }
    if owes {
        visit.wait_for_head();
    }
    written > 0
}
