//! Ctrl-C, SIGTERM and SIGHUP: the first asks everything to end, the second ends it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Whether to stop: the whole program, or one part of it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    program: Arc<AtomicBool>,
    part: Arc<AtomicBool>,
}

impl Stop {
    /// One that the signals set.
    ///
    /// # Errors
    /// A system that lets no signals be handled.
    pub fn on_signals() -> Result<Self, Failure> {
        let stop = Self::default();
        let program = Arc::clone(&stop.program);
        let handler = move || {
            if program.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        };
        ctrlc::set_handler(handler)
            .map_err(|error| Failure::refused(format!("cannot handle signals: {error}")))?;
        Ok(stop)
    }

    /// For a part that can be stopped alone, and stops with the program too.
    #[must_use]
    pub fn part(&self) -> Self {
        Self { program: Arc::clone(&self.program), part: Arc::default() }
    }

    /// Stops this part.
    pub fn set(&self) {
        self.part.store(true, Ordering::Relaxed);
    }

    /// Whether to stop.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.part.load(Ordering::Relaxed) || self.program.load(Ordering::Relaxed)
    }
}
