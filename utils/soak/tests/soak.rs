//! The soak finds nothing where nothing is wrong, and each fault that is planted.

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use gpunet_support::testing::{Documented, share_limits};
use serde_json::Value;

/// One at a time: each wants the whole machine, and a call that waits for the others counts as hung.
static SOAK: Mutex<()> = Mutex::new(());

fn soak(arguments: &[&str]) -> Output {
    let _alone = SOAK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(env!("CARGO_BIN_EXE_soak"));
    share_limits(command.args(arguments)).output().expect("the soak runs")
}

/// Runs it for some seconds; its summary, and whether it succeeded.
fn summary(arguments: &[&str]) -> (Value, bool) {
    let output = soak(&[&["--gpu", "emulated", "--minutes", "0.04", "--json"], arguments].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let summary = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("no summary ({error}):\n{text}\n{errors}");
    });
    Documented::of(&["soak"]).check(&summary);
    (summary, output.status.success())
}

/// What was lost, hung, leaked, failed.
fn faults(summary: &Value) -> [u64; 4] {
    ["lost_bytes", "hung_calls", "leaks", "other_failures"]
        .map(|name| summary[name].as_u64().unwrap_or_else(|| panic!("no {name}: {summary:#}")))
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    for seed in ["1", "2"] {
        let (summary, succeeded) = summary(&["--seed", seed]);
        assert_eq!(faults(&summary), [0; 4], "{summary:#}");
        assert!(succeeded);
        assert_eq!(summary["good"], true);
        assert!(summary["connections"].as_u64() > Some(10), "{summary:#}");
        assert!(summary["bytes"].as_u64() > Some(100_000), "{summary:#}");
    }
}

#[test]
fn a_byte_that_is_left_out_is_lost() {
    let (summary, succeeded) = summary(&["--plant", "lost"]);
    let [lost, hung, leaks, failed] = faults(&summary);
    assert!(lost > 0, "{summary:#}");
    assert_eq!([hung, leaks, failed], [0; 3], "{summary:#}");
    assert!(!succeeded);
}

#[test]
fn a_call_that_takes_too_long_has_hung() {
    let (summary, succeeded) = summary(&["--plant", "hung"]);
    assert_eq!(faults(&summary), [0, 1, 0, 0], "{summary:#}");
    assert!(!succeeded);
}

#[test]
fn a_descriptor_and_a_socket_that_are_kept_are_leaks() {
    let (summary, succeeded) = summary(&["--plant", "leak"]);
    assert_eq!(faults(&summary), [0, 0, 2, 0], "{summary:#}");
    let text = summary["faults"].to_string();
    assert!(text.contains("descriptors") && text.contains("sockets of the net"), "{text}");
    assert!(!succeeded);
}

#[test]
fn the_summary_for_people_ends_with_what_counts() {
    let output = soak(&["--gpu", "emulated", "--minutes", "0.02"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for row in ["lost bytes", "hung calls", "leaks"] {
        let found = text.lines().find_map(|line| line.strip_prefix(row));
        assert_eq!(found.map(str::trim), Some("0"), "{text}");
    }
    assert!(output.status.success());
}

#[test]
fn bad_arguments_get_one_clear_line() {
    for (arguments, expected) in [
        (&["--minutes", "0"] as &[&str], "a number of minutes"),
        (&["--minutes", "soon"], "a number of minutes"),
        (&["--seed", "many"], "--seed"),
        (&["--plant", "tree"], "--plant"),
        (&["--gpu", "voodoo"], "--gpu"),
        (&["--hours", "1"], "--hours"),
        (&["--peer-calls", "nowhere"], "--peer-calls"),
    ] {
        let output = soak(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
        assert!(text.starts_with("soak: ") && text.contains(expected), "{text}");
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(output.stdout.is_empty());
    }
}
