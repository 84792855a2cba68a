//! Runs the benchmark program, and compiles its C client for the dist folder.

use anyhow::{Context, Result, ensure};
use clap::Args;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::workspace::Workspace;

/// The package and program that `cargo xtask bench` and the dist folder use.
pub(crate) const PACKAGE: &str = "gpunet-bench";
/// The program's name.
pub(crate) const PROGRAM: &str = "bench";

/// The C client that polls, as the benchmark program looks for it beside itself.
pub(crate) const POLL_CLIENT: &str = "poll_client";
/// Its source.
const POLL_CLIENT_SOURCE: &str = "utils/bench/client/poll_client.c";

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

/// Compiles the C client to `to`; false, with a line that says so, where there is no C compiler.
pub(crate) fn poll_client(root: &Path, to: &Path) -> Result<bool> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.arg("-O2").arg("-o").arg(to).arg(root.join(POLL_CLIENT_SOURCE));
    match command.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "cannot compile {POLL_CLIENT_SOURCE}: {said}");
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("no C compiler ({}): without {POLL_CLIENT}", compiler.display());
            Ok(false)
        }
        Err(error) => Err(error).context("cannot run the C compiler"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_client_compiles_and_fails_in_one_line() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let to = std::env::temp_dir().join(format!("gpunet-poll-client-{}", std::process::id()));
        if !poll_client(&root, &to).unwrap() {
            return;
        }
        let output = Command::new(&to).args(["127.0.0.1", "1", "64", "0"]).output().unwrap();
        std::fs::remove_file(&to).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
    }
}
