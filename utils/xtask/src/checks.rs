//! The steps of `cargo xtask test`, in the order in which they run: quick ones first.
//!
//! All build in release mode, so that nothing is compiled twice.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::install::Tools;
use crate::report::{Outcome, Step};
use crate::shell;
use crate::workspace::Workspace;
use crate::{libtest, licences, ptx, rules};

/// What every step may use.
pub(crate) struct Context {
    pub(crate) workspace: Workspace,
    pub(crate) tools: Tools,
}

/// Every step. A new one is a line here and a function.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "formatting", run: formatting },
    Step { name: "licences", run: licences::check },
    Step { name: "rules", run: rules::check },
    Step { name: "clippy", run: clippy },
    Step { name: "docs", run: docs },
    Step { name: "tests", run: tests },
    Step { name: "ptx", run: ptx::check },
];

/// Longer than all tests take; a test that hangs must not hang the whole run.
const TESTS_LIMIT: Duration = Duration::from_secs(15 * 60);

impl Context {
    /// Cargo, with the tools that were found or installed.
    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.workspace.cargo();
        command.args(arguments);
        command.env(gpunet_builder::ptxas::PTXAS_VARIABLE, &self.tools.ptxas);
        command
    }

    /// Runs a command that is one check, succeeding or failing as a whole.
    fn one_check(&self, command: &mut Command, log: &str, failure: &str) -> Result<Outcome> {
        let finished = shell::run_logged(command, &self.workspace.scratch().join(log))?;
        Ok(Outcome::of_one_check(finished.success, failure, finished.printed))
    }
}

fn formatting(context: &Context) -> Result<Outcome> {
    let mut command = context.cargo(&["fmt", "--all", "--check", "--", "--color", "never"]);
    context.one_check(&mut command, "formatting.log", "run `cargo fmt --all`")
}

fn clippy(context: &Context) -> Result<Outcome> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--release", "--", "-D", "warnings"];
    context.one_check(
        &mut context.cargo(&arguments),
        "clippy.log",
        "warnings or errors, shown above",
    )
}

fn docs(context: &Context) -> Result<Outcome> {
    let mut command = context.cargo(&["doc", "--workspace", "--no-deps", "--release"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    context.one_check(&mut command, "docs.log", "warnings or errors, shown above")
}

fn tests(context: &Context) -> Result<Outcome> {
    let scratch = context.workspace.scratch();
    fs::create_dir_all(&scratch)?;
    let skip_log = scratch.join("skipped.log");
    fs::write(&skip_log, "")?;
    let mut command = context.cargo(&["test", "--workspace", "--release", "--no-fail-fast"]);
    command.env("GPUNET_SKIP_LOG", &skip_log);
    let faults = scratch.join("faults.tsv");
    fs::write(&faults, "")?;
    command.env("GPUNET_FAULT_TABLE", &faults);
    // As fast as a release, as strict as a debug build.
    command.env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true");
    command.env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    let mut command = shell::bounded(&command, TESTS_LIMIT);
    let finished = shell::run_logged(&mut command, &scratch.join("tests.log"))?;
    let mut outcome =
        libtest::count(&finished.printed, finished.success, &fs::read_to_string(&skip_log)?);
    outcome.output = finished.printed;
    outcome.remark = format!("times of faults in {}", faults.display());
    Ok(outcome)
}
