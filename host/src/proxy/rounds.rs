//! The proxy's rounds: when to look at the outside, when to rest, when to end.
//!
//! [`thread`](super::thread) supplies clock, epoll and sleep; the simulation harness supplies its
//! own. What happens in between is the same.

use std::sync::atomic::Ordering;

use super::control::Control;
use super::shard::Shard;
use super::shared::Readiness;

/// Rounds between two looks at epoll while busy sockets are tried directly ...
const BUSY_POLL: u64 = 16;
/// ... or so much time: rounds are long where there are many sockets.
const BUSY_POLL_NS: u64 = 4_000;
/// The first sleep after work: an answer mostly follows soon.
const FIRST_SLEEP_NS: u64 = 10_000;
/// The longest sleep of a thread that has no socket, while kernels run: they ask the first thread for new ones,
/// and this one for nothing but what they still believe of closed ones.
const UNUSED_SLEEP_NS: u64 = 10_000_000;

/// What reports to the shard from outside.
pub(crate) trait Outside: Readiness {
    /// Reports to the shard which sockets are ready, without waiting. Whether any is.
    fn poll(&mut self, shard: &mut Shard) -> bool;
}

/// What comes after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another one, at once.
    Again,
    /// Another one, when others had a chance to run.
    Spin,
    /// Sleep so many nanoseconds, or until something is ready.
    Sleep(u64),
    /// The net is gone, and so are its sockets.
    End,
}

/// The state of the rounds.
#[derive(Default)]
pub(crate) struct Rounds {
    number: u64,
    worked_at: u64,
    looked_at: u64,
    stop_at: Option<u64>,
}

impl Rounds {
    /// One round, at that time.
    pub(crate) fn round(
        &mut self,
        shard: &mut Shard,
        control: &Control,
        now: u64,
        outside: &mut dyn Outside,
    ) -> Next {
        self.number += 1;
        let config = shard.sockets.context.shared.config.clone();
        let mut worked = false;
        let due = self.number.is_multiple_of(BUSY_POLL) || now >= self.looked_at + BUSY_POLL_NS;
        if !shard.is_busy() || due {
            self.looked_at = now;
            worked |= outside.poll(shard);
        }
        // Acquire: pairs with the release below; what other shards sent before is received now.
        let closed = control.closed_shards.load(Ordering::Acquire) as usize;
        let received = shard.receive_messages(now, outside);
        worked |= received;
        worked |= shard.turn(now, outside);
        if control.stopping.load(Ordering::Acquire) {
            let begins = self.stop_at.is_none();
            if begins || received {
                // Another shard may have handed over a connection that it accepted meanwhile.
                shard.close_all(now, outside);
            }
            if begins {
                control.closed_shards.fetch_add(1, Ordering::AcqRel);
            }
            let linger_ns = config.linger_ns.min(config.shutdown_ns);
            let deadline = *self.stop_at.get_or_insert(now + linger_ns);
            let last_message = closed >= shard.sockets.context.shared.queues.len();
            if shard.is_empty() && last_message || now >= deadline {
                return Next::End;
            }
        }
        if worked {
            self.worked_at = now;
            return Next::Again;
        }
        let running = control.running.load(Ordering::Acquire) > 0;
        let unused = shard.sockets.context.id > 0 && shard.is_empty();
        if running && !unused && now - self.worked_at < config.spin_ns {
            return Next::Spin;
        }
        shard.sockets.context.counters.sleeps.add(1);
        shard.watch_before_sleep(outside);
        // As long as nothing has happened: what waits for a time is late by no more than it has
        // waited already, and what waits for a kernel keeps no thread awake.
        let quiet = (now - self.worked_at).max(FIRST_SLEEP_NS);
        Next::Sleep(match running || self.stop_at.is_some() {
            true if unused => quiet.max(config.idle_sleep_ns).min(UNUSED_SLEEP_NS),
            true => quiet.min(config.idle_sleep_ns),
            false => quiet.max(config.idle_sleep_ns).min(config.longest_sleep_ns),
        })
    }
}
