//! How sockets go: closed by a kernel, by its end or by the net's, or given back to the program.
//!
//! A closed socket is looked at when something happens on it: its descriptor is ready, bytes of it
//! went, its time is over. [`Shard::remove`] is where it leaves the table, and
//! [`Entry::give_back`] where slot and rings become free.

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;
use gpunet_device::planted::{Bug, planted};

use super::entry::{Closer, Entry, Owner, Phase, Role};
use super::message::{Message, Released};
use super::poller::Notice;
use super::shard::Shard;
use super::shared::Readiness;
use super::stream::StreamPhase;
use crate::transport::{Endpoint, Transferred};

/// How long a transport that cannot disconnect waits for its descriptor to report that it can.
const DISCONNECT_NS: u64 = 10_000_000;
/// How long the other end of a p2p stream may have to wait for the word that this one has ended: a driver that
/// is busy keeps the record of the socket from being closed.
const LOOKS_OPEN_NS: u64 = 100_000_000;

impl Entry {
    /// Whether a closed socket has nothing left to do.
    fn is_done(&mut self, now_ns: u64) -> bool {
        let Phase::Closing { deadline_ns } = self.phase() else { return false };
        now_ns >= deadline_ns
            || self.channel.send_ended && self.socket.as_mut().is_none_or(Endpoint::leave)
    }
}

impl Shard {
    /// Begins to close a socket: its handle is dead at once, what is unsent still goes. False for
    /// a handle that names none.
    pub(crate) fn close(&mut self, handle: Handle, by: Closer, now_ns: u64) -> bool {
        let context = &self.context;
        let Some(entry) = self.table.find(handle) else { return false };
        if entry.is_closing() {
            return false;
        }
        context.memory().withdraw_descriptor(entry.channel.index);
        if by == Closer::Host {
            // The descriptor is withdrawn, so no launch that begins now comes to it.
            let (shared, p2p) = (&context.shared, entry.channel.is_p2p());
            entry.drains = shared.drain.begin(handle, shared.launches.all(), p2p);
            entry.looks_open_until_ns = (entry.drains && p2p).then_some(now_ns + LOOKS_OPEN_NS);
        }
        let watches = entry.watchers.take();
        if matches!(entry.role, Role::Listener(_) | Role::Poller(_)) {
            entry.load_head(context);
        }
        let orphans = entry.drain_pending(&context.shared);
        let undelivered = match &entry.role {
            Role::Poller(poller) => poller.undelivered(&entry.channel.receive),
            _ => Vec::new(),
        };
        if entry.is_open() {
            entry.load_last_tail(context);
        } else {
            entry.channel.send_ended = true;
        }
        entry.channel.receive_ended = true;
        entry.channel.finish_send = true;
        let deadline_ns = now_ns + context.shared.config.linger_ns;
        match &mut entry.role {
            Role::Stream(stream) => stream.phase = StreamPhase::Closing { deadline_ns },
            role => *role = Role::Leaving { deadline_ns },
        }
        self.schedule.end_soon(entry);
        self.context.beat();
        for watch in watches.into_iter().filter(|_| !planted(Bug::WatchLeftBehind)) {
            self.notify(watch.poller, Notice::unwatched(handle));
        }
        for (listener, connections) in undelivered {
            self.pass_on(listener, handle, connections, true);
        }
        for orphan in orphans.into_iter().filter(|_| !planted(Bug::OrphansKept)) {
            let shard = orphan.shard() as usize;
            if shard == self.context.id {
                // A kernel may have taken it from the accept ring at this moment.
                self.close(orphan, Closer::Host, now_ns);
            } else {
                self.context.shared.send(shard, Message::Close(orphan));
            }
        }
        self.pump_send(handle.slot() as usize);
        true
    }

    /// Lets those closed sockets go on which something happened, and that have nothing left to do.
    /// Whether any went.
    pub(crate) fn finish_closing(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        let mut worked = false;
        for handle in std::mem::take(&mut self.schedule.ending) {
            worked |= self.finish(handle, now_ns, io);
        }
        worked
    }

    /// Lets a closed socket go if it has nothing left to do. Whether it is gone.
    pub(super) fn finish(&mut self, handle: Handle, now_ns: u64, io: &mut dyn Readiness) -> bool {
        self.schedule.visits += 1;
        let Some(entry) = self.table.find(handle) else { return true };
        self.schedule.ends_now(entry);
        if entry.drains && entry.channel.is_p2p() {
            // Before it disconnects: the other end would use memory again that groups are inside.
            match entry.looks_open_until_ns {
                Some(until_ns) if now_ns >= until_ns => self.seen_closed(handle),
                Some(until_ns) => self.schedule.arm(entry, until_ns),
                None => {}
            }
            return false;
        }
        if !entry.is_done(now_ns) && entry.has_progress() {
            self.pump_send(handle.slot() as usize);
        }
        let Some(entry) = self.table.find(handle) else { return true };
        let Phase::Closing { deadline_ns } = entry.phase() else { return false };
        if !entry.is_done(now_ns) {
            // It waits for its peer to take what is unsent, or for its transport.
            let waits = entry.channel.send_ended;
            let due_ns = if waits { deadline_ns.min(now_ns + DISCONNECT_NS) } else { deadline_ns };
            self.schedule.arm(entry, due_ns);
            self.schedule.off_epoll.push(handle);
            return false;
        }
        if let Some(socket) = &mut entry.socket {
            // Bytes left unread would turn the close into a reset, which may destroy what was sent
            // last.
            for _ in 0..64 {
                if !matches!(socket.discard(), Ok(Transferred::Bytes(_))) {
                    break;
                }
            }
            if let Some(descriptor) = socket.descriptor() {
                io.remove(descriptor);
            }
        }
        // The system's socket closes before the slot is free: a path can be bound again.
        entry.socket = None;
        if entry.drains {
            return false;
        }
        let Some(mut entry) = self.remove(handle) else { return true };
        entry.give_back(&self.context.shared);
        // Thousands may go at the end of a launch.
        self.context.beat();
        true
    }

    /// Groups find a socket closed that the host has closed: the other end of a p2p stream is notified.
    pub(super) fn seen_closed(&mut self, handle: Handle) {
        if let Some(entry) = self.table.find(handle)
            && entry.looks_open_until_ns.take().is_some()
        {
            self.pump_send(handle.slot() as usize);
        }
    }

    /// No group is inside a call on a socket that the host has closed: its memory may be used again.
    pub(super) fn drained(&mut self, handle: Handle) {
        // Where its record was never looked at.
        self.seen_closed(handle);
        if let Some(entry) = self.table.find(handle)
            && std::mem::take(&mut entry.drains)
        {
            self.schedule.end_soon(entry);
        }
    }

    /// Takes a socket out of table and schedule.
    fn remove(&mut self, handle: Handle) -> Option<Box<Entry>> {
        let mut entry = self.table.remove(handle.slot() as usize)?;
        self.schedule.forget(&mut entry);
        Some(entry)
    }

    /// Sees which connections kernels have taken from the accept rings.
    pub(super) fn commit_accepts(&mut self) {
        for entry in self.table.iter_mut() {
            if entry.phase() == Phase::Listening {
                entry.load_head(&self.context);
                entry.forget_taken(&self.context.shared);
            }
        }
    }

    /// A launch has ended: closes what it left open. All that a launch's end means to a shard is here.
    pub(super) fn launch_ended(&mut self, launch: u32, last: bool, now_ns: u64) {
        self.commit_accepts();
        // Another may have begun since the supervisor looked, and have accepted connections.
        let last = last && !self.context.shared.launches.any_runs();
        let mine =
            |owner: Owner| owner == Owner::Launch(launch) || (last && owner == Owner::AnyLaunch);
        let mut left = Vec::new();
        for entry in self.table.iter_mut().filter(|entry| mine(entry.owner)) {
            let waits = self.context.shared.waiting().contains(&entry.handle.0);
            if waits && !planted(Bug::WaitingClosed) {
                // It goes with its listener, or to whoever accepts it.
                entry.owner = Owner::AnyLaunch;
            } else {
                left.push(entry.handle);
            }
        }
        for handle in left {
            if self.close(handle, Closer::Host, now_ns) {
                self.context.counters.closed_for_kernels.add(1);
            }
        }
    }

    /// Closes listeners of the program, or all of them, and what kernels accepted from them: peers see
    /// the end, and further ones are refused, rather than kept for kernels that do not come.
    pub(super) fn close_listeners(&mut self, which: Option<&[Handle]>, now_ns: u64) {
        let meant = |handle| which.is_none_or(|which| which.contains(&handle));
        let unserved = |entry: &&Entry| match entry.owner {
            Owner::Host => entry.phase() == Phase::Listening && meant(entry.handle),
            Owner::AnyLaunch => meant(entry.accepted_from),
            Owner::Launch(_) => false,
        };
        let left: Vec<Handle> = self.table.iter().filter(unserved).map(|it| it.handle).collect();
        for handle in left {
            if self.close(handle, Closer::Host, now_ns) {
                self.context.counters.closed_for_kernels.add(1);
            }
        }
    }

    /// Closes everything, for a net that goes.
    pub(crate) fn close_all(&mut self, now_ns: u64) {
        if self.context.shared.launches.any_runs() {
            // One that did not stop with its net.
            let sockets = self.table.iter_mut().filter_map(|it| it.socket.as_mut());
            sockets.filter_map(|socket| socket.p2p()).for_each(|p2p| p2p.abandon());
        }
        let all: Vec<Handle> = self.table.iter().map(|entry| entry.handle).collect();
        for handle in all {
            self.close(handle, Closer::Net, now_ns);
            self.drained(handle);
        }
    }

    /// Gives a socket back to the program: EAGAIN while bytes are still to be sent.
    pub(super) fn release(
        &mut self,
        handle: Handle,
        io: &mut dyn Readiness,
    ) -> Result<Released, Errno> {
        let context = &self.context;
        let entry = self.table.find(handle).ok_or(Errno::EBADF)?;
        if !matches!(entry.phase(), Phase::Open | Phase::Listening) {
            return Err(Errno::ENOTCONN);
        }
        if entry.places_bytes() {
            // There is no socket of the system to give.
            return Err(Errno::EOPNOTSUPP);
        }
        if entry.is_open() {
            entry.load_last_tail(context);
        }
        if let Some(errno) = entry.channel.failure {
            return Err(errno);
        }
        if entry.channel.unsent() > 0 {
            return Err(Errno::EAGAIN);
        }
        entry.load_head(context);
        let receive = &entry.channel.receive;
        let unread = if entry.is_open() && !planted(Bug::UnreadLost) {
            let length = receive.unread() as usize;
            context.memory().slice(&receive.location, receive.theirs, length).copy()
        } else {
            Vec::new()
        };
        let mut entry = self.remove(handle).ok_or(Errno::EBADF)?;
        let socket = entry.socket.take().ok_or(Errno::EBADF)?;
        if let Some(descriptor) = socket.descriptor() {
            io.remove(descriptor);
        }
        for watch in entry.watchers.take() {
            self.notify(watch.poller, Notice::unwatched(handle));
        }
        let shared = &self.context.shared;
        for orphan in entry.drain_pending(shared) {
            shared.send(orphan.shard() as usize, Message::Close(orphan));
        }
        entry.give_back(shared);
        let socket = socket.into_descriptor().ok_or(Errno::EOPNOTSUPP)?;
        Ok(Released { socket, unread })
    }
}
