//! A launch that lasts until it is closed and all that is on its streams is done: under it kernels of a net
//! run in the order of streams, put there by this crate or by the program itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use super::launch::Handle;
use super::stream::{Held, POLL_INTERVAL, StreamBackend};
use super::{GpuError, GpuStream, KernelError, Running, StreamError};

/// A period in which streams may run kernels of a net.
#[derive(Clone)]
pub(crate) struct Lease {
    name: &'static str,
    closed: Arc<RwLock<bool>>,
    streams: Arc<[Arc<dyn StreamBackend>]>,
    /// A kernel on one of the streams has faulted.
    failed: Arc<AtomicBool>,
    /// Until it has ended.
    held: Arc<Mutex<Vec<Held>>>,
}

/// As long as this is held a lease stays open.
pub(crate) struct OpenLease<'a>(#[allow(dead_code, reason = "held")] RwLockReadGuard<'a, bool>);

impl Lease {
    /// One on a stream on which this crate alone puts kernels of the net.
    pub(crate) fn of_queue(stream: &GpuStream) -> (Running, Self) {
        Self::new("operations", std::slice::from_ref(stream), Vec::new())
    }

    /// One on streams on which the program puts kernels, too: they count as streams with work until it has
    /// ended.
    pub(crate) fn of_program(streams: &[GpuStream]) -> Result<(Running, Self), StreamError> {
        let held = streams.iter().map(|stream| stream.backend.hold()).collect::<Result<_, _>>()?;
        Ok(Self::new("lease", streams, held))
    }

    fn new(name: &'static str, streams: &[GpuStream], held: Vec<Held>) -> (Running, Self) {
        let lease = Self {
            name,
            closed: Arc::default(),
            streams: streams.iter().map(|stream| Arc::clone(&stream.backend)).collect(),
            failed: Arc::default(),
            held: Arc::new(Mutex::new(held)),
        };
        (Running::new(lease.clone()), lease)
    }

    /// Keeps it open, if it is.
    pub(crate) fn hold(&self) -> Option<OpenLease<'_>> {
        let closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        (!*closed).then_some(OpenLease(closed))
    }

    /// Whether all that was put on the streams is done.
    pub(crate) fn is_stream_done(&self) -> Result<bool, KernelError> {
        self.streams.iter().try_fold(true, |done, stream| Ok(done & stream.is_done()?))
    }

    /// A kernel on one of the streams has faulted.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Nothing more is put on the streams. What is there still runs.
    pub(crate) fn close(&self) {
        let mut closed = self.closed.write().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *closed, true) {
            return;
        }
        for stream in self.streams.iter() {
            if let Err(error) = stream.mark() {
                // A context that is lost says so again when it is asked for its end.
                tracing::debug!(%error, "the end of a stream cannot be marked");
            }
        }
    }

    fn ended(&self, outcome: Result<(), KernelError>) -> Option<Result<(), KernelError>> {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        // Frees what waited for it, without the lock.
        drop(held);
        Some(outcome)
    }
}

impl Handle for Lease {
    fn kernel(&self) -> &str {
        self.name
    }

    fn poll(&self) -> Option<Result<(), KernelError>> {
        // Closed first: nothing is put there afterwards.
        let closed = self.hold().is_none();
        let (mut done, mut failure) = (true, None);
        for stream in self.streams.iter() {
            match stream.is_done() {
                Ok(is_done) => done &= is_done,
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        if failure.is_some() {
            self.failed.store(true, Ordering::Release);
            if self.streams.len() > 1 {
                // A stream that failed takes nothing more, and neither shall the others.
                self.close();
            }
        }
        match failure {
            // What runs on the others uses the net as well.
            Some(error) if done => self.ended(Err(error)),
            None if closed && done => self.ended(Ok(())),
            _ => None,
        }
    }

    fn wait(&self, timeout: Option<Duration>) -> Option<Result<(), KernelError>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(outcome) = self.poll() {
                return Some(outcome);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn kill(&self) -> Result<(), GpuError> {
        self.streams.iter().try_for_each(|stream| stream.kill())
    }
}
