//! Real RDMA on any machine: a guest in QEMU whose kernel has soft-RoCE, in which jobs run.
//!
//! ```text
//! programs ─┐
//! kernel ───┼─> image (archive) ─> guest ─> console ─> verdict
//! jobs ─────┘                      QEMU     lines      passed, failed, skipped
//! ```
//!
//! Installs packages like the other commands; all else stays in the target folder.

mod archive;
mod console;
mod guest;
mod image;
mod jobs;
mod kernel;
mod programs;
mod verdict;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use self::console::{Console, Event};
use self::guest::{Guest, Watched};
use self::jobs::{JOBS, Job};
use self::kernel::Kernel;
use crate::artifacts::Executable;
use crate::context::{Context, Scope};
use crate::install;
use crate::report::{self, Outcome};
use crate::workspace::Workspace;

/// What a guest has from its start to its end, unless given: far more than it takes beside the other steps of
/// `cargo xtask test` (396 s), since it is there for hangs.
const WHOLE: u64 = 120 * 60;

/// Why a guest was not even booted.
const CANNOT_BE_HAD: &str =
    "no virtual machine with RDMA can be had here (`cargo xtask test --no-vm` goes without it)";

/// What is shown of a failure.
const SHOWN_LINES: usize = 200;

/// Options of `cargo xtask vm`.
#[derive(Args)]
pub(crate) struct Options {
    /// Gives a shell in the guest in place of running the jobs.
    #[arg(long)]
    shell: bool,
    /// Runs only the jobs whose name contains this; may be given several times.
    #[arg(long, value_name = "NAME")]
    job: Vec<String>,
    /// Lists the jobs and runs none.
    #[arg(long)]
    list: bool,
    /// Keeps the guest's file system, and says where it lies.
    #[arg(long)]
    keep: bool,
    /// Seconds after which the guest is ended.
    #[arg(long, value_name = "SECONDS", default_value_t = WHOLE, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

impl Options {
    fn jobs(&self) -> Result<Vec<&'static Job>> {
        for name in &self.job {
            if !JOBS.iter().any(|job| job.name.contains(name)) {
                let all: Vec<_> = JOBS.iter().map(|job| job.name).collect();
                bail!("no job's name contains `{name}`; there are {}", all.join(", "));
            }
        }
        let wanted =
            |job: &&Job| self.job.is_empty() || self.job.iter().any(|name| job.name.contains(name));
        Ok(JOBS.iter().filter(wanted).collect())
    }
}

/// `cargo xtask vm`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let jobs = options.jobs()?;
    if options.list {
        for job in jobs {
            let from = match job.from {
                Scope::Quick | Scope::Test => "",
                Scope::ShortRelease => ", for a release",
                Scope::Release => ", for a whole release",
            };
            println!("{:<24} at most {} s{from}", job.name, job.limit);
        }
        return Ok(true);
    }
    let build = || programs::build(workspace, &jobs, workspace.cargo());
    let machine = Machine::prepare(workspace, &jobs, build)?;
    if options.shell {
        return machine.guest().shell();
    }
    let whole = Duration::from_secs(options.timeout);
    let start = Instant::now();
    let outcome = machine.run(&jobs, whole, &mut |line| println!("{line}"))?;
    println!("guest {:.1} s: {}", start.elapsed().as_secs_f64(), outcome.remark);
    if !outcome.failed.is_empty() {
        print!("{}", outcome.output);
    }
    if options.keep {
        println!("kept {}", machine.image.display());
    } else {
        fs::remove_file(&machine.image)?;
    }
    print!("{}", report::summary(&outcome));
    Ok(outcome.failed.is_empty())
}

/// The step of `cargo xtask test`.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    if context.no_vm {
        let reason = format!("{} jobs with real RDMA, because of --no-vm", JOBS.len());
        return Ok(Outcome { skipped: vec![reason], ..Outcome::default() });
    }
    let jobs: Vec<_> = JOBS.iter().filter(|job| job.is_run(context.scope)).collect();
    let built = || Ok(context.built()?.executables.clone());
    let machine = Machine::prepare(&context.workspace, &jobs, built)?;
    let mut table = String::new();
    let whole = Duration::from_secs(if context.is_long() { 2 * WHOLE } else { WHOLE });
    let mut outcome = machine.run(&jobs, whole, &mut |line| {
        let _ = writeln!(table, "  {line}");
    })?;
    let left = JOBS.iter().filter(|job| job.from > context.scope);
    let left: Vec<_> = left.map(|job| job.name).collect();
    if !left.is_empty() {
        let _ = writeln!(
            table,
            "  left to `cargo xtask release` and `cargo xtask vm`: {}",
            left.join(", ")
        );
    }
    outcome.table = table;
    fs::remove_file(&machine.image)?;
    Ok(outcome)
}

/// Everything that a guest is made of, ready to boot.
struct Machine {
    kernel: Kernel,
    image: PathBuf,
    log: PathBuf,
}

impl Machine {
    /// `built` gives the executables that the jobs need, once the kernel is there.
    fn prepare(
        workspace: &Workspace,
        jobs: &[&Job],
        built: impl FnOnce() -> Result<Vec<Executable>>,
    ) -> Result<Self> {
        let kernel = programs::install()
            .and_then(|()| Kernel::get(&install::tools_folder(workspace)))
            .context(CANNOT_BE_HAD)?;
        let built = programs::placed(jobs, &built()?)?;
        let scratch = workspace.scratch();
        fs::create_dir_all(&scratch)?;
        let image = scratch.join("vm.cpio");
        fs::write(&image, image::make(&kernel, jobs, &built)?)
            .with_context(|| format!("cannot write {}", image.display()))?;
        Ok(Self { kernel, image, log: scratch.join("vm.log") })
    }

    fn guest(&self) -> Guest<'_> {
        Guest { kernel: &self.kernel.image, image: &self.image, log: &self.log }
    }

    /// Runs the jobs; `show` gets a line about each.
    fn run(&self, jobs: &[&Job], whole: Duration, show: &mut dyn FnMut(&str)) -> Result<Outcome> {
        let mut on_event = |event: &Event, console: &Console| {
            if *event == Event::Ended {
                show(&line_about(jobs, console));
            }
        };
        let watched = self.guest().watch(jobs, whole, &mut on_event)?;
        let mut outcome = verdict::of_guest(jobs, &watched.console, &watched.ending);
        let Watched { accelerator, boot, .. } = &watched;
        outcome.remark = format!(
            "{accelerator}, booted in {:.1} s, log in {}",
            boot.as_secs_f64(),
            self.log.display()
        );
        outcome.output = self.output_of_failures(jobs, &watched)?;
        Ok(outcome)
    }

    /// The end of what the jobs that failed have printed; of all where the guest itself failed.
    fn output_of_failures(&self, jobs: &[&Job], watched: &Watched) -> Result<String> {
        if !watched.console.ready || watched.console.panic.is_some() {
            let log = String::from_utf8_lossy(&fs::read(&self.log)?).into_owned();
            return Ok(format!("{}\n", last_lines(&log)));
        }
        let mut text = String::new();
        for run in &watched.console.runs {
            let job = jobs.iter().find(|job| job.name == run.name);
            if job.is_some_and(|job| !verdict::of_run(job, run).failed.is_empty()) {
                let _ = writeln!(text, "---- {}\n{}", run.name, last_lines(&run.printed));
            }
        }
        Ok(text)
    }
}

/// The end of a text that may be long; the log has all of it.
fn last_lines(text: &str) -> &str {
    let text = text.trim_end();
    let cut = text.rmatch_indices('\n').nth(SHOWN_LINES - 1);
    cut.map_or(text, |(at, _)| &text[at + 1..])
}

/// A line about the job that has just ended.
fn line_about(jobs: &[&Job], console: &Console) -> String {
    let Some(run) = console.runs.last() else { return String::new() };
    let seconds = run.end.map_or(0.0, |end| end.milliseconds as f64 / 1000.0);
    let verdict = match jobs.iter().find(|job| job.name == run.name) {
        Some(job) => verdict::of_run(job, run).line(),
        None => "unknown".to_owned(),
    };
    format!("{:<24} {seconds:>6.1} s  {verdict}", run.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(jobs: &[&str]) -> Options {
        let job = jobs.iter().map(|job| (*job).to_owned()).collect();
        Options { shell: false, job, list: false, keep: false, timeout: 1 }
    }

    #[test]
    fn long_texts_are_shown_from_their_end() {
        assert_eq!(last_lines("a\nb\n"), "a\nb");
        let long = "x\n".repeat(SHOWN_LINES) + "end\n";
        assert_eq!(last_lines(&long).lines().count(), SHOWN_LINES);
        assert!(last_lines(&long).ends_with("x\nend"));
    }

    #[test]
    fn jobs_are_chosen_by_a_part_of_their_name() {
        assert_eq!(options(&[]).jobs().unwrap().len(), JOBS.len());
        let names = |jobs: &[&str]| -> Vec<_> {
            options(jobs).jobs().unwrap().iter().map(|job| job.name).collect()
        };
        assert_eq!(names(&["rping"]), ["rping", "rping-ipv6"]);
        assert_eq!(names(&["verbs", "ping-", "rping"]), ["rping", "rping-ipv6", "verbs"]);
        assert!(options(&["rping", "no such job"]).jobs().is_err());
    }
}
