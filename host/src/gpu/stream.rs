//! Streams: kernels that run one after the other, in the order in which they were put there.
//!
//! A program makes one, or hands over one that it has (`cudaStream_t`, PyTorch's current stream); the
//! net's queues put kernels on it. The backends implement [`StreamBackend`]. A stream with work that is
//! not done counts as a kernel that runs: memory is freed behind it, and it takes a queue of the
//! hardware, of which two are left to others.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpunet_device::kernel::Memory;

use super::fork_guard::ForkGuard;
use super::{
    Gpu, GpuError, KernelError, LaunchError, LaunchSpec, Module, StreamError, StreamLimit,
};

/// The kernel that runs operations. It is loaded with the first stream.
const OPERATIONS: Module = crate::include_module!("gpunet_stream_kernels");

/// Polls of a stream in a row before sleeps: short kernels take some microseconds.
const EAGER_POLLS: u32 = 1000;
/// Between two polls later.
pub(super) const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Kernels that may wait on a stream. A driver takes about a thousand, and then has its caller wait, with
/// locks that others want.
pub(super) const MAX_WAITING: usize = 768;

/// Whether so many more kernels may wait on a stream where some do.
pub(super) fn check_waiting(waiting: usize, more: usize) -> Result<(), StreamLimit> {
    match waiting + more <= MAX_WAITING {
        true => Ok(()),
        false => Err(StreamLimit::Kernels { waiting, possible: MAX_WAITING }),
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
    fn check(&self, kernel: &StreamKernel) -> Result<(), LaunchError>;
    /// Puts kernels behind all that is there.
    fn submit(&self, kernels: &[StreamKernel]) -> Result<Submitted, StreamError>;
    /// Whether all that was put there is done, or how it failed.
    fn is_done(&self) -> Result<bool, KernelError>;
    /// Kernels as a graph, which can be launched again and again.
    fn graph(&self, kernels: &[StreamKernel]) -> Result<Box<dyn GraphBackend>, LaunchError>;
    /// Marks all that the program itself has put there so far, for [`Self::is_done`].
    fn mark(&self) -> Result<(), GpuError>;
    /// Counts the stream as one with work until what is returned is dropped: the program may put kernels
    /// there that nobody else sees.
    fn hold(&self) -> Result<Held, StreamError>;
    /// Ends what is there by force, and nothing runs there any more.
    fn kill(&self) -> Result<(), GpuError>;
}

/// A stream that counts as one with work as long as this is there.
pub(super) type Held = Box<dyn Send + Sync>;

/// What each backend supplies for a graph.
pub(super) trait GraphBackend: Send + Sync {
    /// Puts it behind all that is on its stream.
    fn launch(&self) -> Result<Submitted, StreamError>;
}

/// A stream. Clones are the same one; when the last goes, what is on it still runs.
#[derive(Clone)]
pub struct GpuStream {
    pub(super) backend: ForkGuard<Arc<dyn StreamBackend>>,
    gpu: Gpu,
}

impl Gpu {
    /// A new stream, in no order with others. The first one loads a kernel, so it is made before others
    /// run.
    ///
    /// # Errors
    /// What the driver says; on CUDA, the first one while a kernel runs.
    pub fn stream(&self) -> Result<GpuStream, StreamError> {
        self.load(&OPERATIONS)?;
        Ok(GpuStream { backend: ForkGuard::new(self.inner.stream(None)?), gpu: self.clone() })
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
    pub unsafe fn stream_from_raw(&self, stream: usize) -> Result<GpuStream, StreamError> {
        self.load(&OPERATIONS)?;
        let backend = ForkGuard::new(self.inner.stream(Some(stream))?);
        Ok(GpuStream { backend, gpu: self.clone() })
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
        self.backend.get().map_err(|_| KernelError::Forked)?.is_done()
    }

    /// Waits until all that was put there by this crate is done, at most so long. Whether it is.
    ///
    /// # Errors
    /// A kernel that faulted.
    pub fn wait(&self, timeout: Duration) -> Result<bool, KernelError> {
        let stream = self.backend.get().map_err(|_| KernelError::Forked)?;
        let deadline = Instant::now().checked_add(timeout);
        let mut polls = 0;
        while !stream.is_done()? {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
            if polls < EAGER_POLLS {
                polls += 1;
                std::hint::spin_loop();
                continue;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(true)
    }

    pub(crate) fn check(&self, kernel: &StreamKernel) -> Result<(), LaunchError> {
        self.backend.get()?.check(kernel)
    }

    pub(crate) fn submit(&self, kernels: &[StreamKernel]) -> Result<Submitted, StreamError> {
        self.backend.get()?.submit(kernels)
    }

    pub(crate) fn graph(&self, kernels: &[StreamKernel]) -> Result<StreamGraph, LaunchError> {
        self.backend.get()?.graph(kernels).map(|graph| StreamGraph(ForkGuard::new(graph)))
    }

    /// Whether that is the same stream.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }
}

impl fmt::Debug for GpuStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuStream").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// Kernels that are launched together, one after the other.
pub(crate) struct StreamGraph(ForkGuard<Box<dyn GraphBackend>>);

impl StreamGraph {
    pub(crate) fn launch(&self) -> Result<Submitted, StreamError> {
        self.0.get()?.launch()
    }
}
