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

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use gpunet_apps::failure::Failure;
use gpunet_apps::print::{explain, say};
use gpunet_apps::stop::Stop;
use options::Options;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    log.with_writer(std::io::stderr).init();
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return explain("rstream", &error),
    };
    match act(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("rstream: {failure}"));
            ExitCode::from(failure.exit_status())
        }
    }
}

fn act(options: &Options) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    session::run(options, &options.plan()?, &stop)
}
