//! `echo`: an echo server and client in GPU kernels, beside their twins on the CPU.
//!
//! ```text
//!   main ── options (command line) ── run ─┬─ pairings, server, client
//!                                          ├─ addresses where the pairings meet, and how they travel
//!                                          ├─ measure   how many messages, how many bytes
//!                                          ├─ end       what both processors can do
//!                                          │   ├─ gpu + results   kernels, through gpunet-host
//!                                          │   └─ cpu + socket    threads, on plain sockets or stock rsocket
//!                                          └─ report, progress    table, JSON; what goes on
//! ```
//!
//! `--json` prints one object; `--help` describes it, and `report` holds its types.

mod address;
mod addresses;
mod cpu;
mod end;
mod gpu;
mod machine;
mod measure;
mod options;
mod progress;
mod report;
mod results;
mod run;
mod socket;

use std::process::ExitCode;

use clap::Parser;
use gpunet_apps::failure::Failure;
use gpunet_apps::print::{self, explain, say};
use gpunet_apps::stop::Stop;
use options::{Command, Options};

fn main() -> ExitCode {
    print::show_log();
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return explain("echo", &error),
    };
    match act(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            say(&format!("echo: {failure}"));
            ExitCode::from(failure.exit_status())
        }
    }
}

/// Whether all that was checked was right.
fn act(options: &Options) -> Result<bool, Failure> {
    let stop = Stop::on_signals()?;
    match &options.command {
        None => run::pairings(&options.run, &stop),
        Some(Command::Run(options)) => run::pairings(options, &stop),
        Some(Command::Server(options)) => run::server(options, &stop),
        Some(Command::Client(options)) => run::client(options, &stop),
    }
}
