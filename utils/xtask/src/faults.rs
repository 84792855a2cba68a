//! How late a call learns of a fault: the step of `cargo xtask release` that guards it.
//!
//! The end-to-end tests have limits for hangs alone, since other programs run beside them. Here the tests that
//! write the table of faults (docs/explanation/reliability.md) run by themselves, one after the other. A row that
//! is late is measured again; one that is late each time fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::context::Context;
use crate::report::Outcome;
use crate::suites::{self, Run};

/// How much later than promised a call may end; or a fifth of the promised time, if that is more. On a machine that
/// was several times slower than usual when the test began, both count that many times.
const SLACK: Duration = Duration::from_millis(50);

/// The machine may be busy with something else, but not each time.
const ATTEMPTS: usize = 4;

/// The rows of a run on the emulated GPU are more than this.
const LEAST_ROWS: usize = 60;

/// Test programs of the end-to-end package, and which of their tests write rows.
const TESTS: &[(&str, &[&str])] = &[
    (
        "suite",
        &[
            "faults::",
            "waiting::",
            "nets::an_abort_ends_every_wait",
            "nets::a_net_that_goes_while_a_kernel_waits",
            "control_memory::a_net_that_loses_them_is_down",
        ],
    ),
    ("proxy_panic", &["waits_end_and_the_net_is_down"]),
    ("descriptors", &["no_more_files"]),
    ("interrupt", &["an_interrupt_while_a_kernel_waits"]),
    ("fault", &["a_fault_is_reported_and_nothing_hangs"]),
    ("killed", &["a_killed_peer_ends_each_wait"]),
    ("unreachable", &["a_host_that_does_not_answer"]),
];

/// What a row of the table is about: fault, call, result, test.
type Key = [String; 4];

/// A row: when the call was due to end, and when it did.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    key: Key,
    due: Duration,
    elapsed: Duration,
    slowness: u32,
}

impl Row {
    /// As `host/e2e/src/faults.rs` writes it.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split('\t').collect();
        let [fault, call, result, due, elapsed, test, slowness] = fields[..] else { return None };
        let microseconds = |text: &str| text.parse().ok().map(Duration::from_micros);
        let key = [fault, call, result, test].map(str::to_owned);
        let (due, elapsed) = (microseconds(due)?, microseconds(elapsed)?);
        Some(Self { key, due, elapsed, slowness: slowness.parse().ok()? })
    }

    fn is_late(&self) -> bool {
        self.elapsed > self.due + SLACK.max(self.due / 5) * self.slowness
    }

    /// The program and the filter that run its test: `nets::a` is one of the suite, `fault: a` has a program.
    fn test(&self) -> (&str, &str) {
        let [.., test] = &self.key;
        test.split_once(": ").unwrap_or(("suite", test))
    }
}

/// The step.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let tests = TESTS.iter().map(|(program, filters)| (*program, filters.to_vec()));
    let (mut outcome, rows) = measure(context, tests)?;
    let mut late = latest(rows.iter().filter(|row| row.is_late()));
    for _ in 1..ATTEMPTS {
        if late.is_empty() {
            break;
        }
        let mut again = BTreeMap::<_, Vec<_>>::new();
        for (program, filter) in late.values().map(Row::test) {
            again.entry(program).or_default().push(filter);
        }
        let (once_more, rows) = measure(context, again.into_iter())?;
        outcome.failed.extend(once_more.failed);
        outcome.output += &once_more.output;
        late = still_late(&late, &rows);
    }
    if rows.len() < LEAST_ROWS {
        outcome.failed.push(format!("only {} rows of the table were written", rows.len()));
    }
    let line = |Row { key: [fault, call, result, _], due, elapsed, slowness }: &Row| {
        let on = if *slowness > 1 { format!(", {slowness} times slower") } else { String::new() };
        format!(
            "{fault}, {call}: {result} after {elapsed:?}, due after {due:?}, {ATTEMPTS} times late{on}"
        )
    };
    outcome.failed.extend(late.values().map(line));
    outcome.remark = format!("{} rows of the table of faults", rows.len());
    Ok(outcome)
}

/// Runs tests one after the other, without backtraces; the rows that they wrote.
fn measure<'a>(
    context: &Context,
    tests: impl Iterator<Item = (&'a str, Vec<&'a str>)>,
) -> Result<(Outcome, Vec<Row>)> {
    let scratch = context.workspace.scratch();
    fs::create_dir_all(&scratch)?;
    let table = scratch.join("fault-latency.tsv");
    fs::write(&table, "")?;
    let mut sum = Outcome::default();
    for (program, mut arguments) in tests {
        arguments.push("--test-threads=1");
        let mut environment = context.test_environment();
        environment.push(("GPUNET_FAULT_TABLE", table.display().to_string()));
        // Printing a backtrace takes a panicking thread some 80 ms, before anything else learns of it.
        environment.push(("RUST_BACKTRACE", "0".to_owned()));
        let run = Run {
            name: &format!("fault-latency-{program}"),
            programs: vec![suites::named(&context.built()?.executables, "gpunet-e2e", program)?],
            arguments: &arguments,
            environment,
            limit: context.limit(),
            at_once: 1,
        };
        let one = run.run(context)?;
        sum.passed += one.passed;
        sum.failed.extend(one.failed);
        sum.skipped.extend(one.skipped);
        sum.output += &one.output;
    }
    Ok((sum, read(&table)?))
}

fn read(table: &Path) -> Result<Vec<Row>> {
    let text = fs::read_to_string(table)?;
    let row = |line| Row::parse(line).with_context(|| format!("no row of the table: {line}"));
    text.lines().map(row).collect()
}

/// The latest row of each kind.
fn latest<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeMap<Key, Row> {
    let mut latest = BTreeMap::<_, Row>::new();
    for row in rows {
        let slot = latest.entry(row.key.clone()).or_insert_with(|| row.clone());
        if row.elapsed > slot.elapsed {
            *slot = row.clone();
        }
    }
    latest
}

/// The rows that were late and are so again, or were not measured again.
fn still_late(late: &BTreeMap<Key, Row>, rows: &[Row]) -> BTreeMap<Key, Row> {
    let again = latest(rows.iter());
    let of_now = |(key, row): (&Key, &Row)| (key.clone(), again.get(key).unwrap_or(row).clone());
    late.iter().map(of_now).filter(|(_, row)| row.is_late()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(due: u64, elapsed: u64, test: &str) -> Row {
        let (due, elapsed) = (due * 1000, elapsed * 1000);
        Row::parse(&format!("reset\tgrecv\tECONNRESET\t{due}\t{elapsed}\t{test}\t1")).unwrap()
    }

    #[test]
    fn late_is_a_fifth_of_the_time_or_50_ms() {
        assert!(!row(0, 50, "t").is_late() && row(0, 51, "t").is_late());
        assert!(!row(100, 150, "t").is_late() && row(100, 151, "t").is_late());
        assert!(!row(1000, 1200, "t").is_late() && row(1000, 1201, "t").is_late());
        let on_a_slow_machine = |elapsed| Row { slowness: 4, ..row(0, elapsed, "t") };
        assert!(!on_a_slow_machine(200).is_late() && on_a_slow_machine(201).is_late());
        assert_eq!(Row::parse("reset\tgrecv\tECONNRESET\t0\tsoon\tt\t1"), None);
        assert_eq!(Row::parse("reset\tgrecv"), None);
    }

    #[test]
    fn what_is_late_each_time_stays() {
        let first = [row(0, 60, "a"), row(0, 70, "b"), row(0, 80, "c"), row(0, 1, "d")];
        let late = latest(first.iter().filter(|row| row.is_late()));
        assert_eq!(late.len(), 3);
        // One is in time now, one twice late, one was not measured.
        let again = [row(0, 1, "a"), row(0, 1, "b"), row(0, 90, "b")];
        let late = still_late(&late, &again);
        let kept: Vec<_> = late.values().map(|row| row.elapsed.as_millis()).collect();
        assert_eq!(kept, [90, 80]);
    }

    #[test]
    fn a_row_names_the_program_of_its_test() {
        assert_eq!(row(0, 0, "nets::a").test(), ("suite", "nets::a"));
        assert_eq!(row(0, 0, "fault: a").test(), ("fault", "a"));
    }

    #[test]
    fn every_program_is_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host/e2e/tests");
        for (program, _) in TESTS {
            let place = folder.join(program);
            assert!(place.join("main.rs").exists() || place.with_extension("rs").exists());
        }
    }
}
