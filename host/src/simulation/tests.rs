//! Seeds, and the bugs that they must find.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `GPUNET_SIMULATION_SEEDS` | how many seeds are played; 1,000 by default |
//! | `GPUNET_LONG` | 20,000 seeds |
//! | `GPUNET_SIMULATION_FIRST_SEED` | the first of them; 0 by default |
//! | `GPUNET_SIMULATION_SEED` | play this one alone |
//! | `GPUNET_SIMULATION_BUG` | plant this bug alone |
//! | `GPUNET_SIMULATION_ACCESSES` | so many accesses are in the trace; 150 by default |
//!
//! All cores of the machine are used.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use gpunet_device::planted::Bug;

use super::scene::{Kind, play};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Scenes that can show a planted bug, in which it must show. Which seed it is changes with every access that
/// is added anywhere.
const MOST_SCENES: u64 = 1000;
/// The same of the rarest, which needed a few hundred when this was set.
const MOST_SCENES_OF_RAREST: u64 = 1400;
/// Failed seeds after which no more are played.
const MOST_FAILURES: usize = 20;

/// Seeds that have so many of them.
fn most_seeds(bug: Bug) -> u64 {
    let rarest = bug == Bug::BackOffTakenForIdle;
    let scenes = if rarest { MOST_SCENES_OF_RAREST } else { MOST_SCENES };
    if kind_of(bug).is_some() { Kind::COUNT * scenes } else { scenes }
}

/// The scenes that can show a bug, where not all can: only those are played.
fn kind_of(bug: Bug) -> Option<Kind> {
    match bug {
        Bug::BackOffTakenForIdle => Some(Kind::Plain),
        Bug::SendWithGpuFence
        | Bug::UnitsNotRenewed
        | Bug::PacketBeforeTaken
        | Bug::ShutNotKept
        | Bug::DescriptorNotNumbered
        | Bug::PacketFoundByTag
        | Bug::UnitsOfLastStream => Some(Kind::P2p),
        Bug::EventNotOwed
        | Bug::EventNotWithdrawn
        | Bug::WatchLeftBehind
        | Bug::ReadyNotReported
        | Bug::DetachedForgotten
        | Bug::WaitingClosed
        | Bug::OrphansKept
        | Bug::UnreadLost
        | Bug::StopNotCleared
        | Bug::EpochIgnored
        | Bug::UsedAgainTooEarly
        | Bug::CloseByHostNotReported => Some(Kind::Sharing),
        _ => None,
    }
}

fn seeds() -> Range<u64> {
    let long = std::env::var_os("GPUNET_LONG").is_some();
    let first = number("GPUNET_SIMULATION_FIRST_SEED").unwrap_or(0);
    let count = number("GPUNET_SIMULATION_SEEDS").unwrap_or(if long { 20_000 } else { 1000 });
    first..first + count
}

/// Plays seeds on all cores until so many have failed; those, the smallest first, and why.
fn failures(
    seeds: Range<u64>,
    kind: Option<Kind>,
    bug: Option<Bug>,
    most: usize,
) -> Vec<(u64, String)> {
    let next = AtomicU64::new(seeds.start);
    let failures: Mutex<Vec<(u64, String)>> = Mutex::default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Smaller seeds that are still being played may fail, too.
                    let known = failures.lock().unwrap().get(most - 1).map(|(seed, _)| *seed);
                    if seed >= seeds.end || known.is_some_and(|known| known < seed) {
                        return;
                    }
                    let played = seed - seeds.start;
                    if played > 0 && played.is_multiple_of(5000) {
                        eprintln!("{played} of {} seeds played", seeds.end - seeds.start);
                    }
                    if kind.is_some_and(|kind| kind != Kind::of(seed)) {
                        continue;
                    }
                    let Err(why) = play(seed, bug) else { continue };
                    let mut failures = failures.lock().unwrap();
                    failures.push((seed, why));
                    failures.sort_unstable();
                }
            });
        }
    });
    failures.into_inner().unwrap()
}

/// The smallest seed that finds a bug, and how.
fn first_failure(bug: Bug) -> Option<(u64, String)> {
    failures(0..most_seeds(bug), kind_of(bug), Some(bug), 1).into_iter().next()
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

#[test]
fn seeds_are_played_without_a_complaint() {
    if let Some(seed) = number("GPUNET_SIMULATION_SEED") {
        let summary = play(seed, None).unwrap_or_else(|trace| panic!("{trace}"));
        println!("{summary:?}");
        return;
    }
    let failures = failures(seeds(), None, None, MOST_FAILURES);
    if let Some((seed, trace)) = failures.first() {
        let all: Vec<&str> = failures.iter().map(|(_, why)| last_line(why)).collect();
        let all = all.join("\n");
        panic!("{trace}\nfailed:\n{all}\nreplay it alone with GPUNET_SIMULATION_SEED={seed}");
    }
    println!("seeds {:?}: none failed", seeds());
}

#[test]
fn a_seed_is_played_the_same_way_again() {
    for seed in 0..20 {
        assert_eq!(play(seed, None), play(seed, None), "seed {seed}");
    }
    let bug = Bug::WrongWrap;
    let (seed, _) = first_failure(bug).expect("it is found");
    let why = |played: Result<_, String>| played.err().map(|text| last_line(&text).to_owned());
    assert_eq!(why(play(seed, Some(bug))), why(play(seed, Some(bug))), "seed {seed}");
}

#[test]
fn planted_bugs_are_found() {
    let one = std::env::var("GPUNET_SIMULATION_BUG").ok();
    let wanted = |bug: &Bug| one.as_ref().is_none_or(|one| *one == format!("{bug:?}"));
    let mut missed = Vec::new();
    for bug in Bug::ALL.into_iter().filter(wanted) {
        match first_failure(bug) {
            Some((_, why)) => println!("{bug:?}: {}", last_line(&why)),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "no seed finds {missed:?}");
}
