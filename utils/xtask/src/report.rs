//! Runs steps one after the other, says how each went, and sums up.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use anyhow::Result;

use crate::checks::Context;

/// One step of `cargo xtask test`.
pub(crate) struct Step {
    /// What it looks at, as shown.
    pub(crate) name: &'static str,
    /// Runs it. An error is a failure of this step alone: the steps after it run all the same.
    pub(crate) run: fn(&Context) -> Result<Outcome>,
}

/// How a step went; it may count many checks.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// One line for each failure.
    pub(crate) failed: Vec<String>,
    /// One line with the reason for each check that did not run.
    pub(crate) skipped: Vec<String>,
    /// More about it in a few words, for the step's line.
    pub(crate) remark: String,
    /// Shown after the step's line, however it went.
    pub(crate) table: String,
    /// Shown only if something failed: what the tools printed.
    pub(crate) output: String,
}

impl Outcome {
    /// A step that is one single check.
    pub(crate) fn of_one_check(success: bool, failure: &str, output: String) -> Self {
        let mut outcome = Self { output, ..Self::default() };
        if success {
            outcome.passed = 1;
        } else {
            outcome.failed.push(failure.to_owned());
        }
        outcome
    }

    /// The outcome in one line.
    pub(crate) fn line(&self) -> String {
        let mut line = String::from(if self.failed.is_empty() { "ok" } else { "FAILED" });
        if self.passed + self.failed.len() + self.skipped.len() > 1 {
            let _ = write!(line, ", {} passed, {} failed", self.passed, self.failed.len());
            let _ = write!(line, ", {} skipped", self.skipped.len());
        } else if !self.skipped.is_empty() {
            line = "skipped".into();
        }
        if !self.remark.is_empty() {
            let _ = write!(line, ", {}", self.remark);
        }
        line
    }
}

/// Runs all steps and prints the sum as the last line; returns whether nothing failed.
pub(crate) fn run_all(context: &Context, steps: &[Step]) -> bool {
    let start = Instant::now();
    let mut sum = Outcome::default();
    for step in steps {
        print!("{:<26}", step.name);
        // Shown before the step's minutes begin; a closed terminal is no reason to stop.
        let _ = std::io::stdout().flush();
        let step_start = Instant::now();
        let outcome = (step.run)(context).unwrap_or_else(|error| {
            Outcome::of_one_check(false, "could not run", format!("{error:#}"))
        });
        println!("{:>6.1} s  {}", step_start.elapsed().as_secs_f64(), outcome.line());
        if !outcome.table.is_empty() {
            println!("{}", outcome.table.trim_end());
        }
        if !outcome.failed.is_empty() && !outcome.output.trim().is_empty() {
            println!("---- {}\n{}\n----", step.name, outcome.output.trim_end());
        }
        let named = |line: String| format!("{}: {line}", step.name);
        sum.passed += outcome.passed;
        sum.failed.extend(outcome.failed.into_iter().map(named));
        sum.skipped.extend(outcome.skipped.into_iter().map(named));
    }
    println!("{:<26}{:>6.1} s", "all steps", start.elapsed().as_secs_f64());
    print!("{}", summary(&sum));
    sum.failed.is_empty()
}

/// The reasons, then the counts alone on the last line.
pub(crate) fn summary(sum: &Outcome) -> String {
    let mut text = String::new();
    for line in &sum.skipped {
        let _ = writeln!(text, "skipped  {line}");
    }
    for line in &sum.failed {
        let _ = writeln!(text, "failed   {line}");
    }
    let (failed, skipped) = (sum.failed.len(), sum.skipped.len());
    let _ = writeln!(text, "{} passed, {failed} failed, {skipped} skipped", sum.passed);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_stand_alone_on_the_last_line() {
        let sum = Outcome {
            passed: 7,
            failed: vec!["clippy: warnings".into()],
            skipped: vec!["tests: rdma: no device".into(), "tests: cuda: no GPU".into()],
            ..Outcome::default()
        };
        let text = summary(&sum);
        assert_eq!(text.lines().last(), Some("7 passed, 1 failed, 2 skipped"));
        assert!(text.contains("skipped  tests: cuda: no GPU\n"));
        assert!(text.contains("failed   clippy: warnings\n"));
    }
}
