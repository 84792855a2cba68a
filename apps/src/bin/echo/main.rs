//! `echo`: an echo server and client in GPU kernels, beside the same on the CPU: an example of both ends.
//!
//! ```text
//!   main ── options (command line) ── run ─┬─ pairings, server, client
//!                                          ├─ addresses where the pairings connect, and how they travel
//!                                          ├─ end      what both processors can do
//!                                          │   ├─ gpu  kernels, through gpunet-host
//!                                          │   └─ cpu  threads, on sockets of the system or stock rsocket
//!                                          └─ report   table, JSON
//! ```
//!
//! What it measures is one mean for each size; figures come from `bench` (utils/bench).

mod address;
mod addresses;
mod cpu;
mod end;
mod gpu;
mod options;
mod report;
mod run;

use std::process::ExitCode;

use clap::Parser;
use gpunet_apps::failure::Failure;
use gpunet_apps::stop::Stop;
use gpunet_terminal::output::{complain, explain, show_log};
use options::{Command, Options};

fn main() -> ExitCode {
    show_log("warn");
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return explain("echo", &error),
    };
    match act(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            complain("echo", &failure);
            ExitCode::from(failure.exit_status())
        }
    }
}

/// Whether all that was checked was right.
fn act(options: &Options) -> Result<bool, Failure> {
    let stop = Stop::on_signals()?;
    match &options.command {
        None => run::pairings(&options.run, &stop),
        Some(Command::Server(options)) => run::server(options, &stop),
        Some(Command::Client(options)) => run::client(options, &stop),
    }
}
