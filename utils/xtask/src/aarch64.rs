//! The workspace compiles for 64-bit ARM, as Grace has it: layouts that are asserted hold there, too.
//!
//! It is checked, not linked and not run: that needs no linker and no C library of that architecture.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::context::{Context, PROFILE};
use crate::report::Outcome;
use crate::shell;

/// The target, of which the compiler needs the standard library.
const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The step of `cargo xtask release`.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    if let Err(why) = standard_library(&shell::rustc()) {
        let reason = format!("no standard library for {TARGET}: {why}");
        return Ok(Outcome { skipped: vec![reason], ..Outcome::default() });
    }
    let mut command = context.cargo(&["check", "--workspace", "--target", TARGET]);
    command.args(["--profile", PROFILE]);
    command.env(gpunet_builder::compiler::TOOLCHAIN_VARIABLE, "none");
    let log = context.workspace.scratch().join("aarch64.log");
    let finished = shell::run_logged(&mut command, &log)?;
    let failure = format!("does not compile for {TARGET}");
    let mut outcome = Outcome::of_one_check(finished.success, &failure, finished.printed);
    outcome.remark = "compiled, not run".to_owned();
    Ok(outcome)
}

/// Sees to it that a compiler has the target's standard library; else why it has not. Of a system's own compiler
/// nothing is added: which package that would be differs from system to system.
fn standard_library(rustc: &Path) -> Result<(), String> {
    if is_there(rustc) {
        return Ok(());
    }
    let mut add = Command::new("rustup");
    add.args(["target", "add", TARGET]);
    match shell::output_of(&mut add) {
        Err(error) => {
            let line = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
            Err(format!("rustup adds it, and it failed or is not installed ({line})"))
        }
        Ok(_) if is_there(rustc) => Ok(()),
        Ok(_) => Err(format!("{} is not rustup's: use a toolchain of rustup's", rustc.display())),
    }
}

fn is_there(rustc: &Path) -> bool {
    let mut ask = Command::new(rustc);
    ask.args(["--print", "target-libdir", "--target", TARGET]);
    let folder = shell::output_of(&mut ask).unwrap_or_default();
    let library =
        |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("libstd-");
    std::fs::read_dir(folder.trim())
        .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(library)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_is_none_has_no_standard_library() {
        assert!(!is_there(Path::new("/nowhere/rustc")));
        // One that answers, with a folder that has none.
        assert!(!is_there(Path::new("/bin/echo")));
    }
}
