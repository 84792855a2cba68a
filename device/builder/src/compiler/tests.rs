//! The finding logic on made-up folder trees, and the lines it answers with.

use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;

/// A folder tree that is removed when the test ends.
///
/// One at a time: a process started by another thread while a script is being written inherits the
/// open file, and the kernel refuses to run a file that is open for writing.
struct Tree(PathBuf, #[expect(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

impl Tree {
    fn new() -> Self {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = env::temp_dir().join(format!("gpunet-builder-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder, guard)
    }

    /// Makes a sysroot whose rustc prints this version.
    fn sysroot(&self, name: &str, version: &str, with_source: bool) -> PathBuf {
        let sysroot = self.0.join(name);
        fs::create_dir_all(sysroot.join("bin")).unwrap();
        for tool in ["rustc", "cargo"] {
            let file = sysroot.join("bin").join(tool);
            let script = format!("#!/bin/sh\necho '{tool} {version} (abc 2026-01-01)'\n");
            fs::write(&file, script).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        if with_source {
            fs::create_dir_all(sysroot.join("lib/rustlib/src/rust/library/core")).unwrap();
        }
        sysroot
    }

    fn toolchain(&self, name: &str, version: &str, with_source: bool) -> PathBuf {
        self.sysroot(&format!("rustup/toolchains/{name}"), version, with_source)
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings {
            rustup: Some(self.0.join("rustup")),
            system: vec![self.0.join("usr")],
            ..Surroundings::default()
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn found(surroundings: &Surroundings) -> PathBuf {
    surroundings.find().unwrap().sysroot().to_owned()
}

#[test]
fn nothing_installed_names_both_remedies_in_one_line() {
    let tree = Tree::new();
    let missing = tree.surroundings().find().unwrap_err();
    let line = missing.why_no_ptx("my-kernels");
    assert!(line.contains("my-kernels"), "{line}");
    assert!(line.contains("rustup toolchain install nightly --component rust-src"), "{line}");
    assert!(line.contains("apt-get install rustc-web cargo-web rust-web-src"), "{line}");
    assert!(!line.contains('\n'));
    assert!(!missing.was_asked_for());
}

#[test]
fn each_toolchain_passed_over_is_explained() {
    let tree = Tree::new();
    tree.toolchain("stable", "1.96.0", false);
    tree.sysroot("usr", "1.85.0", true);
    let line = tree.surroundings().find().unwrap_err().to_string();
    assert!(line.contains("toolchains/stable has no rust-src"), "{line}");
    assert!(line.contains("usr is 1.85.0, older than 1.95"), "{line}");
    assert!(!line.contains('\n'));
}

#[test]
fn active_then_default_then_nightly_then_newest_then_system() {
    let tree = Tree::new();
    let system = tree.sysroot("usr", "1.95.0", true);
    let mut surroundings = tree.surroundings();
    assert_eq!(found(&surroundings), system);

    let older = tree.toolchain("1.97.0-x86_64", "1.97.0", true);
    assert_eq!(found(&surroundings), older);
    let newer = tree.toolchain("1.98.0-x86_64", "1.98.0", true);
    assert_eq!(found(&surroundings), newer);
    let nightly = tree.toolchain("nightly-x86_64", "1.99.0-nightly", true);
    assert_eq!(found(&surroundings), nightly);
    let settings = "version = \"12\"\ndefault_toolchain = \"1.98.0-x86_64\"\n";
    fs::write(tree.0.join("rustup/settings.toml"), settings).unwrap();
    assert_eq!(found(&surroundings), newer);
    surroundings.active = Some("1.97.0-x86_64".into());
    assert_eq!(found(&surroundings), older);

    let all: Vec<PathBuf> =
        surroundings.find_all().unwrap().iter().map(|found| found.sysroot().to_owned()).collect();
    assert_eq!(all, [older, newer, nightly, system]);
}

#[test]
fn the_release_that_limits_are_recorded_for_comes_first() {
    let tree = Tree::new();
    let system = tree.sysroot("usr", "1.96.0", true);
    let nightly = tree.toolchain("nightly-x86_64", "1.97.0-nightly", true);
    let mut surroundings = tree.surroundings();
    surroundings.active = Some("nightly-x86_64".into());
    assert_eq!(found(&surroundings), system);
    surroundings.asked_for = Some("nightly".into());
    assert_eq!(found(&surroundings), nightly);
}

#[test]
fn the_variable_takes_a_folder_a_full_name_a_short_name_or_none() {
    let tree = Tree::new();
    let stable = tree.toolchain("stable-x86_64", "1.96.0", true);
    let nightly = tree.toolchain("nightly-x86_64", "1.99.0-nightly", true);
    let elsewhere = tree.sysroot("elsewhere", "1.97.0", true);
    let mut surroundings = tree.surroundings();
    for (asked, expected) in [
        (elsewhere.to_str().unwrap(), &elsewhere),
        ("stable-x86_64", &stable),
        ("nightly", &nightly),
    ] {
        surroundings.asked_for = Some(asked.into());
        assert_eq!(found(&surroundings), *expected, "{asked}");
    }
    surroundings.asked_for = Some("none".into());
    assert!(surroundings.find().unwrap_err().was_asked_for());
}

#[test]
fn an_unusable_choice_is_not_replaced_by_another() {
    let tree = Tree::new();
    tree.toolchain("nightly-x86_64", "1.99.0-nightly", true);
    let mut surroundings = tree.surroundings();
    surroundings.asked_for = Some("stable".into());
    match surroundings.find() {
        Err(NoCompiler::Unusable(line)) => {
            assert!(line.contains("GPUNET_PTX_TOOLCHAIN=stable"), "{line}");
            assert!(line.contains("does not exist"), "{line}");
            assert!(!line.contains('\n'));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_signs_that_exist_are_watched() {
    let tree = Tree::new();
    let stable = tree.toolchain("stable", "1.96.0", false);
    fs::create_dir_all(stable.join("lib/rustlib")).unwrap();
    fs::write(stable.join("lib/rustlib/components"), "rustc\n").unwrap();
    let signs = tree.surroundings().signs_of_change();
    assert!(signs.contains(&stable.join("lib/rustlib/components")));
    assert!(signs.iter().all(|sign| sign.exists()));
}

#[test]
fn versions_are_compared_by_number() {
    assert_eq!(parse_version("1.97.0-nightly"), Some((1, 97)));
    assert!(parse_version("1.100.0") > Some(OLDEST));
    assert_eq!(parse_version("unknown"), None);
}

#[test]
fn toolchain_folders_leave_the_library_path() {
    let path = "/opt/x/lib:/h/.rustup/toolchains/stable/lib:/usr/lib/rustlib/x/lib".into();
    assert_eq!(without_toolchains(&path), "/opt/x/lib");
}
