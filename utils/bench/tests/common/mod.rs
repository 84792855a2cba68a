//! What the tests of the program share.

use std::process::Command;
use std::time::Duration;

use gpunet_support::testing::Finished;

/// How long a process may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(12);

/// Runs a command to its end, for so long at most.
pub(crate) fn run(mut command: Command) -> Finished {
    gpunet_support::testing::run(&mut command, LIMIT)
}
