//! Streams: kernels that run one after the other, in the order in which they were put there.
//!
//! A program makes one, or hands over one that it has (`cudaStream_t`, PyTorch's current stream); the
//! net's queues put kernels on it. The backends implement [`StreamBackend`]. A stream with work that is
//! not done counts as a kernel that runs: memory is freed behind it, and it takes a queue of the
//! hardware, of which two are left to others.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use gpunet_device::kernel::Memory;

use super::launch::Handle;
use super::{Gpu, GpuError, KernelError, LaunchSpec, Module, Running};

/// The kernel that runs operations. It is loaded with the first stream.
const OPERATIONS: Module = crate::include_module!("gpunet_stream_kernels");

/// Polls of a stream in a row before sleeps: short kernels take some microseconds.
const EAGER_POLLS: u32 = 1000;
/// Between two polls later.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Kernels that may wait on a stream. A driver takes about a thousand, and then has its caller wait, with
/// locks that others want.
pub(super) const MAX_WAITING: usize = 768;

/// Whether so many more kernels may wait on a stream where some do.
pub(super) fn check_waiting(waiting: usize, more: usize) -> Result<(), GpuError> {
    match waiting + more <= MAX_WAITING {
        true => Ok(()),
        false => Err(GpuError::StreamFull { waiting, possible: MAX_WAITING }),
    }
}

/// A kernel to be put on a stream, and the memory that it needs.
#[derive(Clone)]
pub(crate) struct StreamKernel {
    pub(crate) spec: Arc<LaunchSpec<'static>>,
    pub(crate) kept: Vec<Memory>,
}

/// What became of kernels that were put on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// They run in their turn; the GPU keeps what their arguments name.
    Queued,
    /// They are a part of a graph that the program captures, and may run at any time from now on.
    Captured,
}

/// What each backend supplies for a stream.
pub(super) trait StreamBackend: Send + Sync {
    /// Whether they can be launched at all.
    fn check(&self, kernel: &StreamKernel) -> Result<(), GpuError>;
    /// Puts kernels behind all that is there.
    fn submit(&self, kernels: &[StreamKernel]) -> Result<Submitted, GpuError>;
    /// Whether all that was put there is done, or how it failed.
    fn is_done(&self) -> Result<bool, KernelError>;
    /// Kernels as a graph, which can be launched again and again.
    fn graph(&self, kernels: &[StreamKernel]) -> Result<Box<dyn GraphBackend>, GpuError>;
    /// Marks all that the program itself has put there so far, for [`Self::is_done`].
    fn mark(&self) -> Result<(), GpuError>;
}

/// What each backend supplies for a graph.
pub(super) trait GraphBackend: Send + Sync {
    /// Puts it behind all that is on its stream.
    fn launch(&self) -> Result<Submitted, GpuError>;
}

/// A stream. Clones are the same one; when the last goes, what is on it still runs.
#[derive(Clone)]
pub struct GpuStream {
    backend: Arc<dyn StreamBackend>,
    gpu: Gpu,
}

impl Gpu {
    /// A new stream, in no order with others. The first one loads a kernel, so it is made before others
    /// run.
    ///
    /// # Errors
    /// What the driver says; on CUDA, the first one while a kernel runs.
    pub fn stream(&self) -> Result<GpuStream, GpuError> {
        self.load(&OPERATIONS)?;
        Ok(GpuStream { backend: self.inner.stream(None)?, gpu: self.clone() })
    }

    /// A stream that the program has made: a `CUstream` or `cudaStream_t` as a number, which is what
    /// PyTorch (`torch.cuda.current_stream().cuda_stream`) and CuPy (`stream.ptr`) give.
    ///
    /// # Safety
    /// It is a stream of this device's primary context, and is not destroyed before what uses it is
    /// dropped. A graph that the program captures there with operations in it is not launched once their
    /// queue is dropped.
    ///
    /// # Errors
    /// A stream of another context; the emulated GPU, which has none of these.
    pub unsafe fn stream_from_raw(&self, stream: usize) -> Result<GpuStream, GpuError> {
        self.load(&OPERATIONS)?;
        Ok(GpuStream { backend: self.inner.stream(Some(stream))?, gpu: self.clone() })
    }
}

impl GpuStream {
    /// The GPU it is on.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Whether all that was put there by this crate is done.
    ///
    /// # Errors
    /// A kernel that faulted.
    pub fn is_done(&self) -> Result<bool, KernelError> {
        self.backend.is_done()
    }

    /// Waits until all that was put there by this crate is done, at most so long. Whether it is.
    ///
    /// # Errors
    /// A kernel that faulted.
    pub fn wait(&self, timeout: Duration) -> Result<bool, KernelError> {
        let deadline = Instant::now().checked_add(timeout);
        let mut polls = 0;
        while !self.is_done()? {
            if polls < EAGER_POLLS {
                polls += 1;
                std::hint::spin_loop();
                continue;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(true)
    }

    pub(crate) fn check(&self, kernel: &StreamKernel) -> Result<(), GpuError> {
        self.backend.check(kernel)
    }

    pub(crate) fn submit(&self, kernels: &[StreamKernel]) -> Result<Submitted, GpuError> {
        self.backend.submit(kernels)
    }

    pub(crate) fn graph(&self, kernels: &[StreamKernel]) -> Result<StreamGraph, GpuError> {
        self.backend.graph(kernels).map(StreamGraph)
    }

    /// A launch that lasts until it is closed and all that is on the stream is done.
    pub(crate) fn lease(&self) -> (Running, Lease) {
        let lease = Lease { closed: Arc::default(), backend: Arc::clone(&self.backend) };
        (Running { handle: Box::new(lease.clone()) }, lease)
    }
}

impl fmt::Debug for GpuStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuStream").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// Kernels that are launched together, one after the other.
pub(crate) struct StreamGraph(Box<dyn GraphBackend>);

impl StreamGraph {
    pub(crate) fn launch(&self) -> Result<Submitted, GpuError> {
        self.0.launch()
    }
}

/// A period in which a stream may run kernels of a net.
#[derive(Clone)]
pub(crate) struct Lease {
    closed: Arc<RwLock<bool>>,
    backend: Arc<dyn StreamBackend>,
}

/// As long as this is held a lease stays open.
pub(crate) struct OpenLease<'a>(#[allow(dead_code, reason = "held")] RwLockReadGuard<'a, bool>);

impl Lease {
    /// Keeps it open, if it is.
    pub(crate) fn hold(&self) -> Option<OpenLease<'_>> {
        let closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        (!*closed).then_some(OpenLease(closed))
    }

    /// Whether all that was put on the stream is done.
    pub(crate) fn is_stream_done(&self) -> Result<bool, KernelError> {
        self.backend.is_done()
    }

    /// Nothing more is put on the stream. What is there still runs.
    pub(crate) fn close(&self) {
        let mut closed = self.closed.write().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *closed, true)
            && let Err(error) = self.backend.mark()
        {
            // A context that is lost says so again when it is asked for its end.
            tracing::debug!(%error, "the end of a stream cannot be marked");
        }
    }
}

impl Handle for Lease {
    fn kernel(&self) -> &str {
        "operations"
    }

    fn poll(&self) -> Option<Result<(), KernelError>> {
        // Closed first: nothing is put there afterwards.
        let closed = self.hold().is_none();
        match self.backend.is_done() {
            Ok(done) => (closed && done).then_some(Ok(())),
            Err(error) => Some(Err(error)),
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
        Err(GpuError::Unsupported {
            what: "killing what is on a stream",
            kind: "no",
            remedy: "its operations end by their deadlines",
        })
    }
}
