//! cargo-deny over all dependencies: licences, versions that are there twice, sources that are no registry.
//!
//! Built from the registry into the target folder's `tools` where it is missing: two minutes of processor
//! time, once. Advisories are left to people: their database comes from a host that is no registry.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::checks::Context;
use crate::report::Outcome;
use crate::{install, shell};

/// The release whose configuration `deny.toml` is.
const VERSION: &str = "0.20.2";

/// The step of `cargo xtask test`.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let program = match cargo_deny(context) {
        Ok(program) => program,
        // Without a network nothing can be said; the step about licences has looked at them.
        Err(error) => {
            let line = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
            let skipped = vec![format!("no cargo-deny {VERSION} and it cannot be built: {line}")];
            return Ok(Outcome { skipped, output: format!("{error:#}"), ..Outcome::default() });
        }
    };
    let finished = run(&program, &context.workspace.root, &context.workspace.scratch())?;
    let mut outcome =
        Outcome::of_one_check(finished.success, "see above, and deny.toml", finished.printed);
    outcome.remark = "licences, duplicates, sources".to_owned();
    Ok(outcome)
}

/// Runs it in a workspace. Everything is there: the workspace has been compiled.
fn run(program: &Path, root: &Path, scratch: &Path) -> Result<shell::Finished> {
    let mut command = Command::new(program);
    command.args(["--offline", "--color", "never", "check", "licenses", "bans", "sources"]);
    command.current_dir(root);
    shell::run_logged(&mut command, &scratch.join("deny.log"))
}

/// The program, built where it is not there yet.
fn cargo_deny(context: &Context) -> Result<PathBuf> {
    let root = install::tools_folder(&context.workspace);
    let program = root.join("bin/cargo-deny");
    let is_it = |program: &Path| {
        let mut ask = Command::new(program);
        shell::output_of(ask.arg("--version")).is_ok_and(|line| line.contains(VERSION))
    };
    if let Some(program) = [Some(program.clone()), shell::on_path("cargo-deny")]
        .into_iter()
        .flatten()
        .find(|program| is_it(program))
    {
        return Ok(program);
    }
    let mut build = shell::cargo();
    // Unoptimised it checks in a second as well.
    build.args(["install", "cargo-deny", "--locked", "--force", "--version", VERSION]);
    build.args(["--no-default-features", "--profile", "dev", "--root"]).arg(&root);
    shell::output_of(build.env("CARGO_TARGET_DIR", root.join("deny-build")))?;
    // Some hundred megabytes that nobody needs again.
    let _ = std::fs::remove_dir_all(root.join("deny-build"));
    Ok(program)
}
