//! The oldest Rust release that the project promises to build with: one number everywhere, and tried.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::context::Context;
use crate::report::Outcome;
use crate::shell;

/// Pages that say which release they need.
const PAGES: &[&str] = &["README.md", "docs/tutorial/your-first-kernel.md"];
/// Manifests outside of the workspace.
const MANIFESTS: &[&str] = &["apps/template/Cargo.toml", "apps/template/kernels/Cargo.toml"];

/// All manifests and pages name one release; and the workspace compiles with it. Where the run's own
/// compiler is that release, all other steps show it; else it is checked with that toolchain of rustup's.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let workspace = &context.workspace;
    let promised = workspace.members.iter().find_map(|member| member.rust_version.clone());
    let promised = promised.context("no member of the workspace has a rust-version")?;
    let mut wrong: Vec<String> = workspace
        .members
        .iter()
        .filter(|member| member.rust_version.as_ref() != Some(&promised))
        .map(|member| format!("{} has not rust-version {promised}", member.name))
        .collect();
    let readmes = workspace.members.iter().filter(|member| member.is_public);
    let readmes = readmes.map(|member| member.folder.join("README.md"));
    let pages = PAGES.iter().map(|page| workspace.root.join(page)).chain(readmes);
    for (path, words) in
        pages.map(|page| (page, format!("{promised} or newer"))).chain(MANIFESTS.iter().map(
            |manifest| (workspace.root.join(manifest), format!("rust-version = \"{promised}\"")),
        ))
    {
        wrong.extend(lacks(&path, &words)?);
    }
    let mut outcome = Outcome { failed: wrong, ..Outcome::default() };
    compiles(context, &promised, &mut outcome)?;
    outcome.passed = usize::from(outcome.failed.is_empty() && outcome.skipped.is_empty());
    Ok(outcome)
}

/// Says so if a file does not have these words, which may stand on two lines.
fn lacks(path: &Path, words: &str) -> Result<Option<String>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok((!text.contains(words)).then(|| format!("{} does not say `{words}`", path.display())))
}

/// Has the promised release compile the workspace, unless it does so anyway.
fn compiles(context: &Context, promised: &str, outcome: &mut Outcome) -> Result<()> {
    let running = shell::output_of(Command::new(shell::rustc()).arg("--version"))?;
    let running = running.split(' ').nth(1).unwrap_or_default();
    ensure!(!running.is_empty(), "rustc does not print its version");
    if is_release(running, promised) {
        outcome.remark = format!("{promised}, which all steps build with");
        return Ok(());
    }
    let toolchains = shell::output_of(Command::new("rustup").args(["toolchain", "list"]));
    let toolchains = toolchains.unwrap_or_default();
    let Some(toolchain) = toolchains.lines().find(|name| is_release(name, promised)) else {
        outcome.skipped.push(format!(
            "this is {running}: to check {promised}, `rustup toolchain install {promised}`"
        ));
        return Ok(());
    };
    let toolchain = toolchain.split(' ').next().unwrap_or(toolchain);
    let mut command = Command::new("rustup");
    command.args(["run", toolchain, "cargo", "check", "--workspace", "--all-targets"]);
    command.arg("--target-dir").arg(context.workspace.target.join("oldest"));
    command
        .current_dir(&context.workspace.root)
        .env(gpunet_builder::compiler::TOOLCHAIN_VARIABLE, "none");
    // Cargo's own, of the compiler that runs now.
    command.env_remove("RUSTC").env_remove("CARGO");
    let finished =
        shell::run_logged(&mut command, &context.workspace.scratch().join("oldest.log"))?;
    if !finished.success {
        outcome.failed.push(format!("does not compile with {toolchain}"));
        outcome.output = finished.printed;
    }
    outcome.remark = format!("{promised}, checked with {toolchain}");
    Ok(())
}

/// Whether a version or the name of a toolchain is of this release: `1.95` has `1.95.0`.
fn is_release(name: &str, release: &str) -> bool {
    name.strip_prefix(release).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_first_two_numbers() {
        for name in ["1.95.0", "1.95", "1.95.1-x86_64-unknown-linux-gnu (default)"] {
            assert!(is_release(name, "1.95"), "{name}");
        }
        for name in ["1.950.0", "1.96.0", "stable-x86_64-unknown-linux-gnu", "11.95"] {
            assert!(!is_release(name, "1.95"), "{name}");
        }
    }

    #[test]
    fn a_page_that_names_another_release_is_found() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        assert!(lacks(&page, "1.0 or newer").unwrap().is_some());
    }
}
