//! How much a run does: as much as a test may take, or what `cargo xtask release` asks for.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `GPUNET_LONG` | set: long runs, set by `cargo xtask release` |
//! | `GPUNET_PROGRESS` | a file that takes a line now and then, which the command shows |
//! | `GPUNET_QUEUE_SEEDS` | seeds of interleavings of stream-ordered operations |
//! | `GPUNET_SEED` | run this one case, to see a failure again |
//! | `GPUNET_FIRST_SEED` | the seed of the first case (1), to look where nobody has looked |

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use gpunet_support::testing::is_long;

/// The number in a variable, or `usual`, or `long` in a long run.
///
/// # Panics
/// When the variable holds something else.
#[must_use]
pub fn count(variable: &str, usual: u64, long: u64) -> u64 {
    number(variable).unwrap_or(if is_long() { long } else { usual })
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not `{text}`")))
}

/// Says how far a long run is.
pub fn progress(line: &str) {
    if let Some(path) = std::env::var_os("GPUNET_PROGRESS") {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // Who cannot see the progress still sees the result.
        let line = format!("{line}\n");
        let _ = log.and_then(|mut log| log.write_all(line.as_bytes()));
    }
}

/// Runs cases, one seed after the other, until they come to `wanted`; each says what it adds. The
/// seed of a case that fails is printed, and `GPUNET_SEED` runs it alone.
///
/// # Panics
/// As a case does.
pub fn cases(test: &str, wanted: u64, mut case: impl FnMut(u64) -> u64) {
    if let Some(seed) = number("GPUNET_SEED") {
        case(seed);
        return;
    }
    let first = number("GPUNET_FIRST_SEED").unwrap_or(1);
    let begin = Instant::now();
    let mut reported = begin;
    let (mut done, mut seed) = (0, first);
    while done < wanted {
        match catch_unwind(AssertUnwindSafe(|| case(seed))) {
            Ok(more) => done += more,
            Err(panic) => {
                eprintln!("{test}: the case with GPUNET_SEED={seed} failed");
                resume_unwind(panic);
            }
        }
        seed += 1;
        if reported.elapsed() > Duration::from_secs(5) {
            reported = Instant::now();
            progress(&format!("{test}: {done} of {wanted}, seed {seed}"));
        }
    }
    let line = format!(
        "{test}: {done} in {:.1} s, seeds {first} to {}",
        begin.elapsed().as_secs_f64(),
        seed - 1
    );
    println!("{line}");
    progress(&line);
}
