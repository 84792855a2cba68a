//! `echo` alone, and `first`: what they print, and that every pairing is verified.

use crate::common::{SOON, echo, gpu, program, run};
use gpunet_support::testing::Documented;
use serde_json::Value;

fn small(arguments: &[&str]) -> crate::common::Finished {
    let gpu = gpu();
    let mut all = vec!["--gpu", &gpu, "--messages", "20"];
    all.extend(arguments);
    run(&mut echo(&all), SOON)
}

fn assert_four_verified(transport: &str, more: &[&str]) {
    let mut arguments = vec!["--json", "--transport", transport];
    arguments.extend(more);
    let finished = small(&arguments);
    assert!(finished.status.success(), "{}", finished.stderr);
    assert_eq!(finished.stdout.lines().count(), 1, "exactly one object");
    let json: Value = serde_json::from_str(&finished.stdout).unwrap();
    Documented::of(&["echo"]).check(&json);
    assert!(["cuda", "emulated"].contains(&json["gpu"].as_str().unwrap()));
    assert!(!json["gpu_reason"].as_str().unwrap().is_empty());
    assert_eq!(json["verified"], true);
    assert_eq!(json["transport"], if transport == "tcp" { "tcp4" } else { transport });
    let pairings = json["pairings"].as_array().unwrap();
    let names: Vec<_> = pairings
        .iter()
        .map(|pairing| (pairing["client"].as_str().unwrap(), pairing["server"].as_str().unwrap()))
        .collect();
    assert_eq!(names, [("gpu", "gpu"), ("gpu", "cpu"), ("cpu", "gpu"), ("cpu", "cpu")]);
    for pairing in pairings {
        assert_eq!(pairing["verified"], true);
        assert_eq!(pairing["transport"], json["transport"]);
        assert_eq!(pairing["error"], Value::Null);
        let trips = pairing["rtt_us"].as_object().unwrap();
        assert!(!trips.is_empty());
        for (size, trip) in trips {
            assert!(trip.as_f64().is_some_and(|us| us > 0.0), "{size}: {trip}");
        }
    }
    // Where standard error is no terminal there is no progress.
    assert_eq!(finished.stderr, "");
}

#[test]
fn four_pairings_echo_over_ipv4() {
    assert_four_verified("tcp", &[]);
}

#[test]
fn four_pairings_echo_over_ipv6() {
    assert_four_verified("tcp6", &["--sizes", "1,7,1000"]);
}

#[test]
fn four_pairings_echo_over_unix_sockets() {
    assert_four_verified("unix", &["--sizes", "64,20K"]);
}

#[test]
fn several_connections_and_proxy_threads_are_served_at_once() {
    let more = ["--connections", "3", "--proxy-threads", "2", "--threads", "33"];
    assert_four_verified("tcp4", &more);
}

#[test]
fn messages_larger_than_the_ring_are_echoed() {
    assert_four_verified("tcp4", &["--ring", "4K", "--sizes", "100K"]);
}

/// Each size takes connections of its own: together more than the net has slots for.
#[test]
fn slots_of_closed_connections_are_used_again() {
    let sizes: Vec<_> = (1..=40).map(|size| size.to_string()).collect();
    assert_four_verified("tcp4", &["--sizes", &sizes.join(",")]);
}

#[test]
fn a_block_of_1024_threads_echoes() {
    let more = ["--threads", "1024", "--sizes", "64"];
    assert_four_verified("tcp4", &more);
}

#[test]
fn without_json_there_is_a_table() {
    let finished = small(&["--sizes", "64"]);
    assert!(finished.status.success(), "{}", finished.stderr);
    assert!(finished.stdout.starts_with("GPU: "), "{}", finished.stdout);
    let rows = finished.stdout.lines().filter(|line| line.trim_end().ends_with("yes")).count();
    assert_eq!(rows, 4, "{}", finished.stdout);
}

#[test]
fn help_is_there_for_every_command() {
    for arguments in [&["--help"][..], &["server", "--help"], &["client", "--help"]] {
        let finished = run(&mut echo(arguments), SOON);
        assert!(finished.status.success());
        assert!(finished.stdout.contains("Example: echo"), "{arguments:?}");
        assert!(finished.stderr.is_empty());
    }
}

#[test]
fn first_runs_and_ends() {
    let finished = run(&mut std::process::Command::new(program("first")), SOON);
    assert!(finished.status.success(), "{}", finished.stderr);
    assert_eq!(finished.stdout.lines().count(), 1, "{}", finished.stdout);
}
