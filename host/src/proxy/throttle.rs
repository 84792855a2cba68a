//! The queue of sockets whose bytes must wait because of their net's limits. It is served in order when there
//! is something to grant again; among the threads of a net, the one that has waited longest comes first.

use std::collections::VecDeque;

use gpunet_device::Handle;

use super::entry::Entry;
use super::limited::Limited;
use super::pump::Turn;
use super::sockets::Sockets;
use super::table::Table;
use crate::settings::limits::Withheld;
use crate::transport::Direction;

/// The time between two questions to the system about what has left its buffers.
const COMMIT_NS: u64 = 200_000;

/// See the module.
#[derive(Default)]
pub(super) struct Throttle {
    /// Directions of sockets, in the order in which they came.
    queue: VecDeque<(Handle, Direction)>,
    /// Some of these sockets are gone.
    pub(super) some_gone: bool,
    /// The first of them waits for time to bring it something.
    waits_for_time: bool,
    commit_at_ns: u64,
}

impl Throttle {
    /// Whether no socket waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Puts a direction of a socket into the queue, once. Whether it was not there.
    pub(super) fn add(&mut self, entry: &mut Entry, direction: Direction) -> bool {
        let handle = entry.handle;
        let Some(stream) = entry.stream() else { return false };
        let new = !std::mem::replace(&mut stream.flow.queued[direction as usize], true);
        if new {
            self.queue.push_back((handle, direction));
        }
        new
    }

    /// Drops those that are gone. Whether the first one waited for time when the queue was served last.
    fn tidy(&mut self, table: &Table) -> bool {
        if std::mem::take(&mut self.some_gone) {
            self.queue.retain(|(handle, _)| table.has(*handle));
        }
        std::mem::take(&mut self.waits_for_time)
    }

    /// Whether it is time to see what is no longer in flight.
    fn commit_is_due(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.commit_at_ns;
        if due {
            self.commit_at_ns = now_ns + COMMIT_NS;
        }
        due
    }
}

/// Serves the queue as far as there is something to grant.
pub(super) fn serve(sockets: &mut Sockets) -> bool {
    let (context, now_ns) = (&sockets.context, sockets.context.now_ns);
    if !context.limits().slow() {
        return false;
    }
    let waits_for_time = sockets.schedule.throttle.tidy(&sockets.table);
    context.limits().refill(now_ns, context.id, waits_for_time);
    if context.limits().in_flight.is_some() && sockets.schedule.throttle.commit_is_due(now_ns) {
        commit_in_flight(sockets);
    }
    let mut worked = false;
    // A socket that is served may queue up again, for the next turn.
    for _ in 0..sockets.schedule.throttle.queue.len() {
        let next = sockets.schedule.throttle.queue.pop_front();
        let Some((handle, direction)) = next else { break };
        let Some(mut visit) = sockets.visit(handle) else { continue };
        let Some(stream) = visit.entry.stream() else { continue };
        stream.flow.queued[direction as usize] = false;
        let served = match direction {
            Direction::Receive => {
                let moved = Limited(&mut visit).receive_granted();
                moved.map(|moved| visit.received(moved))
            }
            Direction::Send => Limited(&mut visit).send_granted(),
        };
        match (direction, served) {
            (_, Err(withheld)) => {
                Limited(&mut visit).queue_up(direction);
                if withheld == Withheld::Nobody {
                    // Its turn has not passed: it is the first again, and waits for time.
                    sockets.schedule.throttle.queue.rotate_right(1);
                    sockets.schedule.throttle.waits_for_time = true;
                    break;
                }
            }
            (Direction::Receive, Ok(Turn::Progress)) => {
                worked = true;
                // There may be more.
                Limited(&mut visit).queue_up(direction);
            }
            (Direction::Receive, Ok(Turn::Full)) => visit.wait_for_head(),
            (Direction::Receive, Ok(turn)) => {
                if turn == Turn::FullOrIdle {
                    visit.wait_for_head();
                }
                // Nothing is there: whatever comes is a new edge, for a socket that is watched.
                visit.schedule.off_epoll.push(handle);
            }
            (Direction::Send, Ok(turn)) => worked |= turn == Turn::Progress,
        }
    }
    worked
}

/// Sees which bytes are no longer in flight: read by kernels, or taken by peers.
fn commit_in_flight(sockets: &mut Sockets) {
    let Sockets { context, table, .. } = sockets;
    let limits = context.limits();
    for entry in table.iter_mut() {
        if entry.stream().is_none_or(|stream| stream.flow.flying == [0; 2]) {
            continue;
        }
        entry.channel.load_head(context);
        let unread = if entry.is_open() { entry.channel.receive.unread() } else { 0 };
        let untaken = entry.pump(context).map_or(0, |pump| pump.untaken());
        let Some(stream) = entry.stream() else { continue };
        for (direction, left) in [(Direction::Receive, unread), (Direction::Send, untaken)] {
            let flying = &mut stream.flow.flying[direction as usize];
            limits.land(direction, flying.saturating_sub(left));
            *flying = left.min(*flying);
        }
    }
}
