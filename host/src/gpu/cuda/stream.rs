//! Streams with the event that shows when their last work is done, and waiting by polling.
//!
//! The driver's own waits are not used: some of them wait for every kernel of the context.

use std::ptr;
use std::time::Duration;

use cudarc::driver::sys::{CUevent, CUresult, CUstream};

use super::driver::{Failed, call};

/// CU_STREAM_NON_BLOCKING: no implicit order with the default stream.
const NON_BLOCKING: u32 = 1;
/// CU_EVENT_DISABLE_TIMING.
const NO_TIMING: u32 = 2;

/// First and longest sleep between two looks.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);

/// A stream and an event.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) stream: CUstream,
    event: CUevent,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Lane {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Lane {}

impl Lane {
    /// Needs the context to be current, as all methods do.
    pub(super) fn new() -> Result<Self, Failed> {
        let (mut stream, mut event) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: writes one handle.
        unsafe { call!(cuStreamCreate(&mut stream, NON_BLOCKING)) }?;
        // SAFETY: writes one handle.
        if let Err(failed) = unsafe { call!(cuEventCreate(&mut event, NO_TIMING)) } {
            // SAFETY: the stream was made above and is used nowhere.
            let _ = unsafe { call!(cuStreamDestroy_v2(stream)) };
            return Err(failed);
        }
        Ok(Self { stream, event })
    }

    /// Marks everything given to the stream so far.
    pub(super) fn mark(&self) -> Result<(), Failed> {
        // SAFETY: both handles live as long as `self`.
        unsafe { call!(cuEventRecord(self.event, self.stream)) }
    }

    /// Whether everything before the mark is done.
    pub(super) fn is_done(&self) -> Result<bool, Failed> {
        // SAFETY: the handle lives as long as `self`.
        match unsafe { call!(cuEventQuery(self.event)) } {
            Ok(()) => Ok(true),
            Err(Failed { code: CUresult::CUDA_ERROR_NOT_READY, .. }) => Ok(false),
            Err(failed) => Err(failed),
        }
    }

    /// Waits for a copy: looks eagerly at first, since small ones take a few microseconds.
    pub(super) fn finish(&self) -> Result<(), Failed> {
        self.mark()?;
        for _ in 0..1000 {
            if self.is_done()? {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut pace = Pace::new();
        while !self.is_done()? {
            std::thread::sleep(pace.next());
        }
        Ok(())
    }

    /// Gives the handles back; the stream must be empty.
    pub(super) fn destroy(self) {
        // SAFETY: nobody else has the handles.
        let _ = unsafe { call!(cuEventDestroy_v2(self.event)) };
        // SAFETY: as above.
        let _ = unsafe { call!(cuStreamDestroy_v2(self.stream)) };
    }
}

/// How long to sleep between looks: longer and longer.
pub(super) struct Pace(Duration);

impl Pace {
    pub(super) fn new() -> Self {
        Self(SHORTEST)
    }

    pub(super) fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 5 / 4).min(LONGEST);
        now
    }
}
