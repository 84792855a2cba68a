//! Adds to the folder `dist` what tries the other languages on a GPU machine without Rust and without a network:
//! the archive for C and C++ unpacked, the wheel, the tests, and PTX of the tests' kernels in Python.
//!
//! ```text
//! run-languages                compiles and runs all of it; `N passed, N failed, N skipped`
//! languages/sdk/               as `dist --sdk` makes it
//! languages/host/c/            programs and kernels of the tests
//! languages/host/python/       tests and examples
//! languages/docs/             pages for the tests that follow them
//! languages/wheels/            the package, pytest and what that needs
//! languages/ptx/               kernels in Python, for machines without numba
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::workspace::Workspace;
use crate::{install, script, sdk, shell, wheel};

const SCRIPT: &str = include_str!("run-languages.sh");
const CLIENT: &str = include_str!("languages-client.py");
const LINKED: &str = include_str!("languages-linked.cmake");

/// What a kernel in Python is compiled with here. NVVM writes PTX of its own version, and a driver takes that of
/// its CUDA at most: this is the oldest one that the project's GPUs have had.
const NUMBA: [&str; 4] =
    ["numba>=0.61", "numba-cuda[cu13]>=0.30", "numpy<2.5", "nvidia-nvvm==13.0.*"];

/// Which Python's conditions pip looks at: those of the oldest one need the most.
const OLDEST_PYTHON: &str = "3.10";

/// What the folder may have.
const SIZE_LIMIT: u64 = 48 << 20;

/// `cargo xtask dist --languages`.
pub(crate) fn make(workspace: &Workspace) -> Result<bool> {
    let compiler = install::compiler()?;
    println!("compiler for PTX: {compiler}");
    // The device library as an object wants it.
    install::nvcc(workspace)?;
    let to = workspace.root.join("dist/languages");
    if to.exists() {
        fs::remove_dir_all(&to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    fs::create_dir_all(&to)?;
    sdk::unpacked(workspace, None, &to.join("sdk"))?;
    for folder in ["host/c/tests/programs", "host/python/tests", "host/python/examples"] {
        sdk::copy_all(&workspace.root.join(folder), &to.join(folder))?;
    }
    for file in ["host/c/tests/kernels.cu", "docs/tutorial/python.md"] {
        sdk::copy(&workspace.root.join(file), &to.join(file))?;
    }
    let made = wheel::make(workspace, false)?.swap_remove(0);
    let wheels = to.join("wheels");
    sdk::copy(&made, &wheels.join(made.file_name().context("a name")?))?;
    pytest(&wheels)?;
    kernels(workspace, &made, &to.join("ptx"))?;
    for (name, text) in [("client.py", CLIENT), ("linked.cmake", LINKED)] {
        fs::write(to.join(name), text)?;
    }
    script::write(&workspace.root.join("dist/run-languages"), SCRIPT)?;
    let size = size_of(&to)?;
    println!("{}: {:.1} MiB", to.display(), size as f64 / f64::from(1 << 20));
    ensure!(size <= SIZE_LIMIT, "the folder is larger than {} MiB", SIZE_LIMIT >> 20);
    Ok(true)
}

/// The wheels of pytest and of what it needs, none of which has machine code.
fn pytest(to: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--only-binary=:all:", "--python-version", OLDEST_PYTHON, "--dest"]).arg(to);
    shell::output_of(pip.arg("pytest>=8"))?;
    for wheel in fs::read_dir(to)? {
        let name = wheel?.file_name().to_string_lossy().into_owned();
        let is_any = name.starts_with("gpunet-") || name.ends_with("-none-any.whl");
        ensure!(is_any, "{name} is for one kind of machine alone");
    }
    Ok(())
}

/// PTX of the tests' kernels in Python.
fn kernels(workspace: &Workspace, made: &Path, to: &Path) -> Result<()> {
    let folder = install::tools_folder(workspace).join("numba");
    let python = folder.join("bin/python");
    // Half of an installation does not count.
    let complete = folder.join("complete");
    if fs::read_to_string(&complete).is_ok_and(|of| of != NUMBA.join(" ")) || !complete.is_file() {
        println!("fetching numba ({} from PyPI)", NUMBA.join(", "));
        wheel::environment(&folder)?;
        let wanted = [&NUMBA[..], &["pytest>=8"]].concat();
        wheel::pip(&folder, &wanted, &workspace.scratch().join("numba.log"))?;
        fs::write(&complete, NUMBA.join(" "))?;
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    shell::output_of(install.arg("--force-reinstall").arg(made))?;
    let mut write = Command::new(&python);
    write.arg(workspace.root.join("host/python/tests/carried.py")).arg(to);
    let printed = shell::output_of(write.env("PYTHONDONTWRITEBYTECODE", "1"))?;
    println!("PTX of kernels in Python: {}", printed.trim());
    Ok(())
}

fn size_of(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        let data = fs::symlink_metadata(&path)?;
        size += if data.is_dir() { size_of(&path)? } else { data.len() };
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::one_at_a_time;

    /// Runs the script in a folder where programs of these names do that; what it printed, and its status.
    fn run(name: &str, programs: &[(&str, &str)], parts: &[&str]) -> (String, Option<i32>) {
        let _guard = one_at_a_time();
        let folder = std::env::temp_dir().join(format!("gpunet-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("languages/sdk/lib")).unwrap();
        fs::write(folder.join("languages/sdk/lib/libgpunet.so"), "").unwrap();
        for inner in ["bin", "languages/host/python"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
        }
        for (program, text) in programs {
            let text = format!("#!/bin/sh\n{text}\n");
            script::write(&folder.join("bin").join(program), &text).unwrap();
        }
        fs::write(folder.join("run-languages"), SCRIPT).unwrap();
        let mut command = Command::new("sh");
        command.arg(folder.join("run-languages")).args(parts).env("GPUNET_GPU", "cuda");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", folder.join("bin").display()));
        let output = command.env("GPUNET_NVCC", "nvcc-of-a-test").output().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    }

    #[test]
    fn what_is_not_there_is_skipped_with_the_reason() {
        let (printed, status) = run("languages-skip", &[("python3", "exit 1")], &["torch"]);
        assert_eq!(printed.lines().last(), Some("0 passed, 0 failed, 1 skipped"), "{printed}");
        assert!(printed.contains("skipped  PyTorch beside a server: PyTorch is not"), "{printed}");
        assert_eq!(status, Some(0));
    }

    #[test]
    fn what_fails_is_counted_with_its_last_line() {
        let cmake = "case $1 in -S) echo configured ;; *) echo 'no rule'; exit 3 ;; esac";
        let (printed, status) = run("languages-fail", &[("cmake", cmake)], &["cmake"]);
        assert_eq!(printed.lines().last(), Some("1 passed, 1 failed, 0 skipped"), "{printed}");
        let wanted = "failed   CMake builds the examples: status 3: no rule";
        assert!(printed.contains(wanted), "{printed}");
        assert_eq!(status, Some(1));
    }

    #[test]
    fn tests_of_python_are_counted_one_by_one() {
        // As pytest ends, behind the looks for numpy and the import.
        let python = "case $* in *pytest*)
            echo 'SKIPPED [2] tests/test_a.py:7: numba is not installed'
            echo 'FAILED tests/test_b.py::test_c - wrong'
            echo '==== 1 failed, 40 passed, 2 skipped in 3.00s ===='
            exit 1 ;; esac";
        let (printed, status) = run("languages-python", &[("python3", python)], &["python"]);
        assert_eq!(printed.lines().last(), Some("41 passed, 1 failed, 2 skipped"), "{printed}");
        assert!(printed.contains("failed   python: tests/test_b.py::test_c - wrong"), "{printed}");
        assert_eq!(status, Some(1));
    }

    #[test]
    fn a_part_that_is_none_is_refused() {
        let (printed, status) = run("languages-part", &[], &["fortran"]);
        assert_eq!(
            (printed.trim(), status),
            ("no part 'fortran': cpp, cmake, python or torch", Some(2))
        );
    }
}
