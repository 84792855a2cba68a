//! Test programs: compiled once for all steps that run them, and run with a limit that does not
//! count the time to compile.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::artifacts::{self, Executable};
use crate::context::{Context, PROFILE};
use crate::report::Outcome;
use crate::{libtest, shell};

/// For a compiler that hangs; it is no measure of how long compiling takes on a busy machine.
const COMPILE_LIMIT: Duration = Duration::from_secs(60 * 60);

/// Compiles what `cargo test` would run, linted by clippy in the same pass: its driver is the compiler with lints, so
/// that nothing is read and checked a second time. The executables, or a failed outcome.
pub(crate) fn compile(
    context: &Context,
    which: &[&str],
    log: &str,
) -> Result<Vec<Executable>, Box<Outcome>> {
    let failed =
        |error: anyhow::Error| Outcome::of_one_check(false, "could not run", format!("{error:#}"));
    let mut command = context.cargo(&["test", "--no-run", "--profile", PROFILE]);
    command.args(which).arg(artifacts::MESSAGES);
    lint(&mut command).map_err(failed)?;
    let mut command = shell::bounded(&command, COMPILE_LIMIT);
    let log = context.workspace.scratch().join(log);
    let messages = log.with_extension("json");
    let finished = shell::run_logged_apart(&mut command, &log, &messages).map_err(failed)?;
    if finished.success {
        let messages = fs::read_to_string(&messages).map_err(|error| failed(error.into()))?;
        return Ok(artifacts::executables(&messages));
    }
    let why = if finished.timed_out {
        format!("did not compile within {} min", COMPILE_LIMIT.as_secs() / 60)
    } else {
        "does not compile without warnings".to_owned()
    };
    Err(Box::new(Outcome::of_one_check(false, &why, finished.printed)))
}

/// What clippy's driver takes for the space between two arguments.
const BETWEEN: &str = "__CLIPPY_HACKERY__";

/// Has cargo compile the workspace's crates with clippy's driver. All that builds with [`PROFILE`] does so, since
/// cargo keeps what another compiler made apart.
pub(crate) fn lint(cargo: &mut Command) -> anyhow::Result<()> {
    let mut ask = Command::new(shell::rustc());
    let sysroot = shell::output_of(ask.args(["--print", "sysroot"]))?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    let remedy = "`rustup component add clippy` installs it";
    ensure!(driver.is_file(), "there is no clippy: {} is missing; {remedy}", driver.display());
    cargo.env("RUSTC_WORKSPACE_WRAPPER", driver);
    cargo.env("CLIPPY_ARGS", ["-D", "warnings", ""].join(BETWEEN));
    Ok(())
}

/// A run of test programs, one after the other.
pub(crate) struct Run<'a> {
    /// Names the log, and that of tests which found out that they cannot run here.
    pub(crate) name: &'a str,
    pub(crate) programs: Vec<&'a Executable>,
    /// For each program: filters and options of libtest.
    pub(crate) arguments: &'a [&'a str],
    pub(crate) environment: Vec<(&'a str, String)>,
    /// For all of them together.
    pub(crate) limit: Duration,
}

impl Run<'_> {
    /// Runs all programs, also after one has failed, and counts their tests.
    pub(crate) fn run(&self, context: &Context) -> anyhow::Result<Outcome> {
        let scratch = context.workspace.scratch();
        fs::create_dir_all(&scratch)?;
        let skip_log = scratch.join(format!("{}-skipped.log", self.name));
        fs::write(&skip_log, "")?;
        let mut log = File::create(scratch.join(format!("{}.log", self.name)))?;
        let deadline = Instant::now() + self.limit;
        let mut sum = Outcome::default();
        for (at, program) in self.programs.iter().enumerate() {
            let begin = Instant::now();
            let left = deadline.saturating_duration_since(begin);
            let mut command = program.tests();
            command.args(self.arguments).env("GPUNET_SKIP_LOG", &skip_log);
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            // `timeout` takes 0 for no limit at all.
            let mut command = shell::bounded(&command, left.max(Duration::from_secs(1)));
            writeln!(log, "     Running {} ({})", program.title(), program.path.display())?;
            let part = scratch.join(format!("{}-part.log", self.name));
            let finished = shell::run_logged(&mut command, &part)?;
            log.write_all(finished.printed.as_bytes())?;
            writeln!(log, "     {:.1} s", begin.elapsed().as_secs_f64())?;
            fs::remove_file(part)?;
            let one = self.count(program, &finished);
            if !one.failed.is_empty() {
                sum.output += &format!("     Running {}\n{}\n", program.title(), finished.printed);
            }
            sum.passed += one.passed;
            sum.failed.extend(one.failed);
            sum.skipped.extend(one.skipped);
            if finished.timed_out {
                sum.failed.push(self.out_of_time(program, self.programs.len() - at - 1));
                break;
            }
        }
        let found_out = fs::read_to_string(&skip_log)?;
        libtest::take_skipped(&mut sum, &found_out);
        sum.remark = format!("{} suites", self.programs.len());
        if sum.passed + sum.failed.len() + sum.skipped.len() == 0 {
            sum.failed.push(format!("{}: no test was run; do its names still fit?", self.name));
        }
        Ok(sum)
    }

    /// The tests of one program that has ended, or was ended.
    fn count(&self, program: &Executable, finished: &shell::Finished) -> Outcome {
        let printed = libtest::with_last_result(&finished.printed);
        let printed = format!("Running {} ()\n{printed}", program.title());
        let mut one = libtest::count(&printed, finished.success || finished.timed_out, "");
        if finished.timed_out {
            // That it has no result is said in better words.
            one.failed.retain(|line| *line != libtest::without_result(&program.title()));
        }
        one
    }

    fn out_of_time(&self, program: &Executable, not_run: usize) -> String {
        let (title, seconds) = (program.title(), self.limit.as_secs());
        let after = match not_run {
            0 => String::new(),
            1 => ", and 1 suite after it was not run".to_owned(),
            _ => format!(", and {not_run} suites after it were not run"),
        };
        format!(
            "out of time: {title} had not ended when the {seconds} s of this step were over{after}"
        )
    }
}

impl Executable {
    /// `gpunet-e2e tests/suite/main.rs`: as cargo announces it, with its package.
    fn title(&self) -> String {
        let unit = if self.kind == "test" { "" } else { "unittests " };
        format!("{} {unit}{}", self.package, self.source.display())
    }

    /// Runs its tests where, and as, `cargo test` does.
    fn tests(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.env("CARGO_PKG_NAME", &self.package);
        command
    }
}

/// The test programs among these that are wanted, in an order that does not change.
pub(crate) fn tests(
    executables: &[Executable],
    wanted: impl Fn(&Executable) -> bool,
) -> Vec<&Executable> {
    let mut tests: Vec<_> =
        executables.iter().filter(|made| made.is_test && wanted(made)).collect();
    // Cargo lists them as they happen to be finished.
    tests.sort_by_key(|made| (&made.package, made.kind == "test", &made.source));
    tests
}

/// One test program of a package, by its name.
pub(crate) fn named<'a>(
    executables: &'a [Executable],
    package: &str,
    name: &str,
) -> anyhow::Result<&'a Executable> {
    let is =
        |made: &&Executable| made.kind == "test" && made.package == package && made.name == name;
    let found = executables.iter().find(is);
    found.with_context(|| format!("cargo made no test {name} of {package}"))
}
