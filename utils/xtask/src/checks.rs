//! The steps of `cargo xtask test` and `cargo xtask release`, in the order in which they run: quick ones first.
//!
//! ```text
//! test     formatting ─ licences ─ rules ─ links ─ compile ─┬─ tests ─ doc tests ─ p2p streams ─ models ─ simulation
//!                                                           └─ ptx ─ virtual machine with RDMA, concurrently
//! release  oldest Rust ─ docs ─ aarch64 ─ compile ─ fault latency ─┬─ pages and archives ─ CUDA C++ ─ Python package ─ ...
//!                                                                  └─ ptx, every compiler ─ virtual machine, more jobs
//! ```
//!
//! All build with one profile and with the features of the whole workspace, so that nothing is
//! compiled twice. Limits are those of tests: compiling has one of its own.

use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::artifacts::Executable;
use crate::context::{Built, Context, PROFILE, Scope};
use crate::report::{Outcome, Step};
use crate::suites::{self, AT_ONCE, Run};
use crate::{
    aarch64, book, cuda_cpp, deny, faults, fuzz, install, libtest, licences, links, local, oldest,
    packages, ptx, rdma, rules, shell, vm, wheel,
};

/// The steps that every change must pass. A new one is a line here and a function.
pub(crate) const TEST: &[Step] = &[
    Step::new("formatting", formatting),
    Step::new("licences", licences::check),
    Step::new("rules", rules::check),
    Step::new("links", links::check),
    Step::new("compile and lint", compile),
    Step::new("ptx", ptx::check).beside(),
    Step::new("virtual machine with RDMA", vm::check).beside(),
    Step::new("tests", tests),
    Step::new("doc tests", doc_tests),
    Step::new("p2p streams", local::check),
    Step::new("models", models),
    Step::new("simulation", simulation),
];

/// The steps of `test --quick`.
pub(crate) const QUICK: &[Step] = &[
    Step::new("formatting", formatting),
    Step::new("licences", licences::check),
    Step::new("rules", rules::check),
    Step::new("links", links::check),
    Step::new("compile and lint", compile),
    Step::new("unit tests", unit_tests),
    Step::new("end to end", end_to_end),
];

/// The steps that a release must pass as well.
pub(crate) const RELEASE: &[Step] = &[
    Step::new("oldest Rust", oldest::check),
    Step::new("docs", docs),
    Step::new("aarch64", aarch64::check),
    Step::new("compile and lint", compile),
    // Measures time, so nothing runs beside it.
    Step::new("fault latency", faults::check),
    Step::new("ptx, every compiler", ptx::check).beside(),
    Step::new("virtual machine, more jobs", vm::check).beside(),
    Step::new("pages, archives, report", projects_and_pages),
    Step::new("planted bugs", planted_bugs),
    Step::new("CUDA C++", cuda_cpp::check),
    Step::new("Python package", wheel::check),
    Step::new("packages", packages::check),
    Step::new("cargo-deny", deny::check),
    Step::new("book", book::check),
    Step::new("tests, more cases", tests).takes_long(),
    Step::new("p2p streams, all suites", local::check).takes_long(),
    Step::new("models, more states", models).takes_long(),
    Step::new("simulation, more seeds", simulation).takes_long(),
    Step::new("fuzzers", fuzz::check).takes_long(),
    Step::new("RDMA device", rdma::check).takes_long(),
];

/// Themes of the end-to-end suite that `--quick` runs.
const QUICK_THEMES: &[&str] = &["streams::", "endings::", "polls::", "ring_slices::", "refusals::"];

/// Runs a command that is one check, succeeding or failing as a whole.
fn one_check(
    context: &Context,
    command: &mut Command,
    log: &str,
    failure: &str,
) -> Result<Outcome> {
    let finished = shell::run_logged(command, &context.workspace.scratch().join(log))?;
    Ok(Outcome::of_one_check(finished.success, failure, finished.printed))
}

fn formatting(context: &Context) -> Result<Outcome> {
    let mut command = context.cargo(&["fmt", "--all", "--check", "--", "--color", "never"]);
    one_check(context, &mut command, "formatting.log", "run `cargo fmt --all`")
}

fn docs(context: &Context) -> Result<Outcome> {
    // With examples, the workspace has the features of tests, so that packages of others are checked once.
    let which = ["--workspace", "--no-deps", "--lib", "--bins", "--examples"];
    let mut command = context.cargo(&["doc", "--profile", PROFILE]);
    command.args(which).env("RUSTDOCFLAGS", "-D warnings");
    one_check(context, &mut command, "docs.log", "warnings or errors, shown above")
}

/// Compiles and lints what all other steps run.
fn compile(context: &Context) -> Result<Outcome> {
    Ok(match context.compiled() {
        Ok(built) => {
            let programs = built.executables.len() + built.models.len() + built.simulation.len();
            Outcome { passed: 1, remark: format!("{programs} programs"), ..Outcome::default() }
        }
        Err(outcome) => (**outcome).clone(),
    })
}

/// All test programs, and the programs and examples that they run; for `--quick` a selection.
pub(crate) fn build(context: &Context) -> Result<Built, Box<Outcome>> {
    let all = ["test", "--no-run", "--workspace"];
    let quick = ["test", "--no-run", "--workspace", "--lib", "--bins", "--test", "suite"];
    let what = if context.scope == Scope::Quick { &quick[..] } else { &all[..] };
    let executables = suites::compile(context, what, "compile.log")?;
    if executables.is_empty() {
        let failed = vec!["cargo named no test program: nothing would be run".to_owned()];
        return Err(Box::new(Outcome { failed, ..Outcome::default() }));
    }
    let featured = |feature: &str| {
        if context.scope == Scope::Quick {
            return Ok(Vec::new());
        }
        // Built in another way, which only the host crate can be.
        let what = ["test", "--no-run", "--package", "gpunet-host", "--features", feature, "--lib"];
        suites::compile(context, &what, &format!("compile-{feature}.log"))
    };
    if context.scope != Scope::Quick {
        // Linted here: the extension module of Python, which cannot be linked as a test, and programs that no
        // test runs.
        suites::compile(
            context,
            &["build", "--workspace", "--lib", "--bins"],
            "compile-programs.log",
        )?;
    }
    Ok(Built { executables, models: featured("loom")?, simulation: featured("simulation")? })
}

/// Test programs that are left to a release, since they compile projects from nothing, or need a browser: a package
/// and the name of its test.
const LEFT_TO_RELEASE: &[(&str, &str)] = &[
    ("gpunet-apps", "pages"),
    ("gpunet-bench", "report"),
    ("gpunet-builder", "real_build"),
    ("gpunet-c", "sdk"),
];

fn is_left_to_release(made: &Executable) -> bool {
    LEFT_TO_RELEASE.contains(&(&made.package, &made.name))
}

fn tests(context: &Context) -> Result<Outcome> {
    let scratch = context.workspace.scratch();
    fs::create_dir_all(&scratch)?;
    let mut environment = context.test_environment();
    let faults = scratch.join("faults.tsv");
    fs::write(&faults, "")?;
    environment.push(("GPUNET_FAULT_TABLE", faults.display().to_string()));
    install::compilers()?;
    let progress = scratch.join("progress.log");
    fs::write(&progress, "")?;
    if context.is_long() {
        environment.push(("GPUNET_PROGRESS", progress.display().to_string()));
    }
    let programs = suites::tests(&context.built()?.executables, |made| !is_left_to_release(made));
    let run = Run {
        name: "tests",
        programs,
        arguments: &[],
        environment,
        limit: context.limit(),
        at_once: AT_ONCE,
    };
    let shown = context.is_long().then(|| shell::Follower::start(&progress));
    let outcome = run.run(context);
    drop(shown);
    let mut outcome = outcome?;
    outcome.remark += &format!(", times of faults in {}", faults.display());
    Ok(outcome)
}

/// Tests that follow the pages of docs/, build projects from archives, draw the benchmark's report in a browser, and
/// write the C header anew, with a cbindgen that is built where the system has none.
fn projects_and_pages(context: &Context) -> Result<Outcome> {
    install::compilers()?;
    install::programs([("chromium", "chromium")].into_iter())?;
    let mut environment = context.test_environment();
    let without = match install::cbindgen(&context.workspace) {
        Ok(cbindgen) => {
            environment.push(("GPUNET_CBINDGEN", cbindgen.display().to_string()));
            String::new()
        }
        Err(error) => {
            let line = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
            format!(", cbindgen cannot be built: {line}")
        }
    };
    let built = &context.built()?.executables;
    let tests = LEFT_TO_RELEASE.iter().chain(&[("gpunet-c", "header")]);
    let programs = tests.map(|(package, name)| suites::named(built, package, name));
    let programs = programs.collect::<Result<_>>()?;
    let limit = context.limit();
    let run = Run { name: "pages", programs, arguments: &[], environment, limit, at_once: AT_ONCE };
    let mut outcome = run.run(context)?;
    outcome.remark += &without;
    Ok(outcome)
}

/// The examples in documentation, which only cargo can compile and run, both at once.
fn doc_tests(context: &Context) -> Result<Outcome> {
    let mut command = context.cargo(&["test", "--doc", "--workspace", "--profile", PROFILE]);
    suites::lint(&mut command)?;
    let mut command = shell::bounded(&command, context.limit());
    let log = context.workspace.scratch().join("doc-tests.log");
    let finished = shell::run_logged(&mut command, &log)?;
    let mut outcome = libtest::count(&finished.printed, finished.success, "");
    if finished.timed_out {
        let seconds = context.limit().as_secs();
        outcome.failed = vec![format!("out of time: not done within {seconds} s")];
    }
    outcome.output = finished.printed;
    Ok(outcome)
}

/// All unit tests.
fn unit_tests(context: &Context) -> Result<Outcome> {
    let programs = suites::tests(&context.built()?.executables, |made| made.kind != "test");
    let (environment, limit) = (context.test_environment(), context.limit());
    let run =
        Run { name: "unit-tests", programs, arguments: &[], environment, limit, at_once: AT_ONCE };
    run.run(context)
}

/// A selection of the end-to-end suite.
fn end_to_end(context: &Context) -> Result<Outcome> {
    let suite = suites::named(&context.built()?.executables, "gpunet-e2e", "suite")?;
    let (environment, limit) = (context.test_environment(), context.limit());
    let (name, programs) = ("end-to-end", vec![suite]);
    let run = Run { name, programs, arguments: QUICK_THEMES, environment, limit, at_once: AT_ONCE };
    let mut outcome = run.run(context)?;
    outcome.remark = "a selection".to_owned();
    Ok(outcome)
}

/// The models of the protocol, which want the whole host crate built for loom.
fn models(context: &Context) -> Result<Outcome> {
    featured(context, &context.built()?.models, "models::", &[])
}

/// The simulation harness: seeds that must pass.
fn simulation(context: &Context) -> Result<Outcome> {
    featured(context, &context.built()?.simulation, "simulation::", &["--skip", PLANTED])
}

/// The test of the simulation that plants bugs, which its seeds must find.
const PLANTED: &str = "planted_bugs_are_found";

/// The simulation finds each planted bug.
fn planted_bugs(context: &Context) -> Result<Outcome> {
    featured(context, &context.built()?.simulation, PLANTED, &[])
}

/// Tests of the host crate that want it built in another way: those whose names contain this.
fn featured(
    context: &Context,
    built: &[Executable],
    filter: &str,
    options: &[&str],
) -> Result<Outcome> {
    let run = Run {
        name: filter.trim_end_matches(':'),
        programs: suites::tests(built, |_| true),
        arguments: &[&[filter], options].concat(),
        environment: context.test_environment(),
        limit: context.limit(),
        at_once: AT_ONCE,
    };
    let mut outcome = run.run(context)?;
    if outcome.passed == 0 && outcome.failed.is_empty() {
        outcome.failed.push(format!("no test named {filter} has run"));
    }
    Ok(outcome)
}
