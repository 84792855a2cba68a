//! What can go wrong with a GPU and with a kernel on it. Every message is one line that says what
//! to do; [`GpuError::blame`] and [`KernelError::blame`] say who must do it.

use std::time::Duration;

use gpunet_device::simt::Scope;

use super::{Dim3, GpuKind};

/// Who has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The program that called.
    Caller,
    /// The machine: driver, device, memory.
    System,
    /// The code of a kernel.
    Kernel,
}

/// Why a GPU could not do what it was asked.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The text names no GPU.
    #[error("unknown GPU '{given}': use auto, cuda, cuda:N or emulated")]
    UnknownChoice {
        /// What was given.
        given: String,
    },
    /// The driver's library is not on this machine.
    #[error(
        "no CUDA driver (libcuda.so.1 not found): install the NVIDIA driver or use the emulated GPU"
    )]
    NoDriver,
    /// The driver lacks a function.
    #[error("the CUDA driver is too old (it lacks {symbol}): update the NVIDIA driver")]
    DriverTooOld {
        /// The function that is missing.
        symbol: &'static str,
    },
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
    /// A driver call failed.
    #[error("{call} failed: {name} ({text})")]
    Driver {
        /// The driver call.
        call: &'static str,
        /// The error's name.
        name: String,
        /// The driver's words.
        text: String,
    },
    /// A call of the operating system failed.
    #[error("{call} failed: {text}")]
    System {
        /// The system call.
        call: &'static str,
        /// The system's words.
        text: String,
    },
    /// A kernel faulted earlier and took the context with it. On CUDA that is final: opening the
    /// device again in the same process gives the same error (seen with driver 580).
    #[error("the GPU context is lost ({cause}): mend the kernel and start the program again")]
    ContextLost {
        /// What ended it.
        cause: String,
    },
    /// The module was built without PTX.
    #[error("module '{module}' has no PTX compiled in: {reason}")]
    NoPtx {
        /// The module.
        module: String,
        /// Why, from the build.
        reason: String,
    },
    /// The driver refused the PTX.
    #[error("module '{module}' does not load: {name}: {log}")]
    ModuleRefused {
        /// The module.
        module: String,
        /// The error's name.
        name: String,
        /// First lines of the driver's compiler log.
        log: String,
    },
    /// Two modules with one name.
    #[error("another module named '{module}' is loaded already: give each module its own name")]
    ModuleConflict {
        /// The name.
        module: String,
    },
    /// Loading would wait for a running kernel.
    #[error(
        "module '{module}' cannot be loaded while {running} kernel(s) run, the driver would wait \
         for them: load every module before the first launch"
    )]
    LoadWhileRunning {
        /// The module.
        module: String,
        /// Kernels that run.
        running: usize,
    },
    /// Host and device code do not fit together.
    #[error(
        "module '{module}' was built for another version of gpunet-device ({found}, this program \
         has {expected}): build both from one source"
    )]
    AbiMismatch {
        /// The module.
        module: String,
        /// What this program has.
        expected: String,
        /// What the module says.
        found: String,
    },
    /// An image was built for another version of the C ABI.
    #[error(
        "image '{image}' was built for another version of gpunet's C ABI ({found}, this program has \
         {expected}): build it with the headers of this version, or use a newer libgpunet"
    )]
    CAbiMismatch {
        /// The image.
        image: String,
        /// What this program has.
        expected: String,
        /// What the image says.
        found: String,
    },
    /// What was given is no image of kernels.
    #[error("no image of kernels: {found}: {remedy}")]
    UnknownImage {
        /// What was given.
        found: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// An image for another kind of GPU.
    #[error("image '{image}' is {given}, and this GPU ({kind}) takes {wanted}")]
    WrongImage {
        /// The image.
        image: String,
        /// What it is.
        given: &'static str,
        /// Which GPU.
        kind: GpuKind,
        /// What that takes.
        wanted: &'static str,
    },
    /// An image for other GPUs.
    #[error(
        "image '{image}' has no code for this GPU ({architecture}): compile it for that architecture, \
         or put PTX into it"
    )]
    WrongArchitecture {
        /// The image.
        image: String,
        /// That of the GPU, such as `sm_90`.
        architecture: String,
    },
    /// An image calls what nobody defines.
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
    /// An image in which there is nothing to launch.
    #[error(
        "image '{image}' ({kind}) has no kernels: entries of CUDA code, or records gpunet_kernel_NAME \
         that a shared object exports"
    )]
    NoKernels {
        /// The image.
        image: String,
        /// What it is.
        kind: &'static str,
    },
    /// An image is loaded on one GPU and was to be launched on another.
    #[error("image '{image}' is loaded on another GPU: load it on the GPU of the net")]
    ImageOfOtherGpu {
        /// The image.
        image: String,
    },
    /// The module was never loaded.
    #[error("module '{module}' is not loaded: call Gpu::load before launching its kernels")]
    ModuleNotLoaded {
        /// The module.
        module: String,
    },
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
    /// A grid or block with no thread in it.
    #[error("kernel '{kernel}': grid {grid} and block {block} must not be zero in any dimension")]
    EmptyLaunch {
        /// The kernel.
        kernel: String,
        /// Blocks asked for.
        grid: Dim3,
        /// Threads of a block asked for.
        block: Dim3,
    },
    /// A block larger than the kernel or the device allows.
    #[error("kernel '{kernel}': {asked} threads a block, at most {possible} possible")]
    TooManyThreads {
        /// The kernel.
        kernel: String,
        /// Threads asked for.
        asked: u64,
        /// Threads possible.
        possible: u32,
    },
    /// More shared memory than a block can have.
    #[error(
        "kernel '{kernel}': {asked} bytes of shared memory a block, at most {possible} possible"
    )]
    TooMuchShared {
        /// The kernel.
        kernel: String,
        /// Bytes asked for, with what the kernel declares itself.
        asked: u64,
        /// Bytes possible.
        possible: u32,
    },
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
    /// As many kernels run as the hardware has queues; one more would not begin.
    #[error("kernel '{kernel}': {running} kernels run already, as many as can: {remedy}")]
    TooManyKernels {
        /// The kernel.
        kernel: String,
        /// Kernels that run.
        running: usize,
        /// What to do about it.
        remedy: &'static str,
    },
    /// As many streams have work that may wait as the hardware has queues, less two: with one more, no
    /// other stream of the process might move.
    #[error(
        "{streams} streams have work that may wait beside {kernels} kernel(s), and {possible} in all can: \
         {remedy}"
    )]
    TooManyStreams {
        /// Streams that have work.
        streams: usize,
        /// Kernels that run.
        kernels: usize,
        /// How many of both there may be before another stream gets work.
        possible: usize,
        /// What to do about it.
        remedy: &'static str,
    },
    /// So many kernels wait on the stream that its driver would make the caller wait.
    #[error("{waiting} kernels wait on the stream, and {possible} can: wait for some of them")]
    StreamFull {
        /// Kernels that have not run.
        waiting: usize,
        /// How many there may be.
        possible: usize,
    },
    /// A kernel on the stream has faulted; what is put behind it does not run.
    #[error("an earlier kernel of the stream faulted ({cause}); make a new stream")]
    StreamFailed {
        /// How.
        cause: String,
    },
    /// A size of zero, or one that cannot be.
    #[error("cannot allocate {asked} bytes of {what}: {why}")]
    Memory {
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
        "another process offers memory that cannot be used ({why}): both must run one version of \
         gpunet, on GPUs that reach each other"
    )]
    ForeignMemory {
        /// The reason.
        why: String,
    },
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
    /// A kernel was given memory that it cannot reach.
    #[error("a buffer of another GPU was passed to a kernel: make it on the GPU of the net")]
    OtherGpu,
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
    /// Who has to change something.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::NoDriver
            | Self::DriverTooOld { .. }
            | Self::NoDevice { .. }
            | Self::Driver { .. }
            | Self::System { .. }
            | Self::Memory { .. }
            | Self::WindowFull { .. }
            | Self::ForeignMemory { .. } => Blame::System,
            Self::ContextLost { .. } | Self::StreamFailed { .. } => Blame::Kernel,
            _ => Blame::Caller,
        }
    }
}

/// How a kernel ended, when not well.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// An illegal address, a trap, or a panic.
    #[error("kernel '{kernel}' faulted{}: {message}", place(*.block, *.thread))]
    Fault {
        /// The kernel; on CUDA the one that was looked at first, if several ran.
        kernel: String,
        /// Block of the thread, where known.
        block: Option<u32>,
        /// Rank of the thread in its block, where known.
        thread: Option<u32>,
        /// The panic's message and place, or the driver's error.
        message: String,
    },
    /// A barrier that can never be complete, or that threads reach from different places.
    #[error(
        "kernel '{kernel}', block {block}: not all threads of the {} reach one barrier: {waiting}; \
         {others}",
        scope_name(*.scope)
    )]
    DivergentBarrier {
        /// The kernel.
        kernel: String,
        /// The block.
        block: u32,
        /// Whom the barrier spans.
        scope: Scope,
        /// Who waits, and where.
        waiting: String,
        /// Who ended, or waits somewhere else.
        others: String,
    },
    /// Threads of a group made different calls, or gave different arguments, where all must agree.
    #[error(
        "kernel '{kernel}', block {block}: threads of a {} must make the same call with the same \
         arguments: {first}; {second}",
        scope_name(*.scope)
    )]
    DivergentCall {
        /// The kernel.
        kernel: String,
        /// The block.
        block: u32,
        /// Whom the call spans.
        scope: Scope,
        /// Who called what first.
        first: String,
        /// Who called what else.
        second: String,
    },
    /// Every thread of a block that is left waits for another.
    #[error("kernel '{kernel}', block {block}: every thread waits for others: {waiting}")]
    Deadlock {
        /// The kernel.
        kernel: String,
        /// The block.
        block: u32,
        /// Who waits where.
        waiting: String,
    },
    /// Another kernel's fault, or the driver, ended the context while this kernel ran.
    #[error("kernel '{kernel}' was lost with its GPU context: {cause}")]
    ContextLost {
        /// The kernel.
        kernel: String,
        /// What ended the context.
        cause: String,
    },
    /// Ended by [`Running::kill`](super::Running::kill), or because its GPU was dropped.
    #[error("kernel '{kernel}' was killed by the host")]
    Killed {
        /// The kernel.
        kernel: String,
    },
    /// The emulated GPU got no stack for a thread.
    #[error(
        "kernel '{kernel}': no stack for a GPU thread ({reason}): launch fewer threads at once"
    )]
    NoStack {
        /// The kernel.
        kernel: String,
        /// The system's words.
        reason: String,
    },
}

impl KernelError {
    /// Who has to change something.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Killed { .. } => Blame::Caller,
            Self::NoStack { .. } => Blame::System,
            _ => Blame::Kernel,
        }
    }
}

debug_as_sentence!(GpuError, KernelError);

/// What a wait for a kernel found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum WaitOutcome {
    /// The kernel ended well.
    Finished,
    /// It still runs; the time given has passed.
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
}

fn place(block: Option<u32>, thread: Option<u32>) -> String {
    match (block, thread) {
        (Some(block), Some(thread)) => format!(" in block {block}, thread {thread}"),
        _ => String::new(),
    }
}

pub(super) fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Block => "block",
        Scope::Warp => "warp",
    }
}
