//! The watchdog: reports how it goes, and ends the program when nothing else does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gpunet_support::testing::hang_limit;
use gpunet_terminal::output::print;

use crate::check::Fault;
use crate::tally::{Heading, Tally};

/// How long one step of a round may take: longer than the waits in it, that for the end of a launch
/// and, where it does not end, the one behind its abort.
fn step_limit() -> Duration {
    hang_limit(Duration::from_secs(6))
}

/// How long after its time the soak may end: the warm-up of a short one, a round that began in time,
/// and the last rest.
pub(crate) fn overtime() -> Duration {
    hang_limit(Duration::from_secs(12))
}

/// A thread that watches a tally until it is dropped.
pub(crate) struct Watchdog {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches a soak that should be over after `time`.
    pub(crate) fn start(
        tally: &Arc<Tally>,
        heading: &Arc<Heading>,
        time: Duration,
        json: bool,
    ) -> std::io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let (tally, heading, ended) = (Arc::clone(tally), Arc::clone(heading), Arc::clone(&over));
        let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            while !ended.load(Ordering::Acquire) {
                std::thread::park_timeout(Duration::from_millis(100));
                tally.show_progress(time);
                let stuck = tally.stuck(step_limit()).or_else(|| {
                    let late = tally.elapsed() > time + overtime();
                    late.then(|| tally.stuck(Duration::ZERO).unwrap_or_default())
                });
                if let Some(what) = stuck
                    && !ended.load(Ordering::Acquire)
                {
                    tally.fault(Fault::Hung(what));
                    report(&tally, &heading, json);
                    // Whatever hangs would hang every orderly end, too.
                    std::process::exit(1);
                }
            }
        })?;
        Ok(Self { over, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there is no reason for one here.
            let _ = thread.join();
        }
    }
}

/// Prints the summary.
pub(crate) fn report(tally: &Tally, heading: &Heading, json: bool) {
    tally.end_progress();
    let text = if json { format!("{:#}\n", tally.json(heading)) } else { tally.table(heading) };
    // Nobody may be left to read it; the exit status still says it.
    let _ = print(&text);
}
