//! Builds PTX for real, where a compiler for it is installed: a crate in a workspace, the same
//! crate standing alone, and one that does not compile.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpunet_builder::{Compiler, KernelCrate, Ptx, ptx};

const KERNEL: &str = r#"
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, stdarch_nvptx))]
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }
#[cfg(target_arch = "nvptx64")]
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn increment(words: *mut u32, count: usize) {
    let words = unsafe { core::slice::from_raw_parts_mut(words, count) };
    words[unsafe { core::arch::nvptx::_thread_idx_x() } as usize] += STEP;
}
#[cfg(target_arch = "nvptx64")]
const STEP: u32 = 7;
"#;

/// A made-up project; the folder is left for the next run, in cargo's own folder for tests.
struct Project(PathBuf);

impl Project {
    fn new(name: &str, root_manifest: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        let project = Self(folder);
        project.write("Cargo.toml", root_manifest);
        project.write("src/lib.rs", "");
        let manifest = format!("[package]\nname = \"{name}-kernels\"\nedition = \"2024\"\n");
        project.write("kernels/Cargo.toml", &manifest);
        project.write("kernels/src/lib.rs", KERNEL);
        project
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn lock(&self) -> Option<String> {
        fs::read_to_string(self.0.join("Cargo.lock")).ok()
    }

    fn compile(&self, compiler: &Compiler) -> Result<Ptx, gpunet_builder::Error> {
        let kernels = KernelCrate::open(&self.0.join("kernels")).unwrap();
        // Where build scripts put theirs too, so that `core` is built once for all.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("gpunet-ptx");
        ptx::compile(compiler, &kernels, &self.0, gpunet_builder::DEFAULT_CPU, &folder)
    }
}

/// The compiler, or a note that the test did not run.
fn compiler_or_skip(test: &str) -> Option<Compiler> {
    match Compiler::find() {
        Ok(compiler) => Some(compiler),
        Err(why) => {
            eprintln!("{test} not run: {why}");
            if let Some(log) = std::env::var_os("GPUNET_SKIP_LOG") {
                let mut log = OpenOptions::new().create(true).append(true).open(log).unwrap();
                writeln!(log, "{test}: {why}").unwrap();
            }
            None
        }
    }
}

fn check(ptx: &Ptx, project: &Project) {
    assert!(ptx.text.contains(".entry increment("), "{}", ptx.text);
    assert!(ptx.text.contains(".target sm_75"), "{}", ptx.text);
    for expected in ["kernels/src/lib.rs", "kernels/Cargo.toml"] {
        let expected = project.0.join(expected);
        assert!(ptx.sources.contains(&expected), "{expected:?} not in {:?}", ptx.sources);
    }
}

#[test]
fn a_workspace_member_is_built_in_place_and_again_when_it_changes() {
    let Some(compiler) = compiler_or_skip("a_workspace_member_is_built_in_place") else {
        return;
    };
    let project = Project::new(
        "member",
        "[workspace]\nmembers = [\"kernels\"]\n[package]\nname = \"user\"\nedition = \"2024\"\n",
    );
    let status = Command::new(compiler.sysroot().join("bin/cargo"))
        .args(["generate-lockfile", "--offline"])
        .current_dir(&project.0)
        .status();
    assert!(status.unwrap().success());
    let lock = project.lock().unwrap();
    let first = project.compile(&compiler).unwrap();
    check(&first, &project);
    assert!(first.sources.contains(&project.0.join("Cargo.lock")));
    assert_eq!(project.lock().unwrap(), lock, "the user's Cargo.lock was changed");
    assert!(!project.0.join("kernels/Cargo.lock").exists());

    for lost in [first.path.clone(), first.path.with_extension("s")] {
        fs::remove_file(&lost).unwrap();
        let again = project.compile(&compiler).unwrap();
        assert_eq!(again.text, first.text, "{} was lost, and is made again", lost.display());
        assert!(lost.is_file(), "{} comes back", lost.display());
    }

    project.write("kernels/src/lib.rs", &KERNEL.replace("= 7", "= 9"));
    assert_ne!(project.compile(&compiler).unwrap().text, first.text, "a change is seen");

    project.write("kernels/src/lib.rs", &KERNEL.replace("STEP;", "MISSING;"));
    let error = project.compile(&compiler).unwrap_err();
    assert!(error.line().contains("`member-kernels` does not compile"), "{error}");
    assert!(!error.line().contains('\n'));
    assert!(error.output().contains("cannot find value `MISSING`"), "{error}");
}

#[test]
fn a_crate_outside_any_workspace_leaves_no_trace_beside_it() {
    let Some(compiler) = compiler_or_skip("a_crate_outside_any_workspace") else {
        return;
    };
    // The user's package is a root of its own, of which the kernels are no member.
    let project = Project::new(
        "alone",
        "[workspace]\nexclude = [\"kernels\"]\n[package]\nname = \"user\"\nedition = \"2024\"\n",
    );
    // Without a table of its own it would take the workspace above cargo's target folder.
    let manifest = project.0.join("kernels/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap() + "[workspace]\n";
    fs::write(&manifest, text).unwrap();
    let ptx = project.compile(&compiler).unwrap();
    check(&ptx, &project);
    assert!(!project.0.join("kernels/Cargo.lock").exists());
    assert!(!project.0.join("kernels/target").exists());
}
