//! Sockets whose bytes must wait because of their net's limits.
//!
//! In a net with such limits each attempt to move bytes is granted a number of them first. Who gets
//! none queues up, and the queue is served in order when there is something to grant again; among
//! the threads of a net, the one that has waited longest comes first. How a connection ends is no
//! matter of bytes, and is seen even so.

use std::sync::Arc;

use super::connection::{Connection, Phase, Turn};
use super::shard::Shard;
use crate::settings::limits::Grant;
use crate::transport::{Direction, Socket};

/// Between two looks at what has left the system's buffers, for each of which it is asked.
const SETTLE_NS: u64 = 200_000;

impl Shard {
    /// Receives once at a place, as much as fits and is granted.
    pub(super) fn receive_at(&mut self, place: usize) -> Turn {
        let turn = if self.shared.policy.limits.slow() {
            self.receive_limited(place)
        } else {
            let Some(connection) = &mut self.places[place] else { return Turn::Idle };
            let before = (connection.send.ours, connection.send_ended);
            let turn = connection.pump_receive(&self.shared.memory, &self.counters);
            let sent = (connection.send.ours, connection.send_ended) != before;
            if sent && connection.is_direct() {
                // The other end's kernel has made room, or will not any more.
                self.tell_of_sending(place);
                return turn;
            }
            turn
        };
        self.send_as_heard(place);
        let news = self.places[place].as_ref().is_some_and(|connection| connection.has_news());
        // No edge will come for what was heard of while it was sending.
        if turn == Turn::Idle && news { Turn::Moved } else { turn }
    }

    fn receive_limited(&mut self, place: usize) -> Turn {
        // No overtaking.
        if self.throttled.is_empty()
            && let Ok(turn) = self.receive_granted(place)
        {
            return turn;
        }
        // An end or an error is not held up by those who move bytes.
        let Some(connection) = &mut self.places[place] else { return Turn::Idle };
        let turn = connection.probe(&self.shared.memory, &self.counters);
        if turn == Turn::Throttled {
            self.queue_up(place, Direction::Receive);
        }
        turn
    }

    /// What came may have been word of what was sent, where bytes move by themselves.
    fn send_as_heard(&mut self, place: usize) {
        let Some(connection) = &self.places[place] else { return };
        if connection.places_bytes() && connection.unsent() > 0 {
            self.pump_send(place);
        }
    }

    /// Sends at a place, as much as there is and is granted.
    pub(super) fn send_at(&mut self, place: usize) {
        self.hear_of_sent(place);
        let ungranted = self.places[place].as_ref().map_or(0, |connection| connection.ungranted());
        // No overtaking.
        if ungranted > 0 && !self.throttled.is_empty() || self.send_granted(place).is_err() {
            self.queue_up(place, Direction::Send);
        }
    }

    /// What was granted before and is under way needs no grant when it has gone.
    fn hear_of_sent(&mut self, place: usize) {
        let Some(connection) = &mut self.places[place] else { return };
        let under_way = connection.under_way();
        if under_way == 0 {
            return;
        }
        connection.cap = under_way;
        let turn = connection.pump_send(&self.shared.memory, &self.counters);
        connection.cap = 0;
        if turn == Turn::Moved {
            self.tell_of_sending(place);
        }
    }

    /// Receives once, if that is granted.
    fn receive_granted(&mut self, place: usize) -> Result<Turn, Grant> {
        let shared = Arc::clone(&self.shared);
        let Some(connection) = &mut self.places[place] else { return Ok(Turn::Idle) };
        connection.look_at_head(&shared.memory, &self.counters);
        if connection.receive_ended || connection.phase != Phase::Open {
            return Ok(Turn::Idle);
        }
        let used = connection.receive.ours - connection.receive.theirs;
        let free = u64::from(connection.receive.place.capacity) - used;
        if free == 0 {
            return Ok(Turn::Full);
        }
        let limits = &shared.policy.limits;
        let granted = match limits.take(self.id, Direction::Receive, free, connection.flying_in) {
            Grant::Bytes(bytes) => bytes,
            none => return Err(none),
        };
        let before = connection.receive.ours;
        connection.cap = granted;
        let turn = connection.pump_receive(&shared.memory, &self.counters);
        connection.cap = 0;
        let moved = connection.receive.ours - before;
        connection.flying_in += moved;
        limits.give(Direction::Receive, granted - moved);
        Ok(turn)
    }

    /// Sends once, if that is granted. Who has more to send queues up behind the others.
    fn send_granted(&mut self, place: usize) -> Result<Turn, Grant> {
        let shared = Arc::clone(&self.shared);
        let Some(connection) = &mut self.places[place] else { return Ok(Turn::Idle) };
        let unsent = connection.unsent();
        if unsent == 0 {
            // Ending the direction costs no bytes.
            let turn = connection.pump_send(&shared.memory, &self.counters);
            if turn == Turn::Moved {
                self.tell_of_sending(place);
            }
            return Ok(turn);
        }
        let (ungranted, under_way) = (connection.ungranted(), connection.under_way());
        if ungranted == 0 {
            // The descriptor will tell.
            self.unwatched.push(place as u32);
            return Ok(Turn::Idle);
        }
        let limits = &shared.policy.limits;
        let flying = connection.flying_out;
        let granted = match limits.take(self.id, Direction::Send, ungranted, flying) {
            Grant::Bytes(bytes) => bytes,
            none => return Err(none),
        };
        let before = connection.send.ours;
        connection.cap = under_way + granted;
        let turn = connection.pump_send(&shared.memory, &self.counters);
        connection.cap = 0;
        let moved = connection.send.ours - before;
        // Bytes that move by themselves are on their way once they are granted.
        let spent = if connection.places_bytes() { granted } else { moved };
        connection.flying_out += spent;
        limits.give(Direction::Send, granted - spent);
        let more = connection.unsent() > 0;
        if !more {
            // The kernel may have ended the direction.
            connection.pump_send(&shared.memory, &self.counters);
        }
        if turn == Turn::Moved {
            self.tell_of_sending(place);
        }
        match (turn, more) {
            (Turn::Moved, true) => self.queue_up(place, Direction::Send),
            // The descriptor will tell.
            (_, true) => self.unwatched.push(place as u32),
            _ => {}
        }
        Ok(turn)
    }

    /// Puts a direction of a socket into the queue, once.
    fn queue_up(&mut self, place: usize, direction: Direction) {
        let Some(connection) = &mut self.places[place] else { return };
        let queued = connection.queued(direction);
        if !*queued {
            *queued = true;
            self.throttled.push_back((connection.handle, direction));
            self.counters.throttled.add(1);
        }
    }

    /// Serves the queue as far as there is something to grant.
    pub(super) fn retry_throttled(&mut self, now_ns: u64) -> bool {
        if !self.shared.policy.limits.slow() {
            return false;
        }
        if std::mem::take(&mut self.throttled_gone) {
            let mut queue = std::mem::take(&mut self.throttled);
            queue.retain(|(handle, _)| self.has(*handle));
            self.throttled = queue;
        }
        let waits = std::mem::take(&mut self.waits_for_time);
        self.shared.policy.limits.refill(now_ns, self.id, waits);
        self.settle(now_ns);
        let mut worked = false;
        // Who is served may queue up again, for the next turn.
        for _ in 0..self.throttled.len() {
            let Some((handle, direction)) = self.throttled.pop_front() else { break };
            let Some(connection) = self.find(handle) else { continue };
            *connection.queued(direction) = false;
            let place = handle.place() as usize;
            let served = match direction {
                Direction::Receive => self.receive_granted(place),
                Direction::Send => self.send_granted(place),
            };
            match direction {
                _ if served.is_err() => {}
                Direction::Receive => self.send_as_heard(place),
                Direction::Send => self.receive_as_heard(place),
            }
            match (direction, served) {
                (_, Err(grant)) => {
                    self.queue_up(place, direction);
                    if grant == Grant::Nobody {
                        // Its turn has not passed.
                        self.throttled.rotate_right(1);
                        self.waits_for_time = true;
                        break;
                    }
                }
                (Direction::Receive, Ok(Turn::Moved)) => {
                    worked = true;
                    self.tell_of_receiving(place);
                    // There may be more.
                    self.queue_up(place, Direction::Receive);
                }
                (Direction::Receive, Ok(Turn::Full)) => self.wait_for_room(place),
                // Nothing is there: whatever comes is a new edge, for who is watched.
                (Direction::Receive, Ok(_)) => self.unwatched.push(place as u32),
                (Direction::Send, Ok(turn)) => worked |= turn == Turn::Moved,
            }
        }
        worked
    }

    /// Sees which bytes are no longer in flight: read by kernels, or taken by peers.
    fn settle(&mut self, now_ns: u64) {
        let limits = &self.shared.policy.limits;
        if limits.in_flight.is_none() || now_ns < self.settle_at_ns {
            return;
        }
        self.settle_at_ns = now_ns + SETTLE_NS;
        let all = self.places[..self.used].iter_mut().flatten();
        for connection in all.filter(|c| c.flying_in + c.flying_out > 0) {
            connection.look_at_head(&self.shared.memory, &self.counters);
            let (unread, untaken) = (connection.unread(), connection.untaken());
            limits.land(Direction::Receive, connection.flying_in.saturating_sub(unread));
            limits.land(Direction::Send, connection.flying_out.saturating_sub(untaken));
            connection.flying_in = unread.min(connection.flying_in);
            connection.flying_out = untaken.min(connection.flying_out);
        }
    }
}

impl Connection {
    /// Whether its transport has heard of something that concerns the kernel, and that can be told
    /// without waiting for the net's limits.
    pub(super) fn has_news(&self) -> bool {
        let Some(socket) = &self.socket else { return false };
        let receives = !self.receive_ended && !self.queued_receive && self.phase == Phase::Open;
        let sends = self.unsent() > 0;
        receives && socket.has_news(Direction::Receive) || sends && socket.has_news(Direction::Send)
    }

    /// Whether any direction is in the queue.
    pub(super) fn is_queued(&self) -> bool {
        self.queued_receive || self.queued_send
    }

    /// Whether a direction is in the queue.
    fn queued(&mut self, direction: Direction) -> &mut bool {
        match direction {
            Direction::Receive => &mut self.queued_receive,
            Direction::Send => &mut self.queued_send,
        }
    }

    /// Bytes that a kernel has received and will read.
    pub(super) fn unread(&self) -> u64 {
        let open = self.phase == Phase::Open;
        if open { self.receive.ours - self.receive.theirs } else { 0 }
    }

    /// Bytes that its transport has been given, and moves by itself.
    fn under_way(&self) -> u64 {
        let under_way =
            |socket: &dyn Socket| if socket.places_bytes() { socket.untaken() } else { 0 };
        self.socket.as_deref().map_or(0, under_way).min(self.unsent())
    }

    /// Bytes that are still to go, and that nobody has granted.
    fn ungranted(&self) -> u64 {
        self.unsent() - self.under_way()
    }

    /// Bytes that were sent and that the peer has not taken.
    fn untaken(&self) -> u64 {
        match &self.socket {
            Some(socket) if self.flying_out > 0 => socket.untaken(),
            _ => 0,
        }
    }
}
