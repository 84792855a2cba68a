//! `rstream`: a kernel as the other end of librdmacm's tool of that name, server or client.
//!
//! ```text
//!   main ── options (command line) ── plan   which tests, on how many connections
//!                │                     │
//!                └──────── session ────┘     a net, kernels, what they wrote
//!                             │
//!                           report           the tool's columns, or JSON
//! ```
//!
//! The stock tool at the other end has to be given the same -S, -I, -C and -T v.

mod options;
mod plan;
mod report;
mod results;
mod session;

use std::process::ExitCode;

use clap::Parser;
use gpunet_apps::failure::Failure;
use gpunet_apps::stop::Stop;
use gpunet_terminal::output::{complain, explain, show_log};
use options::Options;

fn main() -> ExitCode {
    show_log("warn");
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return explain("rstream", &error),
    };
    match act(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain("rstream", &failure);
            ExitCode::from(failure.exit_status())
        }
    }
}

fn act(options: &Options) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    session::run(options, &options.plan()?, &stop)
}
