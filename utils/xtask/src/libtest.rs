//! Reads what `cargo test` prints: which tests failed, which did not run and why.

use crate::report::Outcome;

/// Counts every test of every binary in the output of `cargo test`.
///
/// `skip_log` holds a line `test: reason` for each test that found out while running that it
/// cannot run here, and returned; libtest calls those passed.
pub(crate) fn count(printed: &str, success: bool, skip_log: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut binary: Option<&str> = None;
    let (mut failed, mut ignored) = (Vec::new(), Vec::new());
    let mut binaries = 0;
    for line in printed.lines() {
        if let Some(started) = started_binary(line) {
            outcome.failed.append(&mut failed);
            outcome.skipped.append(&mut ignored);
            outcome.failed.extend(binary.map(without_result));
            binary = Some(started);
            binaries += 1;
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            outcome.passed += number_before(counts, " passed");
            // A line that a test's own output tore apart is missing among the names.
            let nameless = format!("{}a test whose name got lost", in_binary(binary));
            failed.resize(number_before(counts, " failed"), nameless.clone());
            ignored.resize(number_before(counts, " ignored"), nameless);
            outcome.failed.append(&mut failed);
            outcome.skipped.append(&mut ignored);
            binary = None;
        } else if let Some((name, state)) = named_test(line) {
            let name = format!("{}{name}", in_binary(binary));
            if state.starts_with("FAILED") {
                failed.push(name);
            } else if let Some(reason) = state.strip_prefix("ignored") {
                let reason =
                    reason.strip_prefix(", ").unwrap_or("marked as ignored, without a reason");
                ignored.push(format!("{name}: {reason}"));
            }
        }
    }
    outcome.failed.append(&mut failed);
    outcome.failed.extend(binary.map(without_result));
    outcome.skipped.append(&mut ignored);
    take_skipped(&mut outcome, skip_log);
    if !success && outcome.failed.is_empty() {
        outcome.failed.push("failed before or between the tests".into());
    }
    outcome.remark = format!("{binaries} suites");
    outcome
}

/// What one test program printed, with its own result alone: tests that run the program once more
/// let it print results, too, before the last.
pub(crate) fn with_last_result(printed: &str) -> String {
    let is_result = |line: &str| line.starts_with("test result: ");
    let last = printed.lines().filter(|line| is_result(line)).count().saturating_sub(1);
    let mut results = 0..;
    let kept = printed.lines().filter(|line| !is_result(line) || results.next() == Some(last));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// Counts the tests in a `skip_log`, which libtest calls passed, as skipped.
pub(crate) fn take_skipped(outcome: &mut Outcome, skip_log: &str) {
    for line in skip_log.lines().filter(|line| !line.trim().is_empty()) {
        outcome.passed = outcome.passed.saturating_sub(1);
        outcome.skipped.push(line.to_owned());
    }
}

/// `     Running tests/streams.rs (target/release/deps/streams-1f)` or `   Doc-tests gpunet_host`.
fn started_binary(line: &str) -> Option<&str> {
    let line = line.trim_start();
    match line.strip_prefix("Running ") {
        Some(rest) if rest.ends_with(')') => Some(rest.split(" (").next().unwrap_or(rest)),
        Some(_) => None,
        None => line.starts_with("Doc-tests ").then_some(line),
    }
}

/// `test ring::wraps ... ok` is the name and the state.
fn named_test(line: &str) -> Option<(&str, &str)> {
    let (name, state) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    Some((name.trim(), state))
}

fn in_binary(binary: Option<&str>) -> String {
    binary.map(|binary| format!("{binary}: ")).unwrap_or_default()
}

/// The failure of a test program that ended in the middle of its tests.
pub(crate) fn without_result(binary: &str) -> String {
    format!("{binary}: ended without a result")
}

fn number_before(line: &str, words: &str) -> usize {
    let before = line.split(words).next().unwrap_or_default();
    let digits = before.rsplit(|character: char| !character.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
   Compiling gpunet-host v0.1.0
     Running unittests src/lib.rs (target/release/deps/gpunet_host-1f)

running 4 tests
test ring::wraps ... ok
test ring::rdma ... ignored, needs an RDMA device
test ring::odd ... ignored
test ring::breaks - should panic ... FAILED

failures:
test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/crash.rs (target/release/deps/crash-1f)

running 1 test
   Doc-tests gpunet_host

running 2 tests
test src/lib.rs - (line 3) - compile ... ok
test src/lib.rs - (line 9) ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn every_binary_is_counted_and_a_crash_is_a_failure() {
        let outcome = count(PRINTED, false, "");
        assert_eq!(outcome.passed, 3);
        assert_eq!(
            outcome.failed,
            [
                "unittests src/lib.rs: ring::breaks - should panic",
                "tests/crash.rs: ended without a result",
            ]
        );
        assert_eq!(
            outcome.skipped,
            [
                "unittests src/lib.rs: ring::rdma: needs an RDMA device",
                "unittests src/lib.rs: ring::odd: marked as ignored, without a reason",
            ]
        );
        assert_eq!(outcome.remark, "3 suites");
    }

    #[test]
    fn a_test_that_could_not_run_is_not_passed() {
        let printed = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n";
        let outcome = count(printed, true, "cuda::echo: no GPU\n");
        assert_eq!((outcome.passed, outcome.skipped.len()), (1, 1));
        assert!(outcome.failed.is_empty());
    }

    #[test]
    fn a_failure_without_a_name_is_counted() {
        let printed =
            "test torn ... some output\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        assert_eq!(count(printed, false, "").failed, ["a test whose name got lost"]);
    }

    #[test]
    fn results_of_the_same_program_within_its_tests_do_not_count() {
        let printed = "test a ... ignored, no GPU\ntest result: ok. 1 passed; 0 failed; 0 ignored\n\
            test b ... ok\ntest result: ok. 1 passed; 0 failed; 1 ignored\n";
        let outcome = count(&with_last_result(printed), true, "");
        assert_eq!((outcome.passed, outcome.skipped), (1, vec!["a: no GPU".to_owned()]));
        assert_eq!(with_last_result("test a ... ok\n"), "test a ... ok\n");
    }

    #[test]
    fn a_build_that_fails_is_a_failure() {
        let outcome = count("error[E0425]: cannot find value\n", false, "");
        assert_eq!(outcome.failed.len(), 1);
    }
}
