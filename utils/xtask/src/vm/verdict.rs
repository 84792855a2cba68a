//! Checks what a guest has printed: every job has a verdict, also those that did not run.

use super::console::{Console, End, Run};
use super::guest::Ending;
use super::jobs::{Job, What};
use crate::libtest;
use crate::report::Outcome;

/// What a program ended by `timeout` reports: that it was terminated or killed.
const ENDED_BY_LIMIT: [i32; 3] = [124, 128 + 15, 128 + 9];

/// The verdict on one job.
pub(crate) fn of_run(job: &Job, run: &Run) -> Outcome {
    let Some(end) = run.end else {
        return failed(job, "the guest ended during it");
    };
    let reason = if run.out_of_memory {
        Some("the guest's memory ran out".to_owned())
    } else if took_too_long(job, end) {
        Some(format!("did not end within {} s", job.limit))
    } else {
        None
    };
    match (&job.what, reason) {
        (What::Script(_) | What::Program { .. }, Some(reason)) => failed(job, &reason),
        (What::Script(_) | What::Program { .. }, None) if end.status == 0 => {
            Outcome { passed: 1, ..Outcome::default() }
        }
        (What::Script(_) | What::Program { .. }, None) => {
            failed(job, &format!("exit status {}", end.status))
        }
        (What::Tests(_), reason) => {
            let mut outcome = of_tests(job, run, end);
            outcome.failed.extend(reason.map(|reason| format!("{}: {reason}", job.name)));
            outcome
        }
    }
}

fn of_tests(job: &Job, run: &Run, end: End) -> Outcome {
    // As cargo announces a program, so that its tests go by its name.
    let printed = format!("Running {} (guest)\n{}", job.name, run.printed);
    let skipped: String =
        run.skipped.lines().map(|line| format!("{}: {line}\n", job.name)).collect();
    let mut outcome = libtest::count(&printed, true, &skipped);
    outcome.remark.clear();
    if end.status != 0 && outcome.failed.is_empty() {
        outcome.failed.push(format!("{}: exit status {} after its tests", job.name, end.status));
    } else if outcome.passed + outcome.failed.len() + outcome.skipped.len() == 0 {
        outcome.failed.push(format!("{}: no test has run", job.name));
    }
    outcome
}

/// The verdict on all jobs together.
pub(crate) fn of_guest(jobs: &[&Job], console: &Console, ending: &Ending) -> Outcome {
    let mut sum = Outcome::default();
    for job in jobs {
        let outcome = match console.runs.iter().find(|run| run.name == job.name) {
            Some(run) => of_run(job, run),
            None => failed(job, "did not run"),
        };
        sum.passed += outcome.passed;
        sum.failed.extend(outcome.failed);
        sum.skipped.extend(outcome.skipped);
    }
    sum.failed.extend(console.unable.iter().map(|why| format!("the guest's set-up: {why}")));
    if let Some(why) = &console.panic {
        sum.failed.push(format!("the guest's kernel panicked: {why}"));
    } else if !console.done {
        sum.failed.push(format!("the guest did not finish: {ending}"));
    }
    sum
}

fn took_too_long(job: &Job, end: End) -> bool {
    ENDED_BY_LIMIT.contains(&end.status) && end.milliseconds >= u64::from(job.limit) * 1000
}

fn failed(job: &Job, why: &str) -> Outcome {
    Outcome { failed: vec![format!("{}: {why}", job.name)], ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use super::super::jobs::TestProgram;
    use super::*;
    use crate::context::Scope;

    const SCRIPT: Job =
        Job { name: "rping", what: What::Script("true"), limit: 5, apps: false, from: Scope::Test };
    const TESTS: Job = Job {
        name: "verbs",
        what: What::Tests(TestProgram {
            package: "p",
            test: "verbs",
            arguments: &[],
            environment: "",
        }),
        limit: 5,
        apps: false,
        from: Scope::Test,
    };

    fn console(text: &str) -> Console {
        let mut console = Console::default();
        for line in text.lines() {
            console.line(line);
        }
        console
    }

    fn outcome_of(text: &str) -> Outcome {
        of_guest(&[&SCRIPT, &TESTS], &console(text), &Ending::PoweredOff)
    }

    #[test]
    fn jobs_and_their_tests_are_counted() {
        let outcome = outcome_of(
            "@gpunet begin rping\n@gpunet end rping 0 1\n@gpunet begin verbs\n\
             test a ... ok\ntest b ... FAILED\ntest c ... ok\n\
             test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured\n\
             @gpunet skip c: no dma-buf\n@gpunet end verbs 101 1\n@gpunet done\n",
        );
        assert_eq!(outcome.passed, 2);
        assert_eq!(outcome.failed, ["verbs: b"]);
        assert_eq!(outcome.skipped, ["verbs: c: no dma-buf"]);
    }

    #[test]
    fn a_panic_fails_what_ran_and_what_did_not() {
        let outcome = outcome_of(
            "@gpunet begin rping\n[    9.000000] Kernel panic - not syncing: Fatal exception\n",
        );
        assert_eq!(
            outcome.failed,
            [
                "rping: the guest ended during it",
                "verbs: did not run",
                "the guest's kernel panicked: Fatal exception",
            ]
        );
    }

    #[test]
    fn a_guest_that_ends_early_fails_even_if_all_jobs_passed() {
        let outcome = of_guest(
            &[&SCRIPT],
            &console("@gpunet begin rping\n@gpunet end rping 0 1\n"),
            &Ending::PoweredOff,
        );
        assert_eq!((outcome.passed, outcome.failed.len()), (1, 1));
        assert!(outcome.failed[0].starts_with("the guest did not finish"), "{outcome:?}");
    }

    #[test]
    fn limits_memory_and_exit_states_are_distinguished() {
        let reason = |end: &str| {
            let text = format!("@gpunet begin rping\n{end}\n@gpunet done\n");
            of_guest(&[&SCRIPT], &console(&text), &Ending::PoweredOff).failed.join("; ")
        };
        assert_eq!(reason("@gpunet end rping 143 5010"), "rping: did not end within 5 s");
        assert_eq!(reason("@gpunet end rping 143 20"), "rping: exit status 143");
        assert_eq!(
            reason("[    9.000000] oom-kill:constraint=NONE\n@gpunet end rping 0 9"),
            "rping: the guest's memory ran out"
        );
    }

    #[test]
    fn a_test_program_that_runs_nothing_or_crashes_has_failed() {
        let reason = |text: &str| {
            let text = format!("@gpunet begin verbs\n{text}\n@gpunet done\n");
            of_guest(&[&TESTS], &console(&text), &Ending::PoweredOff).failed.join("; ")
        };
        let nothing = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured";
        assert_eq!(reason(&format!("{nothing}\n@gpunet end verbs 0 1")), "verbs: no test has run");
        assert_eq!(reason("@gpunet end verbs 139 1"), "verbs: ended without a result");
        let good = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured";
        assert_eq!(
            reason(&format!("{good}\n@gpunet end verbs 139 1")),
            "verbs: exit status 139 after its tests"
        );
    }
}
