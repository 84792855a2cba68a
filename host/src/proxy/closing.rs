//! How sockets go: closed by a kernel, by its end or by the net's, or given back to the program.

use std::sync::Arc;

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;
use gpunet_device::planted::{Bug, planted};

use super::connection::{Owner, Phase};
use super::message::{Message, Released};
use super::shard::Shard;
use super::shared::Readiness;
use crate::transport::Moved;

/// Who closes a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closer {
    /// A kernel, which has made sure that no group is inside a call on it.
    Kernel,
    /// The host, whoever may be inside.
    Host,
    /// The host, for a net that goes: its memory stays until the last kernel has ended.
    Net,
}

impl Shard {
    /// Begins to close a socket: its handle is dead at once, what is unsent still goes. False for
    /// a handle that names none.
    pub(crate) fn close(&mut self, handle: Handle, by: Closer, now_ns: u64) -> bool {
        let shared = Arc::clone(&self.shared);
        let counters = Arc::clone(&self.counters);
        let Some(connection) = self.find(handle) else { return false };
        if matches!(connection.phase, Phase::Closing { .. }) {
            return false;
        }
        shared.memory.withdraw_card(connection.index);
        if by == Closer::Host {
            // The descriptor is withdrawn, so no launch that begins now comes to it.
            connection.drains = shared.drain.begin(handle, shared.launches.all());
        }
        let (watch, phase) = (connection.watch.take(), connection.phase);
        if phase == Phase::Listening {
            connection.look_at_head(&shared.memory, &counters);
        }
        let orphans = connection.take_pending(&shared);
        if phase == Phase::Open {
            connection.take_last_tail(&shared.memory, &counters);
        } else {
            connection.send_ended = true;
        }
        connection.receive_ended = true;
        connection.finish_send = true;
        connection.phase = Phase::Closing { deadline_ns: now_ns + shared.config.linger_ns };
        let place = handle.place();
        self.closing.push(handle);
        self.beat();
        if let Some(watch) = watch.filter(|_| !planted(Bug::WatchLeftBehind)) {
            self.notify(watch.poller, handle, watch.token, 0);
        }
        for orphan in orphans.into_iter().filter(|_| !planted(Bug::OrphansKept)) {
            let shard = orphan.shard() as usize;
            if shard == self.id {
                // A kernel may have taken it from the accept ring at this moment.
                self.close(orphan, Closer::Host, now_ns);
            } else {
                shared.tell(shard, Message::Close(orphan));
            }
        }
        self.pump_send(place as usize);
        true
    }

    /// Lets those closing sockets go that have nothing left to do. Whether any went.
    pub(crate) fn finish_closing(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        let mut closing = std::mem::take(&mut self.closing);
        let before = closing.len();
        closing.retain(|handle| !self.finish(*handle, now_ns, io));
        self.closing = closing;
        self.closing.len() != before
    }

    /// Lets a closing socket go if it has nothing left to do. Whether it is gone.
    pub(super) fn finish(&mut self, handle: Handle, now_ns: u64, io: &mut dyn Readiness) -> bool {
        let Some(connection) = self.find(handle) else { return true };
        if !connection.is_done(now_ns) {
            if connection.has_news() {
                self.pump_send(handle.place() as usize);
            }
            return false;
        }
        if connection.drains && connection.is_direct() {
            // The other end would use its memory again.
            return false;
        }
        if let Some(socket) = &mut connection.socket {
            // Bytes left unread would turn the close into a reset, which may destroy what was sent
            // last.
            for _ in 0..64 {
                if !matches!(socket.discard(), Ok(Moved::Bytes(_))) {
                    break;
                }
            }
            if let Some(descriptor) = socket.descriptor() {
                io.remove(descriptor);
            }
        }
        // The descriptor closes before the place is free: a path can be bound again.
        connection.socket = None;
        if connection.drains {
            return false;
        }
        let Some(mut connection) = self.places[handle.place() as usize].take() else { return true };
        self.throttled_gone |= connection.is_queued();
        connection.give_back(&self.shared);
        // Thousands may go at the end of a launch.
        self.beat();
        true
    }

    /// No group is inside a call on a socket that the host has closed: its memory may be used again.
    pub(super) fn drained(&mut self, handle: Handle) {
        if let Some(connection) = self.find(handle) {
            connection.drains = false;
        }
    }

    /// Sees which connections kernels have taken from the accept rings.
    pub(super) fn settle_listeners(&mut self) {
        let (shared, counters) = (&self.shared, &self.counters);
        for listener in self.places.iter_mut().flatten() {
            if listener.phase == Phase::Listening {
                listener.look_at_head(&shared.memory, counters);
                listener.forget_taken(shared);
            }
        }
    }

    pub(super) fn close_for_launch(&mut self, launch: u32, last: bool, now_ns: u64) {
        self.settle_listeners();
        // Another may have begun since the supervisor looked, and have accepted connections.
        let last = last && !self.shared.launches.any_runs();
        let mine =
            |owner: Owner| owner == Owner::Launch(launch) || (last && owner == Owner::AnyLaunch);
        let shared = Arc::clone(&self.shared);
        let mut left = Vec::new();
        for connection in self.places.iter_mut().flatten().filter(|c| mine(c.owner)) {
            if shared.waiting().contains(&connection.handle.0) && !planted(Bug::WaitingClosed) {
                // It goes with its listener, or to whoever accepts it.
                connection.owner = Owner::AnyLaunch;
            } else {
                left.push(connection.handle);
            }
        }
        for handle in left {
            if self.close(handle, Closer::Host, now_ns) {
                self.counters.closed_for_kernels.add(1);
            }
        }
    }

    /// Closes everything, for a net that goes.
    pub(crate) fn close_all(&mut self, now_ns: u64) {
        if self.shared.launches.any_runs() {
            // One that did not stop with its net.
            let sockets = self.places.iter_mut().flatten().filter_map(|it| it.socket.as_mut());
            sockets.filter_map(|socket| socket.direct()).for_each(|direct| direct.abandon());
        }
        let all: Vec<Handle> = self.places.iter().flatten().map(|c| c.handle).collect();
        for handle in all {
            self.close(handle, Closer::Net, now_ns);
            if let Some(connection) = self.find(handle) {
                connection.drains = false;
            }
        }
    }

    /// Gives a socket back to the program: EAGAIN while bytes are still to be sent.
    pub(super) fn release(
        &mut self,
        handle: Handle,
        io: &mut dyn Readiness,
    ) -> Result<Released, Errno> {
        let shared = Arc::clone(&self.shared);
        let counters = Arc::clone(&self.counters);
        let connection = self.find(handle).ok_or(Errno::EBADF)?;
        if !matches!(connection.phase, Phase::Open | Phase::Listening) {
            return Err(Errno::ENOTCONN);
        }
        if connection.places_bytes() {
            // There is no socket of the system to give.
            return Err(Errno::EOPNOTSUPP);
        }
        if connection.phase == Phase::Open {
            connection.take_last_tail(&shared.memory, &counters);
        }
        if let Some(errno) = connection.failure {
            return Err(errno);
        }
        if connection.unsent() > 0 {
            return Err(Errno::EAGAIN);
        }
        connection.look_at_head(&shared.memory, &counters);
        let (from, to) = (connection.receive.theirs, connection.receive.ours);
        let unread = if connection.phase == Phase::Open && !planted(Bug::UnreadLost) {
            shared.memory.window(&connection.receive.place, from, (to - from) as usize).copy()
        } else {
            Vec::new()
        };
        let place = handle.place() as usize;
        let mut connection = self.places[place].take().ok_or(Errno::EBADF)?;
        let socket = connection.socket.take().ok_or(Errno::EBADF)?;
        if let Some(descriptor) = socket.descriptor() {
            io.remove(descriptor);
        }
        if let Some(watch) = connection.watch {
            self.notify(watch.poller, handle, watch.token, 0);
        }
        for orphan in connection.take_pending(&shared) {
            shared.tell(orphan.shard() as usize, Message::Close(orphan));
        }
        self.throttled_gone |= connection.is_queued();
        connection.give_back(&shared);
        let socket = socket.into_descriptor().ok_or(Errno::EOPNOTSUPP)?;
        Ok(Released { socket, unread })
    }
}
