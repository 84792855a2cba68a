//! What this process has and takes: open files, resident memory, processor time of a net's threads.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Files that this process has open beside connections, at most.
pub(super) const OTHER_FILES: u64 = 256;

/// Raises the limit of open files as far as the system allows; the limit.
pub(super) fn raise_file_limit() -> Result<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit).context("setrlimit")?;
    }
    Ok(limit.current.unwrap_or(u64::MAX))
}

/// Descriptors that are open.
pub(super) fn open_files() -> Result<u64> {
    // One of them is the folder itself.
    Ok(fs::read_dir("/proc/self/fd")?.count().saturating_sub(1) as u64)
}

/// Resident memory, bytes.
pub(super) fn resident() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.with_context(|| format!("/proc/self/statm: {text:?}"))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// The threads that a net has started.
pub(super) struct NetThreads(Vec<u64>);

impl NetThreads {
    /// The threads that there are now, to be distinguished from a net's own later.
    pub(super) fn before() -> Result<BTreeSet<u64>> {
        let tasks = fs::read_dir("/proc/self/task")?;
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        Ok(tasks.filter_map(Result::ok).filter_map(number).collect())
    }

    /// Those that came since.
    pub(super) fn since(before: &BTreeSet<u64>) -> Result<Self> {
        Ok(Self(Self::before()?.difference(before).copied().collect()))
    }

    /// Nanoseconds that proxy threads and the supervisor have run, all together.
    pub(super) fn run_ns(&self) -> Result<u64> {
        let serving: Vec<u64> = self.0.iter().copied().filter(|id| serves(*id)).collect();
        ensure!(serving.len() >= 2, "the net's threads were not found");
        serving.into_iter().map(run_ns).sum()
    }
}

/// Whether a thread, by its name, is a proxy thread or a supervisor. A thread names itself a moment after
/// it was started.
fn serves(id: u64) -> bool {
    let name = fs::read_to_string(format!("/proc/self/task/{id}/comm")).unwrap_or_default();
    // The system keeps 15 characters of a name.
    name.starts_with("gpunet-proxy") || name.starts_with("gpunet-supervi")
}

/// Nanoseconds that a thread has run: as the scheduler counts them, or in clock ticks where it does not.
fn run_ns(id: u64) -> Result<u64> {
    let folder = format!("/proc/self/task/{id}");
    let counted = fs::read_to_string(format!("{folder}/schedstat")).ok();
    let counted = counted.as_deref().and_then(|text| text.split_whitespace().next());
    // Without the statistics of the scheduler the file is there, and says 0.
    match counted.and_then(|text| text.parse::<u64>().ok()) {
        Some(ns @ 1..) => Ok(ns),
        _ => ticks_ns(&fs::read_to_string(format!("{folder}/stat"))?),
    }
}

/// User and system time of a `stat` file; the name, in brackets, may contain anything.
fn ticks_ns(stat: &str) -> Result<u64> {
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace());
    let times = fields.map(|fields| fields.skip(11).take(2).map(str::parse::<u64>));
    let times = times.and_then(|times| times.collect::<Result<Vec<_>, _>>().ok());
    let times = times.filter(|times| times.len() == 2).context("a thread's stat file")?;
    let second = rustix::param::clock_ticks_per_second().max(1);
    Ok(times.iter().sum::<u64>() * (1_000_000_000 / second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_thread_grows_as_it_runs() {
        let id = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        let (before, begun) = (run_ns(id).unwrap(), std::time::Instant::now());
        while begun.elapsed().as_millis() < 50 {}
        let ran = run_ns(id).unwrap() - before;
        assert!((1_000_000..200_000_000).contains(&ran), "{ran} ns");
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 200 50 0 0 20 0";
        let second = rustix::param::clock_ticks_per_second();
        assert_eq!(ticks_ns(stat).unwrap(), 250 * (1_000_000_000 / second));
        assert!(ticks_ns("7 (a) S 1 2").is_err());
    }

    #[test]
    fn files_and_memory_are_counted() {
        let before = open_files().unwrap();
        let file = fs::File::open("/proc/self/stat").unwrap();
        // Other tests open files, too.
        assert!(open_files().unwrap() + 64 > before);
        drop(file);
        assert!(resident().unwrap() > 1 << 20);
    }
}
