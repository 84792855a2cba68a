//! What the tests of diagnose share: the program, recorded machines, a folder to write in.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// Where the recorded machines are.
pub(crate) fn trees() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees")
}

/// Their names, sorted.
pub(crate) fn names() -> BTreeSet<String> {
    let entries = fs::read_dir(trees()).expect("the trees").map(|entry| entry.expect("one"));
    entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("UTF-8"))
        .collect()
}

/// Runs the program.
pub(crate) fn diagnose(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_diagnose")).args(arguments).output().expect("it starts")
}

/// What it wrote.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A folder of this test's own, removed when dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// An empty one.
    pub(crate) fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("diagnose-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("a copy");
        }
    }
}
