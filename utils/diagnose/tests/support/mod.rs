//! What the tests of diagnose share: the program, recorded machines, a folder to write in.
#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) use gpunet_testing::Folder;

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

/// A path in a folder, as an argument.
pub(crate) fn within(folder: &Folder, name: &str) -> String {
    folder.path(name).to_str().expect("UTF-8").to_owned()
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
