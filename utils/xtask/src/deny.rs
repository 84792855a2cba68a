//! cargo-deny over all dependencies: licences, versions that are there twice, sources that are no registry.
//!
//! Built from the registry into the target folder's `tools` where it is missing: two minutes of processor
//! time, once. Advisories are left to people: their database comes from a host that is no registry.
//!
//! Why it is so: decision 25 of docs/explanation/decisions.md.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::context::Context;
use crate::report::Outcome;
use crate::{install, shell};

/// The release whose configuration `deny.toml` is.
const VERSION: &str = "0.20.2";

/// The step of `cargo xtask release`.
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
    install::from_registry(&context.workspace, "cargo-deny", VERSION, &["--no-default-features"])
}
