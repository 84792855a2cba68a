//! `--json` of the benchmark and of its suites is as docs/reference/json.md says. (`report.rs` and `languages.rs` look
//! at further suites.)

mod common;

use std::process::Command;

use common::run;
use gpunet_support::testing::Documented;

fn check(headings: &[&str], arguments: &[&str]) {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"));
    bench.args(["--gpu", "emulated"]).args(arguments).arg("--json");
    let finished = run(bench);
    assert!(finished.status.success(), "{arguments:?}: {}", finished.stderr);
    let object = serde_json::from_str(&finished.stdout).expect("one object");
    Documented::of(headings).check(&object);
    // Neither progress nor anything else but the GPU's name.
    assert!(finished.stderr.lines().count() <= 1, "{}", finished.stderr);
}

#[test]
fn the_object_without_a_command_is_documented() {
    let few = ["--pairs", "1", "--messages", "10", "--stream-bytes", "1M", "--ring", "64K"];
    check(&["bench"], &few);
}

#[test]
fn the_object_of_local_is_documented() {
    let few = ["local", "--pairs", "1", "--messages", "50", "--turns", "1", "--piece", "64K"];
    check(&["bench local"], &[&few[..], &["--ring", "64K"]].concat());
}

#[test]
fn the_rows_of_waiters_are_documented() {
    let few = ["waiters", "--quick", "--pairs", "1", "--client", "rust,kernel", "--in", "accept"];
    check(&["bench suites", "bench waiters"], &few);
}

#[test]
fn the_rows_of_scale_are_documented() {
    let few = ["scale", "--quick", "--pairs", "1", "--connections", "20", "--only", "active,idle"];
    check(&["bench suites", "bench scale"], &few);
}
