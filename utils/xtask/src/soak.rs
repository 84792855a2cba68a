//! Runs the soak program.

use anyhow::Result;
use clap::Args;

use crate::bench;
use crate::workspace::Workspace;

/// The package and program that `cargo xtask soak` and the dist folder use.
pub(crate) const PACKAGE: &str = "gpunet-soak";
/// The program's name.
pub(crate) const PROGRAM: &str = "soak";

/// Options of `cargo xtask soak`.
#[derive(Args)]
pub(crate) struct Options {
    /// Passed to the soak program as they are; `--help` is among them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<String>,
}

/// `cargo xtask soak`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    bench::run_program(workspace, PACKAGE, PROGRAM, &options.arguments)
}
