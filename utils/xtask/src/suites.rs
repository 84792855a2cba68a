//! Test programs: compiled once for all steps that run them, and run with a limit that does not
//! count the time to compile.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::artifacts::{self, Executable};
use crate::context::{Context, PROFILE};
use crate::report::Outcome;
use crate::{libtest, shell};

/// For a compiler that hangs; it is no measure of how long compiling takes on a busy machine.
const COMPILE_LIMIT: Duration = Duration::from_secs(60 * 60);

/// Compiles this with cargo, linted by clippy in the same pass: its driver is the compiler with lints, so
/// that nothing is read and checked a second time. The executables, or a failed outcome.
pub(crate) fn compile(
    context: &Context,
    what: &[&str],
    log: &str,
) -> Result<Vec<Executable>, Box<Outcome>> {
    let failed =
        |error: anyhow::Error| Outcome::of_one_check(false, "could not run", format!("{error:#}"));
    let mut command = context.cargo(what);
    command.args(["--profile", PROFILE, artifacts::MESSAGES]);
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

/// Compiles the workspace's crates with cargo and clippy's driver. All that makes programs for tests does so, since
/// cargo keeps the crates that another compiler made apart.
pub(crate) fn lint(cargo: &mut Command) -> anyhow::Result<()> {
    let mut ask = Command::new(shell::rustc());
    let sysroot = shell::output_of(ask.args(["--print", "sysroot"]))?;
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    let remedy = "`rustup component add clippy` installs it, or Debian's package rust-web-clippy";
    ensure!(driver.is_file(), "there is no clippy: {} is missing; {remedy}", driver.display());
    cargo.env("RUSTC_WORKSPACE_WRAPPER", driver);
    cargo.env("CLIPPY_ARGS", ["-D", "warnings", ""].join(BETWEEN));
    Ok(())
}

/// Programs at the same time, as a rule: most of their tests wait more than they compute.
pub(crate) const AT_ONCE: usize = 3;

/// A run of test programs.
pub(crate) struct Run<'a> {
    /// Names the log, and that of tests which found out that they cannot run here.
    pub(crate) name: &'a str,
    pub(crate) programs: Vec<&'a Executable>,
    /// For each program: filters and options of libtest.
    pub(crate) arguments: &'a [&'a str],
    pub(crate) environment: Vec<(&'a str, String)>,
    /// For all of them together.
    pub(crate) limit: Duration,
    /// Programs at the same time.
    pub(crate) at_once: usize,
}

impl Run<'_> {
    /// Runs all programs, also after one has failed, and counts their tests.
    pub(crate) fn run(&self, context: &Context) -> anyhow::Result<Outcome> {
        let scratch = context.workspace.scratch();
        fs::create_dir_all(&scratch)?;
        let skip_log = scratch.join(format!("{}-skipped.log", self.name));
        fs::write(&skip_log, "")?;
        let deadline = Instant::now() + self.limit;
        let next = AtomicUsize::new(0);
        let take = || {
            let at = next.fetch_add(1, Ordering::Relaxed);
            self.programs.get(at).map(|program| (at, *program))
        };
        let run_some = || -> anyhow::Result<Vec<(usize, Ended)>> {
            let mut ended = Vec::new();
            while let Some((at, program)) = take() {
                let log = scratch.join(format!("{}-{at}.log", self.name));
                ended.push((at, self.run_one(program, deadline, &skip_log, &log)?));
            }
            Ok(ended)
        };
        let mut all = Vec::new();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.at_once).map(|_| scope.spawn(run_some)).collect();
            threads.into_iter().try_for_each(|thread| match thread.join() {
                Ok(ended) => ended.map(|ended| all.extend(ended)),
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        all.sort_by_key(|(at, _)| *at);
        let mut log = File::create(scratch.join(format!("{}.log", self.name)))?;
        let mut sum = Outcome::default();
        for (at, Ended { finished, took }) in all {
            let program = self.programs[at];
            writeln!(log, "     Running {} ({})", program.title(), program.path.display())?;
            log.write_all(finished.printed.as_bytes())?;
            writeln!(log, "     {:.1} s", took.as_secs_f64())?;
            let one = self.count(program, &finished);
            if !one.failed.is_empty() {
                sum.output += &format!("     Running {}\n{}\n", program.title(), finished.printed);
            }
            sum.passed += one.passed;
            sum.failed.extend(one.failed);
            sum.skipped.extend(one.skipped);
        }
        let found_out = fs::read_to_string(&skip_log)?;
        libtest::take_skipped(&mut sum, &found_out);
        sum.remark = format!("{} suites", self.programs.len());
        if sum.passed + sum.failed.len() + sum.skipped.len() == 0 {
            sum.failed.push(format!("{}: no test was run; do its names still fit?", self.name));
        }
        Ok(sum)
    }

    /// Runs one program, or says that there is no time left for it; `log` keeps what it prints while it runs.
    fn run_one(
        &self,
        program: &Executable,
        deadline: Instant,
        skip_log: &Path,
        log: &Path,
    ) -> anyhow::Result<Ended> {
        let begin = Instant::now();
        let left = deadline.saturating_duration_since(begin);
        if left.is_zero() {
            let finished =
                shell::Finished { success: false, timed_out: true, printed: String::new() };
            return Ok(Ended { finished, took: Duration::ZERO });
        }
        let mut command = program.tests();
        command.args(self.arguments).env("GPUNET_SKIP_LOG", skip_log);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // `timeout` takes 0 for no limit at all.
        let mut command = shell::bounded(&command, left.max(Duration::from_secs(1)));
        let finished = shell::run_logged(&mut command, log)?;
        fs::remove_file(log)?;
        Ok(Ended { finished, took: begin.elapsed() })
    }

    /// The tests of one program that has ended, or was ended.
    fn count(&self, program: &Executable, finished: &shell::Finished) -> Outcome {
        let printed = libtest::with_last_result(&finished.printed);
        let printed = format!("Running {} ()\n{printed}", program.title());
        let mut one = libtest::count(&printed, finished.success || finished.timed_out, "");
        if finished.timed_out {
            // That it has no result is said in better words.
            one.failed.retain(|line| *line != libtest::without_result(&program.title()));
            let (title, seconds) = (program.title(), self.limit.as_secs());
            let what = if finished.printed.is_empty() { "run" } else { "ended" };
            one.failed.push(format!(
                "out of time: {title} had not {what} when the {seconds} s of this step were over"
            ));
        }
        one
    }
}

/// How a program went.
struct Ended {
    finished: shell::Finished,
    took: Duration,
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
