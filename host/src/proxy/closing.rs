//! How sockets go: closed by a kernel, by its end or by the net's, or given back to the program.
//!
//! A closed socket is visited when something happens on it: its descriptor is ready, bytes of it
//! went, its time is over. [`Closing::finish`] is where it leaves the table, and
//! [`Entry::give_back`] where slot and rings become free.

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;
use gpunet_device::planted::{Bug, planted};

use super::accepting::commit_accepts;
use super::entry::{Drains, Entry, Owner, Phase, Role};
use super::message::{Message, Released};
use super::notices::Notices;
use super::shared::Readiness;
use super::sockets::Sockets;
use super::visit::Visit;
use super::watchers::Notice;
use crate::transport::{Carrier, Endpoint, Socket as _, Transferred};

/// How long a transport that cannot disconnect waits for its descriptor to report that it can.
const DISCONNECT_NS: u64 = 10_000_000;
/// How long the other end of a p2p stream may have to wait for the word that this one has ended: a driver that
/// is busy keeps the record of the socket from being closed.
const LOOKS_OPEN_NS: u64 = 100_000_000;

/// A closed socket whose peer has taken nothing for so long gives way where slots run out: longer than a message
/// and its answer take between any two places.
const SILENT_NS: u64 = 500_000_000;

/// Who closes a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closer {
    /// A kernel, which has made sure that no group is inside a call on it.
    Kernel,
    /// The host, even if groups are inside a call on it.
    Host,
    /// The host, for a net that goes: its memory stays until the last kernel has ended.
    Net,
}

/// See the module.
pub(super) struct Closing<'a> {
    pub(super) sockets: &'a mut Sockets,
    pub(super) io: &'a mut dyn Readiness,
}

impl Closing<'_> {
    /// Begins to close a socket: its handle is dead at once, what is unsent still goes. False for
    /// a handle that names none.
    pub(super) fn close(&mut self, handle: Handle, by: Closer) -> bool {
        let Some(Visit { entry, schedule, context }) = self.sockets.visit(handle) else {
            return false;
        };
        if entry.is_closing() {
            return false;
        }
        let (shared, now_ns) = (&context.shared, context.now_ns);
        shared.memory.withdraw_descriptor(entry.channel.index);
        if by == Closer::Host {
            // The descriptor is withdrawn, so no launch that begins now comes to it.
            let carrier = entry.socket.as_ref().and_then(Endpoint::carrier);
            let p2p = matches!(carrier, Some(Carrier::Kernels(_)));
            entry.drains = match shared.drain.begin(handle, shared.launches.all(), p2p) {
                true if p2p => Drains::LooksOpen { until_ns: now_ns + LOOKS_OPEN_NS },
                true => Drains::Inside,
                false => Drains::No,
            };
        }
        let watches = entry.watchers.take();
        let (mut waiting, mut undelivered) = (Default::default(), Vec::new());
        match &mut entry.role {
            Role::Listener(listener) => {
                entry.channel.load_head(context);
                waiting = listener.drain(&entry.channel.receive, shared);
            }
            Role::Poller(poller) => {
                entry.channel.load_head(context);
                undelivered = poller.undelivered(&entry.channel.receive);
            }
            _ => {}
        }
        match entry.pump(context) {
            Some(mut pump) => pump.load_last_tail(),
            None => entry.channel.endings.send = true,
        }
        entry.channel.endings.receive = true;
        // The other end of a p2p stream must not learn of it before the groups of this one do.
        let looks_open = matches!(entry.drains, Drains::LooksOpen { .. });
        entry.channel.endings.finish_send |= !looks_open;
        entry.start_leaving(now_ns, now_ns + shared.config.linger_ns);
        schedule.ending.add(entry);
        for orphan in waiting.into_iter().filter(|_| !planted(Bug::OrphansKept)) {
            let shard = orphan.shard() as usize;
            if shard == context.id {
                // A kernel may have taken it from the accept ring at this moment.
                schedule.orphans.push(orphan);
            } else {
                shared.send(shard, Message::Close(orphan));
            }
        }
        context.beat();
        for watch in watches.into_iter().filter(|_| !planted(Bug::WatchLeftBehind)) {
            Notices(self.sockets).notify(watch.poller, Notice::unwatched(handle));
        }
        for (listener, connections) in undelivered {
            Notices(self.sockets).pass_on(listener, handle, connections, true);
        }
        if let Some(mut visit) = self.sockets.visit(handle) {
            visit.send();
        }
        true
    }

    /// Closes sockets that no kernel will use, and removes closed ones on which something happened and
    /// that have nothing left to do. Whether it removed any.
    pub(super) fn finish_all(&mut self) -> bool {
        while let Some(handle) = self.sockets.schedule.orphans.pop() {
            self.close(handle, Closer::Host);
        }
        let mut worked = false;
        for _ in 0..self.sockets.schedule.ending.len() {
            let Some(handle) = self.sockets.schedule.ending.pop() else { break };
            worked |= self.finish(handle);
        }
        worked
    }

    /// Somebody finds no slot, no ring memory or no descriptor: the closed socket goes whose peer has been silent
    /// for longest, unsent bytes or not. A peer that reads is not silent for as long as it takes. Whether one
    /// went.
    pub(super) fn make_room(&mut self) -> bool {
        let Sockets { context, table, .. } = &mut *self.sockets;
        let now_ns = context.now_ns;
        let closed = |entry: &&Entry| entry.is_closing() && entry.drains == Drains::No;
        let oldest = table.iter().filter(closed).min_by_key(|entry| entry.silent_since_ns);
        let Some((handle, since_ns)) = oldest.map(|entry| (entry.handle, entry.silent_since_ns))
        else {
            return false;
        };
        if now_ns.saturating_sub(since_ns) < SILENT_NS {
            return false;
        }
        if let Some(visit) = self.sockets.visit(handle) {
            visit.entry.start_leaving(now_ns, now_ns);
        }
        self.finish(handle)
    }

    /// Lets a closed socket go if it has nothing left to do. Whether it is gone.
    pub(super) fn finish(&mut self, handle: Handle) -> bool {
        let Some(mut visit) = self.sockets.visit(handle) else { return true };
        let now_ns = visit.context.now_ns;
        visit.schedule.ending.visits(visit.entry);
        match visit.entry.drains {
            // Before it disconnects: the other end would use memory again that groups are inside.
            Drains::LooksOpen { until_ns } if now_ns < until_ns => {
                visit.schedule.timers.arm(visit.entry, until_ns);
                return false;
            }
            Drains::LooksOpen { .. } => {
                self.seen_closed(handle);
                return false;
            }
            Drains::LooksClosed => return false,
            Drains::No | Drains::Inside => {}
        }
        let mut done = is_done(visit.entry, now_ns);
        if !done && visit.has_progress() {
            visit.send();
            done = is_done(visit.entry, now_ns);
        }
        let Visit { entry, schedule, .. } = visit;
        let Phase::Closing { deadline_ns } = entry.phase() else { return false };
        if !done {
            // It waits for its peer to take what is unsent, or for its transport.
            let waits = entry.channel.endings.send;
            let due_ns = if waits { deadline_ns.min(now_ns + DISCONNECT_NS) } else { deadline_ns };
            schedule.timers.arm(entry, due_ns);
            schedule.off_epoll.push(handle);
            return false;
        }
        if let Some(mut socket) = entry.socket.take() {
            if let Some(carrier) = socket.carrier_mut() {
                if entry.channel.unsent() > 0 {
                    // The peer must not take what it has for all.
                    carrier.cut_off();
                }
                // Bytes left unread would turn the close into a reset, which may destroy what was sent
                // last.
                let mut left = 64;
                while left > 0 && matches!(carrier.discard(), Ok(Transferred::Bytes(_))) {
                    left -= 1;
                }
            }
            if let Some(descriptor) = socket.descriptor() {
                self.io.remove(descriptor);
            }
            // The system's socket closes before the slot is free: a path can be bound again.
        }
        if entry.drains != Drains::No {
            return false;
        }
        let Some(mut entry) = self.sockets.remove(handle) else { return true };
        entry.give_back(&self.sockets.context.shared);
        // Thousands may go at the end of a launch.
        self.sockets.context.beat();
        true
    }

    /// Groups find a socket closed that the host has closed: the other end of a p2p stream is notified.
    pub(super) fn seen_closed(&mut self, handle: Handle) {
        if let Some(mut visit) = self.sockets.visit(handle)
            && matches!(visit.entry.drains, Drains::LooksOpen { .. })
        {
            visit.entry.drains = Drains::LooksClosed;
            visit.entry.channel.endings.finish_send = true;
            visit.send();
        }
    }

    /// No group is inside a call on a socket that the host has closed: its memory may be used again.
    pub(super) fn drained(&mut self, handle: Handle) {
        // Where its record was never looked at.
        self.seen_closed(handle);
        if let Some(visit) = self.sockets.visit(handle)
            && visit.entry.drains != Drains::No
        {
            visit.entry.drains = Drains::No;
            visit.schedule.ending.add(visit.entry);
        }
    }

    /// A launch has ended: closes what it left open. All that a launch's end means to a shard is here.
    pub(super) fn launch_ended(&mut self, launch: u32, last: bool) {
        commit_accepts(self.sockets);
        let Sockets { context, table, .. } = &mut *self.sockets;
        // Another may have begun since the supervisor looked, and have accepted connections.
        let last = last && !context.shared.launches.any_runs();
        let mine =
            |owner: Owner| owner == Owner::Launch(launch) || (last && owner == Owner::AnyLaunch);
        let mut left = Vec::new();
        for entry in table.iter_mut().filter(|entry| mine(entry.owner)) {
            let waits = context.shared.waiting().contains(&entry.handle.0);
            if waits && !planted(Bug::WaitingClosed) {
                // It goes with its listener, or to whichever kernel accepts it.
                entry.owner = Owner::AnyLaunch;
            } else {
                left.push(entry.handle);
            }
        }
        self.close_for_kernels(left);
    }

    /// Closes listeners of the program, or all of them, and what kernels accepted from them: peers see
    /// the end, and further ones are refused, rather than kept for kernels that do not come.
    pub(super) fn close_listeners(&mut self, which: Option<&[Handle]>) {
        let meant = |handle| which.is_none_or(|which| which.contains(&handle));
        let unserved = self.sockets.select(|entry| match entry.owner {
            Owner::Host => entry.phase() == Phase::Listening && meant(entry.handle),
            Owner::AnyLaunch => meant(entry.accepted_from),
            Owner::Launch(_) => false,
        });
        self.close_for_kernels(unserved);
    }

    /// Closes what kernels have left, and counts it.
    fn close_for_kernels(&mut self, left: Vec<Handle>) {
        for handle in left {
            if self.close(handle, Closer::Host) {
                self.sockets.context.counters.closed_for_kernels.add(1);
            }
        }
    }

    /// Closes everything, for a net that goes.
    pub(super) fn close_all(&mut self) {
        if self.sockets.context.shared.launches.any_runs() {
            // One that did not stop with its net.
            let sockets = self.sockets.table.iter_mut().filter_map(|entry| entry.socket.as_mut());
            for carrier in sockets.filter_map(Endpoint::carrier_mut) {
                if let Carrier::Kernels(peer) = carrier {
                    peer.abandon();
                }
            }
        }
        for handle in self.sockets.select(|_| true) {
            self.close(handle, Closer::Net);
            self.drained(handle);
        }
    }

    /// Gives a socket back to the program: EAGAIN while bytes are still to be sent. One that has failed is
    /// closed: only a kernel could do it else.
    pub(super) fn release(&mut self, handle: Handle) -> Result<Released, Errno> {
        let released = self.take_out(handle);
        let failed = |entry: &mut Entry| entry.channel.endings.failure.is_some();
        if matches!(released, Err(errno) if errno != Errno::EAGAIN)
            && self.sockets.table.find(handle).is_some_and(failed)
        {
            self.close(handle, Closer::Host);
            self.finish(handle);
        }
        released
    }

    fn take_out(&mut self, handle: Handle) -> Result<Released, Errno> {
        let Visit { entry, context, .. } = self.sockets.visit(handle).ok_or(Errno::EBADF)?;
        if !matches!(entry.phase(), Phase::Open | Phase::Listening) {
            return Err(Errno::ENOTCONN);
        }
        let carrier = entry.socket.as_ref().and_then(Endpoint::carrier);
        if !matches!(carrier, None | Some(Carrier::System(_))) {
            // There is no socket of the system to give.
            return Err(Errno::EOPNOTSUPP);
        }
        if let Some(mut pump) = entry.pump(context) {
            pump.load_last_tail();
        }
        if let Some(errno) = entry.channel.endings.failure {
            return Err(errno);
        }
        if entry.channel.unsent() > 0 {
            return Err(Errno::EAGAIN);
        }
        entry.channel.load_head(context);
        let receive = &entry.channel.receive;
        let unread = if entry.is_open() && !planted(Bug::UnreadLost) {
            let length = receive.unread() as usize;
            context.memory().slice(&receive.location, receive.theirs, length).copy()
        } else {
            Vec::new()
        };
        let mut entry = self.sockets.remove(handle).ok_or(Errno::EBADF)?;
        let socket = entry.socket.take().ok_or(Errno::EBADF)?;
        if let Some(descriptor) = socket.descriptor() {
            self.io.remove(descriptor);
        }
        for watch in entry.watchers.take() {
            Notices(self.sockets).notify(watch.poller, Notice::unwatched(handle));
        }
        let shared = &self.sockets.context.shared;
        if let Role::Listener(listener) = &mut entry.role {
            for orphan in listener.drain(&entry.channel.receive, shared) {
                shared.send(orphan.shard() as usize, Message::Close(orphan));
            }
        }
        entry.give_back(shared);
        let socket = socket.into_descriptor().ok_or(Errno::EOPNOTSUPP)?;
        Ok(Released { socket, unread })
    }
}

/// Whether a closed socket has nothing left to do.
fn is_done(entry: &mut Entry, now_ns: u64) -> bool {
    let Phase::Closing { deadline_ns } = entry.phase() else { return false };
    let left = |entry: &mut Entry| {
        let carrier = entry.socket.as_mut().and_then(Endpoint::carrier_mut);
        carrier.is_none_or(|carrier| carrier.leave())
    };
    now_ns >= deadline_ns || entry.channel.endings.send && left(entry)
}
