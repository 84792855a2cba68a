//! How late a busy machine is to run a thread of this process.
//!
//! Limits of tests hold for idle processors. A thread that sleeps for a millisecond at a time adds
//! up by how much it is woken too late; a test that was late by no more than that, while it
//! measured, has shown nothing about the code. On an idle machine nothing is added up, and limits
//! are as they stand.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(1);

/// Less may be the system's timer.
const NOTICED: Duration = Duration::from_millis(4);

/// Threads of this process that what is measured waits for, one after the other: the kernel's, the
/// proxy's, the peer's and the one that measures. Each may be as late as the one that sleeps.
const THREADS: u32 = 4;

/// What the thread has lost so far, and when it was last awake, in nanoseconds.
#[derive(Default)]
struct Control {
    lost: AtomicU64,
    awake: AtomicU64,
}

fn control() -> (&'static Control, Instant) {
    static CONTROL: OnceLock<(&'static Control, Instant)> = OnceLock::new();
    *CONTROL.get_or_init(|| {
        let (control, start): (&Control, _) = (Box::leak(Box::default()), Instant::now());
        std::thread::spawn(move || {
            loop {
                let before = start.elapsed();
                control.awake.store(nanoseconds(before), Ordering::Relaxed);
                std::thread::sleep(SLEEP);
                let late = late(start.elapsed().saturating_sub(before));
                control.lost.fetch_add(nanoseconds(late), Ordering::Relaxed);
            }
        });
        (control, start)
    })
}

/// By how much a sleep was too long.
fn late(slept: Duration) -> Duration {
    let late = slept.saturating_sub(SLEEP);
    if late < NOTICED { Duration::ZERO } else { late }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// From some moment on.
#[derive(Clone, Copy, Debug)]
pub struct Lateness {
    before: u64,
}

impl Lateness {
    /// From now on.
    #[must_use]
    pub fn from_now() -> Self {
        Self { before: control().0.lost.load(Ordering::Relaxed) }
    }

    /// How much time was lost since by all threads together, also in a sleep that should be over by
    /// now.
    #[must_use]
    pub fn lost(self) -> Duration {
        let (control, start) = control();
        let awake = Duration::from_nanos(control.awake.load(Ordering::Relaxed));
        let asleep = start.elapsed().saturating_sub(awake);
        let lost = control.lost.load(Ordering::Relaxed) - self.before;
        THREADS * (Duration::from_nanos(lost) + late(asleep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_less_than_what_has_passed() {
        let (begin, lateness) = (Instant::now(), Lateness::from_now());
        std::thread::sleep(20 * SLEEP);
        let lost = lateness.lost();
        // A sleep that began before may end meanwhile.
        let passed = begin.elapsed() + NOTICED;
        assert!(lost <= THREADS * passed, "{lost:?} in {passed:?}");
    }

    #[test]
    fn the_timer_is_no_lateness() {
        assert_eq!(late(SLEEP / 2), Duration::ZERO);
        assert_eq!(late(SLEEP + NOTICED / 2), Duration::ZERO);
        assert_eq!(late(SLEEP + 2 * NOTICED), 2 * NOTICED);
    }
}
