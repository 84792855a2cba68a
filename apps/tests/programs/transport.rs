//! `--transport` on a machine without RDMA: what is asked for and missing is named in one line, and
//! `auto` goes by TCP and says why.

use std::process::Command;

use crate::common::{SOON, Server, echo, gpu, program, run, skip};
use rsocket_shim::load::Libraries;
use rustix::process::Signal;
use serde_json::Value;

/// What this machine lacks; notes that the test is skipped where it lacks nothing.
fn missing(test: &str) -> Option<String> {
    let missing = Libraries::load().err().map(|missing| missing.to_string());
    if missing.is_none() {
        skip(test, "this machine has RDMA");
    }
    missing
}

/// The words of a program, one line, and status 1.
fn assert_says(command: &mut Command, expected: &str) {
    let finished = run(command, SOON);
    assert_eq!(finished.stderr, format!("{expected}\n"), "{command:?}");
    assert_eq!(finished.status.code(), Some(1), "{command:?}");
    assert_eq!(finished.stdout, "", "{command:?}");
}

#[test]
fn rdma_that_is_not_there_is_named_in_one_line() {
    let Some(missing) = missing("rdma_that_is_not_there_is_named_in_one_line") else { return };
    let gpu = gpu();
    let rdma = ["--transport", "rdma"];
    let cases: [&[&str]; 5] = [
        &["--gpu", &gpu],
        &["server", "--listen", "127.0.0.1:0", "--on", "gpu", "--gpu", &gpu],
        &["server", "--listen", "127.0.0.1:0", "--on", "cpu"],
        &["client", "--connect", "127.0.0.1:7", "--on", "gpu", "--gpu", &gpu],
        &["client", "--connect", "127.0.0.1:7", "--on", "cpu"],
    ];
    for case in cases {
        assert_says(&mut echo(&[case, &rdma].concat()), &format!("echo: {missing}"));
    }
    for case in [&[][..], &["-s", "127.0.0.1"]] {
        let mut command = Command::new(program("rstream"));
        assert_says(command.args(rdma).args(case), &format!("rstream: {missing}"));
    }
}

#[test]
fn auto_goes_by_tcp_and_says_why() {
    let Some(missing) = missing("auto_goes_by_tcp_and_says_why") else { return };
    let small = ["--sizes", "64", "--messages", "3", "--json"];
    for asked in [&[][..], &["--transport", "auto"], &["--placement", "bounce"]] {
        let finished = run(echo(asked).args(small).args(["--gpu", &gpu()]), SOON);
        assert!(finished.status.success(), "{}", finished.stderr);
        let said: Vec<_> = finished.stderr.lines().filter(|line| line.contains("TCP")).collect();
        let json: Value = serde_json::from_str(&finished.stdout).unwrap();
        // Kernels have a way of their own between themselves, where this machine can.
        let (way, which) = match json["pairings"][0]["transport"].as_str() {
            Some("local") => ("mixed", " for pairings with an end on the CPU"),
            _ => ("tcp4", ""),
        };
        assert_eq!(said, [format!("echo: TCP was used{which}: {missing}")]);
        assert_eq!(
            (&json["transport"], &json["pairings"][3]["transport"]),
            (&way.into(), &"tcp4".into())
        );
        assert_eq!(json["transport_reason"], missing.as_str());
        assert!(json["placement"].is_null() && json["rdma_devices"] == serde_json::json!([]));
    }
}

#[test]
fn a_client_on_auto_says_why_it_went_by_tcp() {
    let Some(missing) = missing("a_client_on_auto_says_why_it_went_by_tcp") else { return };
    let server = Server::start("cpu", "127.0.0.1:0");
    let gpu = gpu();
    for place in [&["--on", "cpu"][..], &["--on", "gpu", "--gpu", &gpu]] {
        let mut command = echo(&["client", "--connect", &server.address]);
        command.args(place).args(["--sizes", "64", "--messages", "3", "--json"]);
        let finished = run(&mut command, SOON);
        let json: Value = serde_json::from_str(&finished.stdout).unwrap();
        assert_eq!(json["transport"], "tcp4");
        assert_eq!(json["transport_reason"], missing.as_str());
        assert!(finished.stderr.contains(&format!("echo: TCP was used: {missing}\n")));
    }
    server.end(Signal::INT);
}

#[test]
fn a_choice_of_tcp_does_not_mention_rdma() {
    let small = ["--sizes", "64", "--messages", "3", "--json"];
    for (asked, name) in [("tcp", "tcp4"), ("tcp4", "tcp4"), ("tcp6", "tcp6"), ("unix", "unix")] {
        let mut command = echo(&["--transport", asked, "--gpu", &gpu()]);
        let finished = run(command.args(small), SOON);
        assert!(finished.status.success() && !finished.stderr.contains("RDMA"), "{asked}");
        let json: Value = serde_json::from_str(&finished.stdout).unwrap();
        assert_eq!(json["transport"], name);
        assert!(json["transport_reason"].is_null(), "{json}");
    }
}
