//! The steps of `cargo xtask test`, in the order in which they run: quick ones first.
//!
//! All build in release mode, so that nothing is compiled twice.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::install::Tools;
use crate::report::{Outcome, Step};
use crate::shell;
use crate::workspace::Workspace;
use crate::{libtest, licences, local, ptx, rdma, rules, vm};

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Gives tests that draw their cases hours in place of seconds, and shows how far they are; the
    /// guest runs every job, also the whole end-to-end suite by RDMA.
    #[arg(long)]
    pub(crate) long: bool,
    /// Leaves out the virtual machine with RDMA; counts as skipped.
    #[arg(long)]
    pub(crate) no_vm: bool,
    /// Runs the suites over this RDMA device as well, as `rdma link` names it.
    #[arg(long, value_name = "NAME")]
    pub(crate) rdma_device: Option<String>,
}

/// What every step may use.
pub(crate) struct Context {
    pub(crate) workspace: Workspace,
    pub(crate) tools: Tools,
    pub(crate) options: Options,
}

/// Every step. A new one is a line here and a function.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "formatting", run: formatting },
    Step { name: "licences", run: licences::check },
    Step { name: "rules", run: rules::check },
    Step { name: "clippy", run: clippy },
    Step { name: "docs", run: docs },
    Step { name: "tests", run: tests },
    Step { name: "direct streams", run: local::check },
    Step { name: "models", run: models },
    Step { name: "simulation", run: simulation },
    Step { name: "ptx", run: ptx::check },
    Step { name: "virtual machine with RDMA", run: vm::check },
    Step { name: "RDMA device", run: rdma::check },
];

/// Longer than all tests take; a test that hangs must not hang the whole run.
const TESTS_LIMIT: Duration = Duration::from_secs(15 * 60);
/// The same for long runs.
const LONG_LIMIT: Duration = Duration::from_secs(6 * 3600);

impl Context {
    /// Cargo, with the tools that were found or installed.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.workspace.cargo();
        command.args(arguments);
        command.env(gpunet_builder::ptxas::PTXAS_VARIABLE, &self.tools.ptxas);
        command
    }

    /// Tests that are as fast as a release, as strict as a debug build, and long if they shall be.
    pub(crate) fn strict_tests(&self, which: &[&str]) -> Command {
        let mut command = self.cargo(&["test", "--release"]);
        command.args(which);
        make_strict(&mut command);
        if self.options.long {
            command.env("GPUNET_LONG", "1");
        }
        command
    }

    /// How long all tests of a step may take.
    pub(crate) fn limit(&self) -> Duration {
        if self.options.long { LONG_LIMIT } else { TESTS_LIMIT }
    }

    /// Runs a command that is one check, succeeding or failing as a whole.
    fn one_check(&self, command: &mut Command, log: &str, failure: &str) -> Result<Outcome> {
        let finished = shell::run_logged(command, &self.workspace.scratch().join(log))?;
        Ok(Outcome::of_one_check(finished.success, failure, finished.printed))
    }
}

/// Has tests built as strict as a debug build.
pub(crate) fn make_strict(cargo: &mut Command) {
    cargo.env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true");
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
}

fn formatting(context: &Context) -> Result<Outcome> {
    let mut command = context.cargo(&["fmt", "--all", "--check", "--", "--color", "never"]);
    context.one_check(&mut command, "formatting.log", "run `cargo fmt --all`")
}

fn clippy(context: &Context) -> Result<Outcome> {
    let strict = ["--all-targets", "--release", "--", "-D", "warnings"];
    let failure = "warnings or errors, shown above";
    let mut all = context.cargo(&["clippy", "--workspace"]);
    let outcome = context.one_check(all.args(strict), "clippy.log", failure)?;
    if !outcome.failed.is_empty() {
        return Ok(outcome);
    }
    let host = ["clippy", "--package", "gpunet-host", "--features", "simulation"];
    context.one_check(context.cargo(&host).args(strict), "clippy-simulation.log", failure)
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
    let mut command = context.strict_tests(&["--workspace", "--no-fail-fast"]);
    command.env("GPUNET_SKIP_LOG", &skip_log);
    let faults = scratch.join("faults.tsv");
    fs::write(&faults, "")?;
    command.env("GPUNET_FAULT_TABLE", &faults);
    let long = context.options.long;
    let progress = scratch.join("progress.log");
    fs::write(&progress, "")?;
    if long {
        command.env("GPUNET_PROGRESS", &progress);
    }
    let mut command = shell::bounded(&command, context.limit());
    let shown = long.then(|| shell::Follower::start(&progress));
    let finished = shell::run_logged(&mut command, &scratch.join("tests.log"));
    drop(shown);
    let finished = finished?;
    let mut outcome =
        libtest::count(&finished.printed, finished.success, &fs::read_to_string(&skip_log)?);
    outcome.output = finished.printed;
    outcome.remark = format!("times of faults in {}", faults.display());
    Ok(outcome)
}

/// The models of the protocol, which want the whole host crate built for loom.
fn models(context: &Context) -> Result<Outcome> {
    featured(context, "loom", "models::", "models.log")
}

/// The simulation bench: its seeds, and the planted bugs that they must find.
fn simulation(context: &Context) -> Result<Outcome> {
    featured(context, "simulation", "simulation::", "simulation.log")
}

/// Tests of the host crate that want it built in another way.
fn featured(context: &Context, feature: &str, which: &str, log: &str) -> Result<Outcome> {
    let log = context.workspace.scratch().join(log);
    let which = ["--package", "gpunet-host", "--features", feature, "--lib", which];
    let mut command = shell::bounded(&context.strict_tests(&which), context.limit());
    let finished = shell::run_logged(&mut command, &log)?;
    let mut outcome = libtest::count(&finished.printed, finished.success, "");
    if outcome.passed == 0 && outcome.failed.is_empty() {
        outcome.failed.push(format!("no test of the feature {feature} has run"));
    }
    outcome.output = finished.printed;
    Ok(outcome)
}
