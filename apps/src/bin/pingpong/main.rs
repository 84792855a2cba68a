//! `pingpong`: a kernel, a message to a peer, its answer, a kernel; in four ways side by side.
//!
//! ```text
//!   main ── options ── run ─┬─ modes    cpu, stream, graph, kernel: how a round goes
//!                           ├─ overlap  computing beside an exchange
//!                           ├─ peer     a thread that sends back what it gets
//!                           ├─ cpu_time of the program's thread and of the proxy's
//!                           └─ report   table, JSON
//! ```

mod cpu_time;
mod modes;
mod options;
mod overlap;
mod peer;
mod report;
mod run;

use std::process::ExitCode;

use clap::Parser;
use gpunet_terminal::output::{complain, explain, show_log};

fn main() -> ExitCode {
    show_log("warn");
    let options = match options::Options::try_parse() {
        Ok(options) => options,
        Err(error) => return explain("pingpong", &error),
    };
    match run::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain("pingpong", &failure);
            ExitCode::from(failure.exit_status())
        }
    }
}
