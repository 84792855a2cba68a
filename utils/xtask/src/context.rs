//! What every step of `cargo xtask test` may use: the workspace, tools, options, and what was compiled.

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::artifacts::Executable;
use crate::install::Tools;
use crate::workspace::Workspace;

/// The profile in the workspace's manifest that all steps build with.
pub(crate) const PROFILE: &str = "strict";

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Runs formatting, rules, lints, unit tests and a selection of the end-to-end suite only.
    #[arg(long, conflicts_with_all = ["long", "rdma_device"])]
    pub(crate) quick: bool,
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
    /// What the step `compile` has made.
    pub(crate) built: OnceLock<Built>,
}

/// The programs and test programs that steps run.
pub(crate) struct Built {
    /// All of the workspace.
    pub(crate) executables: Vec<Executable>,
    /// The host crate's unit tests for loom and for the simulation.
    pub(crate) models: Vec<Executable>,
    pub(crate) simulation: Vec<Executable>,
}

/// Much longer than the tests of a step take, of which one compiles a project of its own; a test that
/// hangs must not hang the whole run.
const TESTS_LIMIT: Duration = Duration::from_secs(25 * 60);
/// The same for long runs.
const LONG_LIMIT: Duration = Duration::from_secs(6 * 3600);

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

    /// How long all tests of a step may take.
    pub(crate) fn limit(&self) -> Duration {
        if self.options.long { LONG_LIMIT } else { TESTS_LIMIT }
    }

    /// What was compiled.
    pub(crate) fn built(&self) -> Result<&Built> {
        self.built.get().context("there is nothing to run: the step `compile` has failed")
    }

    /// The environment of tests: a tool that is not on the path; long if they shall be.
    pub(crate) fn test_environment(&self) -> Vec<(&'static str, String)> {
        let mut environment = vec![("GPUNET_REDIS_PY", self.tools.redis_py.display().to_string())];
        if self.options.long {
            environment.push(("GPUNET_LONG", "1".to_owned()));
        }
        environment
    }
}
