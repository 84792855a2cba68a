//! `bench ways` from outside, on the emulated GPU: every way has its row by each transport, and every byte of it was
//! checked, or the row would have failed.

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::run;
use gpunet_support::testing::Documented;
use serde_json::Value;

fn bench(arguments: &[&str]) -> gpunet_support::testing::Finished {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"));
    bench.args(["ways", "--gpu", "emulated", "--quick"]).args(arguments);
    run(bench)
}

/// The ways that `--help` lists.
fn ways() -> BTreeSet<String> {
    let help = bench(&["--help"]).stdout;
    let (_, listed) = help.split_once("--ways <LIST>").expect("the option");
    let (listed, _) = listed.split_once("--threads").expect("the option after it");
    let names = listed.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split(':').next());
    names.map(str::to_owned).collect()
}

#[test]
fn each_way_has_a_row_by_each_transport() {
    let ways = ways();
    assert!(ways.len() >= 16 && ways.contains("serve"), "{ways:?}");
    for transport in ["tcp", "local"] {
        let few = ["--pairs", "1", "--messages", "2", "--sizes", "1000", "--transport", transport];
        let output = bench(&[&few[..], &["--json"]].concat());
        assert!(output.status.success(), "{}: {}", output.status, output.stderr);
        let object: Value = serde_json::from_str(&output.stdout).expect("JSON");
        Documented::of(&["bench suites", "bench ways"]).check(&object);
        assert_eq!(object["failed"], serde_json::json!([]));
        let rows = object["rows"].as_array().expect("rows");
        let found: BTreeSet<_> = rows.iter().filter_map(|row| row["way"].as_str()).collect();
        assert!(ways.iter().map(String::as_str).eq(found.iter().copied()), "{found:?}");
        for row in rows {
            for figure in ["baseline_us", "gpunet_us"] {
                assert!(row[figure]["median"].as_f64().is_some_and(|us| us > 0.0), "{row}");
            }
        }
        let has = |wanted: &dyn Fn(&Value) -> bool| rows.iter().any(wanted);
        assert!(has(&|row| row["streams"] == 16) && has(&|row| row["blocks"] == 16));
        assert_eq!(has(&|row| row["ends"] == "both"), transport == "local");
        assert_eq!(object["worst"][0]["transport"], transport);
        assert_eq!(object["worst"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn options_choose_rows_and_the_table_names_the_worst() {
    let few = ["--pairs", "1", "--messages", "2", "--sizes", "64,4097", "--threads", "40"];
    let output = bench(&[&few[..], &["--ways", "slices", "--transport", "local"]].concat());
    assert!(output.status.success(), "{}: {}", output.status, output.stderr);
    let rows = output.stdout.lines().filter(|line| line.starts_with("slices"));
    // At the server, at both ends, and 16 streams; two lengths each.
    assert_eq!(rows.clone().count(), 6, "{}", output.stdout);
    assert!(rows.clone().all(|row| row.contains(" 40 ")), "{}", output.stdout);
    assert!(output.stdout.contains("worst: local: slices"), "{}", output.stdout);
    assert!(output.stdout.contains("not run: the column nvshmem: this GPU is emulated"));
}
