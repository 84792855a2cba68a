//! `kv`: a key-value store on the GPU with the Redis protocol.
//!
//! ```text
//!   main ── options ── server   listener, kernel; the orderly end
//!                        ├─ statistics   what the kernel counted, as text and JSON
//!                        └─ tables       the kernel's memory
//! ```
//!
//! The kernel stands in `apps/kv`.

mod options;
mod server;
mod statistics;
mod tables;

use std::process::ExitCode;

use clap::Parser;
use gpunet_terminal::output::{complain, explain, show_log};
use options::Options;

fn main() -> ExitCode {
    show_log("warn");
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return explain("kv", &error),
    };
    match server::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain("kv", &failure);
            ExitCode::from(failure.exit_status())
        }
    }
}
