//! Seeds, and the bugs that they must find.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `GPUNET_SIMULATION_SEEDS` | how many seeds are played, from 0 on; 1,000 unless told |
//! | `GPUNET_LONG` | 100,000 seeds |
//! | `GPUNET_SIMULATION_SEED` | play this one alone |
//! | `GPUNET_SIMULATION_BUG` | plant this bug alone |
//! | `GPUNET_SIMULATION_ACCESSES` | so many accesses are in the trace; 150 unless told |

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use gpunet_device::planted::Bug;

use super::scene::play;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Seeds in which a planted bug must show. Which seed it is changes with every access that is added
/// anywhere.
const MOST_SEEDS: u64 = 1000;
/// The same of the rarest, which needed 1,112 when this was set.
const MOST_SEEDS_OF_RAREST: u64 = 4000;

fn most_seeds(bug: Bug) -> u64 {
    if bug == Bug::RestTakenForIdle { MOST_SEEDS_OF_RAREST } else { MOST_SEEDS }
}

fn seeds() -> u64 {
    let long = std::env::var_os("GPUNET_LONG").is_some();
    number("GPUNET_SIMULATION_SEEDS").unwrap_or(if long { 100_000 } else { 1000 })
}

/// Plays seeds on all cores until one fails; the first that does, and why.
fn first_failure(seeds: u64, bug: Option<Bug>) -> Option<(u64, String)> {
    let next = AtomicU64::new(0);
    let failure: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let known = failure.lock().unwrap().as_ref().map(|(seed, _)| *seed);
                    // Smaller seeds that are still being played may fail, too.
                    if seed >= seeds || known.is_some_and(|known| known < seed) {
                        return;
                    }
                    if seed > 0 && seed.is_multiple_of(5000) {
                        eprintln!("{seed} of {seeds} seeds played");
                    }
                    let Err(why) = play(seed, bug) else { continue };
                    let mut failure = failure.lock().unwrap();
                    if failure.as_ref().is_none_or(|(known, _)| seed < *known) {
                        *failure = Some((seed, why));
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap()
}

#[test]
fn seeds_are_played_without_a_complaint() {
    if let Some(seed) = number("GPUNET_SIMULATION_SEED") {
        let summary = play(seed, None).unwrap_or_else(|trace| panic!("{trace}"));
        println!("{summary:?}");
        return;
    }
    if let Some((seed, trace)) = first_failure(seeds(), None) {
        panic!("{trace}\nreplay it alone with GPUNET_SIMULATION_SEED={seed}");
    }
}

#[test]
fn a_seed_is_played_the_same_way_again() {
    for seed in 0..20 {
        assert_eq!(play(seed, None), play(seed, None), "seed {seed}");
    }
    let bug = Some(Bug::WrongWrap);
    let (seed, _) = first_failure(seeds(), bug).expect("it is found");
    let why = |trace: Result<_, String>| {
        trace.err().and_then(|text| text.lines().last().map(str::to_owned))
    };
    assert_eq!(why(play(seed, bug)), why(play(seed, bug)), "seed {seed}");
}

#[test]
fn planted_bugs_are_found() {
    let one = std::env::var("GPUNET_SIMULATION_BUG").ok();
    let wanted = |bug: &Bug| one.as_ref().is_none_or(|one| *one == format!("{bug:?}"));
    let mut missed = Vec::new();
    for bug in Bug::ALL.into_iter().filter(wanted) {
        match first_failure(most_seeds(bug), Some(bug)) {
            Some((_, why)) => println!("{bug:?}: {}", why.lines().last().unwrap_or_default()),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "no seed finds {missed:?}");
}
