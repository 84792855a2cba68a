//! `usermap`: checks and measures CPU mappings of GPU memory, in the manner of gdrcopy's programs.
//!
//! ```text
//!   main ── options ── bench (a GPU, a mapping of its memory, what was passed over)
//!                        ├─ sanity   every byte right, every mistake refused, nothing left
//!                        ├─ copies   copybw, copylat: beside the driver's own copy
//!                        ├─ apiperf  what mapping and unmapping cost
//!                        └─ pplat    ping-pong with a kernel through a mapped word
//!                      report, statistics
//! ```

mod apiperf;
mod bench;
mod copies;
mod options;
mod pplat;
mod report;
mod sanity;
mod statistics;

use std::process::ExitCode;

use clap::Parser;

use gpunet_apps::failure::Failure;
use gpunet_terminal::output::{complain, explain, print};
use options::{Command, Options};
use report::Report;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return explain("usermap", &error),
    };
    let (json, report) = match &options.command {
        Command::Sanity(options) => (options.common.json, sanity::run(options)),
        Command::Copybw(options) => (options.common.json, copies::bandwidth(options)),
        Command::Copylat(options) => (options.common.json, copies::latency(options)),
        Command::Apiperf(options) => (options.common.json, apiperf::run(options)),
        Command::Pplat(options) => (options.common.json, pplat::run(options)),
    };
    match report.and_then(|report| shown(&report, json)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            complain("usermap", &failure);
            ExitCode::from(failure.exit_status())
        }
    }
}

/// Prints the report; whether all was well.
fn shown(report: &Report, json: bool) -> Result<bool, Failure> {
    print(&if json { report.json()? } else { report.table() })?;
    Ok(report.ok)
}
