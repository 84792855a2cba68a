//! The watchdog: whether the proxy threads still turn.
//!
//! A kernel that waits watches the heartbeat of its socket's proxy thread by itself. What it cannot
//! see is a thread that it does not wait for alone: a poll over sockets of several threads, or a
//! poller whose sockets others serve. So the supervisor looks at all heartbeats, and ends the waits
//! of all kernels when one stands still for as long as the net's heartbeat timeout.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpunet_device::abi::errno::Errno;

use super::launches::Launches;
use crate::lock::lock;
use crate::proxy::shared::Shared;

/// How many gaps between two looks it takes at least until a thread counts as hanging. The supervisor
/// may have been stopped itself and the proxy threads with it, so a single gap proves nothing, however
/// long it was. More than a few would let a busy machine, where the supervisor rarely has its turn,
/// overlook a thread that hangs.
const GAPS: u32 = 4;

/// The heartbeats of a net as the supervisor has seen them.
pub(super) struct Watchdog {
    threads: Vec<Seen>,
    looked_at: Instant,
    heartbeat_timeout: Duration,
}

#[derive(Default)]
struct Seen {
    beat: u64,
    /// How long it has been so.
    quiet: Duration,
    hangs: bool,
}

impl Watchdog {
    pub(super) fn new(shared: &Shared) -> Self {
        Self {
            threads: shared.queues.iter().map(|_| Seen::default()).collect(),
            looked_at: Instant::now(),
            heartbeat_timeout: Duration::from_nanos(shared.config.heartbeat_timeout_ns),
        }
    }

    /// No kernel runs, and threads may sleep.
    pub(super) fn rest(&mut self) {
        self.looked_at = Instant::now();
        self.threads.iter_mut().for_each(|seen| seen.quiet = Duration::ZERO);
    }

    /// Looks at all heartbeats, while kernels run; ends the waits of all kernels if a thread
    /// hangs. Whether one does.
    pub(super) fn check(&mut self, shared: &Shared, launches: &Mutex<Launches>) -> bool {
        let gap = self.looked_at.elapsed();
        self.looked_at = Instant::now();
        let beat = |thread| shared.memory.last_beat(thread);
        let hangs = self.check_beats(gap, &beat);
        if hangs {
            for launch in &lock(launches).launches {
                launch.stop(Errno::ENETDOWN);
            }
        }
        hangs
    }

    fn check_beats(&mut self, gap: Duration, beat: &dyn Fn(usize) -> u64) -> bool {
        let gap = gap.min(self.heartbeat_timeout / GAPS);
        for (thread, seen) in self.threads.iter_mut().enumerate() {
            let beat = beat(thread);
            if beat != seen.beat {
                if seen.hangs {
                    tracing::warn!(thread, "a proxy thread goes on");
                }
                *seen = Seen { beat, ..Seen::default() };
                continue;
            }
            seen.quiet += gap;
            if seen.quiet >= self.heartbeat_timeout && !seen.hangs {
                seen.hangs = true;
                let heartbeat_timeout = self.heartbeat_timeout;
                tracing::error!(
                    thread,
                    ?heartbeat_timeout,
                    "a proxy thread hangs; kernels are stopped"
                );
            }
        }
        self.threads.iter().any(|seen| seen.hangs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::builder::SHORTEST_HEARTBEAT_TIMEOUT;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_thread_hangs_after_the_heartbeat_timeout_and_until_it_beats_again() {
        let threads = vec![Seen::default(), Seen::default()];
        let mut watchdog =
            Watchdog { threads, looked_at: Instant::now(), heartbeat_timeout: 100 * MS };
        let mut turn = 0;
        let mut look = |stuck: bool| {
            turn += 1;
            watchdog.check_beats(10 * MS, &|thread| if thread == 1 && stuck { 7 } else { turn })
        };
        // The first look sees a new beat.
        assert!(!look(true));
        for _ in 0..9 {
            assert!(!look(true));
        }
        for _ in 0..3 {
            assert!(look(true), "100 ms have passed");
        }
        assert!(!look(false), "it goes on");
        for _ in 0..50 {
            assert!(!look(false));
        }
    }

    #[test]
    fn a_few_long_gaps_are_a_timeout_and_one_is_none() {
        let threads = vec![Seen::default()];
        let mut watchdog = Watchdog {
            threads,
            looked_at: Instant::now(),
            heartbeat_timeout: SHORTEST_HEARTBEAT_TIMEOUT,
        };
        let mut look = || watchdog.check_beats(100 * SHORTEST_HEARTBEAT_TIMEOUT, &|_| 1);
        // The first one sees a new beat. The supervisor may look twice after a stop, before the thread
        // has had its turn.
        for _ in 0..GAPS {
            assert!(!look());
        }
        assert!(look());
    }
}
