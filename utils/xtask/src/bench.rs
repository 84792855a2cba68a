//! Runs the benchmark program.

use anyhow::{Context, Result, ensure};
use clap::Args;
use std::process::Stdio;

use crate::workspace::Workspace;

/// The package and program that `cargo xtask bench` and the dist folder use.
pub(crate) const PACKAGE: &str = "gpunet-bench";
/// The program's name.
pub(crate) const PROGRAM: &str = "bench";

/// Options of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct Options {
    /// Passed to the benchmark program as they are; `-- --help` shows its own options.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<String>,
}

/// `cargo xtask bench`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    run_program(workspace, PACKAGE, PROGRAM, &options.arguments)
}

/// Builds a program of the workspace in release mode and runs it; whether it succeeded.
pub(crate) fn run_program(
    workspace: &Workspace,
    package: &str,
    program: &str,
    arguments: &[String],
) -> Result<bool> {
    ensure!(
        workspace.member(package).is_some(),
        "the workspace has no package {package}: nothing to run"
    );
    let mut command = workspace.cargo();
    command
        .args(["run", "--release", "--quiet", "--package", package, "--bin", program, "--"])
        .args(arguments)
        .env_remove("CARGO_TERM_COLOR")
        .stdin(Stdio::inherit());
    let status = command.status().context("cannot run cargo")?;
    Ok(status.success())
}
