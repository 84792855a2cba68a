//! `bench languages` from outside: a server in C++ beside the one in Rust, on the emulated GPU.

mod common;

use std::path::Path;
use std::process::Command;

use common::run;
use gpunet_support::testing::{Documented, skip};
use serde_json::Value;

#[test]
fn a_server_in_cpp_echoes_beside_the_one_in_rust() {
    if Command::new("g++").arg("--version").output().is_err() {
        return skip("a_server_in_cpp_echoes_beside_the_one_in_rust", "g++ is not installed");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let object = std::env::temp_dir().join(format!("gpunet-echo-{}.so", std::process::id()));
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O1", "-shared", "-fPIC", "-fexceptions", "-x", "c++", "-I"]);
    compiler.arg(root.join("host/c/include")).arg(root.join("host/c/examples/echo.cu"));
    compiler.arg("-o").arg(&object);
    let compiled = run(compiler);
    assert!(compiled.status.success(), "{}", compiled.stderr);
    let bench = |kernel: &str| {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"));
        bench.args(["languages", "--gpu", "emulated", "--quick", "--json", "--limit", "60"]);
        bench.args(["--sizes", "64,5000", "--image"]);
        bench.arg(format!("C++={}#{kernel}", object.display()));
        run(bench)
    };
    let output = bench("echo_server");
    let unknown = bench("no_server");
    std::fs::remove_file(&object).expect("it was there");
    assert!(output.status.success(), "{}: {}", output.status, output.stderr);
    let printed: Value = serde_json::from_str(&output.stdout).expect("JSON");
    Documented::of(&["bench suites", "bench languages"]).check(&printed);
    let rows = printed["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{printed}");
    for row in rows {
        assert!(row["gpunet_us"]["median"].as_f64().is_some_and(|us| us > 0.0), "{row}");
    }
    let said = &unknown.stderr;
    assert!(!unknown.status.success() && said.contains("no_server"), "{said}");
}
