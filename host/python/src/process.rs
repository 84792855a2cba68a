//! What belongs to the process that made it: waits, forks, garbage collection and exit.
//!
//! - A wait runs in pieces of 50 ms with the GIL released; between two of them Python's handlers of signals run.
//! - What a forked child inherits is a copy whose threads are not there: it is refused there, and never dropped.
//! - What the garbage collector drops ends on a thread of its own: it may take seconds, and the collector runs
//!   at any place of the program. `finish`, which the package calls when the interpreter exits, waits for it.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpunet_host::WaitError;
use pyo3::prelude::*;

use crate::error::{self, exception};

/// Between two looks for signals.
const PIECE: Duration = Duration::from_millis(50);

/// Something that this process made and that a child of a fork does not own.
pub(crate) struct Owned<T: Send + Sync + 'static> {
    what: &'static str,
    process: u32,
    /// Whether its end takes time.
    slow: bool,
    value: Mutex<Option<Arc<T>>>,
}

/// It, while a call uses it. The last of them ends it where it was closed meanwhile.
pub(crate) struct Held<T: Send + Sync + 'static> {
    value: Option<Arc<T>>,
    slow: bool,
}

impl<T: Send + Sync + 'static> Held<T> {
    /// To be kept for longer.
    pub(crate) fn share(&self) -> Arc<T> {
        Arc::clone(self.arc())
    }

    fn arc(&self) -> &Arc<T> {
        self.value.as_ref().expect("it is there until the drop")
    }
}

impl<T: Send + Sync + 'static> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.arc()
    }
}

impl<T: Send + Sync + 'static> Drop for Held<T> {
    fn drop(&mut self) {
        if self.slow
            && let Some(last) = self.value.take().and_then(Arc::into_inner)
        {
            end_elsewhere(last);
        }
    }
}

impl<T: Send + Sync + 'static> Owned<T> {
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        let value = Mutex::new(Some(Arc::new(value)));
        Self { what, process: std::process::id(), slow: false, value }
    }

    /// One whose end waits for threads.
    pub(crate) fn slow(what: &'static str, value: T) -> Self {
        let mut owned = Self::new(what, value);
        owned.slow = true;
        owned
    }

    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// It, while it is used.
    pub(crate) fn get(&self) -> PyResult<Held<T>> {
        if !self.is_own() {
            let what = self.what;
            let message = format!(
                "this {what} belongs to the process that made it, and this one was forked off: make a new one \
                 here, or start processes with multiprocessing's 'spawn'"
            );
            return Err(exception("ForkedError", message, &[]));
        }
        let value = lock(&self.value).clone();
        if value.is_none() {
            let message = format!("this {} is closed: make a new one", self.what);
            return Err(exception("ClosedError", message, &[]));
        }
        Ok(Held { value, slow: self.slow })
    }

    /// Whether it is there: neither closed nor another process's.
    pub(crate) fn is_open(&self) -> bool {
        self.is_own() && lock(&self.value).is_some()
    }

    /// Ends it, or leaves that to a call that still uses it. In a child nothing happens.
    pub(crate) fn close(&self, py: Python<'_>) {
        if self.is_own() {
            let value = lock(&self.value).take();
            py.detach(move || drop(value));
        }
    }
}

impl<T: Send + Sync + 'static> Drop for Owned<T> {
    fn drop(&mut self) {
        let value = self.value.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if !self.is_own() {
            // Its threads and its driver are the parent's.
            std::mem::forget(value);
        } else {
            // A call that still uses it cannot be: it has the object.
            drop(Held { value, slow: self.slow });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Threads that end something, with the process that they are of.
static ENDING: Mutex<Vec<(u32, JoinHandle<()>)>> = Mutex::new(Vec::new());

/// Forgets those that have ended, and those that a fork has left in the parent; whether there are others.
fn some_end(ending: &mut Vec<(u32, JoinHandle<()>)>) -> bool {
    let process = std::process::id();
    ending.retain(|(of, thread)| *of == process && !thread.is_finished());
    !ending.is_empty()
}

/// Drops it on a thread of its own; where there is none to be had, never.
fn end_elsewhere<T: Send + 'static>(value: T) {
    let mut ending = lock(&ENDING);
    some_end(&mut ending);
    let (give, take) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("gpunet-end".to_owned());
    match thread.spawn(move || drop(take.recv())) {
        Ok(thread) => {
            // The thread waits for it.
            let _ = give.send(value);
            ending.push((std::process::id(), thread));
        }
        Err(_) => std::mem::forget(value),
    }
}

/// Waits for what ends, at most so many seconds; whether all has ended. For the interpreter's exit.
#[pyfunction]
pub(crate) fn finish(py: Python<'_>, seconds: f64) -> PyResult<bool> {
    let deadline = Instant::now() + duration(seconds)?;
    Ok(py.detach(|| {
        loop {
            if !some_end(&mut lock(&ENDING)) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }))
}

/// Waits for work of a net, for all of the time or for ever.
pub(crate) fn wait(
    py: Python<'_>,
    seconds: Option<f64>,
    wait_timeout: impl Fn(Duration) -> Result<(), WaitError> + Sync,
) -> PyResult<()> {
    let outcome = wait_in_pieces(py, seconds, |piece| match wait_timeout(piece) {
        Err(WaitError::StillRunning { .. }) => None,
        outcome => Some(outcome),
    })?;
    let after = duration(seconds.unwrap_or_default())?;
    // Once more, for which operation is not done.
    let outcome = outcome.unwrap_or_else(|| wait_timeout(Duration::ZERO));
    outcome
        .map_err(|error| match error {
            WaitError::StillRunning { operation, .. } => {
                WaitError::StillRunning { operation, after }
            }
            error => error,
        })
        .map_err(error::of)
}

/// Waits in pieces, for all of the time or for ever; what `piece` gives once it is done, or nothing.
pub(crate) fn wait_in_pieces<R: Send>(
    py: Python<'_>,
    seconds: Option<f64>,
    piece: impl Fn(Duration) -> Option<R> + Sync,
) -> PyResult<Option<R>> {
    let given = seconds.map(duration).transpose()?;
    // None: later than a clock can say.
    let deadline = given.and_then(|given| Instant::now().checked_add(given));
    loop {
        let left = deadline.map_or(PIECE, |deadline| {
            deadline.saturating_duration_since(Instant::now()).min(PIECE)
        });
        if let Some(done) = py.detach(|| piece(left)) {
            return Ok(Some(done));
        }
        py.check_signals()?;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
    }
}

/// Seconds of Python's as a duration.
pub(crate) fn duration(seconds: f64) -> PyResult<Duration> {
    if seconds.is_nan() || seconds < 0.0 {
        let message = format!("a time is a number of seconds from 0 on, not {seconds}");
        return Err(pyo3::exceptions::PyValueError::new_err(message));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
