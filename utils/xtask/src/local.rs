//! The end-to-end suites once more, straight from kernel to kernel: a selection, or with `--long`
//! all of them. On the emulated GPU; the peers come by a relay.

use std::fs;

use anyhow::Result;

use crate::checks::Context;
use crate::report::Outcome;
use crate::{libtest, shell};

/// Themes of the suite that a run which is not long has time for.
const SHORT: &[&str] = &["streams::", "endings::", "polls::", "local::"];

/// Runs them.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let scratch = context.workspace.scratch();
    fs::create_dir_all(&scratch)?;
    let skip_log = scratch.join("local-skipped.log");
    fs::write(&skip_log, "")?;
    let mut command = context.strict_tests(&["--package", "gpunet-e2e", "--no-fail-fast"]);
    command.args(["--test", "suite"]);
    if context.options.long {
        // What draws its cases has drawn them for hours by TCP.
        command.args(["--test", "hostile", "--test", "hostile_words"]).env_remove("GPUNET_LONG");
    } else {
        command.arg("--").args(SHORT);
    }
    command.env("GPUNET_TRANSPORT", "local").env("GPUNET_GPU", "emulated");
    command.env("GPUNET_SKIP_LOG", &skip_log);
    let mut command = shell::bounded(&command, context.limit());
    let finished = shell::run_logged(&mut command, &scratch.join("local.log"))?;
    let skipped = fs::read_to_string(&skip_log)?;
    let mut outcome = libtest::count(&finished.printed, finished.success, &skipped);
    outcome.output = finished.printed;
    outcome.remark = if context.options.long { "all suites" } else { "a selection" }.to_owned();
    Ok(outcome)
}
