//! Marks: events behind what was put on streams, which say whether it is done; and streams that nobody has,
//! with theirs.

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUresult, CUstream};

use super::driver::{Failed, call};

/// CU_STREAM_NON_BLOCKING: no implicit order with the default stream.
const NON_BLOCKING: u32 = 1;
/// CU_EVENT_DISABLE_TIMING.
const NO_TIMING: u32 = 2;

/// The event behind what was put on a stream.
#[derive(Debug)]
pub(super) struct Mark(CUevent);

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Mark {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Mark {}

impl Mark {
    pub(super) fn new() -> Result<Self, Failed> {
        let mut event = ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { call!(cuEventCreate(&mut event, NO_TIMING)) }?;
        Ok(Self(event))
    }

    pub(super) fn record(&self, stream: CUstream) -> Result<(), Failed> {
        // SAFETY: both handles live.
        unsafe { call!(cuEventRecord(self.0, stream)) }
    }

    /// Whether everything before it is done; true where nothing was ever recorded.
    pub(super) fn has_passed(&self) -> Result<bool, Failed> {
        // SAFETY: the handle lives as long as `self`.
        match unsafe { call!(cuEventQuery(self.0)) } {
            Ok(()) => Ok(true),
            Err(Failed { code: CUresult::CUDA_ERROR_NOT_READY, .. }) => Ok(false),
            Err(failed) => Err(failed),
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle; the driver keeps what is recorded until it has passed.
        let _ = unsafe { call!(cuEventDestroy_v2(self.0)) };
    }
}

/// Streams that are made for programs when a GPU is opened. Making one beside running kernels may wait
/// for them.
pub(super) const PROGRAM_STREAMS: usize = 32;

/// A stream that nobody has, with the mark behind what was put there.
pub(super) struct SpareStream {
    pub(super) stream: CUstream,
    pub(super) mark: Arc<Mark>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for SpareStream {}

impl SpareStream {
    /// Needs the context to be current.
    pub(super) fn new() -> Result<Self, Failed> {
        let mark = Arc::new(Mark::new()?);
        let mut stream = ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { call!(cuStreamCreate(&mut stream, NON_BLOCKING)) }?;
        Ok(Self { stream, mark })
    }

    pub(super) fn destroy(self) {
        // SAFETY: nobody else has the handle; what is on the stream still runs.
        let _ = unsafe { call!(cuStreamDestroy_v2(self.stream)) };
    }
}
