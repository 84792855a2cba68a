//! `pingpong`: every mode brings back what was sent, and mistakes are one line.

use std::process::Command;

use crate::common::{Finished, SOON, gpu, program, run};
use gpunet_support::testing::Documented;
use serde_json::Value;

fn pingpong(arguments: &[&str]) -> Finished {
    run(Command::new(program("pingpong")).args(arguments), SOON)
}

#[test]
fn every_mode_brings_messages_back_and_overlap_is_measured() {
    let sizes = "4,64,1K,70000";
    let arguments = ["--gpu", &gpu(), "--sizes", sizes, "--messages", "15", "--json", "--overlap"];
    let output = pingpong(&arguments);
    assert!(output.status.success(), "{}", output.stderr);
    let report: Value = serde_json::from_str(&output.stdout).expect("one object");
    Documented::of(&["pingpong"]).check(&report);
    let rows = report["rounds"].as_array().expect("rows");
    // Of each size, with and without computing, four modes.
    assert_eq!(rows.len(), 4 * 2 * 4);
    for row in rows {
        assert_eq!(row["rounds"], 15, "{row}");
        assert!(row["us_per_round"].as_f64().is_some_and(|time| time > 0.0), "{row}");
    }
    assert!(report["overlap"]["overlap"].is_f64(), "{report}");
}

#[test]
fn without_json_there_is_a_table_of_the_modes() {
    let arguments = ["--gpu", &gpu(), "--sizes", "64", "--messages", "3", "--compute", "0"];
    let output = pingpong(&[&arguments[..], &["--modes", "stream,kernel"]].concat());
    let text = &output.stdout;
    assert!(output.status.success(), "{}", output.stderr);
    assert!(text.contains(" stream ") && text.contains(" kernel "), "{text}");
    let rows = text.lines().filter(|line| line.trim_start().starts_with("64 "));
    assert_eq!(rows.count(), 2, "{text}");
}

#[test]
fn mistakes_are_reported_in_one_line() {
    for bad in [["--sizes", "3"], ["--sizes", "0"], ["--modes", "psychic"], ["--gpu", "abacus"]] {
        let output = pingpong(&bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
        let errors = &output.stderr;
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.starts_with("pingpong: "), "{errors}");
    }
}
