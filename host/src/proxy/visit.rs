//! A visit of one socket: what a turn does for it. A visit touches this socket, the schedule and the counters,
//! and no other socket; what others must learn of it goes into the schedule.

use super::context::Context;
use super::entry::{Entry, Owner};
use super::limited::Limited;
use super::pump::{Most, Moved, Other, Turn};
use super::schedule::{News, Schedule};
use super::shared::Readiness;
use crate::transport::Socket as _;

/// A socket that receives a stream backs off so long when nothing is there: each attempt takes the system's
/// lock away from the sender, and what comes meanwhile is received in one go.
pub(super) const STREAM_BACK_OFF_NS: u64 = 20_000;

/// See the module.
pub(super) struct Visit<'a> {
    pub(super) entry: &'a mut Entry,
    pub(super) schedule: &'a mut Schedule,
    pub(super) context: &'a mut Context,
}

impl Visit<'_> {
    /// Receives once, as much as fits and is granted, and no more than a socket's budget.
    pub(super) fn receive(&mut self) -> Turn {
        let moved = if self.context.limits().slow() {
            Limited(self).receive()
        } else {
            let most = Most::Copied(self.context.pacing().budget_bytes);
            let pump = self.entry.pump(self.context);
            pump.map_or(Moved::NOTHING, |mut pump| pump.receive(most))
        };
        self.received(moved)
    }

    /// What follows from an attempt to receive.
    pub(super) fn received(&mut self, moved: Moved) -> Turn {
        let mut turn = moved.turn;
        match moved.other {
            Other::Nothing => {}
            Other::Changed => self.schedule.report(self.entry, News::WRITABLE),
            Other::Learned => {
                // What came may have been word of what was sent.
                if self.entry.channel.unsent() > 0 {
                    self.send();
                }
                // No edge will come for what was found while it was sending.
                if turn == Turn::Idle && self.has_progress() {
                    turn = Turn::Progress;
                }
            }
        }
        if turn == Turn::Progress {
            self.schedule.report(self.entry, News::READABLE);
        }
        turn
    }

    /// Sends a socket's budget, or until nothing moves; one whose peer is slow is reported by
    /// epoll.
    pub(super) fn send(&mut self) {
        if self.context.limits().slow() {
            Limited(self).send();
        } else if self.schedule.sending.has(self.entry) {
            // It has had its budget, and its turn comes.
        } else {
            self.send_budget();
        }
    }

    fn send_budget(&mut self) {
        let mut left = self.context.pacing().budget_bytes;
        loop {
            let before = self.entry.channel.send.ours;
            let Some(mut pump) = self.entry.pump(self.context) else { return };
            let moved = pump.send(Most::Copied(left));
            self.sent(moved);
            if moved.turn != Turn::Progress {
                if self.entry.channel.unsent() > 0 {
                    self.schedule.off_epoll.push(self.entry.handle);
                }
                return;
            }
            left = left.saturating_sub(self.entry.channel.send.ours - before);
            if left == 0 {
                return self.schedule.sending.add(self.entry);
            }
        }
    }

    /// What follows from an attempt to send.
    pub(super) fn sent(&mut self, moved: Moved) {
        if matches!(moved.turn, Turn::Progress | Turn::Once) {
            self.schedule.report(self.entry, News::WRITABLE);
            self.entry.silent_since_ns = self.context.now_ns;
        }
        match moved.other {
            Other::Nothing => {}
            Other::Changed => self.schedule.report(self.entry, News::READABLE),
            // Bytes may have come while it was sending.
            Other::Learned => self.schedule.busy.add(self.entry, 1),
        }
        if self.entry.channel.endings.send && self.entry.is_closing() {
            self.schedule.ending.add(self.entry);
        }
    }

    /// Uses a tail that a kernel has written. False: it must be loaded again.
    pub(super) fn use_tail(&mut self, word: u64) -> bool {
        let state = |entry: &Entry| (entry.channel.send.ours, entry.channel.endings.send);
        let before = state(self.entry);
        let Some(mut pump) = self.entry.pump(self.context) else { return true };
        if !pump.use_tail(word) {
            return false;
        }
        if state(self.entry) != before {
            self.schedule.report(self.entry, News::WRITABLE);
        }
        self.send();
        true
    }

    /// Tries a stream that is busy-polled.
    pub(super) fn try_stream(&mut self) -> Turn {
        let now_ns = self.context.now_ns;
        match self.entry.stream() {
            Some(stream) if now_ns < stream.back_off_until_ns => return Turn::BackOff,
            Some(_) => {}
            None => return Turn::Idle,
        }
        let turn = self.receive();
        let stream_bytes = self.context.pacing().stream_bytes;
        if turn == Turn::Idle
            && let Some(stream) = self.entry.stream()
            && stream.one_way >= stream_bytes
        {
            stream.back_off_until_ns = now_ns + STREAM_BACK_OFF_NS;
        }
        turn
    }

    /// The descriptor is ready, or was seen so.
    pub(super) fn is_ready(&mut self) {
        if self.entry.is_closing() {
            self.schedule.ending.add(self.entry);
        } else {
            self.schedule.busy.add(self.entry, self.context.pacing().busy_turns);
        }
        // Writable, perhaps: what waits can go.
        self.send();
    }

    /// Whether its device has made progress that can be published at once.
    pub(super) fn has_progress(&mut self) -> bool {
        self.entry.pump(self.context).is_some_and(|pump| pump.has_progress())
    }

    /// Has it wait for the kernel's next head.
    pub(super) fn wait_for_head(&mut self) {
        self.schedule.heads.wait_for(self.entry, self.context.memory());
    }

    /// It fails: its kernel and its pollers learn of it.
    pub(super) fn fail(&mut self, errno: gpunet_device::Errno) {
        self.entry.channel.fail(errno, self.context);
        self.schedule.report(self.entry, News::READY);
    }

    /// Whatever the GPU's send tail is now belongs to an earlier socket.
    pub(super) fn forget_tail(&mut self) {
        let slot = self.entry.handle.slot() as usize;
        self.schedule.tails.set(slot, self.entry.channel.send.stale);
    }

    /// Has the descriptor reported from now on, and tries it at once.
    pub(super) fn watch_descriptor(&mut self, io: &mut dyn Readiness) {
        let added = match self.entry.socket.as_ref().and_then(|socket| socket.descriptor()) {
            Some(descriptor) => io.add(descriptor, self.entry.handle.0),
            None => Ok(()),
        };
        match added {
            Ok(()) => self.schedule.busy.add(self.entry, 1),
            Err(errno) => self.fail(errno),
        }
    }

    /// Has epoll watch it again, if it was taken off.
    pub(super) fn watch_again(&mut self, io: &mut dyn Readiness) {
        if let Some(stream) = self.entry.stream()
            && std::mem::take(&mut stream.off_epoll)
        {
            stream.moves = 0;
            self.watch_descriptor(io);
        }
    }

    /// Whether it belongs to a launch that does not run: a kernel may ask for a socket and end
    /// without waiting for it. Connections that wait in an accept ring belong to none.
    pub(super) fn is_left_over(&mut self) -> bool {
        let launches = &self.context.shared.launches;
        let lives = match self.entry.owner {
            Owner::Host => true,
            Owner::AnyLaunch => launches.any_runs(),
            Owner::Launch(launch) => launches.runs(launch),
        };
        if lives {
            return false;
        }
        let waits = self.context.shared.waiting().contains(&self.entry.handle.0);
        if waits {
            self.entry.owner = Owner::AnyLaunch;
        }
        !waits
    }
}
