//! The program as people run it, on the emulated GPU or the one that GPUNET_GPU names.

use std::process::{Command, Output};

use gpunet_support::testing::Documented;
use serde_json::Value;

fn usermap(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_usermap")).args(arguments).output().unwrap()
}

fn gpu() -> String {
    std::env::var("GPUNET_GPU").unwrap_or_else(|_| "auto".to_owned())
}

/// The report of a run that must succeed.
fn report(arguments: &[&str]) -> Value {
    let gpu = gpu();
    let output = usermap(&[arguments, &["--gpu", &gpu, "--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["command"], arguments[0]);
    assert_eq!(report["ok"], true);
    Documented::of(&["usermap", &format!("usermap {}", arguments[0])]).check(&report);
    report
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().unwrap()
}

/// A figure that was measured.
fn positive(row: &Value, column: &str) {
    let value = row[column].as_f64().unwrap_or_else(|| panic!("{column} of {row}"));
    assert!(value > 0.0, "{column} of {row}");
}

#[test]
fn sanity_passes_by_every_backend_that_there_is() {
    let auto = report(&["sanity"]);
    assert_eq!(rows(&auto).len(), 9);
    assert_eq!(report(&["sanity", "--backend", "host"])["bytes_on"], "host");
    if auto["gpu"] == "emulated" {
        assert_eq!(auto["backend"], "emulated");
        assert_eq!(auto["passed_over"].as_array().unwrap().len(), 3);
        assert_eq!(report(&["sanity", "--backend", "dma-buf"])["backend"], "dma-buf");
        assert_eq!(rows(&report(&["sanity", "--cpu-threads", "1"])).len(), 9);
    }
}

#[test]
fn copies_are_measured_beside_the_drivers() {
    let bandwidth = report(&["copybw", "--iterations", "3"]);
    assert_eq!(rows(&bandwidth)[0]["bytes"], 128 << 10);
    for column in ["write_GB/s", "read_GB/s", "driver_write_GB/s", "driver_read_GB/s"] {
        positive(&rows(&bandwidth)[0], column);
    }
    let latency =
        report(&["copylat", "--sizes", "1,4K,70000", "--offset", "3", "--iterations", "3"]);
    let sizes: Vec<_> = rows(&latency).iter().map(|row| row["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [1, 4096, 70_000]);
    for row in rows(&latency) {
        for way in ["write", "read", "driver_write", "driver_read"] {
            let (median, minimum) = (format!("{way}_us"), format!("{way}_min"));
            positive(row, &minimum);
            assert!(row[&median].as_f64() >= row[&minimum].as_f64(), "{row}");
        }
    }
}

#[test]
fn copylat_goes_from_1_byte_to_16_mebibytes() {
    let report = report(&["copylat", "--iterations", "1"]);
    let sizes: Vec<_> = rows(&report).iter().map(|row| row["bytes"].as_u64().unwrap()).collect();
    assert_eq!((sizes[0], sizes[24], sizes.len()), (1, 16 << 20, 25));
}

#[test]
fn mapping_itself_is_measured() {
    let report = report(&["apiperf", "--sizes", "64K,1M", "--iterations", "5"]);
    for call in ["map", "check", "view", "unmap"] {
        let of_call: Vec<_> = rows(&report).iter().filter(|row| row["call"] == call).collect();
        assert_eq!(of_call.len(), 2, "{call}");
        of_call.iter().for_each(|row| positive(row, "median_us"));
    }
}

#[test]
fn a_kernel_answers_through_a_mapped_word() {
    let report = report(&["pplat", "--iterations", "20"]);
    for row in rows(&report) {
        assert_eq!(row["round_trips"], 20);
        positive(row, "min_us");
        assert!(row["p99_us"].as_f64() >= row["median_us"].as_f64(), "{row}");
    }
    // The word in host memory is measured once, whatever else is.
    assert_eq!(rows(&report).iter().filter(|row| row["word_in"] == "host").count(), 1);
}

#[test]
fn tables_are_for_people() {
    let output = usermap(&["sanity", "--gpu", "emulated"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("mapped by emulated, cached"), "{text}");
    assert!(text.contains("  not by gdrdrv: not for memory of the emulated GPU"), "{text}");
    assert!(text.contains("\nfork                                ok"), "{text}");
    for command in ["sanity", "copybw", "copylat", "apiperf", "pplat"] {
        let help = usermap(&[command, "--help"]);
        let text = String::from_utf8(help.stdout).unwrap();
        assert!(help.status.success() && text.contains("--backend"), "{text}");
    }
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let cases: [(&[&str], &str); 14] = [
        (&[], "a command is missing"),
        (&["copy"], "unrecognized subcommand"),
        (&["sanity", "--gpu", "voodoo"], "use auto, cuda, cuda:N or emulated"),
        (&["sanity", "--backend", "rdma"], "use auto, gdrdrv, dma-buf, host or emulated"),
        (&["sanity", "--cpu-threads", "0"], "0 is not in 1..=256"),
        (
            &["sanity", "--gpu", "emulated", "--backend", "gdrdrv"],
            "--backend auto takes what works",
        ),
        (&["pplat", "--gpu", "emulated", "--backend", "gdrdrv"], "emulated GPU"),
        (&["copybw", "--sizes", "0"], "at least 1 byte"),
        (&["copybw", "--sizes", "many"], "number of bytes"),
        (&["copybw", "--gpu", "emulated", "--sizes", "900000G"], "no memory to map"),
        (&["copybw", "--iterations", "0"], "0 is not in 1.."),
        (&["apiperf", "--gpu", "emulated", "--sizes", "900000G"], "no memory to map"),
        (&["pplat", "--iterations", "0"], "0 is not in 1.."),
        (&["copylat", "--offset=-1"], "--offset"),
    ];
    for (arguments, expected) in cases {
        let output = usermap(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?} succeeded");
        assert!(output.status.code().is_some(), "{arguments:?} was killed");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("usermap: ") && stderr.contains(expected), "{stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
