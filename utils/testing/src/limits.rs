//! How long a test waits before it reports a hang.
//!
//! No test passes or fails by how fast the machine is: what it asserts of time is a lower bound, or a
//! comparison with a much longer one. The rest are limits for hangs. They cost nothing while nothing hangs, and
//! grow with the slowness of this machine.

use std::fs::File;
use std::io::Read as _;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What a limit has beyond the time that is usual: other programs may keep the machine busy after it was
/// measured.
const RESERVE: u32 = 10;

/// A measurement ends after this, however little was done.
const LONGEST: Duration = Duration::from_millis(10);

/// A limit must end a hang on any machine, before the step of the test command that it is part of is ended.
const SLOWEST: u32 = 12;

/// Random bytes from the system, and how long they take on a usual machine that is not busy. They are computed,
/// by code that is the same in all profiles.
const BYTES: usize = 64 << 10;
const COMPUTING: Duration = Duration::from_micros(500);
const COMPUTED: u32 = 20;

/// A message to another thread and its answer.
const ROUND_TRIP: Duration = Duration::from_micros(50);
const ROUND_TRIPS: u32 = 100;

/// How many times slower this machine is than a usual one, at least 1. It is measured once for each process,
/// so it counts what else runs at that time: an emulated machine computes more slowly, and a busy one is
/// late to run a thread.
#[must_use]
pub fn slowness() -> u32 {
    static SLOWNESS: OnceLock<u32> = OnceLock::new();
    *SLOWNESS.get_or_init(|| computing().max(hand_overs()).clamp(1, SLOWEST))
}

/// How long to wait for what usually takes no longer than `usual`, before it is taken for a hang.
#[must_use]
pub fn hang_limit(usual: Duration) -> Duration {
    usual * RESERVE * slowness()
}

/// How much longer than `usual` one of at most `most` steps takes.
fn compare(usual: Duration, most: u32, mut step: impl FnMut()) -> u32 {
    let (begin, mut done) = (Instant::now(), 0);
    loop {
        step();
        done += 1;
        if done == most || begin.elapsed() >= LONGEST {
            break;
        }
    }
    let times = begin.elapsed().as_nanos() / (usual * done).as_nanos();
    u32::try_from(times).unwrap_or(SLOWEST)
}

fn computing() -> u32 {
    let mut random = File::open("/dev/urandom").expect("the system has random bytes");
    let mut bytes = vec![0; BYTES];
    compare(COMPUTING, COMPUTED, || random.read_exact(&mut bytes).expect("there are always more"))
}

fn hand_overs() -> u32 {
    let (ask, asked) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let other = std::thread::spawn(move || asked.iter().try_for_each(|()| answer.send(())));
    let times = compare(ROUND_TRIP, ROUND_TRIPS, || {
        ask.send(()).expect("the other thread listens");
        answered.recv().expect("the other thread answers");
    });
    drop(ask);
    other.join().expect("the other thread ends").expect("each answer is taken");
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longer_is_slower() {
        let pause = Duration::from_millis(1);
        assert!(compare(pause, 3, || std::thread::sleep(4 * pause)) >= 4);
        assert_eq!(compare(3600 * 1000 * pause, 3, || ()), 0);
    }

    #[test]
    fn a_limit_is_longer_than_what_is_usual() {
        let (usual, slowness) = (Duration::from_secs(1), slowness());
        println!("slowness {slowness}: computing {}, hand-overs {}", computing(), hand_overs());
        assert!((1..=SLOWEST).contains(&slowness));
        assert_eq!(hang_limit(usual), RESERVE * slowness * usual);
    }
}
