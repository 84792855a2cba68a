//! The soak: connections of every kind between kernels and programs, for as long as wanted, with
//! what the process holds watched. It must end with nothing lost, nothing hung, nothing leaked.
//!
//! ```text
//!   soak ── rounds, one after the other, drawn from the seed (plan)
//!     ├─ round    kernels on a net, peers in threads and in processes that get killed
//!     │    ├─ kernels  launches; the kernel itself is in host/e2e/kernels/src/soak.rs
//!     │    ├─ end      the program's end of a connection
//!     │    └─ check    what was to happen and what did
//!     ├─ watch    memory, descriptors, threads, children, while nothing is open
//!     └─ tally    sums; read by a watchdog, which ends the program if nothing else does
//! ```

mod check;
mod child;
mod end;
mod kernels;
mod options;
mod plan;
mod round;
mod soak;
mod tally;
mod watch;
mod watchdog;

use std::process::ExitCode;

use gpunet_sockets::Address;
use gpunet_terminal::output::complain;
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
            complain("soak", format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether nothing was lost, hung or leaked.
fn act(options: &Options) -> anyhow::Result<bool> {
    let resolve = |address: &Address| address.resolve().map_err(anyhow::Error::msg);
    if let Some(to) = &options.peer_calls {
        return child::be_caller(&resolve(to)?, &options.terms).map(|()| true);
    }
    if let Some(at) = &options.peer_answers {
        return child::be_answerer(&resolve(at)?).map(|()| true);
    }
    soak::run(options)
}
