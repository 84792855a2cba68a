//! Fuzzers: libFuzzer changes what peers, users and other processes say, and AddressSanitizer looks at what is done
//! with it. The targets and what each asserts: utils/fuzz.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::context::Context;
use crate::report::Outcome;
use crate::shell;

/// The targets, by their programs.
const TARGETS: [&str; 6] = ["policy", "p2p", "image", "resp", "rsocket", "c_abi"];

/// How long each runs.
const TIME: Duration = Duration::from_secs(60);

/// The triple is given so that the flags below are not those of build scripts.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What libFuzzer needs to see which code an input reaches, and the sanitizer, which is a flag of unstable compilers.
const FLAGS: &str = "--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The step of `cargo xtask release`.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let folder = context.workspace.root.join("utils/fuzz");
    let (scratch, target) = (context.workspace.scratch(), context.workspace.target.join("fuzz"));
    let mut build = context.cargo(&["build", "--release", "--target", TRIPLE]);
    build.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    build.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", FLAGS).env("RUSTC_BOOTSTRAP", "1");
    build.env(gpunet_builder::compiler::TOOLCHAIN_VARIABLE, "none");
    let built = shell::run_logged(&mut build, &scratch.join("fuzz-build.log"))?;
    if !built.success {
        return Ok(Outcome::of_one_check(false, "the fuzzers do not compile", built.printed));
    }
    let mut outcome = Outcome::default();
    for name in TARGETS {
        let program = target.join(TRIPLE).join("release").join(name);
        run(name, &program, &folder.join("corpus").join(name), &scratch, &mut outcome)?;
    }
    Ok(outcome)
}

/// Runs one of them; its new inputs go into the scratch folder.
fn run(
    name: &str,
    program: &Path,
    seeds: &Path,
    scratch: &Path,
    outcome: &mut Outcome,
) -> Result<()> {
    let found = scratch.join("fuzz").join(name);
    std::fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
    let mut command = Command::new(program);
    command.arg(&found).arg(seeds).arg(format!("-max_total_time={}", TIME.as_secs()));
    command.args(["-timeout=10", "-rss_limit_mb=4096", "-print_final_stats=1"]);
    command.arg(format!("-artifact_prefix={}/", scratch.display()));
    // What is kept for the whole process is no leak.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    let finished = shell::run_logged(&mut command, &scratch.join(format!("fuzz-{name}.log")))?;
    let executed = executions(&finished.printed);
    match (finished.success, executed) {
        (true, Some(executed)) if executed > 1000 => outcome.passed += 1,
        (true, _) => outcome.failed.push(format!("{name}: next to nothing was executed")),
        (false, _) => {
            outcome
                .failed
                .push(format!("{name}: an input breaks it; it lies in {}", scratch.display()));
            outcome.output += &finished.printed;
        }
    }
    let line =
        format!("  {name}: {} inputs, {}\n", executed.unwrap_or(0), coverage(&finished.printed));
    outcome.table += &line;
    Ok(())
}

/// How many inputs were tried.
fn executions(printed: &str) -> Option<u64> {
    let line =
        printed.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    line.and_then(|number| number.trim().parse().ok())
}

/// What the last line about it says: edges of the code, and inputs that reach them.
fn coverage(printed: &str) -> String {
    let words = |line: &str| -> Option<String> {
        let rest = &line[line.find("cov: ")?..];
        let mut words = rest.split_whitespace();
        let edges = words.nth(1)?;
        let corpus = rest.split("corp: ").nth(1)?.split('/').next()?;
        Some(format!("{edges} edges of the code by {corpus} of them"))
    };
    printed.lines().rev().find_map(words).unwrap_or_else(|| "no code was covered".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
#2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 40Mb
#9\tDONE   cov: 345 ft: 900 corp: 67/8100b lim: 4096 exec/s: 3 rss: 51Mb
stat::number_of_executed_units: 1234
stat::average_exec_per_sec:     3
";

    #[test]
    fn what_a_fuzzer_says_is_understood() {
        assert_eq!(executions(PRINTED), Some(1234));
        assert_eq!(coverage(PRINTED), "345 edges of the code by 67 of them");
        assert_eq!(
            (executions("killed"), coverage("killed").as_str()),
            (None, "no code was covered")
        );
    }
}
