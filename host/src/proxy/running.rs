//! Which launches of a net run.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use gpunet_device::abi::layout::MAX_LAUNCHES;

/// Which launches of a net run, from before their kernel starts until it has ended. A slot's number
/// grows when a launch takes it and when it ends: odd while one runs.
#[derive(Debug)]
pub(crate) struct RunningLaunches([AtomicU64; MAX_LAUNCHES as usize]);

/// A launch that ran when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningLaunch {
    slot: u32,
    number: u64,
}

impl Default for RunningLaunches {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; MAX_LAUNCHES as usize])
    }
}

impl RunningLaunches {
    /// Notes that a launch runs, or no longer does.
    pub(crate) fn set(&self, launch: u32, runs: bool) {
        let Some(number) = self.0.get(launch as usize) else { return };
        if self.runs(launch) != runs {
            // Release and acquire: who is notified that a launch has ended finds it so here.
            number.fetch_add(1, Ordering::AcqRel);
        }
        // Pairs with the fence in `all`: the kernel, which starts behind this one, finds withdrawn what was
        // closed without it.
        fence(Ordering::SeqCst);
    }

    fn number(&self, launch: u32) -> u64 {
        self.0.get(launch as usize).map_or(0, |number| number.load(Ordering::Acquire))
    }

    /// Whether a launch runs.
    pub(crate) fn runs(&self, launch: u32) -> bool {
        !self.number(launch).is_multiple_of(2)
    }

    /// Whether any launch runs.
    pub(crate) fn any_runs(&self) -> bool {
        (0..MAX_LAUNCHES).any(|launch| self.runs(launch))
    }

    /// All that run now, for who has withdrawn a descriptor: any other launch finds that it is.
    pub(crate) fn all(&self) -> Vec<RunningLaunch> {
        // The descriptor before the numbers: neither a release nor an acquire orders a store and a later
        // load of another word.
        fence(Ordering::SeqCst);
        let launches =
            (0..MAX_LAUNCHES).map(|slot| RunningLaunch { slot, number: self.number(slot) });
        launches.filter(|launch| !launch.number.is_multiple_of(2)).collect()
    }

    /// Whether one that ran still does.
    pub(crate) fn still_runs(&self, launch: RunningLaunch) -> bool {
        self.number(launch.slot) == launch.number
    }
}
