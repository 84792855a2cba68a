//! Lines that kernels print, on their way to the program. A thread of each net hands them over one
//! after another: whoever reads them may be slow, and nothing else of the net waits for it. Proxy
//! threads put lines into a bounded queue and count those that find it full.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::builder::Printer;
use super::wait_until;

/// Lines that wait to be printed.
const LINES: usize = 1024;
/// How long the end of a net waits for them.
const FLUSH: Duration = Duration::from_secs(2);
/// In place of a launch, in a line that only ends the thread's wait.
const WAKE: u32 = u32::MAX;

/// A line, and the launch that printed it.
pub(super) type Line = (u32, String);

/// Both ends of the queue.
pub(super) fn queue() -> (SyncSender<Line>, Receiver<Line>) {
    mpsc::sync_channel(LINES)
}

/// What the thread and the net share.
#[derive(Debug, Default)]
struct Progress {
    /// Set at the end of the net: lines may be handed over until then.
    deadline: OnceLock<Instant>,
    handed_over: AtomicU64,
}

/// The thread that hands lines over.
pub(super) struct Printing {
    thread: JoinHandle<()>,
    progress: Arc<Progress>,
}

impl Printing {
    /// Starts it. `dropped` says how many lines have found the queue full so far.
    pub(super) fn start(
        lines: Receiver<Line>,
        printer: Printer,
        dropped: impl Fn() -> u64 + Send + 'static,
    ) -> std::io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        let thread = std::thread::Builder::new()
            .name("gpunet-printer".to_owned())
            .spawn(move || run(&lines, &printer, &dropped, &shared))?;
        Ok(Self { thread, progress })
    }

    /// Has the lines that wait handed over, in bounded time, and ends the thread; one that a reader
    /// holds up ends when it is let go. `queued` is how many lines have ever waited.
    pub(super) fn finish(self, queue: &SyncSender<Line>, queued: u64) {
        let deadline = *self.progress.deadline.get_or_init(|| Instant::now() + FLUSH);
        // A full queue ends the wait as well.
        let _ = queue.try_send((WAKE, String::new()));
        wait_until(deadline, || self.thread.is_finished());
        let left = queued.saturating_sub(self.progress.handed_over.load(Ordering::Acquire));
        if left > 0 {
            tracing::warn!("{left} lines dropped at the end of a net: their reader is too slow");
        }
        if self.thread.is_finished() {
            // A panic was caught and reported where it happened.
            let _ = self.thread.join();
        }
    }
}

fn run(lines: &Receiver<Line>, printer: &Printer, dropped: &dyn Fn() -> u64, progress: &Progress) {
    let mut said = 0;
    loop {
        let next = match progress.deadline.get() {
            None => lines.recv().ok(),
            Some(deadline) if Instant::now() < *deadline => lines.try_recv().ok(),
            Some(_) => None,
        };
        if let Some((launch, line)) = &next
            && *launch != WAKE
        {
            guarded(|| (printer.line)(*launch, line));
            progress.handed_over.fetch_add(1, Ordering::Release);
        }
        let total = dropped();
        if total > said {
            guarded(|| (printer.dropped)(total - said));
            said = total;
        }
        if next.is_none() {
            return;
        }
    }
}

/// Calls the program. Its panic is no reason not to hand over the next line.
fn guarded(call: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(call)).is_err() {
        tracing::error!("the printer panicked; its line is lost");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A printer whose lines wait until the other end lets them go, and what it has printed.
    fn gated() -> (Printer, mpsc::Sender<()>, Arc<Mutex<Vec<String>>>) {
        let (gate, opened) = mpsc::channel();
        let printed = Arc::new(Mutex::new(Vec::new()));
        let opened = Mutex::new(opened);
        let (lines, drops) = (Arc::clone(&printed), Arc::clone(&printed));
        let printer = Printer {
            line: Arc::new(move |launch, line| {
                let _ = opened.lock().unwrap().recv();
                lines.lock().unwrap().push(format!("{launch} {line}"));
            }),
            dropped: Arc::new(move |count| drops.lock().unwrap().push(format!("-{count}"))),
        };
        (printer, gate, printed)
    }

    #[test]
    fn lines_that_were_dropped_are_said_after_those_that_were_not() {
        let (printer, gate, printed) = gated();
        let (queue, lines) = queue();
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        let counted = move || counted.load(Ordering::SeqCst);
        let printing = Printing::start(lines, printer, counted).unwrap();
        queue.send((3, "first".to_owned())).unwrap();
        // One is with the reader, or will be; as many as the queue holds wait; the others are lost.
        let mut queued = 1;
        while dropped.load(Ordering::SeqCst) < 5 {
            match queue.try_send((4, "next".to_owned())) {
                Ok(()) => queued += 1,
                Err(_) => _ = dropped.fetch_add(1, Ordering::SeqCst),
            }
        }
        // From now on the reader keeps up.
        drop(gate);
        printing.finish(&queue, queued);
        let printed = printed.lock().unwrap();
        assert_eq!(printed[..2], ["3 first", "-5"]);
        assert_eq!(printed.len() as u64, queued + 1);
    }

    #[test]
    fn the_end_waits_for_a_reader_no_longer_than_it_says() {
        let (printer, gate, printed) = gated();
        let (queue, lines) = queue();
        let printing = Printing::start(lines, printer, || 0).unwrap();
        for _ in 0..3 {
            queue.send((1, "line".to_owned())).unwrap();
        }
        let begin = Instant::now();
        printing.finish(&queue, 3);
        assert!(
            begin.elapsed() < FLUSH + gpunet_support::testing::hang_limit(FLUSH),
            "{:?}",
            begin.elapsed()
        );
        // The thread is held up in the first line, and takes no other when it is let go.
        drop(gate);
        while queue.try_send((WAKE, String::new())).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(printed.lock().unwrap().len(), 1);
    }

    #[test]
    fn the_end_takes_no_time_when_nothing_waits() {
        let takes_none = || {
            let (printer, _gate, _) = gated();
            let (queue, lines) = queue();
            let printing = Printing::start(lines, printer, || 0).unwrap();
            let begin = Instant::now();
            printing.finish(&queue, 0);
            begin.elapsed() < FLUSH / 2
        };
        // A machine that is busy may hold this thread up for as long, but not most times.
        let none = (0..9).filter(|_| takes_none()).count();
        assert!(none >= 5, "it waits although nothing does, {} times of 9", 9 - none);
    }
}
