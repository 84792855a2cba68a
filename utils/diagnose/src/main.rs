//! `diagnose`: what of gpunet works on this machine, what does not, and what to do.
//!
//! ```text
//!   main ─┬─ machine   files, and answers of drivers: of this machine, or recorded
//!         ├─ proof     kernels that exchange bytes over every transport
//!         ├─ checks    pure functions of a machine: a group of lines each; pci: the bus
//!         ├─ report    the lines, as text or JSON
//!         └─ bundle    a file for a bug report
//! ```
//!
//! It changes nothing on the machine; what it writes, it was asked for.

mod bundle;
mod checks;
mod kernels;
mod machine;
mod options;
mod pci;
mod proof;
mod report;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use anyhow::Result;
use gpunet_terminal::output::{complain, print, say};

use machine::Machine;
use options::Options;

fn main() -> ExitCode {
    let options = match options::parse() {
        Ok(options) => options,
        Err(status) => return status,
    };
    match act(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain("diagnose", machine::one_line(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

/// Whether kernels can connect here.
fn act(options: &Options) -> Result<bool> {
    let machine = match &options.from {
        Some(folder) => Machine::recorded(folder)?,
        None => {
            let mut machine = Machine::real(Machine::ask());
            if !machine.answers.cuda.devices.is_empty() && io::stderr().is_terminal() {
                say("diagnose: trying kernels; the first time on a GPU its driver compiles them, \
                    up to a minute");
            }
            machine.answers.proofs = proof::prove(checks::first_address(&machine));
            machine
        }
    };
    let report = checks::report(&machine);
    let text = if options.json { report.json() } else { report.text() };
    // A reader who has left, such as `head`, costs nobody the files.
    let printed = print(&text);
    if let Some(folder) = &options.record {
        machine.journal().record(&machine.answers, folder)?;
    }
    if let Some(file) = &options.bundle {
        bundle::write(&machine, &report, file)?;
    }
    printed?;
    Ok(report.runs)
}
