//! Running the parts of a report, each in a process of its own with a deadline.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use gpunet_host::{Gpu, GpuChoice};
use gpunet_terminal::progress::Progress;
use serde_json::{Map, Value, json};

/// What a part may take beside the time that it is given, to start and to end.
const SPARE: Duration = Duration::from_secs(90);
/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(20);

/// Parts of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    Sizes,
    Ways,
    Waiters,
    Streams,
    Local,
    Scale,
    Sgemm,
    Footprint,
    /// The app of that name, which is looked for beside this program
    Pingpong,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Sizes => "sizes",
            Self::Ways => "ways",
            Self::Waiters => "waiters",
            Self::Streams => "streams",
            Self::Local => "local",
            Self::Scale => "scale",
            Self::Sgemm => "sgemm",
            Self::Footprint => "footprint",
            Self::Pingpong => "pingpong",
        }
    }

    /// Its command.
    fn command(self, gpu: &GpuChoice, quick: bool, limit: u64) -> Result<Command> {
        let program = std::env::current_exe().context("this program's own file")?;
        let gpu = gpu.to_string();
        if self == Self::Pingpong {
            let app = program.with_file_name(self.name());
            ensure!(app.is_file(), "{} is not there: build the apps", app.display());
            let mut command = Command::new(app);
            command.args(["--gpu", &gpu, "--overlap", "--json"]);
            return Ok(command);
        }
        let mut command = Command::new(program);
        command.args([self.name(), "--gpu", &gpu, "--json"]);
        match (self, quick) {
            // Its rounds are few by themselves.
            (Self::Local, false) => {}
            (Self::Local, true) => {
                command.args(["--messages", "50", "--pairs", "2", "--turns", "1"]);
            }
            (_, quick) => {
                command.args(["--limit", &limit.to_string()]);
                command.args(quick.then_some("--quick"));
            }
        }
        Ok(command)
    }
}

/// Runs parts, all of them where none is named.
pub(super) fn all(gpu: &GpuChoice, options: &super::Options) -> Result<Value> {
    let super::Options { only, quick, limit, quiet, .. } = options;
    let (quick, limit) = (*quick, *limit);
    // Asked once, and closed: the parts have it alone.
    let name = Gpu::open(gpu.clone())?.info().to_string();
    let parts = if only.is_empty() { Part::value_variants() } else { only };
    let (mut suites, mut not_run) = (Map::new(), Map::new());
    let begin = Instant::now();
    let progress = Progress::of_steps(parts.len() as u64, *quiet);
    for part in parts {
        progress.begin(part.name());
        let ran = part
            .command(gpu, quick, limit)
            .and_then(|command| output(command, Duration::from_secs(limit) + SPARE));
        let mut missing = |why: String| not_run.insert(part.name().to_owned(), json!(why));
        match ran {
            Ok((printed, failure)) => {
                suites.insert(part.name().to_owned(), printed);
                failure.map(|why| missing(format!("not all of it: {why}")));
            }
            Err(why) => {
                missing(format!("{why:#}"));
            }
        }
        progress.done(1);
    }
    ensure!(!suites.is_empty(), "nothing could be run: {}", Value::from(not_run));
    Ok(json!({
        "schema": super::SCHEMA,
        "date": date(),
        "machine": {
            "processor": processor(),
            "cores": std::thread::available_parallelism().map_or(0, |cores| cores.get()),
            "gpu": name,
        },
        "command": std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        "quick": quick,
        "seconds": begin.elapsed().as_secs(),
        "suites": suites,
        "not_run": not_run,
    }))
}

/// What a command prints, as JSON, and how it ended if that was not well: what it has measured before it ran
/// out of its time counts. It is killed when more than that is over.
fn output(mut command: Command, limit: Duration) -> Result<(Value, Option<String>)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| {
            format!("cannot run {}", PathBuf::from(command.get_program()).display())
        })?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let (printed, said, status) = std::thread::scope(|scope| -> Result<_> {
        let printed = scope.spawn(move || read(out.as_mut()));
        let said = scope.spawn(move || read(err.as_mut()));
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if begin.elapsed() > limit {
                // It may end by itself at this moment.
                let _ = child.kill();
                child.wait()?;
                break None;
            }
            std::thread::sleep(LOOK);
        };
        let Some(status) = status else {
            bail!("it was not done after {} s", limit.as_secs());
        };
        Ok((printed.join().unwrap_or_default(), said.join().unwrap_or_default(), status))
    })?;
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let failure = (!status.success()).then(|| format!("it ended with {status}: {last}"));
    match serde_json::from_str(&printed) {
        Ok(printed) => Ok((printed, failure)),
        Err(_) => bail!(failure.unwrap_or_else(|| format!("it printed no JSON ({last})"))),
    }
}

fn read(stream: Option<&mut impl std::io::Read>) -> String {
    let mut text = String::new();
    if let Some(stream) = stream {
        // What is no text is no JSON either.
        let _ = stream.read_to_string(&mut text);
    }
    text
}

/// The processor's name, as the system has it.
fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("model name"));
    line.map_or("unknown", |line| line.trim_start_matches([' ', '\t', ':'])).trim().to_owned()
}

/// Today, as year-month-day in UTC.
fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    civil(seconds / 86_400)
}

/// The date of a day since 1970 (the Gregorian calendar repeats every 146,097 days).
fn civil(day: u64) -> String {
    // Years begin in March, so that the leap day is their last.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let cases =
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_774, "2026-11-17")];
        for (day, date) in cases {
            assert_eq!(civil(day), date);
        }
    }

    #[test]
    fn a_part_that_fails_says_why_and_one_that_hangs_is_killed() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let long = gpunet_support::testing::hang_limit(Duration::from_secs(2));
        let failed = output(shell("echo no GPU >&2; exit 3"), long).expect_err("it fails");
        assert!(failed.to_string().ends_with("no GPU"), "{failed}");
        let begin = Instant::now();
        let hung =
            output(shell("exec sleep 3600"), Duration::from_millis(50)).expect_err("it hangs");
        assert!(hung.to_string().contains("not done") && begin.elapsed() < long, "{hung}");
        assert!(output(shell("echo hello"), long).is_err());
        let (printed, failure) = output(shell("echo '{\"a\": 1}'"), long).expect("JSON");
        assert_eq!((&printed["a"], failure), (&json!(1), None));
        // What was measured before the time was over counts.
        let late = "echo '{\"a\": 1}'; echo ran out of time >&2; exit 1";
        let (printed, failure) = output(shell(late), long).expect("JSON");
        assert_eq!(printed["a"], 1);
        assert!(failure.is_some_and(|why| why.ends_with("ran out of time")));
    }
}
