//! Fences of the calling thread at system scope. Models and the simulation harness have their own.

use core::sync::atomic::Ordering;

/// What this thread reads next is no older than what it has read.
#[inline(always)]
pub fn acquire_fence() {
    #[cfg(feature = "simulation")]
    crate::simulation::harness::with(|harness| {
        harness.fence(crate::simulation::harness::Fence::Acquire)
    });
    #[cfg(feature = "loom")]
    super::model::fence(Ordering::Acquire);
    #[cfg(not(feature = "loom"))]
    core::sync::atomic::fence(Ordering::Acquire);
}

/// Makes everything this thread has seen and done visible before its next stores.
#[inline(always)]
pub fn release_fence() {
    #[cfg(feature = "simulation")]
    crate::simulation::harness::with(|harness| {
        harness.fence(crate::simulation::harness::Fence::Release)
    });
    #[cfg(feature = "loom")]
    super::model::fence(Ordering::Release);
    #[cfg(not(feature = "loom"))]
    core::sync::atomic::fence(Ordering::Release);
}
