//! What this process holds of the system: memory, descriptors, threads, children.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use gpunet_support::testing::hang_limit;
use rustix::process::{WaitOptions, wait};
use serde::Serialize;

/// How much resident memory may grow after the warm-up without being a leak: what the allocator
/// keeps rises until each kind of round has been there with each other (measured on the emulated
/// GPU: 0.5 MiB in four minutes), and a driver has pools of its own, which go with what it holds. A leak of a kilobyte a connection is beyond it after some minutes.
pub(crate) fn memory_tolerance(before: &Holdings) -> u64 {
    (8 << 20) + before.resident / 50
}

/// How long threads and descriptors may take to go once all is closed.
fn settling_limit() -> Duration {
    hang_limit(Duration::from_millis(300))
}

/// What a process holds at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Holdings {
    /// Bytes in memory, without pages of files (RssAnon and RssShmem): those are this program's own
    /// code, whose pages come when they are first run, up to 12 MiB of them without optimisation.
    pub(crate) resident: u64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Children, running or dead, that nobody has waited for.
    pub(crate) children: u64,
}

impl Holdings {
    /// What this process holds now; only when no peer process should be there.
    pub(crate) fn now() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status").context("reading own status")?;
        let number = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        // The folder's own descriptor is among them each time.
        let descriptors = fs::read_dir("/proc/self/fd").context("reading own descriptors")?;
        let size = |name| number(name).with_context(|| format!("{name} in the own status"));
        Ok(Self {
            resident: (size("RssAnon:")? + size("RssShmem:")?) * 1024,
            descriptors: descriptors.count() as u64,
            threads: number("Threads:").context("threads in the own status")?,
            children: children(),
        })
    }

    /// What it holds once all that is about to go has gone: what there was at `before`, or what
    /// stays as it is for a while.
    pub(crate) fn settled(before: Option<Self>) -> Result<Self> {
        let begin = Instant::now();
        let mut last = Self::now()?;
        let mut same = 0;
        loop {
            let at_rest = match before {
                Some(before) => last.children == 0 && last.growth_since(&before).is_empty(),
                None => same >= 10,
            };
            if at_rest || begin.elapsed() > settling_limit() {
                return Ok(last);
            }
            std::thread::sleep(Duration::from_millis(10));
            let now = Self::now()?;
            let unchanged = now.descriptors == last.descriptors && now.threads == last.threads;
            same = if unchanged { same + 1 } else { 0 };
            let children = now.children.max(last.children);
            last = Self { children, ..now };
        }
    }

    /// What has grown beyond what it may, in words; children must not be there at all.
    pub(crate) fn growth_since(&self, before: &Self) -> Vec<String> {
        let mut grown = Vec::new();
        let tolerance = memory_tolerance(before);
        if self.resident > before.resident + tolerance {
            grown.push(format!(
                "resident memory: {} KiB after the warm-up, {} KiB now, {} KiB tolerated",
                before.resident >> 10,
                self.resident >> 10,
                tolerance >> 10
            ));
        }
        for (what, then, now) in [
            ("descriptors", before.descriptors, self.descriptors),
            ("threads", before.threads, self.threads),
        ] {
            if now > then {
                grown.push(format!("{what}: {then} after the warm-up, {now} now"));
            }
        }
        grown
    }
}

impl fmt::Display for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} MiB, {} descriptors, {} threads",
            self.resident as f64 / f64::from(1 << 20),
            self.descriptors,
            self.threads
        )
    }
}

/// Children of this process. The dead are waited for here, so that each is found once.
fn children() -> u64 {
    let mut found = 0;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => found += 1,
            // Some still run.
            Ok(None) => return found + 1,
            // There are none.
            Err(_) => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_named_and_shrinking_is_none() {
        let before = Holdings { resident: 1 << 20, descriptors: 5, threads: 2, children: 0 };
        assert!(before.growth_since(&before).is_empty());
        let less = Holdings { resident: 0, descriptors: 4, threads: 1, children: 0 };
        assert!(less.growth_since(&before).is_empty());
        let more = Holdings {
            resident: before.resident + memory_tolerance(&before) + 1,
            descriptors: 6,
            threads: 3,
            children: 0,
        };
        let grown = more.growth_since(&before).join("; ");
        for word in ["resident memory", "descriptors: 5", "threads: 2"] {
            assert!(grown.contains(word), "{grown}");
        }
    }

    #[test]
    fn this_process_holds_something_and_a_zombie_is_seen() {
        let now = Holdings::now().expect("Linux shows it");
        assert!(now.resident > 0 && now.descriptors > 2 && now.threads > 0);
        assert_eq!(now.children, 0);
        let child = std::process::Command::new("true").spawn().expect("it runs");
        let seen = Holdings::settled(Some(now)).expect("Linux shows it").children;
        drop(child);
        assert_eq!(seen, 1);
        assert_eq!(Holdings::now().expect("Linux shows it").children, 0);
    }
}
