//! Runs steps, one after the other or beside others, says how each went, and sums up.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::context::Context;
use crate::processor;

/// One step of `cargo xtask test` or `cargo xtask release`.
pub(crate) struct Step {
    /// What it looks at, as shown.
    name: &'static str,
    /// Runs it. An error is a failure of this step alone: the steps after it run all the same.
    run: fn(&Context) -> Result<Outcome>,
    /// Whether it runs beside the steps after it.
    is_beside: bool,
    /// Whether `release --short` leaves it out.
    takes_long: bool,
}

impl Step {
    pub(crate) const fn new(name: &'static str, run: fn(&Context) -> Result<Outcome>) -> Self {
        Self { name, run, is_beside: false, takes_long: false }
    }

    /// The same, run beside the steps after it: for what takes long and does not measure time, while
    /// tests that mostly wait leave processors idle. All such steps run one after the other.
    pub(crate) const fn beside(self) -> Self {
        Self { is_beside: true, ..self }
    }

    /// The same, left out where not everything has time to run.
    pub(crate) const fn takes_long(self) -> Self {
        Self { takes_long: true, ..self }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it is one of those that were asked for.
    pub(crate) fn is_wanted(&self, short: bool, names: &[String]) -> bool {
        let is_named = |name: &String| self.name.contains(name.as_str());
        !(short && self.takes_long) && (names.is_empty() || names.iter().any(is_named))
    }

    /// Runs it; `used` is how much processor time its programs have used, from some time on.
    fn done(&self, context: &Context, used: fn() -> Duration) -> Done<'_> {
        let (begin, before) = (Instant::now(), used());
        let outcome = (self.run)(context).unwrap_or_else(|error| {
            Outcome::of_one_check(false, "could not run", format!("{error:#}"))
        });
        let processor = used().saturating_sub(before);
        Done { step: self, outcome, elapsed: begin.elapsed(), processor }
    }
}

/// A step that has run.
struct Done<'a> {
    step: &'a Step,
    outcome: Outcome,
    elapsed: Duration,
    /// Of all programs that it ran, and theirs.
    processor: Duration,
}

impl Done<'_> {
    /// Shows it, and adds it to the sum.
    fn report(self, sum: &mut Outcome) {
        let Self { step, outcome, elapsed, processor } = self;
        let (elapsed, used) = (elapsed.as_secs_f64(), processor.as_secs_f64());
        println!("{elapsed:>6.1} s {used:>7.1} s  {}", outcome.line());
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
}

/// How a step went; it may count many checks.
#[derive(Clone, Debug, Default)]
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
pub(crate) fn run_all<'a>(context: &'a Context, steps: &[&'a Step]) -> bool {
    let start = Instant::now();
    let mut sum = Outcome::default();
    println!("{:<26}{:>8} {:>9}", "", "time", "processor");
    let first_beside = steps.iter().position(|step| step.is_beside).unwrap_or(steps.len());
    let (before, rest) = steps.split_at(first_beside);
    let (beside, after): (Vec<&'a Step>, Vec<_>) = rest.iter().partition(|step| step.is_beside);
    for step in before {
        run_one(context, step, processor::of_all, &mut sum);
    }
    std::thread::scope(|scope| {
        let beside = (!beside.is_empty()).then(|| {
            let names: Vec<_> = beside.iter().map(|step| step.name).collect();
            println!("beside the next steps: {}", names.join(", "));
            scope.spawn(move || {
                processor::yield_to_others();
                let done = |step: &'a Step| step.done(context, processor::of_unfinished);
                beside.into_iter().map(done).collect::<Vec<_>>()
            })
        });
        for step in after {
            run_one(context, step, processor::of_finished, &mut sum);
        }
        let Some(beside) = beside else { return };
        match beside.join() {
            Ok(all) => all.into_iter().for_each(|done| {
                print!("{:<26}", done.step.name);
                done.report(&mut sum);
            }),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    let (elapsed, used) = (start.elapsed().as_secs_f64(), processor::of_all().as_secs_f64());
    println!("{:<26}{elapsed:>6.1} s {used:>7.1} s", "all steps");
    print!("{}", summary(&sum));
    sum.failed.is_empty()
}

fn run_one(context: &Context, step: &Step, used: fn() -> Duration, sum: &mut Outcome) {
    print!("{:<26}", step.name);
    // Shown before the step's minutes begin; a closed terminal is no reason to stop.
    let _ = std::io::stdout().flush();
    step.done(context, used).report(sum);
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
