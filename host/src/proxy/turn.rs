//! What a turn does for single sockets: the scans of what kernels wrote, busy polling, and each
//! socket's byte budget.

use gpunet_device::Handle;
use gpunet_device::planted::{Bug, planted};

use super::entry::{Phase, Role};
use super::listener::Then;
use super::schedule::Schedule;
use super::shard::Shard;
use super::shared::Readiness;
use super::stream::Turn;

/// So many busy sockets are few.
const FEW_BUSY: usize = 4;

/// A socket that receives a stream backs off so long when nothing is there: each attempt takes the system's
/// lock away from the sender, and what comes meanwhile is received in one go.
pub(super) const STREAM_BACK_OFF_NS: u64 = 20_000;

/// Connections accepted in one turn, so that other sockets get theirs.
const ACCEPTS: usize = 16;

impl Shard {
    /// The descriptor of a socket has something to say.
    pub(crate) fn ready(&mut self, key: u64) {
        let handle = Handle(key);
        let Some(entry) = self.table.find(handle) else { return };
        if entry.phase() == Phase::Connecting {
            self.try_connected(handle);
        }
        let Some(entry) = self.table.find(handle) else { return };
        self.schedule.visits += 1;
        if entry.is_closing() {
            self.schedule.end_soon(entry);
        } else {
            self.schedule.poll_busily(entry, self.context.pacing().busy_turns);
        }
        // Writable, perhaps: what waits can go.
        self.pump_send(handle.slot() as usize);
    }

    /// Tries a socket in the next turn without asking epoll.
    pub(super) fn poll_busily(&mut self, handle: Handle) {
        if let Some(entry) = self.table.find(handle) {
            self.schedule.poll_busily(entry, 1);
        }
    }

    /// Finds out which kernels have sent.
    pub(super) fn scan_tails(&mut self) -> bool {
        let (first, used) = (self.context.id * self.table.slots(), self.table.used());
        let mut changed = std::mem::take(&mut self.schedule.changed);
        let part = self.schedule.tails_to_scan(used, self.is_busy());
        let gpu = self.context.memory().send_tails(first, used);
        let Schedule { tails, senders, .. } = &mut self.schedule;
        tails.compare(&gpu, part, &mut changed);
        for slot in senders.iter().copied().filter(|slot| *slot < used) {
            tails.compare_one(&gpu, slot, &mut changed);
        }
        let mut worked = false;
        for (slot, word) in changed.drain(..) {
            self.schedule.has_sent(slot);
            // Each may send its budget.
            self.context.beat();
            let Some(entry) = self.table.get_mut(slot) else { continue };
            self.schedule.visits += 1;
            let state =
                |entry: &super::entry::Entry| (entry.channel.send.ours, entry.channel.send_ended);
            let before = state(entry);
            if !entry.use_tail(word, &self.context) {
                // Seen as changed in the next turn, too. No work: it may never be whole.
                self.schedule.tails.set(slot, !word);
                continue;
            }
            worked = true;
            let (sent, p2p) = (state(entry) != before, entry.channel.is_p2p());
            if sent {
                self.notify_writable(slot);
            }
            // What the other end has said of bytes that this kernel had not reported makes sense now.
            if p2p && self.receive_at(slot) == Turn::Progress {
                self.notify_readable(slot);
            }
            self.pump_send(slot);
        }
        self.schedule.changed = changed;
        worked
    }

    /// Finds out which kernels have read, accepted or taken events, where a socket waits for that.
    pub(super) fn scan_heads(&mut self, io: &mut dyn Readiness) -> bool {
        if self.schedule.heads_awaited() == 0 {
            return false;
        }
        let (first, used) = (self.context.id * self.table.slots(), self.table.used());
        let mut changed = std::mem::take(&mut self.schedule.changed);
        let part = self.schedule.heads_to_scan(used, self.is_busy());
        let gpu = self.context.memory().receive_heads(first, used);
        self.schedule.heads.compare(&gpu, part, &mut changed);
        let mut worked = false;
        for (slot, _) in changed.drain(..) {
            let Some(entry) = self.table.get_mut(slot) else { continue };
            if self.schedule.head_came(entry) {
                self.schedule.visits += 1;
                worked |= self.use_head(slot, io);
            }
        }
        self.schedule.changed = changed;
        worked
    }

    /// A kernel has moved a head that its socket waited for.
    fn use_head(&mut self, slot: usize, io: &mut dyn Readiness) -> bool {
        let Some(entry) = self.table.get_mut(slot) else { return false };
        let handle = entry.handle;
        match entry.role {
            Role::Poller(_) => {
                self.schedule.write_soon(entry);
                false
            }
            Role::Listener(_) => self.accept_at(slot, io) == Turn::Progress,
            _ => {
                let turn = self.receive_at(slot);
                if turn == Turn::Full {
                    self.await_head(slot);
                    return true;
                }
                if turn == Turn::Progress {
                    self.notify_readable(slot);
                }
                self.poll_busily(handle);
                turn == Turn::Progress
            }
        }
    }

    /// Has the socket in a slot wait for its kernel's next head.
    pub(super) fn await_head(&mut self, slot: usize) {
        if let Some(entry) = self.table.get_mut(slot) {
            self.schedule.await_head(entry, self.context.memory());
        }
    }

    /// Sends a socket's budget, or until nothing moves; one whose peer is slow is reported by
    /// epoll.
    pub(super) fn pump_send(&mut self, slot: usize) {
        let limited = self.context.limits().slow();
        let Some(entry) = self.table.get_mut(slot) else { return };
        if limited {
            self.send_at(slot);
            self.receive_after_progress(slot);
            return self.check_done(slot);
        }
        if entry.marks.sending {
            // It has had its budget, and its turn comes.
            return;
        }
        // What moves by itself takes none of the thread's time.
        let mut left =
            if entry.places_bytes() { u64::MAX } else { self.context.pacing().budget_bytes };
        let mut progressed = false;
        loop {
            let before = entry.channel.send.ours;
            if entry.pump_send(&self.context, left) != Turn::Progress {
                if entry.channel.unsent() > 0 {
                    self.schedule.off_epoll.push(entry.handle);
                }
                break;
            }
            progressed = true;
            left -= entry.channel.send.ours - before;
            if left == 0 {
                self.schedule.send_later(entry);
                break;
            }
        }
        if progressed {
            self.notify_writable(slot);
        }
        self.receive_after_progress(slot);
        self.check_done(slot);
    }

    /// A closed socket that has sent all is looked at.
    pub(super) fn check_done(&mut self, slot: usize) {
        if let Some(entry) = self.table.get_mut(slot)
            && entry.channel.send_ended
            && entry.is_closing()
        {
            self.schedule.end_soon(entry);
        }
    }

    /// Those that had used their budget and have more go on, in turn.
    pub(super) fn go_on_sending(&mut self) -> bool {
        let sent = |this: &Self| this.context.counters.sent_bytes.get();
        let before = sent(self);
        let mut worked = false;
        for _ in 0..self.schedule.sending.len() {
            if sent(self) - before >= self.context.pacing().turn_bytes() {
                break;
            }
            let Some(handle) = self.schedule.sending.pop_front() else { break };
            let Some(entry) = self.table.find(handle) else { continue };
            entry.marks.sending = false;
            self.schedule.visits += 1;
            worked = true;
            self.pump_send(handle.slot() as usize);
        }
        worked
    }

    /// It may have learned of bytes that came while it was sending, where they move by themselves.
    pub(super) fn receive_after_progress(&mut self, slot: usize) {
        if let Some(entry) = self.table.get_mut(slot)
            && entry.places_bytes()
        {
            self.schedule.poll_busily(entry, 1);
        }
    }

    /// Has epoll watch those again that are no longer tried in every turn, or wait to send.
    pub(super) fn watch_again(&mut self, io: &mut dyn Readiness) {
        while let Some(handle) = self.schedule.off_epoll.pop() {
            let Some(entry) = self.table.find(handle) else { continue };
            if let Some(stream) = entry.stream_mut()
                && stream.off_epoll
                && !planted(Bug::NotWatchedAgain)
            {
                stream.off_epoll = false;
                stream.moves = 0;
                self.watch_descriptor(handle, io);
            }
        }
    }

    /// The thread is about to sleep: whatever comes is to wake it.
    pub(crate) fn watch_before_sleep(&mut self, io: &mut dyn Readiness) {
        let Self { schedule, .. } = self;
        schedule.scan_all_next();
        schedule.off_epoll.extend(&schedule.busy);
        self.watch_again(io);
    }

    /// Tries those sockets that are busy, beginning where the last turn has stopped.
    pub(super) fn poll_busy(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        let received = |this: &Self| this.context.counters.received_bytes.get();
        let before = received(self);
        let mut worked = false;
        let few = self.schedule.busy.len() <= FEW_BUSY;
        let mut at = self.schedule.busy_next;
        for _ in 0..self.schedule.busy.len() {
            if received(self) - before >= self.context.pacing().turn_bytes() {
                break;
            }
            if at >= self.schedule.busy.len() {
                at = 0;
            }
            let Some(&handle) = self.schedule.busy.get(at) else { break };
            if !self.table.has(handle) {
                self.schedule.busy.swap_remove(at);
                continue;
            }
            let slot = handle.slot() as usize;
            self.schedule.visits += 1;
            let turn = self.try_slot(slot, now_ns, io);
            worked |= turn == Turn::Progress;
            let Some(entry) = self.table.get_mut(slot) else { continue };
            let turns = &mut entry.marks.busy_turns;
            match turn {
                Turn::Progress => *turns = self.context.pacing().busy_turns,
                Turn::Full => *turns = 0,
                // The last attempt found nothing, so whatever comes is a new edge.
                Turn::Idle if !few => *turns = 0,
                Turn::Idle => *turns = turns.saturating_sub(1),
                Turn::BackOff if planted(Bug::BackOffTakenForIdle) => {
                    *turns = turns.saturating_sub(1)
                }
                // There may have been an edge since the last attempt.
                Turn::BackOff => {}
                // The queue brings it back.
                Turn::Throttled => *turns = 0,
            }
            if turn == Turn::Progress && few {
                entry.leave_epoll(self.context.pacing().often, io);
            }
            if entry.marks.busy_turns > 0 {
                at += 1;
                continue;
            }
            self.schedule.stop_polling(at, entry);
            if turn == Turn::Full {
                self.schedule.await_head(entry, self.context.memory());
            }
            // One whose ring is full is brought back by its kernel's head, and by nothing else.
            if turn != Turn::Full || entry.channel.is_p2p() || entry.places_bytes() {
                self.schedule.off_epoll.push(handle);
            }
        }
        self.schedule.busy_next = at;
        worked
    }

    /// Receives, accepts, or finishes to connect: whatever the socket is there for.
    fn try_slot(&mut self, slot: usize, now_ns: u64, io: &mut dyn Readiness) -> Turn {
        let Some(entry) = self.table.get(slot) else { return Turn::Idle };
        let handle = entry.handle;
        match entry.phase() {
            Phase::Listening => self.accept_at(slot, io),
            Phase::Connecting => {
                self.try_connected(handle);
                let open = self.table.find(handle).is_some_and(|entry| entry.is_open());
                // What the peer has sent first may have been received, and makes no edge any more.
                if open { Turn::Progress } else { Turn::Idle }
            }
            Phase::Open => {
                if entry.stream().is_some_and(|stream| now_ns < stream.back_off_until_ns) {
                    return Turn::BackOff;
                }
                let turn = self.receive_at(slot);
                let stream_bytes = self.context.pacing().stream_bytes;
                if turn == Turn::Idle
                    && let Some(stream) = self.table.get_mut(slot).and_then(|it| it.stream_mut())
                    && stream.one_way >= stream_bytes
                {
                    stream.back_off_until_ns = now_ns + STREAM_BACK_OFF_NS;
                }
                if turn == Turn::Progress {
                    self.notify_readable(slot);
                }
                turn
            }
            _ => Turn::Idle,
        }
    }

    /// Accepts at a listener, and has it wait for what has to come before there is more.
    pub(super) fn accept_at(&mut self, slot: usize, io: &mut dyn Readiness) -> Turn {
        // Out of the table, since new sockets go into it.
        let Some(mut listener) = self.table.remove(slot) else { return Turn::Idle };
        let (mut connections, mut then) = (0, Then::Again);
        for _ in 0..ACCEPTS {
            match listener.accept_next(&self.context) {
                Ok(made) => {
                    let handle = made.handle;
                    // Its shard has it before a kernel can.
                    self.hand_over(made, io);
                    listener.push_handle(&self.context, handle);
                    connections += 1;
                }
                Err(why) => {
                    then = why;
                    break;
                }
            }
        }
        let listener = self.table.insert(listener);
        match then {
            Then::Again => self.schedule.poll_busily(listener, 1),
            Then::Kernel => self.schedule.await_head(listener, self.context.memory()),
            Then::Pause(until_ns) => self.schedule.arm(listener, until_ns),
            Then::Peers => {}
        }
        self.announce(slot, connections);
        let more = matches!(then, Then::Again | Then::Peers);
        if connections > 0 && more { Turn::Progress } else { Turn::Idle }
    }

    /// Looks at those sockets whose time has come.
    pub(super) fn ring_timers(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        let mut worked = false;
        while let Some(handle) = self.schedule.due(now_ns) {
            let Some(entry) = self.table.find(handle) else { continue };
            self.schedule.visits += 1;
            self.schedule.rang(entry);
            if entry.is_closing() {
                self.schedule.end_soon(entry);
                continue;
            }
            worked = true;
            match &mut entry.role {
                Role::Listener(_) => {
                    self.accept_at(handle.slot() as usize, io);
                }
                Role::Stream(stream) => {
                    let retry = stream.retry.take_if(|retry| retry.0 <= now_ns);
                    let reread = stream.reread_ns.take_if(|due_ns| *due_ns <= now_ns);
                    let next = [stream.retry.as_ref().map(|retry| retry.0), stream.reread_ns];
                    if let Some(due_ns) = next.into_iter().flatten().min() {
                        self.schedule.arm(entry, due_ns);
                    }
                    if let Some(retry) = retry {
                        self.retry_connect(handle, retry.1);
                    }
                    if reread.is_some() {
                        self.reread_inbox(handle);
                    }
                }
                _ => {}
            }
        }
        worked
    }
}
