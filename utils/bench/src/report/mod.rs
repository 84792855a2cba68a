//! `bench report`: every suite in one run, as one JSON object and as one HTML page that needs no network.
//!
//! ```text
//!   run      a process for each suite (`bench SUITE --json`) and for the apps, one after the other
//!   page     sections of charts and tables, from the JSON alone (`--from` makes it again)
//!   chart    lines and bars as SVG
//!   compare  what is worse than in an older report
//! ```

mod chart;
mod compare;
mod page;
mod run;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use gpunet_host::GpuChoice;
use gpunet_terminal::output::{BAD, print, say, styled};
use serde_json::Value;

/// The version of the JSON.
const SCHEMA: u64 = 1;

/// Options of `bench report`.
#[derive(Args)]
#[command(after_help = "docs/reference/json.md describes the JSON. A comparison \
    calls a figure worse when it is so by a tenth and its quartiles do not overlap the old ones.")]
pub(crate) struct Options {
    /// Where the JSON goes
    #[arg(long, value_name = "FILE", default_value = "bench-report.json")]
    out: PathBuf,
    /// Where the page goes
    #[arg(long, value_name = "FILE", default_value = "bench-report.html")]
    html: PathBuf,
    /// An older report, to mark what is worse now
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Makes the page of this report, and measures nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "quick"])]
    from: Option<PathBuf>,
    /// What is run
    #[arg(long, value_delimiter = ',', value_name = "SUITE", value_enum)]
    only: Vec<run::Part>,
    /// Few round trips and bytes: shows that everything works, for the emulated GPU
    #[arg(long)]
    quick: bool,
    /// Seconds that each suite may take
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    limit: u64,
    /// No progress on standard error
    #[arg(long)]
    quiet: bool,
}

/// Runs the suites, or takes an older report, and writes the page.
pub(crate) fn run(gpu: &GpuChoice, options: &Options) -> Result<()> {
    let old = options.compare.as_deref().map(read).transpose()?;
    let report = match &options.from {
        Some(from) => read(from)?,
        None => {
            let report = run::all(gpu, options)?;
            let text = serde_json::to_string_pretty(&report)?;
            write(&options.out, &text)?;
            report
        }
    };
    let changes = old.as_ref().map(|old| compare::changes(old, &report));
    write(&options.html, &page::html(&report, changes.as_deref()))?;
    for (suite, why) in report["not_run"].as_object().into_iter().flatten() {
        say(&format!("not run: {suite}: {}", why.as_str().unwrap_or_default()));
    }
    let mut text = String::new();
    let worse = changes.iter().flatten().filter(|change| change.is_worse);
    for change in worse.clone() {
        text += &format!(
            "{}: {}, {}: {} {} was {}\n",
            styled(BAD, "worse"),
            change.suite,
            change.row,
            change.figure,
            chart::number(change.new),
            chart::number(change.old)
        );
    }
    if let Some(changes) = &changes {
        text += &format!("{} of {} figures are worse\n", worse.count(), changes.len());
    }
    Ok(print(&format!("{text}{}\n", options.html.display()))?)
}

fn read(path: &Path) -> Result<Value> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let report: Value = serde_json::from_str(&text)
        .with_context(|| format!("{} is not the JSON of a report", path.display()))?;
    match report["schema"].as_u64() {
        Some(SCHEMA) => Ok(report),
        Some(other) => bail!("{} has schema {other}, this program {SCHEMA}", path.display()),
        None => bail!("{} is not the JSON of a report", path.display()),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
