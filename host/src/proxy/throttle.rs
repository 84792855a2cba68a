//! Sockets whose bytes must wait because of their net's limits.
//!
//! In a net with such limits each attempt to move bytes is granted a number of them first. Who gets
//! none queues up, and the queue is served in order when there is something to grant again; among
//! the threads of a net, the one that has waited longest comes first. How a connection ends is no
//! matter of bytes, and is seen even so.

use super::entry::Entry;
use super::shard::Shard;
use super::stream::Turn;
use crate::settings::limits::Grant;
use crate::transport::{Direction, Endpoint};

/// Between two looks at what has left the system's buffers, for each of which it is asked.
const COMMIT_NS: u64 = 200_000;

impl Shard {
    /// Receives once in a slot, as much as fits and is granted, and no more than a socket's budget.
    pub(super) fn receive_at(&mut self, slot: usize) -> Turn {
        let turn = if self.context.limits().slow() {
            self.receive_limited(slot)
        } else {
            let Some(entry) = self.table.get_mut(slot) else { return Turn::Idle };
            let state = |entry: &Entry| (entry.channel.send.ours, entry.channel.send_ended);
            let before = state(entry);
            let turn = entry.pump_receive(&self.context, self.context.pacing().budget_bytes);
            if state(entry) != before && entry.channel.is_p2p() {
                // The other end's kernel has made room, or will not any more.
                self.notify_writable(slot);
                return turn;
            }
            turn
        };
        self.send_after_progress(slot);
        let progress = self.table.get(slot).is_some_and(|entry| entry.has_progress());
        // No edge will come for what was found while it was sending.
        if turn == Turn::Idle && progress { Turn::Progress } else { turn }
    }

    fn receive_limited(&mut self, slot: usize) -> Turn {
        // No overtaking.
        if self.schedule.throttled.queue.is_empty()
            && let Ok(turn) = self.receive_granted(slot)
        {
            return turn;
        }
        // An end or an error is not held up by those who move bytes.
        let Some(entry) = self.table.get_mut(slot) else { return Turn::Idle };
        let turn = entry.probe(&self.context);
        if turn == Turn::Throttled {
            self.queue_up(slot, Direction::Receive);
        }
        turn
    }

    /// What came may have been word of what was sent, where bytes move by themselves.
    fn send_after_progress(&mut self, slot: usize) {
        let Some(entry) = self.table.get(slot) else { return };
        if entry.places_bytes() && entry.channel.unsent() > 0 {
            self.pump_send(slot);
        }
    }

    /// Sends in a slot, as much as there is and is granted.
    pub(super) fn send_at(&mut self, slot: usize) {
        self.send_progress(slot);
        let ungranted = self.table.get(slot).map_or(0, |entry| entry.ungranted());
        // No overtaking.
        let waits = ungranted > 0 && !self.schedule.throttled.queue.is_empty();
        if waits || self.send_granted(slot).is_err() {
            self.queue_up(slot, Direction::Send);
        }
    }

    /// What was granted before and is under way needs no grant when it has gone.
    fn send_progress(&mut self, slot: usize) {
        let Some(entry) = self.table.get_mut(slot) else { return };
        let under_way = entry.under_way();
        if under_way > 0 && entry.pump_send(&self.context, under_way) == Turn::Progress {
            self.notify_writable(slot);
        }
    }

    /// Receives once, if that is granted.
    fn receive_granted(&mut self, slot: usize) -> Result<Turn, Grant> {
        let context = &self.context;
        let Some(entry) = self.table.get_mut(slot) else { return Ok(Turn::Idle) };
        entry.load_head(context);
        if entry.channel.receive_ended || !entry.is_open() {
            return Ok(Turn::Idle);
        }
        let receive = &entry.channel.receive;
        let (capacity, before) = (u64::from(receive.location.capacity), receive.ours);
        let free = capacity - receive.unread();
        if free == 0 {
            return Ok(Turn::Full);
        }
        let flying = entry.stream().map_or(0, |stream| stream.flow.received);
        let wanted = free.min(context.pacing().budget_bytes);
        let granted = match context.limits().acquire(context.id, Direction::Receive, wanted, flying)
        {
            Grant::Bytes(bytes) => bytes,
            none => return Err(none),
        };
        let turn = entry.pump_receive(context, granted);
        let transferred = entry.channel.receive.ours - before;
        if let Some(stream) = entry.stream_mut() {
            stream.flow.received += transferred;
        }
        context.limits().release(Direction::Receive, granted - transferred);
        Ok(turn)
    }

    /// Sends once, if that is granted. Who has more to send queues up behind the others.
    fn send_granted(&mut self, slot: usize) -> Result<Turn, Grant> {
        let context = &self.context;
        let Some(entry) = self.table.get_mut(slot) else { return Ok(Turn::Idle) };
        if entry.channel.unsent() == 0 {
            // Ending the direction costs no bytes.
            let turn = entry.pump_send(context, 0);
            if turn == Turn::Progress {
                self.notify_writable(slot);
            }
            return Ok(turn);
        }
        let (ungranted, under_way) = (entry.ungranted(), entry.under_way());
        if ungranted == 0 {
            // The descriptor will become ready.
            self.schedule.off_epoll.push(entry.handle);
            return Ok(Turn::Idle);
        }
        let flying = entry.stream().map_or(0, |stream| stream.flow.sent);
        let wanted = ungranted.min(context.pacing().budget_bytes);
        let granted = match context.limits().acquire(context.id, Direction::Send, wanted, flying) {
            Grant::Bytes(bytes) => bytes,
            none => return Err(none),
        };
        let before = entry.channel.send.ours;
        let turn = entry.pump_send(context, under_way + granted);
        let transferred = entry.channel.send.ours - before;
        // Bytes that move by themselves are on their way once they are granted.
        let spent = if entry.places_bytes() { granted } else { transferred };
        if let Some(stream) = entry.stream_mut() {
            stream.flow.sent += spent;
        }
        context.limits().release(Direction::Send, granted - spent);
        let more = entry.channel.unsent() > 0;
        if !more {
            // The kernel may have ended the direction.
            entry.pump_send(context, 0);
        }
        let handle = entry.handle;
        if turn == Turn::Progress {
            self.notify_writable(slot);
        }
        match (turn, more) {
            (Turn::Progress, true) => self.queue_up(slot, Direction::Send),
            // The descriptor will become ready.
            (_, true) => self.schedule.off_epoll.push(handle),
            _ => {}
        }
        Ok(turn)
    }

    /// Puts a direction of a socket into the queue, once.
    fn queue_up(&mut self, slot: usize, direction: Direction) {
        let Some(entry) = self.table.get_mut(slot) else { return };
        let handle = entry.handle;
        let Some(stream) = entry.stream_mut() else { return };
        if !std::mem::replace(stream.flow.queued(direction), true) {
            self.schedule.throttled.queue.push_back((handle, direction));
            self.context.counters.throttled.add(1);
        }
    }

    /// Serves the queue as far as there is something to grant.
    pub(super) fn retry_throttled(&mut self, now_ns: u64) -> bool {
        if !self.context.limits().slow() {
            return false;
        }
        let throttled = &mut self.schedule.throttled;
        if std::mem::take(&mut throttled.some_gone) {
            let table = &self.table;
            throttled.queue.retain(|(handle, _)| table.has(*handle));
        }
        let waits = std::mem::take(&mut throttled.waits_for_time);
        self.context.limits().refill(now_ns, self.context.id, waits);
        self.commit_in_flight(now_ns);
        let mut worked = false;
        // Who is served may queue up again, for the next turn.
        for _ in 0..self.schedule.throttled.queue.len() {
            let next = self.schedule.throttled.queue.pop_front();
            let Some((handle, direction)) = next else { break };
            let Some(stream) = self.table.find(handle).and_then(|it| it.stream_mut()) else {
                continue;
            };
            *stream.flow.queued(direction) = false;
            let slot = handle.slot() as usize;
            let served = match direction {
                Direction::Receive => self.receive_granted(slot),
                Direction::Send => self.send_granted(slot),
            };
            match direction {
                _ if served.is_err() => {}
                Direction::Receive => self.send_after_progress(slot),
                Direction::Send => self.receive_after_progress(slot),
            }
            match (direction, served) {
                (_, Err(grant)) => {
                    self.queue_up(slot, direction);
                    if grant == Grant::Nobody {
                        // Its turn has not passed.
                        self.schedule.throttled.queue.rotate_right(1);
                        self.schedule.throttled.waits_for_time = true;
                        break;
                    }
                }
                (Direction::Receive, Ok(Turn::Progress)) => {
                    worked = true;
                    self.notify_readable(slot);
                    // There may be more.
                    self.queue_up(slot, Direction::Receive);
                }
                (Direction::Receive, Ok(Turn::Full)) => self.await_head(slot),
                // Nothing is there: whatever comes is a new edge, for who is watched.
                (Direction::Receive, Ok(_)) => self.schedule.off_epoll.push(handle),
                (Direction::Send, Ok(turn)) => {
                    worked |= turn == Turn::Progress;
                    self.check_done(slot);
                }
            }
        }
        worked
    }

    /// Sees which bytes are no longer in flight: read by kernels, or taken by peers.
    fn commit_in_flight(&mut self, now_ns: u64) {
        let limits = self.context.limits();
        if limits.in_flight.is_none() || now_ns < self.schedule.throttled.commit_at_ns {
            return;
        }
        self.schedule.throttled.commit_at_ns = now_ns + COMMIT_NS;
        let flies = |entry: &Entry| {
            entry.stream().is_some_and(|stream| stream.flow.received + stream.flow.sent > 0)
        };
        for entry in self.table.iter_mut().filter(|entry| flies(entry)) {
            entry.load_head(&self.context);
            let (unread, untaken) = (entry.unread(), entry.untaken());
            let Some(stream) = entry.stream_mut() else { continue };
            let flow = &mut stream.flow;
            limits.land(Direction::Receive, flow.received.saturating_sub(unread));
            limits.land(Direction::Send, flow.sent.saturating_sub(untaken));
            flow.received = unread.min(flow.received);
            flow.sent = untaken.min(flow.sent);
        }
    }
}

impl Entry {
    /// Bytes that its transport has been given, and moves by itself.
    fn under_way(&self) -> u64 {
        let under_way =
            |socket: &Endpoint| if socket.places_bytes() { socket.untaken() } else { 0 };
        self.socket.as_ref().map_or(0, under_way).min(self.channel.unsent())
    }

    /// Bytes that are still to go, and that nobody has granted.
    fn ungranted(&self) -> u64 {
        self.channel.unsent() - self.under_way()
    }

    /// Bytes that were sent and that the peer has not taken.
    fn untaken(&self) -> u64 {
        match (&self.socket, self.stream()) {
            (Some(socket), Some(stream)) if stream.flow.sent > 0 => socket.untaken(),
            _ => 0,
        }
    }
}
