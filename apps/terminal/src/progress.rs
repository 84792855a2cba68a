//! What is going on, on standard error: a bar that is wiped in the end. Where standard error is no terminal
//! there is none, and nobody waits for it to be drawn.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a bar is drawn where nothing happens, so that its time goes on.
const TICK: Duration = Duration::from_millis(200);

const OF_STEPS: &str = "{elapsed:>5} [{bar:24}] {pos}/{len} {wide_msg}";
const OF_TIME: &str = "{elapsed:>5} [{bar:24}] {percent}% {wide_msg}";

/// A bar; wiped when it is dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Work of so many steps; not shown when `quiet`, or where standard error is no terminal.
    #[must_use]
    pub fn of_steps(steps: u64, quiet: bool) -> Self {
        Self::new(steps, OF_STEPS, quiet)
    }

    /// Work that takes so long; [`Self::at`] says how far it is.
    #[must_use]
    pub fn of_time(time: Duration, quiet: bool) -> Self {
        Self::new(time.as_secs(), OF_TIME, quiet)
    }

    fn new(length: u64, template: &str, quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        // A template that is wrong is a mistake of this file; the usual one serves as well.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// A step begins.
    pub fn begin(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// Steps have ended, or will not be done.
    pub fn done(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// So long has passed of the whole time.
    pub fn at(&self, time: Duration) {
        self.0.set_position(time.as_secs());
    }

    /// Says a line on standard error, above the bar.
    pub fn say(&self, line: &str) {
        self.0.suspend(|| crate::output::say(line));
    }

    /// Wipes the bar; nothing more is shown.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_right_and_a_quiet_bar_is_hidden() {
        for template in [OF_STEPS, OF_TIME] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
        let progress = Progress::of_steps(3, true);
        progress.begin("a step");
        progress.done(1);
        assert!(progress.0.is_hidden());
        assert_eq!(progress.0.position(), 1);
    }
}
