//! Kernels and programs in CUDA C++: with nvcc every example compiles, for every architecture, without a warning,
//! and links with the device library.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use gpunet_builder::Compiler;

use crate::context::Context;
use crate::nvcc::{ARCHITECTURES, LIBRARY_REGISTERS, code_of};
use crate::report::Outcome;
use crate::workspace::Workspace;
use crate::{install, sdk, shell};

/// Sources with kernels, below host/c; the last one has a program beside them.
const SOURCES: [&str; 7] = [
    "examples/first.cu",
    "examples/echo.cu",
    "examples/client.cu",
    "examples/poll_server.cu",
    "examples/slices.cu",
    "tests/kernels.cu",
    "tests/programs/single.cu",
];

/// The step of `cargo xtask release`.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    compile_all(&context.workspace, &context.tools.compiler)
}

/// Compiles and links all sources.
fn compile_all(workspace: &Workspace, compiler: &Compiler) -> Result<Outcome> {
    let nvcc = install::nvcc(workspace)?;
    let scratch = workspace.scratch().join("cuda-cpp");
    fs::create_dir_all(&scratch)?;
    let build = Build { nvcc, c: workspace.root.join("host/c"), scratch };
    let mut outcome = Outcome::default();
    let library = build.scratch.join("gpunet_device.o");
    let ptx = sdk::library_ptx(workspace, compiler)?;
    let all = code_of(&ARCHITECTURES).map(OsString::from);
    let options = all.chain([LIBRARY_REGISTERS.into(), "-dc".into(), ptx.into()]);
    build.run(&mut outcome, "the device library", options, &library)?;
    for source in SOURCES {
        let path = build.c.join(source);
        let object = build.scratch.join(path.with_extension("o").file_name().unwrap_or_default());
        let options = code_of(&ARCHITECTURES).map(OsString::from).chain([
            "-std=c++17".into(),
            "-dc".into(),
            "-I".into(),
            build.c.join("include").into(),
            path.into(),
        ]);
        build.run(&mut outcome, source, options, &object)?;
        for architecture in ARCHITECTURES {
            let image = object.with_extension(format!("{architecture}.cubin"));
            let options = code_of(&[architecture]).map(OsString::from).collect::<Vec<_>>();
            let inputs =
                ["-dlink".into(), "-cubin".into(), object.clone().into(), library.clone().into()];
            let what = format!("{source}, linked for sm_{architecture}");
            build.run(&mut outcome, &what, options.into_iter().chain(inputs), &image)?;
        }
    }
    outcome.remark = format!("{} sources, sm_{}", SOURCES.len(), ARCHITECTURES.join(", sm_"));
    Ok(outcome)
}

struct Build {
    nvcc: PathBuf,
    c: PathBuf,
    scratch: PathBuf,
}

impl Build {
    /// Runs nvcc, for which a warning is an error.
    fn run(
        &self,
        outcome: &mut Outcome,
        what: &str,
        options: impl Iterator<Item = OsString>,
        to: &Path,
    ) -> Result<()> {
        let mut command = Command::new(&self.nvcc);
        command.args(["-Werror", "all-warnings"]).args(options).arg("-o").arg(to);
        let finished = shell::run_logged(&mut command, &self.scratch.join("nvcc.log"))?;
        // Some warnings of its parts have no switch.
        if finished.success && !finished.printed.contains("warning") {
            outcome.passed += 1;
        } else {
            outcome.failed.push(what.to_owned());
            outcome.output.push_str(&finished.printed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_asked_for_by_architecture() {
        let options: Vec<String> = code_of(&["75", "100"]).collect();
        let expected = "-gencode arch=compute_75,code=sm_75 -gencode arch=compute_100,code=sm_100";
        assert_eq!(options.join(" "), expected);
    }
}
