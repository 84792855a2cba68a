//! The steps of `cargo xtask test`, in the order in which they run: quick ones first.
//!
//! ```text
//! formatting ─ licences ─ rules ─ links ─ oldest Rust ─ clippy ─ docs ─ aarch64 ─ compile ─┬─ tests ─ doc tests ─ p2p streams ─ models ─ ...
//!                                                                                          └─ ptx ─ virtual machine with RDMA ─ packages ─ cargo-deny ─ book, beside those
//! ```
//!
//! All build with one profile and with the features of the whole workspace, so that nothing is
//! compiled twice. Limits are those of tests: compiling has one of its own.

use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::artifacts::Executable;
use crate::context::{Built, Context, PROFILE};
use crate::report::{Outcome, Step};
use crate::suites::{self, Run};
use crate::{
    aarch64, book, cuda_cpp, deny, install, libtest, licences, links, local, oldest, packages, ptx,
    rdma, rules, shell, vm, wheel,
};

/// Every step. A new one is a line here and a function.
pub(crate) const STEPS: &[Step] = &[
    Step::new("formatting", formatting),
    Step::new("licences", licences::check),
    Step::new("rules", rules::check),
    Step::new("links", links::check),
    Step::new("oldest Rust", oldest::check),
    Step::new("clippy", clippy),
    Step::new("docs", docs),
    Step::new("aarch64", aarch64::check),
    Step::new("compile", compile),
    Step::new("ptx", ptx::check).beside(),
    Step::new("virtual machine with RDMA", vm::check).beside(),
    Step::new("tests", tests),
    Step::new("doc tests", doc_tests),
    Step::new("p2p streams", local::check),
    Step::new("models", models),
    Step::new("simulation", simulation),
    Step::new("CUDA C++", cuda_cpp::check),
    Step::new("Python package", wheel::check),
    Step::new("packages", packages::check),
    Step::new("cargo-deny", deny::check),
    Step::new("book", book::check),
    Step::new("RDMA device", rdma::check),
];

/// Those of `--quick`.
pub(crate) const QUICK_STEPS: &[Step] = &[
    Step::new("formatting", formatting),
    Step::new("licences", licences::check),
    Step::new("rules", rules::check),
    Step::new("links", links::check),
    Step::new("clippy", clippy),
    Step::new("compile", compile_quick),
    Step::new("unit tests", unit_tests),
    Step::new("end to end", end_to_end),
    Step::new("CUDA C++", cuda_cpp::left_out),
    Step::new("Python package", wheel::skip),
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

fn clippy(context: &Context) -> Result<Outcome> {
    let strict = ["--all-targets", "--profile", PROFILE, "--", "-D", "warnings"];
    let failure = "warnings or errors, shown above";
    let mut all = context.cargo(&["clippy", "--workspace"]);
    let outcome = one_check(context, all.args(strict), "clippy.log", failure)?;
    if !outcome.failed.is_empty() {
        return Ok(outcome);
    }
    let host = ["clippy", "--package", "gpunet-host", "--features", "simulation"];
    one_check(context, context.cargo(&host).args(strict), "clippy-simulation.log", failure)
}

fn docs(context: &Context) -> Result<Outcome> {
    // With examples, the workspace has the features of tests: then clippy has checked all packages
    // of others already.
    let which = ["--workspace", "--no-deps", "--lib", "--bins", "--examples"];
    let mut command = context.cargo(&["doc", "--profile", PROFILE]);
    command.args(which).env("RUSTDOCFLAGS", "-D warnings");
    one_check(context, &mut command, "docs.log", "warnings or errors, shown above")
}

/// Compiles all test programs, and the programs and examples beside them.
fn compile(context: &Context) -> Result<Outcome> {
    let executables = match suites::compile(context, &["--workspace"], "compile.log")? {
        Ok(executables) => executables,
        Err(outcome) => return Ok(outcome),
    };
    let featured = |feature: &str| {
        // Built in another way, which only the host crate can be.
        let which = ["--package", "gpunet-host", "--features", feature, "--lib"];
        suites::compile(context, &which, &format!("compile-{feature}.log"))
    };
    let (models, simulation) = match (featured("loom")?, featured("simulation")?) {
        (Ok(models), Ok(simulation)) => (models, simulation),
        (Err(outcome), _) | (_, Err(outcome)) => return Ok(outcome),
    };
    Ok(keep(context, Built { executables, models, simulation }))
}

/// Compiles what `--quick` runs.
fn compile_quick(context: &Context) -> Result<Outcome> {
    let which = ["--workspace", "--lib", "--bins", "--test", "suite"];
    Ok(match suites::compile(context, &which, "compile.log")? {
        Ok(executables) => {
            keep(context, Built { executables, models: Vec::new(), simulation: Vec::new() })
        }
        Err(outcome) => outcome,
    })
}

fn keep(context: &Context, built: Built) -> Outcome {
    let built = context.built.get_or_init(|| built);
    let programs = built.executables.len() + built.models.len() + built.simulation.len();
    let remark = format!("{programs} programs");
    if built.executables.is_empty() {
        let failed = vec!["cargo named no test program: nothing would be run".to_owned()];
        return Outcome { failed, remark, ..Outcome::default() };
    }
    Outcome { passed: 1, remark, ..Outcome::default() }
}

fn tests(context: &Context) -> Result<Outcome> {
    let scratch = context.workspace.scratch();
    fs::create_dir_all(&scratch)?;
    let mut environment = context.test_environment();
    let faults = scratch.join("faults.tsv");
    fs::write(&faults, "")?;
    environment.push(("GPUNET_FAULT_TABLE", faults.display().to_string()));
    // What tests of the C ABI run beside compilers.
    let wanted =
        [("cmake", "cmake"), ("g++", "g++"), ("nm", "binutils"), ("pkg-config", "pkg-config")];
    install::programs(wanted.into_iter())?;
    let cbindgen = install::cbindgen(&context.workspace)?;
    environment.push(("GPUNET_CBINDGEN", cbindgen.display().to_string()));
    let long = context.options.long;
    let progress = scratch.join("progress.log");
    fs::write(&progress, "")?;
    if long {
        environment.push(("GPUNET_PROGRESS", progress.display().to_string()));
    }
    let programs = suites::tests(&context.built()?.executables, |_| true);
    let limit = context.limit();
    let run = Run { name: "tests", programs, arguments: &[], environment, limit };
    let shown = long.then(|| shell::Follower::start(&progress));
    let outcome = run.run(context);
    drop(shown);
    let mut outcome = outcome?;
    outcome.remark += &format!(", times of faults in {}", faults.display());
    Ok(outcome)
}

/// The examples in documentation, which only cargo can compile and run, both at once.
fn doc_tests(context: &Context) -> Result<Outcome> {
    let command = context.cargo(&["test", "--doc", "--workspace", "--profile", PROFILE]);
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
    Run { name: "unit-tests", programs, arguments: &[], environment, limit }.run(context)
}

/// A selection of the end-to-end suite.
fn end_to_end(context: &Context) -> Result<Outcome> {
    let suite = suites::named(&context.built()?.executables, "gpunet-e2e", "suite")?;
    let (environment, limit) = (context.test_environment(), context.limit());
    let (name, programs) = ("end-to-end", vec![suite]);
    let run = Run { name, programs, arguments: QUICK_THEMES, environment, limit };
    let mut outcome = run.run(context)?;
    outcome.remark = "a selection".to_owned();
    Ok(outcome)
}

/// The models of the protocol, which want the whole host crate built for loom.
fn models(context: &Context) -> Result<Outcome> {
    featured(context, &context.built()?.models, "models")
}

/// The simulation harness: its seeds, and the planted bugs that they must find.
fn simulation(context: &Context) -> Result<Outcome> {
    featured(context, &context.built()?.simulation, "simulation")
}

/// Tests of the host crate that want it built in another way: those of this module.
fn featured(context: &Context, built: &[Executable], module: &str) -> Result<Outcome> {
    let filter = format!("{module}::");
    let run = Run {
        name: module,
        programs: suites::tests(built, |_| true),
        arguments: &[&filter],
        environment: context.test_environment(),
        limit: context.limit(),
    };
    let mut outcome = run.run(context)?;
    if outcome.passed == 0 && outcome.failed.is_empty() {
        outcome.failed.push(format!("no test in {module} has run"));
    }
    Ok(outcome)
}
