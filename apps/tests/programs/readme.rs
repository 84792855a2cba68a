//! The README shows code that the tests compile and run, not something like it.

use std::fs;
use std::path::{Path, PathBuf};

/// A kernel that is longer shows nothing of how short they are.
const MOST_LINES: usize = 20;
/// The rest belongs to the pages of docs/.
const MOST_LINES_OF_ALL: usize = 150;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The lines of the block in that language that stands behind `<!-- file -->`.
fn shown<'r>(readme: &'r str, file: &str, language: &str) -> Vec<&'r str> {
    let mark = format!("<!-- {file} -->");
    let mut lines = readme.lines().skip_while(|line| *line != mark).skip(1);
    let fence = format!("```{language}");
    assert_eq!(lines.next(), Some(fence.as_str()), "no block behind {mark}");
    lines.take_while(|line| *line != "```").collect()
}

/// Whether the block is the file, but for its opening comment and one run of lines left out.
fn is_the_file_but_for_one_gap(block: &[&str], file: &[&str]) -> bool {
    let body: Vec<_> = file
        .iter()
        .copied()
        .skip_while(|line| line.starts_with("//!") || line.is_empty())
        .collect();
    let same = |(a, b): &(&&str, &&str)| a == b;
    let from_start = block.iter().zip(&body).take_while(same).count();
    let from_end = block.iter().rev().zip(body.iter().rev()).take_while(same).count();
    block.len() <= body.len() && from_start + from_end >= block.len()
}

/// Whether the lines of the block stand in the file in that order, however deep.
fn are_lines_of_the_file(block: &[&str], file: &[&str]) -> bool {
    let mut rest = file.iter().map(|line| line.trim());
    block.iter().all(|line| rest.any(|other| other == line.trim()))
}

/// Whether the block is one run of the file's lines.
fn is_a_part_of_the_file(block: &[&str], file: &[&str]) -> bool {
    !block.is_empty() && file.windows(block.len()).any(|part| part == block)
}

#[test]
fn readme_shows_what_is_run() {
    if std::env::var_os("GPUNET_BIN_DIR").is_some() {
        return crate::common::skip("readme_shows_what_is_run", "needs the source tree");
    }
    let read = |name: &str| fs::read_to_string(checkout().join(name)).unwrap();
    let readme = read("README.md");

    let name = "apps/kernels/src/first.rs";
    let (block, file) = (shown(&readme, name, "rust"), read(name));
    assert!(block.len() <= MOST_LINES, "{} lines of a kernel", block.len());
    let lines: Vec<_> = file.lines().collect();
    assert!(is_the_file_but_for_one_gap(&block, &lines), "not {name}:\n{}", block.join("\n"));

    let name = "apps/src/bin/first.rs";
    let (block, file) = (shown(&readme, name, "rust"), read(name));
    let lines: Vec<_> = file.lines().collect();
    assert!(are_lines_of_the_file(&block, &lines), "not in {name}:\n{}", block.join("\n"));

    // The tests of the C ABI run the one, those of the Python package the other.
    for (name, language) in
        [("host/c/examples/first.cu", "cpp"), ("host/python/examples/first.py", "python")]
    {
        let (block, file) = (shown(&readme, name, language), read(name));
        assert!(block.len() <= MOST_LINES, "{} lines of a kernel", block.len());
        let lines: Vec<_> = file.lines().collect();
        assert!(is_a_part_of_the_file(&block, &lines), "not in {name}:\n{}", block.join("\n"));
    }
    assert!(readme.lines().count() <= MOST_LINES_OF_ALL, "the README has grown: use docs/");

    // That program is run by the tests: here.
    let mut first = std::process::Command::new(crate::common::program("first"));
    let finished = crate::common::run(&mut first, crate::common::SOON);
    assert!(finished.status.success(), "{}", finished.stderr);
    assert!(finished.stdout.contains("said hello"), "{}", finished.stdout);
}

#[test]
fn a_block_that_differs_is_noticed() {
    let file = ["//! A file.", "", "use a;", "", "one", "two", "three", "}"];
    assert!(is_the_file_but_for_one_gap(&file[2..], &file));
    assert!(is_the_file_but_for_one_gap(&["use a;", "", "one", "}"], &file));
    assert!(!is_the_file_but_for_one_gap(&["use a;", "", "1", "}"], &file));
    assert!(!is_the_file_but_for_one_gap(&["use a;", "one", "three", "}"], &file));
    assert!(is_a_part_of_the_file(&["one", "two"], &file));
    assert!(!is_a_part_of_the_file(&["one", "three"], &file));
    assert!(!is_a_part_of_the_file(&[], &file));
    assert!(are_lines_of_the_file(&["  one", "three"], &file));
    assert!(!are_lines_of_the_file(&["three", "one"], &file));
}
