//! How long a test waits before it reports a hang.
//!
//! No test result depends on the machine's speed: what a test asserts of time is a lower bound, or a comparison
//! with a much longer one. The rest are limits for hangs. They cost nothing while nothing hangs, and grow with
//! the slowness of this machine.

use std::fs::File;
use std::io::Read as _;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Safety factor over the usual time: other programs may keep the machine busy after it was measured.
const RESERVE: u32 = 10;

/// How often the speed is measured; a sample ends after [`LONGEST`], however little was done.
const SAMPLES: usize = 5;
const LONGEST: Duration = Duration::from_millis(10);

/// A limit must end a hang on any machine, before the step of the test command that it is part of is ended.
const SLOWEST: u32 = 32;

/// What was measured, for processes that a test starts: their limits must be those of the test.
const VARIABLE: &str = "GPUNET_SLOWNESS";

/// Random bytes from the system, and how long they take on a usual machine that is not busy. They are computed,
/// by code that is the same in all profiles.
const BYTES: usize = 64 << 10;
const COMPUTING: Duration = Duration::from_micros(500);
const COMPUTED: u32 = 10;

/// A message to another thread and its answer.
const ROUND_TRIP: Duration = Duration::from_micros(50);
const ROUND_TRIPS: u32 = 100;

/// How many times slower than a usual machine this one is, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slowness {
    median: u32,
    maximum: u32,
}

impl Slowness {
    /// Measured once for each process that was not told by the one that started it. It counts what else runs
    /// at that time: an emulated machine computes more slowly, and a busy one is late to run a thread.
    fn here() -> Self {
        static HERE: OnceLock<Slowness> = OnceLock::new();
        *HERE.get_or_init(|| match std::env::var(VARIABLE) {
            Ok(told) => Self::parse(&told)
                .unwrap_or_else(|| panic!("{VARIABLE} is two numbers, as in 1,3: {told:?}")),
            Err(_) => Self::of([(); SAMPLES].map(|()| computing().max(hand_overs()))),
        })
    }

    fn of(mut samples: [u32; SAMPLES]) -> Self {
        samples.sort_unstable();
        let [.., maximum] = samples;
        let kept = |times: u32| times.clamp(1, SLOWEST);
        Self { median: kept(samples[SAMPLES / 2]), maximum: kept(maximum) }
    }

    fn parse(text: &str) -> Option<Self> {
        let (median, maximum) = text.split_once(',')?;
        let (median, maximum) = (median.parse().ok()?, maximum.parse().ok()?);
        let valid = 1 <= median && median <= maximum && maximum <= SLOWEST;
        valid.then_some(Self { median, maximum })
    }
}

/// How many times slower than a usual machine this one is, at least 1: the median of some samples.
#[must_use]
pub fn slowness() -> u32 {
    Slowness::here().median
}

/// How long to wait for what usually takes no longer than `usual`, before it is taken for a hang: by the worst
/// sample, since a limit that is too long costs nothing.
#[must_use]
pub fn hang_limit(usual: Duration) -> Duration {
    usual * RESERVE * Slowness::here().maximum
}

/// Has the limits of a process that a test starts be those of the test.
pub fn share_limits(command: &mut Command) -> &mut Command {
    let Slowness { median, maximum } = Slowness::here();
    command.env(VARIABLE, format!("{median},{maximum}"))
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
        let (usual, here) = (Duration::from_secs(1), Slowness::here());
        println!("{here:?}: computing {}, hand-overs {}", computing(), hand_overs());
        assert!(1 <= here.median && here.median <= here.maximum && here.maximum <= SLOWEST);
        assert_eq!((slowness(), hang_limit(usual)), (here.median, RESERVE * here.maximum * usual));
    }

    #[test]
    fn one_sample_that_was_disturbed_makes_limits_longer_and_nothing_else() {
        assert_eq!(Slowness::of([0, 1, 30, 0, 1]), Slowness { median: 1, maximum: 30 });
        assert_eq!(Slowness::of([4, 99, 3, 4, 5]), Slowness { median: 4, maximum: SLOWEST });
        assert_eq!(Slowness::of([0; SAMPLES]), Slowness { median: 1, maximum: 1 });
    }

    #[test]
    fn a_process_has_the_limits_of_the_one_that_started_it() {
        let mut command = Command::new("printenv");
        let printed = share_limits(command.arg(VARIABLE)).output().expect("it is a usual program");
        let told = String::from_utf8(printed.stdout).expect("it is text");
        assert_eq!(Slowness::parse(told.trim()), Some(Slowness::here()));
        for nonsense in ["", "1", "3,1", "0,0", "1,33", "1,2,3", "a,b"] {
            assert_eq!(Slowness::parse(nonsense), None, "{nonsense:?}");
        }
    }
}
