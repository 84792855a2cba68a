//! The steps of a turn that go over many sockets: scans of what kernels wrote, busy polling, and what is due.

use gpunet_device::planted::{Bug, planted};

use super::accepting;
use super::connecting::Connecting;
use super::entry::{Phase, Role};
use super::pump::Turn;
use super::shared::Readiness;
use super::sockets::Sockets;
use super::visit::Visit;

/// At most this many busy sockets are few: each is then tried in every turn for a while.
const FEW_BUSY: usize = 4;

/// See the module.
pub(super) struct Steps<'a> {
    pub(super) sockets: &'a mut Sockets,
    pub(super) io: &'a mut dyn Readiness,
    /// What scans find; kept for its memory.
    pub(super) changed: &'a mut Vec<(usize, u64)>,
}

impl Steps<'_> {
    /// Those that had used their budget and have more go on, in turn.
    pub(super) fn go_on_sending(&mut self) -> bool {
        let sent = |sockets: &Sockets| sockets.context.counters.sent_bytes.get();
        let before = sent(self.sockets);
        let mut worked = false;
        for _ in 0..self.sockets.schedule.sending.len() {
            if sent(self.sockets) - before >= self.sockets.context.pacing().turn_bytes() {
                break;
            }
            let Some(handle) = self.sockets.schedule.sending.pop() else { break };
            let Some(mut visit) = self.sockets.visit(handle) else { continue };
            visit.schedule.sending.visits(visit.entry);
            visit.send();
            worked = true;
        }
        worked
    }

    /// Finds out which kernels have sent.
    pub(super) fn scan_tails(&mut self) -> bool {
        let Sockets { context, table, schedule } = &mut *self.sockets;
        let gpu = context.memory().send_tails(context.id * table.slots(), table.used);
        let busy = !schedule.busy.handles().is_empty();
        schedule.tails.find(&gpu, table.used, busy, self.changed);
        let mut worked = false;
        for (slot, word) in self.changed.drain(..) {
            // Each may send its budget.
            self.sockets.context.beat();
            let Some(mut visit) = self.sockets.visit_slot(slot) else { continue };
            if visit.use_tail(word) {
                worked = true;
            } else {
                // Seen as changed in the next turn, too. No work: it may never be whole.
                visit.schedule.tails.set(slot, !word);
            }
        }
        worked
    }

    /// Tries those sockets that are busy, beginning where the last turn has stopped.
    pub(super) fn poll_busy(&mut self) -> bool {
        let received = |sockets: &Sockets| sockets.context.counters.received_bytes.get();
        let before = received(self.sockets);
        let count = self.sockets.schedule.busy.handles().len();
        let mut worked = false;
        for _ in 0..count {
            if received(self.sockets) - before >= self.sockets.context.pacing().turn_bytes() {
                break;
            }
            let Some(handle) = self.sockets.schedule.busy.next() else { break };
            let Some(mut visit) = self.sockets.visit(handle) else {
                self.sockets.schedule.busy.remove(None);
                continue;
            };
            // Receives, accepts, or finishes to connect: whatever the socket is there for.
            let turn = match visit.entry.phase() {
                Phase::Open => visit.try_stream(),
                Phase::Listening => accepting::accept(self.sockets, handle, self.io),
                Phase::Connecting => {
                    Connecting(&mut visit).finish();
                    // What the peer has sent first may have been received, and makes no edge any more.
                    if visit.entry.is_open() { Turn::Progress } else { Turn::Idle }
                }
                _ => Turn::Idle,
            };
            worked |= turn == Turn::Progress;
            match self.sockets.visit(handle) {
                Some(mut visit) => conclude(&mut visit, turn, count <= FEW_BUSY, self.io),
                None => self.sockets.schedule.busy.remove(None),
            }
        }
        worked
    }

    /// Finds out which kernels have read, accepted or taken events, where a socket waits for that.
    pub(super) fn scan_heads(&mut self) -> bool {
        let Sockets { context, table, schedule } = &mut *self.sockets;
        if schedule.heads.awaited == 0 {
            return false;
        }
        let gpu = context.memory().receive_heads(context.id * table.slots(), table.used);
        let busy = !schedule.busy.handles().is_empty();
        schedule.heads.find(&gpu, table.used, busy, self.changed);
        let mut worked = false;
        for (slot, _) in self.changed.drain(..) {
            let Some(mut visit) = self.sockets.visit_slot(slot) else { continue };
            if !visit.schedule.heads.came(visit.entry) {
                continue;
            }
            let handle = visit.entry.handle;
            worked |= match visit.entry.role {
                Role::Poller(_) => {
                    visit.schedule.writing.add(visit.entry);
                    false
                }
                Role::Listener(_) => {
                    accepting::accept(self.sockets, handle, self.io) == Turn::Progress
                }
                _ => match visit.receive() {
                    Turn::Full | Turn::FullOrIdle => {
                        visit.wait_for_head();
                        true
                    }
                    turn => {
                        visit.schedule.busy.add(visit.entry, 1);
                        turn == Turn::Progress
                    }
                },
            };
        }
        worked
    }

    /// Visits those sockets whose time has come.
    pub(super) fn ring_timers(&mut self) -> bool {
        let now_ns = self.sockets.context.now_ns;
        let mut worked = false;
        while let Some(handle) = self.sockets.schedule.timers.due(now_ns) {
            let Some(mut visit) = self.sockets.visit(handle) else { continue };
            visit.entry.marks.timer_ns = None;
            if visit.entry.is_closing() {
                visit.schedule.ending.add(visit.entry);
                continue;
            }
            worked = true;
            match &mut visit.entry.role {
                Role::Listener(_) => {
                    accepting::accept(self.sockets, handle, self.io);
                }
                Role::Stream(stream) => {
                    if let Some(retry) = stream.retry.take_if(|retry| retry.0 <= now_ns) {
                        Connecting(&mut visit).retry(retry.1);
                    } else if let Some(due_ns) = stream.retry.as_ref().map(|retry| retry.0) {
                        visit.schedule.timers.arm(visit.entry, due_ns);
                    }
                }
                _ => {}
            }
        }
        worked
    }

    /// Has epoll watch those again that are no longer tried in every turn, or wait to send.
    pub(super) fn watch_again(&mut self) {
        while let Some(handle) = self.sockets.schedule.off_epoll.pop() {
            if let Some(mut visit) = self.sockets.visit(handle)
                && !planted(Bug::NotWatchedAgain)
            {
                visit.watch_again(self.io);
            }
        }
    }
}

/// What an attempt at a busy-polled socket means for the next ones.
fn conclude(visit: &mut Visit<'_>, turn: Turn, few: bool, io: &mut dyn Readiness) {
    let turns = &mut visit.entry.marks.busy_turns;
    match turn {
        Turn::Progress | Turn::Once => *turns = visit.context.pacing().busy_turns,
        Turn::Full | Turn::FullOrIdle => *turns = 0,
        // The last attempt found nothing, so whatever comes is a new edge.
        Turn::Idle if !few => *turns = 0,
        Turn::Idle => *turns = turns.saturating_sub(1),
        Turn::BackOff if planted(Bug::BackOffTakenForIdle) => *turns = turns.saturating_sub(1),
        // There may have been an edge since the last attempt.
        Turn::BackOff => {}
        // The queue brings it back.
        Turn::Throttled => *turns = 0,
    }
    if turn == Turn::Progress
        && few
        && let Some(mut pump) = visit.entry.pump(visit.context)
    {
        pump.leave_epoll(io);
    }
    if visit.entry.marks.busy_turns > 0 {
        return visit.schedule.busy.keep();
    }
    visit.schedule.busy.remove(Some(visit.entry));
    if matches!(turn, Turn::Full | Turn::FullOrIdle) {
        visit.wait_for_head();
    }
    // One whose ring is full is brought back by its kernel's head, and by nothing else.
    if turn != Turn::Full {
        visit.schedule.off_epoll.push(visit.entry.handle);
    }
}
