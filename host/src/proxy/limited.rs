//! A visit of a socket whose bytes must wait because of their net's limits: each attempt to move bytes is
//! granted a number of them first. A socket that gets none queues up ([`throttle`](super::throttle)). How a
//! connection ends is no matter of bytes, and is seen even so.

use super::entry::Entry;
use super::pump::{Most, Moved, Turn};
use super::visit::Visit;
use crate::settings::limits::Withheld;
use crate::transport::Direction;

/// See the module.
pub(super) struct Limited<'v, 'a>(pub(super) &'v mut Visit<'a>);

impl Limited<'_, '_> {
    /// Receives once, as much as fits and is granted.
    pub(super) fn receive(&mut self) -> Moved {
        // No overtaking.
        if self.0.schedule.throttle.is_empty()
            && let Ok(moved) = self.receive_granted()
        {
            return moved;
        }
        // An end or an error is not held up by those that move bytes.
        let pump = self.0.entry.pump(self.0.context);
        let moved = pump.map_or(Moved::NOTHING, |mut pump| pump.probe());
        if moved.turn == Turn::Throttled {
            self.queue_up(Direction::Receive);
        }
        moved
    }

    /// Receives once, if that is granted.
    pub(super) fn receive_granted(&mut self) -> Result<Moved, Withheld> {
        let (entry, context) = (&mut *self.0.entry, &*self.0.context);
        entry.channel.load_head(context);
        let untried = |entry: &mut Entry, turn: Turn| {
            Ok(entry.pump(context).map_or(Moved::NOTHING, |pump| pump.untried(turn)))
        };
        if entry.channel.endings.receive || !entry.is_open() {
            return untried(entry, Turn::Idle);
        }
        let receive = &entry.channel.receive;
        let (capacity, before) = (u64::from(receive.location.capacity), receive.ours);
        let free = capacity - receive.unread();
        if free == 0 {
            return untried(entry, Turn::Full);
        }
        let flying =
            entry.stream().map_or(0, |stream| stream.flow.flying[Direction::Receive as usize]);
        let wanted = free.min(context.pacing().budget_bytes);
        let granted = context.limits().acquire(context.id, Direction::Receive, wanted, flying)?;
        let pump = entry.pump(context);
        let moved = pump.map_or(Moved::NOTHING, |mut pump| pump.receive(Most::Granted(granted)));
        let transferred = entry.channel.receive.ours - before;
        if let Some(stream) = entry.stream() {
            stream.flow.flying[Direction::Receive as usize] += transferred;
        }
        context.limits().release(Direction::Receive, granted - transferred);
        Ok(moved)
    }

    /// Sends as much as there is and is granted.
    pub(super) fn send(&mut self) {
        self.send_under_way();
        let ungranted = self.0.entry.channel.unsent() - self.under_way();
        // No overtaking.
        let waits = ungranted > 0 && !self.0.schedule.throttle.is_empty();
        if waits || self.send_granted().is_err() {
            self.queue_up(Direction::Send);
        }
    }

    /// Sends once, if that is granted. A socket that has more to send queues up after the others.
    pub(super) fn send_granted(&mut self) -> Result<Turn, Withheld> {
        let (unsent, under_way) = (self.0.entry.channel.unsent(), self.under_way());
        if unsent == 0 {
            // Ending the direction costs no bytes.
            return Ok(self.attempt(0));
        }
        if unsent == under_way {
            self.send_under_way();
            // The descriptor will become ready.
            self.0.schedule.off_epoll.push(self.0.entry.handle);
            return Ok(Turn::Idle);
        }
        let (entry, context) = (&mut *self.0.entry, &*self.0.context);
        let flying =
            entry.stream().map_or(0, |stream| stream.flow.flying[Direction::Send as usize]);
        let wanted = (unsent - under_way).min(context.pacing().budget_bytes);
        let granted = context.limits().acquire(context.id, Direction::Send, wanted, flying)?;
        let before = entry.channel.send.ours;
        let turn = self.attempt(under_way + granted);
        // Bytes of a device are on their way once they are granted.
        let gone = self.0.entry.channel.send.ours - before + self.under_way();
        let spent = gone.saturating_sub(under_way).min(granted);
        if let Some(stream) = self.0.entry.stream() {
            stream.flow.flying[Direction::Send as usize] += spent;
        }
        self.0.context.limits().release(Direction::Send, granted - spent);
        if self.0.entry.channel.unsent() == 0 {
            // The kernel may have ended the direction.
            self.attempt(0);
        } else if turn == Turn::Progress {
            self.queue_up(Direction::Send);
        } else {
            // The descriptor will become ready.
            self.0.schedule.off_epoll.push(self.0.entry.handle);
        }
        Ok(turn)
    }

    /// What was granted before needs no grant when it has gone. A device is asked until it has nothing to report:
    /// its descriptor may not report again what it has learned by then.
    fn send_under_way(&mut self) {
        loop {
            let under_way = self.under_way();
            if under_way == 0 || self.attempt(under_way) != Turn::Progress {
                return;
            }
        }
    }

    /// Tries once to send that many bytes, which are granted.
    fn attempt(&mut self, granted: u64) -> Turn {
        let pump = self.0.entry.pump(self.0.context);
        let moved = pump.map_or(Moved::NOTHING, |mut pump| pump.send(Most::Granted(granted)));
        self.0.sent(moved);
        moved.turn
    }

    /// Bytes that a device was given, and has not sent yet.
    fn under_way(&mut self) -> u64 {
        self.0.entry.pump(self.0.context).map_or(0, |pump| pump.under_way())
    }

    /// Puts a direction into the queue, once.
    pub(super) fn queue_up(&mut self, direction: Direction) {
        if self.0.schedule.throttle.add(self.0.entry, direction) {
            self.0.context.counters.throttled.add(1);
        }
    }
}
