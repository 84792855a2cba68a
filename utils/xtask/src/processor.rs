//! Processor time of the programs that this one runs, and of theirs.
//!
//! The system adds up what all children used once they have been waited for. Where two threads run
//! programs, [`wait`] separates what those used that one of them has waited for.

use std::fs;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, setpriority_process, waitid};

/// What programs used that [`wait`] has waited for, in the system's ticks.
static FINISHED: AtomicU64 = AtomicU64::new(0);

/// Used by all children that were waited for.
pub(crate) fn of_all() -> Duration {
    in_time(children_of_this())
}

/// Used by those that [`wait`] was called for.
pub(crate) fn of_finished() -> Duration {
    in_time(FINISHED.load(Ordering::Relaxed))
}

/// Used by all others.
pub(crate) fn of_unfinished() -> Duration {
    in_time(children_of_this().saturating_sub(FINISHED.load(Ordering::Relaxed)))
}

/// Waits for a program, and notes what it and its children used.
pub(crate) fn wait(mut child: Child) -> Result<ExitStatus> {
    let pid = Pid::from_child(&child);
    // It has ended then, but its numbers are still there.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .context("cannot wait for a program")?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let status = child.wait()?;
    FINISHED.fetch_add(ticks(&stat).map_or(0, |[own, children]| own + children), Ordering::Relaxed);
    Ok(status)
}

/// Gives this thread, and programs that it starts, a quarter of a processor that others want, too.
pub(crate) fn yield_to_others() {
    // Where the system does not let it, it is merely less considerate.
    let _ = setpriority_process(None, 5);
}

fn children_of_this() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks(&stat).map_or(0, |[_, children]| children)
}

/// What a process used itself, and its children that it waited for: user and system time.
fn ticks(stat: &str) -> Option<[u64; 2]> {
    // The name before may hold anything; utime, stime, cutime and cstime are fields 14 to 17.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut numbers = fields.split_whitespace().skip(11);
    let mut number = || numbers.next()?.parse::<u64>().ok();
    let mut two = || Some(number()? + number()?);
    Some([two()?, two()?])
}

fn in_time(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn numbers_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 9 8 0 0 10 20 300 400 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some([30, 700]));
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn what_a_program_used_is_noted() {
        let before = of_finished();
        let work = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; exit 7";
        let child = Command::new("sh").args(["-c", work]).spawn().unwrap();
        assert_eq!(wait(child).unwrap().code(), Some(7));
        assert!(of_finished() > before);
        assert!(of_all() >= of_finished());
    }
}
