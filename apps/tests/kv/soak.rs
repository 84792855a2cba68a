//! The soak: for minutes, clients that know each answer beside others that do their worst. Nothing is
//! lost, nothing hangs, nothing is leaked.
//!
//! ```text
//!   GPUNET_KV_SOAK_SECONDS=600 cargo test -p gpunet-apps --test kv -- --ignored soak
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpunet_support::pattern::Draw;
use gpunet_support::testing::hang_limit;

use crate::abuse::{self, Abuser, Done};
use crate::model::{Checker, scan};
use crate::resp::Client;
use crate::server::{Kv, Statistics, info, number_of};

/// How long an answer takes at most.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);
/// How long a server takes at most to close what its clients have left.
const CLOSED: Duration = Duration::from_secs(2);
const CHECKERS: u64 = 4;

/// What a soak must not find.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An answer is wrong, or its connection ended.
    Lost(String),
    /// An answer did not come in time.
    Hung(String),
    /// Something is left that nobody has any more.
    Leaked(String),
}

impl Failure {
    /// What was done when an exchange failed.
    pub(crate) fn during(what: &str, error: io::Error) -> Self {
        match Self::from(error) {
            Self::Lost(error) => Self::Lost(format!("{what}: {error}")),
            Self::Hung(error) => Self::Hung(format!("{what}: {error}")),
            leaked @ Self::Leaked(_) => leaked,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(what) => write!(f, "lost: {what}"),
            Self::Hung(what) => write!(f, "hung: {what}"),
            Self::Leaked(what) => write!(f, "leaked: {what}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Hung(error.to_string()),
            _ => Self::Lost(error.to_string()),
        }
    }
}

/// What a soak did and found.
struct Summary {
    time: Duration,
    checked: u64,
    done: Done,
    statistics: Statistics,
    failures: Vec<Failure>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |is: fn(&Failure) -> bool| self.failures.iter().filter(|one| is(one)).count();
        let Done { resets, halves, floods, random, killed, .. } = self.done;
        write!(
            f,
            "soak: {:.0} s, {} requests checked of {}, {} connections, {resets} resets, {halves} half \
             requests, {floods} floods, {random} of random bytes, {killed} processes killed; lost {}, \
             hung {}, leaked {}",
            self.time.as_secs_f64(),
            self.checked,
            self.statistics.get("requests"),
            self.statistics.get("accepted"),
            count(|one| matches!(one, Failure::Lost(_))),
            count(|one| matches!(one, Failure::Hung(_))),
            count(|one| matches!(one, Failure::Leaked(_))),
        )
    }
}

/// Until when, and whether anything went wrong.
struct Clock {
    end: Instant,
    failed: AtomicBool,
}

impl Clock {
    /// Does something again and again, so often at least.
    fn repeat(
        &self,
        least: u64,
        mut step: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut steps = 0;
        while steps < least || Instant::now() < self.end {
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
            steps += 1;
            step().inspect_err(|_| self.failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    }
}

/// What a server has while one client is connected that asked for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    clients: u64,
    bytes: u64,
    descriptors: usize,
}

impl Use {
    fn of(kv: &Kv, control: &mut Client) -> Self {
        Self {
            clients: info(control, "connected_clients"),
            bytes: info(control, "used_memory"),
            descriptors: kv.descriptors(),
        }
    }
}

/// Waits until the server has nothing but what it had; what it has.
fn wait_until_steady(kv: &Kv, control: &mut Client, is: impl Fn(Use) -> bool) -> Use {
    let deadline = Instant::now() + hang_limit(CLOSED);
    loop {
        let now = Use::of(kv, control);
        if is(now) || Instant::now() > deadline {
            return now;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads all back, deletes it, and looks for what is left.
fn check_the_end(
    kv: &Kv,
    mut control: Client,
    before: Use,
    checkers: &mut Vec<Checker>,
) -> Result<(), Failure> {
    for checker in checkers.iter_mut() {
        checker.read_back()?;
    }
    let expected: BTreeSet<Vec<u8>> = checkers.iter().flat_map(Checker::keys).cloned().collect();
    let (abused, found): (BTreeSet<_>, BTreeSet<_>) =
        scan(&mut control).into_iter().partition(|key| !key.starts_with(b"checked "));
    if expected != found {
        let (expected, found) = (expected.len(), found.len());
        return Err(Failure::Lost(format!("SCAN finds {found} keys of {expected}, or others")));
    }
    checkers.drain(..).try_for_each(Checker::delete)?;
    // No request is on its way once all clients are gone.
    wait_until_steady(kv, &mut control, |now| now.clients == 1);
    for key in abuse::keys().into_iter().map(String::into_bytes).chain(abused) {
        control.ask(&[b"DEL".as_slice(), &key]);
    }
    let keys = number_of(&mut control, &["DBSIZE"]);
    if keys != 0 {
        return Err(Failure::Leaked(format!("{keys} keys are left")));
    }
    let after = wait_until_steady(kv, &mut control, |now| now == before);
    match after == before {
        true => Ok(()),
        false => Err(Failure::Leaked(format!("{after:?}, before it was {before:?}"))),
    }
}

/// Runs one of so many seconds.
fn soak(time: Duration) -> Summary {
    let kv = Kv::start(&[]);
    let mut control = kv.client();
    let before = wait_until_steady(&kv, &mut control, |_| true);
    abuse::prepare(&mut control);
    let begin = Instant::now();
    let clock = Clock { end: begin + time, failed: AtomicBool::new(false) };
    let mut failures = Vec::new();
    let mut done = Done::default();
    let (address, clock) = (kv.address.as_str(), &clock);
    let mut checkers = std::thread::scope(|scope| {
        let abusers = (0..abuse::ABUSERS).map(|id| {
            scope.spawn(move || {
                let mut abuser = Abuser::new(address, id);
                (clock.repeat(abuse::EACH, || abuser.step()), abuser.done)
            })
        });
        let killer = scope.spawn(move || {
            let (mut draw, mut done) = (Draw::new(1, 23), Done::default());
            let repeated = clock.repeat(1, || {
                done.add(abuse::kill_a_child(address, &mut draw));
                Ok(())
            });
            (repeated, done)
        });
        let abusers: Vec<_> = abusers.chain([killer]).collect();
        let checkers: Vec<_> = (0..CHECKERS)
            .map(|id| {
                scope.spawn(move || {
                    let mut checker = Checker::new(address, id);
                    (clock.repeat(1, || checker.step()), checker)
                })
            })
            .collect();
        for abuser in abusers {
            let (repeated, more) = abuser.join().expect("an abuser");
            failures.extend(repeated.err());
            done.add(more);
        }
        let joined = checkers.into_iter().map(|checker| checker.join().expect("a checker"));
        let (repeated, checkers): (Vec<_>, Vec<_>) = joined.unzip();
        failures.extend(repeated.into_iter().filter_map(Result::err));
        checkers
    });
    let time = begin.elapsed();
    let checked = checkers.iter().map(|checker| checker.checked).sum::<u64>() + done.checked;
    if failures.is_empty() {
        failures.extend(check_the_end(&kv, control, before, &mut checkers).err());
    }
    drop(checkers);
    // The end may fail, too, and hide them.
    for failure in &failures {
        println!("{failure}");
    }
    let statistics = kv.end();
    Summary { time, checked, done, statistics, failures }
}

impl Summary {
    fn assert(&self) {
        assert!(self.failures.is_empty(), "{self}");
        assert_eq!(self.statistics.get("refused"), 0, "{self}");
        assert_eq!(self.statistics.get("keys"), 0, "{self}");
        let Done { resets, halves, floods, random, killed, checked } = self.done;
        assert!([resets, halves, floods, random, killed, checked].iter().all(|done| *done > 0));
        assert!(self.checked > checked, "{self}");
    }
}

#[test]
fn a_short_soak_loses_nothing() {
    soak(Duration::from_secs(5)).assert();
}

#[test]
#[ignore = "a soak: GPUNET_KV_SOAK_SECONDS"]
fn a_long_soak_loses_nothing() {
    let seconds = std::env::var("GPUNET_KV_SOAK_SECONDS");
    let seconds = seconds.map_or(20, |seconds| seconds.parse().expect("a number of seconds"));
    let summary = soak(Duration::from_secs(seconds));
    // Past what the test harness captures.
    let _ = writeln!(io::stdout(), "{summary}");
    summary.assert();
}
