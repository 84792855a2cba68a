//! Errors of the operations of a GPU: opening it, loading kernels, launching them, memory, streams.

use std::io;

use gpunet_device::Errno;

use super::DownError;

/// What every operation may meet: the driver or the system failed, or this GPU cannot do that.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// A driver call failed.
    #[error("{call} failed: {name} ({text})")]
    Driver {
        /// The driver call.
        call: &'static str,
        /// The error's name, such as `CUDA_ERROR_NOT_SUPPORTED`.
        name: String,
        /// The driver's words.
        text: String,
    },
    /// The driver lacks a function.
    #[error("the CUDA driver is too old (it lacks {symbol}): update the NVIDIA driver")]
    DriverTooOld {
        /// The function that is missing.
        symbol: &'static str,
    },
    /// A call of the operating system failed.
    #[error("{call} failed: {}", io::Error::from_raw_os_error(.errno.0))]
    System {
        /// The system call.
        call: &'static str,
        /// How it failed.
        errno: Errno,
    },
    /// A kernel faulted earlier and took the context with it. On CUDA that is final: opening the
    /// device again in the same process gives the same error (seen with driver 580).
    #[error("the GPU context is lost ({cause}): mend the kernel and start the program again")]
    ContextLost {
        /// What ended it.
        cause: String,
    },
    /// The caller's: a forked process uses what its parent opened. It has none of the parent's threads.
    #[error(
        "this GPU and its nets were opened in process {parent}, from which this one was forked: open them \
         after the fork"
    )]
    Forked {
        /// The process that opened it.
        parent: u32,
    },
    /// This GPU cannot do that.
    #[error("{what} is not possible on the {kind} GPU: {remedy}")]
    Unsupported {
        /// What was asked.
        what: &'static str,
        /// Which GPU.
        kind: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
}

impl GpuError {
    pub(crate) fn system(call: &'static str, error: impl Into<io::Error>) -> Self {
        Self::System { call, errno: error.into().raw_os_error().map_or(Errno::EIO, Errno) }
    }
}

/// Why a GPU cannot be opened.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The text names no GPU.
    #[error("unknown GPU '{0}': use auto, cuda, cuda:N or emulated")]
    UnknownChoice(String),
    /// The driver's library is not on this machine.
    #[error(
        "no CUDA driver (libcuda.so.1 not found): install the NVIDIA driver or use the emulated GPU"
    )]
    NoDriver,
    /// The driver is there, its device is not.
    #[error("no usable CUDA device ({call}: {name}, {text}): {remedy}")]
    NoDevice {
        /// The driver call.
        call: &'static str,
        /// The error's name, such as `CUDA_ERROR_NO_DEVICE`.
        name: String,
        /// The driver's words.
        text: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// There are CUDA devices, but not this one.
    #[error("no CUDA device {ordinal}: this machine has {count}, numbered from 0")]
    UnknownOrdinal {
        /// The number asked for.
        ordinal: i32,
        /// How many there are.
        count: i32,
    },
    /// The driver is too old, or the context is lost.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// Why a module or an image cannot be loaded.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It is no image of kernels for this GPU: of another kind or architecture, empty, or built without PTX.
    #[error("{0}")]
    Image(String),
    /// It was built for another version of gpunet, or of its C ABI.
    #[error("{0}")]
    Version(String),
    /// It calls functions that are defined nowhere.
    #[error(
        "image '{image}' calls functions that nobody defines ({symbols}): link them into it; those of \
         gpunet are in libgpunet"
    )]
    MissingSymbols {
        /// The image.
        image: String,
        /// The functions.
        symbols: String,
    },
    /// The driver or the loader refused it.
    #[error("{0}")]
    Refused(String),
    /// Two modules with one name.
    #[error("another module named '{0}' is loaded already: give each module its own name")]
    Conflict(String),
    /// Loading would wait for a running kernel.
    #[error(
        "module '{module}' cannot be loaded while {running} kernel(s) run, the driver would wait \
         for them: load every module before the first launch"
    )]
    WhileRunning {
        /// The module.
        module: String,
        /// Kernels that run.
        running: usize,
    },
    /// The driver failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// Why a kernel cannot be launched.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The module was never loaded.
    #[error("module '{0}' is not loaded: call Gpu::load before launching its kernels")]
    NotLoaded(String),
    /// The module has no such kernel.
    #[error("module '{module}' has no kernel '{kernel}' (it has: {known})")]
    UnknownKernel {
        /// The module.
        module: String,
        /// The kernel asked for.
        kernel: String,
        /// Its kernels.
        known: String,
    },
    /// The arguments do not fit the kernel's parameters.
    #[error("kernel '{kernel}' takes parameters of {expected} bytes, given {given}")]
    Parameters {
        /// The kernel.
        kernel: String,
        /// Sizes in the PTX.
        expected: String,
        /// Sizes given.
        given: String,
    },
    /// Its grid or block has no threads, or a block more threads or shared memory than it can have.
    #[error("{0}")]
    Shape(String),
    /// The grid's blocks cannot all run at once, so blocks that wait for others could wait for ever.
    #[error(
        "kernel '{kernel}': {asked} blocks cannot all be resident, {possible} can{beside}: use \
         fewer or smaller blocks"
    )]
    NotResident {
        /// The kernel.
        kernel: String,
        /// Blocks asked for.
        asked: u64,
        /// Blocks possible now.
        possible: u64,
        /// What else occupies the GPU, for the message; empty when nothing does.
        beside: String,
    },
    /// As many launches, queues and leases of a net are open as can be.
    #[error(
        "{0} launches, queues and leases of this net are open, as many as can be: wait for one to end"
    )]
    TooManyLaunches(u32),
    /// As many kernels run as the hardware has queues; one more would not begin.
    #[error("{running} kernels run already, as many as can: {remedy}")]
    TooManyKernels {
        /// Kernels that run.
        running: usize,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A kernel was given memory that it cannot reach, or a stream or image that is elsewhere.
    #[error("{0} is on another GPU: make or load it on the GPU of the net")]
    OtherGpu(String),
    /// The net is of no more use.
    #[error(transparent)]
    Down(DownError),
    /// The driver failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl From<DownError> for LaunchError {
    fn from(error: DownError) -> Self {
        match error {
            DownError::Gpu(error) => error.into(),
            down => Self::Down(down),
        }
    }
}

/// Why there is no memory, or no such access to it.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A size of zero, or one that cannot be.
    #[error("cannot allocate {asked} bytes of {what}: {why}")]
    Refused {
        /// `host memory` or `GPU memory`.
        what: &'static str,
        /// Bytes asked for.
        asked: usize,
        /// The reason.
        why: String,
    },
    /// All addresses that kernels have for shared memory are taken.
    #[error(
        "no room for {asked} bytes where kernels reach shared memory, {left} are left in one \
         piece: close connections within the machine"
    )]
    WindowFull {
        /// Bytes asked for.
        asked: usize,
        /// Bytes of the largest piece.
        left: u64,
    },
    /// Another process offers memory that is not what it says.
    #[error(
        "another process offers memory that cannot be used ({0}): both must run one version of \
         gpunet, on GPUs that reach each other"
    )]
    Foreign(String),
    /// An access outside a piece of memory.
    #[error("access to {unit} {offset} to {end} of {len} {unit} of GPU memory")]
    OutOfRange {
        /// What is counted: `bytes`, or the `elements` of a buffer.
        unit: &'static str,
        /// Where it starts.
        offset: usize,
        /// Where it ends.
        end: usize,
        /// How large the memory is.
        len: usize,
    },
    /// The driver or the system failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl MemoryError {
    /// Whether `count` bytes or elements from `offset` on are inside.
    pub(crate) fn check(
        unit: &'static str,
        offset: usize,
        count: usize,
        len: usize,
    ) -> Result<(), Self> {
        match offset.saturating_add(count) {
            end if end <= len => Ok(()),
            end => Err(Self::OutOfRange { unit, offset, end, len }),
        }
    }
}

/// Why a stream, a queue or a lease cannot be had, or takes nothing.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Too many at once, or none.
    #[error(transparent)]
    Limit(#[from] StreamLimit),
    /// A kernel on the stream has faulted; what is put there later does not run.
    #[error("an earlier kernel of the stream faulted ({0}); make a new stream")]
    Failed(String),
    /// The lease or queue is closed, or its net is gone.
    #[error("{0}")]
    Closed(&'static str),
    /// A stream that a lease was not taken for.
    #[error("the stream is none of this lease's: take a lease with it")]
    OtherStream,
    /// A kernel that cannot be launched there.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A kernel that cannot be loaded: the one that runs operations, or one of a lease.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Memory that cannot be had, or that an operation names and that is not there.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// How much there may be of streams and of what is on them.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StreamLimit {
    /// As many streams have work that may wait as the hardware has queues, less two: with one more, no
    /// other stream of the process might move.
    #[error(
        "{streams} streams have work that may wait beside {kernels} kernel(s), and {possible} in all can: \
         {remedy}"
    )]
    Streams {
        /// Streams that have work.
        streams: usize,
        /// Kernels that run.
        kernels: usize,
        /// How many of both there may be before another stream gets work.
        possible: usize,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Making a stream would wait for kernels that run.
    #[error(
        "no stream can be made while {running} kernel(s) run, the driver would wait for them, and the \
         {possible} that were made before are in use: drop one, or make streams before the first launch"
    )]
    WhileRunning {
        /// Kernels that run, and streams with work.
        running: usize,
        /// Streams that a GPU has from the start.
        possible: usize,
    },
    /// So many kernels wait on the stream that its driver would make the caller wait.
    #[error("{waiting} kernels wait on the stream, and {possible} can: wait for some of them")]
    Kernels {
        /// Kernels that have not run.
        waiting: usize,
        /// How many there may be.
        possible: usize,
    },
    /// Too many operations at once.
    #[error("{what}: at most {possible}; {remedy}")]
    Operations {
        /// What there is too much of.
        what: &'static str,
        /// How many there may be.
        possible: usize,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A lease of no streams.
    #[error("a lease needs a stream: name those on which its kernels run")]
    NoStream,
}

impl From<GpuError> for StreamError {
    fn from(error: GpuError) -> Self {
        Self::Launch(error.into())
    }
}

impl From<DownError> for StreamError {
    fn from(error: DownError) -> Self {
        Self::Launch(error.into())
    }
}
