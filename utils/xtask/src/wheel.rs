//! The Python package: its wheel and source distribution, and its tests from an empty environment.
//!
//! ```text
//! wheel    tools/python (venv with maturin) ─> wheels/gpunet-*.whl, gpunet-*.tar.gz
//! test     the wheel ─> xtask/python (a new venv, with what the package's `test` wants) ─> pytest
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use gpunet_builder::compiler::TOOLCHAIN_VARIABLE;

use crate::context::Context;
use crate::report::Outcome;
use crate::workspace::Workspace;
use crate::{install, shell};

/// The build tool, of the version that the package was tried with.
const MATURIN: &str = "maturin==1.16.0";
/// For all packages that the tests want, from PyPI: some hundred megabytes.
const INSTALL_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Options of `cargo xtask wheel`.
#[derive(Args)]
pub(crate) struct Options {
    /// Makes the wheel alone, without the source distribution.
    #[arg(long)]
    pub(crate) no_sdist: bool,
}

/// `cargo xtask wheel`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    // The device library goes into the wheel, unless it is not wanted.
    if !std::env::var(TOOLCHAIN_VARIABLE).is_ok_and(|toolchain| toolchain == "none") {
        install::compiler()?;
    }
    for made in make(workspace, !options.no_sdist)? {
        println!("{}", made.display());
    }
    Ok(true)
}

/// Builds the wheel, and the source distribution if it is wanted; the wheel comes first.
pub(crate) fn make(workspace: &Workspace, sdist: bool) -> Result<Vec<PathBuf>> {
    let maturin = maturin(workspace)?;
    let (package, wheels) = (workspace.root.join("host/python"), workspace.target.join("wheels"));
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let log = workspace.scratch().join("wheel.log");
    let mut jobs = vec![["build", "--release"].as_slice()];
    if sdist {
        jobs.push(&["sdist"]);
    }
    for job in jobs {
        let mut command = Command::new(&maturin);
        command.args(job).arg("--out").arg(&wheels).current_dir(&package);
        command.env("CARGO_TARGET_DIR", &workspace.target);
        let finished = shell::run_logged(&mut command, &log)?;
        ensure!(finished.success, "maturin {} failed:\n{}", job[0], finished.printed);
    }
    let mut made: Vec<PathBuf> =
        fs::read_dir(&wheels)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    made.sort_by_key(|path| path.extension().is_none_or(|kind| kind != "whl"));
    let is_wheel =
        made.first().is_some_and(|path| path.extension().is_some_and(|kind| kind == "whl"));
    ensure!(is_wheel, "maturin has made no wheel in {}", wheels.display());
    Ok(made)
}

/// The build tool, installed if it is missing.
fn maturin(workspace: &Workspace) -> Result<PathBuf> {
    let folder = install::tools_folder(workspace).join("python");
    let maturin = folder.join("bin/maturin");
    let version = MATURIN.replace("==", " ");
    let is_there = || {
        let output = shell::output_of(Command::new(&maturin).arg("--version"));
        output.is_ok_and(|output| output.trim() == version)
    };
    if !is_there() {
        environment(&folder)?;
        pip(&folder, &[MATURIN], &workspace.scratch().join("maturin.log"))?;
        ensure!(is_there(), "{MATURIN} was installed, and {} is another", maturin.display());
    }
    Ok(maturin)
}

/// A new virtual environment.
pub(crate) fn environment(folder: &Path) -> Result<()> {
    install::python_venv()?;
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let mut command = Command::new("python3");
    shell::output_of(command.args(["-m", "venv"]).arg(folder))
        .context("cannot make a virtual environment")?;
    Ok(())
}

/// Installs packages into an environment.
pub(crate) fn pip(folder: &Path, packages: &[&str], log: &Path) -> Result<()> {
    let mut command = Command::new(folder.join("bin/python"));
    command.args(["-m", "pip", "install", "--disable-pip-version-check"]).args(packages);
    let finished = shell::run_logged(&mut shell::bounded(&command, INSTALL_LIMIT), log)?;
    ensure!(finished.success, "pip cannot install {}:\n{}", packages.join(" "), finished.printed);
    Ok(())
}

/// The step of `cargo xtask release`: the package's tests on the emulated GPU, with the wheel installed where
/// nothing else is.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let workspace = &context.workspace;
    let wheel = make(workspace, true)?.swap_remove(0);
    let folder = workspace.scratch().join("python");
    environment(&folder)?;
    let wanted = format!("{}[test]", wheel.display());
    pip(&folder, &[&wanted], &workspace.scratch().join("python-install.log"))?;
    let mut command = Command::new(folder.join("bin/python"));
    command.args(["-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", "--color=no", "tests"]);
    // There `gpunet` is the wheel's: the source lies a folder deeper.
    command.current_dir(workspace.root.join("host/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("GPUNET_PYTHON_GPU", "emulated");
    let mut command = shell::bounded(&command, context.limit());
    let finished = shell::run_logged(&mut command, &workspace.scratch().join("python.log"))?;
    let mut outcome = count(&finished.printed, finished.success);
    if finished.timed_out {
        let seconds = context.limit().as_secs();
        outcome.failed.push(format!("out of time: not done within {seconds} s"));
    }
    outcome.remark = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    outcome.output = finished.printed;
    Ok(outcome)
}

/// How pytest's tests went, from its last line; what it skipped has a line with the reason.
fn count(printed: &str, success: bool) -> Outcome {
    let last = printed.lines().rev().find(|line| line.contains(" in ")).unwrap_or("");
    let words: Vec<&str> = last.split([' ', ',', '=']).filter(|word| !word.is_empty()).collect();
    let number = |what: &str| -> usize {
        let at = words.iter().position(|word| word.starts_with(what));
        at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
    };
    let lines = |begin: &str| -> Vec<String> {
        printed.lines().filter(|line| line.starts_with(begin)).map(str::to_owned).collect()
    };
    let mut outcome = Outcome { passed: number("passed"), ..Outcome::default() };
    outcome.skipped = lines("SKIPPED ");
    outcome.failed = [lines("FAILED "), lines("ERROR ")].concat();
    if outcome.failed.is_empty() && (!success || outcome.passed == 0) {
        let why = if success { "no test has run" } else { "pytest failed" };
        outcome.failed.push(why.to_owned());
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_python_are_counted() {
        let printed = "....s.\nSKIPPED [1] tests/test_a.py:7: of the emulated GPU\n\
                       59 passed, 1 skipped in 40.65s\n";
        let outcome = count(printed, true);
        assert_eq!((outcome.passed, outcome.failed.len(), outcome.skipped.len()), (59, 0, 1));
        let printed = "F.\nFAILED tests/test_a.py::test_b - no\nERROR tests/test_c.py\n\
                       == 1 failed, 1 passed, 1 error in 2.10s (0:00:02) ==\n";
        let outcome = count(printed, false);
        assert_eq!((outcome.passed, outcome.failed.len()), (1, 2));
    }

    #[test]
    fn nothing_that_ran_is_a_failure() {
        assert_eq!(count("no tests ran in 0.01s\n", true).failed, ["no test has run"]);
        assert_eq!(count("Fatal Python error: Aborted\n", false).failed, ["pytest failed"]);
        assert_eq!(
            count("3 passed in 0.01s\nSegmentation fault\n", false).failed,
            ["pytest failed"]
        );
    }
}
