//! What every step of `cargo xtask test` and `cargo xtask release` may use: the workspace, tools, options, and what
//! was compiled.

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use crate::artifacts::Executable;
use crate::checks;
use crate::install::Tools;
use crate::report::Outcome;
use crate::workspace::Workspace;

/// The profile in the workspace's manifest that all steps build with.
pub(crate) const PROFILE: &str = "strict";

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct TestOptions {
    /// Runs formatting, rules, unit tests and a selection of the end-to-end suite only, and lints what they compile:
    /// libraries, programs and that suite.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Leaves out the virtual machine with RDMA; counts as skipped.
    #[arg(long)]
    pub(crate) no_vm: bool,
}

/// Options of `cargo xtask release`.
#[derive(Args)]
pub(crate) struct ReleaseOptions {
    /// Leaves out the steps that take longest, and names them first: for every submitted change, after `test`.
    #[arg(long, conflicts_with = "rdma_device")]
    pub(crate) short: bool,
    /// Runs only the steps whose name contains this, and those that they need; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) step: Vec<String>,
    /// Leaves out the virtual machine with RDMA; counts as skipped.
    #[arg(long)]
    pub(crate) no_vm: bool,
    /// Runs the suites over this RDMA device as well, as `rdma link` names it.
    #[arg(long, value_name = "NAME")]
    pub(crate) rdma_device: Option<String>,
}

/// What is run. Each of these runs what those before it run; but a short release follows `test`, and repeats nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// A selection, while one works.
    Quick,
    /// What every change must pass.
    Test,
    /// The part of a release that there is time for with every change.
    ShortRelease,
    /// Everything: tests that draw their cases draw many more, and suites that are otherwise sampled run whole.
    Release,
}

/// What every step may use.
pub(crate) struct Context {
    pub(crate) workspace: Workspace,
    pub(crate) tools: Tools,
    pub(crate) scope: Scope,
    /// Leave out the virtual machine with RDMA.
    pub(crate) no_vm: bool,
    /// The RDMA device to run the suites over.
    pub(crate) rdma_device: Option<String>,
    /// What was compiled, by the first step that asked for it; or how that went wrong.
    pub(crate) compiled: OnceLock<Result<Built, Box<Outcome>>>,
}

/// The programs and test programs that steps run.
pub(crate) struct Built {
    /// All of the workspace.
    pub(crate) executables: Vec<Executable>,
    /// The host crate's unit tests for loom and for the simulation.
    pub(crate) models: Vec<Executable>,
    pub(crate) simulation: Vec<Executable>,
}

/// Many times what the tests of a step take on a usual machine; a test that hangs must not hang the whole run.
const TESTS_LIMIT: Duration = Duration::from_secs(25 * 60);
/// The same in a release's run.
const LONG_LIMIT: Duration = Duration::from_secs(2 * 3600);

impl Context {
    /// Cargo, as all steps use it.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.workspace.cargo();
        command.args(arguments);
        // With it, five build scripts would each assemble their PTX; the step `ptx` assembles all of
        // it once.
        command.env_remove(gpunet_builder::ptxas::PTXAS_VARIABLE);
        command
    }

    /// Whether tests draw as many cases as a release has time for.
    pub(crate) fn is_long(&self) -> bool {
        self.scope == Scope::Release
    }

    /// How long all tests of a step may take, by the speed of this machine, up to a step that takes four times as long:
    /// its tests have limits of their own.
    pub(crate) fn limit(&self) -> Duration {
        let usual = if self.is_long() { LONG_LIMIT } else { TESTS_LIMIT };
        usual * gpunet_support::testing::slowness().min(4)
    }

    /// Compiles what steps run, unless that has happened.
    pub(crate) fn compiled(&self) -> &Result<Built, Box<Outcome>> {
        self.compiled.get_or_init(|| checks::build(self))
    }

    /// The programs that steps run.
    pub(crate) fn built(&self) -> anyhow::Result<&Built> {
        match self.compiled() {
            Ok(built) => Ok(built),
            Err(outcome) => {
                bail!("{}\n{}", outcome.failed.join("\n"), outcome.output.trim_end())
            }
        }
    }

    /// The environment of tests: a tool that is not on the path; long if they shall be.
    pub(crate) fn test_environment(&self) -> Vec<(&'static str, String)> {
        let mut environment = vec![("GPUNET_REDIS_PY", self.tools.redis_py.display().to_string())];
        if self.is_long() {
            environment.push(("GPUNET_LONG", "1".to_owned()));
        }
        environment
    }
}
