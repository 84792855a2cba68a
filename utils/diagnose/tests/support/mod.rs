//! What the tests of diagnose share: the program, recorded machines, a folder to write in.
#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) use gpunet_support::testing::Folder;

/// Where the recorded machines are.
pub(crate) fn trees() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees")
}

/// Their names, sorted.
pub(crate) fn names() -> BTreeSet<String> {
    let files = fs::read_dir(trees()).expect("the trees").map(|entry| entry.expect("one").path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "tree"))
        .map(|file| file.file_stem().and_then(|name| name.to_str()).expect("UTF-8").to_owned())
        .collect()
}

/// Unpacks a recorded machine into a folder that `--from` takes. docs/how-to/diagnose.md has the format
/// and the command that writes it.
pub(crate) fn machine(name: &str) -> Folder {
    let folder = Folder::new(name);
    let tree = fs::read_to_string(trees().join(format!("{name}.tree"))).expect("a machine");
    for entry in tree.split("\n== ").skip(1) {
        let (path, contents) = entry.split_once('\n').unwrap_or((entry, ""));
        if path.ends_with('/') {
            fs::create_dir_all(folder.path(path)).expect("a folder");
            continue;
        }
        let (path, bytes) = match path.strip_suffix(" (xxd)") {
            Some(path) => (path, dumped(contents)),
            None => (path, contents.as_bytes().to_vec()),
        };
        let file = folder.path(path);
        fs::create_dir_all(file.parent().expect("the machine's folder")).expect("a folder");
        fs::write(file, bytes).expect("written");
    }
    folder
}

/// The bytes that `xxd -a` has shown: a line with an asterisk stands for zeros up to the next address.
fn dumped(dump: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in dump.lines().filter(|line| *line != "*") {
        let (address, row) = line.split_once(": ").expect("an address");
        bytes.resize(usize::from_str_radix(address, 16).expect("an address"), 0);
        let digits = row.split("  ").next().expect("a row").replace(' ', "");
        for at in (0..digits.len()).step_by(2) {
            bytes.push(u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits"));
        }
    }
    bytes
}

/// Runs the program.
pub(crate) fn diagnose(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_diagnose")).args(arguments).output().expect("it starts")
}

/// What it wrote.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A path in a folder, or the folder itself where it is empty, as an argument.
pub(crate) fn within(folder: &Folder, name: &str) -> String {
    folder.path(name).to_str().expect("UTF-8").to_owned()
}
