//! Bugs that can be planted, each at its place in the code, in builds for the simulation harness
//! (the feature `simulation`) and for tests on the emulated GPU (`fault-injection`): tests that find
//! none of them would prove nothing. In every other build, and so in every kernel for a GPU,
//! [`planted`] is the constant `false`.

#[cfg(feature = "fault-injection")]
use core::sync::atomic::{AtomicU8, Ordering};

pub use crate::bug::Bug;

/// The number of the bug that is planted in this process, from 1.
#[cfg(feature = "fault-injection")]
static PLANTED: AtomicU8 = AtomicU8::new(0);

/// Plants a bug in this process, or with none takes it out again.
#[cfg(feature = "fault-injection")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::SeqCst);
}

/// Whether the bug is planted in this run.
#[inline(always)]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    #[cfg(feature = "fault-injection")]
    // Relaxed: what is planted changes while no kernel runs.
    if PLANTED.load(Ordering::Relaxed) == bug as u8 + 1 {
        return true;
    }
    #[cfg(feature = "simulation")]
    return crate::simulation::harness::with(|harness| harness.planted() == Some(bug))
        .unwrap_or(false);
    #[cfg(not(feature = "simulation"))]
    {
        let _ = bug;
        false
    }
}
