//! What tests of several packages share. All of it panics where a test shall fail.
//!
//! ```text
//!   skip      a test that cannot run here says so, and is counted
//!   folder    a folder that goes with its test
//!   limits    how long it waits for what may hang, on a machine as fast as this one
//!   process   programs that are run to their end, within a limit; none outlives its test
//!   page      what a page of docs/ has its reader do
//!   json      what docs/reference/json.md says of a program's JSON
//! ```

mod folder;
mod json;
mod limits;
mod page;
mod process;

use std::io::Write as _;

pub use folder::Folder;
pub use json::Documented;
pub use limits::{hang_limit, share_limits, slowness};
pub use page::{Step, steps};
pub use process::{Finished, Guarded, run};

/// Whether this is a long run, as `cargo xtask release` makes one by setting `GPUNET_LONG`: tests that repeat or
/// draw their cases do so more often.
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("GPUNET_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Notes that a test cannot run here; the test then returns. Such tests are counted where `GPUNET_SKIP_LOG`
/// names a file.
///
/// # Panics
/// When the file cannot be written.
pub fn skip(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("GPUNET_SKIP_LOG") {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // In one piece, since other test programs may write at the same time.
        let line = format!("{test}: {reason}\n");
        let written = log.and_then(|mut log| log.write_all(line.as_bytes()));
        written.expect("the log of skipped tests can be written");
    }
}
