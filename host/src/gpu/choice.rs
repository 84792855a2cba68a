//! Which GPU a program wants, and which one it got.
//!
//! Programs parse a [`GpuChoice`] from their command line and show the [`GpuInfo`] of the GPU
//! they opened. Plain data, no device is touched here.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::OpenError;
use super::ledger::MAX_KERNELS;
use super::observer::Observer;

/// Which GPU to open.
#[derive(Clone, Debug, Default)]
pub enum GpuChoice {
    /// The first CUDA device, and where that cannot be opened the emulated GPU.
    #[default]
    Auto,
    /// A CUDA device; an error where there is none.
    Cuda {
        /// The driver's number of the device, from 0.
        ordinal: i32,
    },
    /// Coroutines on this machine's CPU.
    Emulated(EmulatedOptions),
}

/// `auto`, `cuda` (device 0), `cuda:N` or `emulated`.
impl FromStr for GpuChoice {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        match text {
            "auto" => Ok(Self::Auto),
            "cuda" => Ok(Self::Cuda { ordinal: 0 }),
            "emulated" => Ok(Self::Emulated(EmulatedOptions::default())),
            _ => text
                .strip_prefix("cuda:")
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .map(|ordinal| Self::Cuda { ordinal })
                .ok_or_else(|| OpenError::UnknownChoice(text.to_owned())),
        }
    }
}

impl fmt::Display for GpuChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cuda { ordinal } => write!(f, "cuda:{ordinal}"),
            Self::Emulated(_) => f.write_str("emulated"),
        }
    }
}

/// A clock that emulated kernels read, in nanoseconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How the emulated GPU behaves. The default suits programs; tests set a seed or a clock.
#[derive(Clone)]
#[non_exhaustive]
pub struct EmulatedOptions {
    /// Draws the order in which coroutines run from this number, on a single worker, so that a
    /// run can be repeated. Without it they run in the order of their ranks.
    pub seed: Option<u64>,
    /// OS threads of each launch; by default as many as there are cores, at most one a block.
    pub workers: Option<usize>,
    /// Stack of one GPU thread.
    pub stack_bytes: usize,
    /// GPU threads that may exist at once, over all running kernels. Each has a stack with a
    /// guard page, and Linux grants a process about 65,000 mappings by default.
    pub max_threads: u32,
    /// Rounds in which threads only polled before a worker starts to sleep between rounds.
    pub idle_rounds: u32,
    /// Queues of the hardware, as a CUDA device has 8 to 32: so many kernels and streams run at once.
    pub queues: usize,
    /// Replaces the monotonic clock.
    pub clock: Option<Clock>,
    /// Checks what happens on the GPU.
    pub(crate) observer: Option<&'static dyn Observer>,
}

impl Default for EmulatedOptions {
    fn default() -> Self {
        Self {
            seed: None,
            workers: None,
            stack_bytes: 64 << 10,
            max_threads: 24 << 10,
            idle_rounds: 128,
            queues: MAX_KERNELS,
            clock: None,
            observer: None,
        }
    }
}

impl EmulatedOptions {
    /// The default with a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::default() }
    }
}

impl fmt::Debug for EmulatedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmulatedOptions")
            .field("seed", &self.seed)
            .field("workers", &self.workers)
            .field("stack_bytes", &self.stack_bytes)
            .field("max_threads", &self.max_threads)
            .field("idle_rounds", &self.idle_rounds)
            .field("queues", &self.queues)
            .field("clock", &self.clock.as_ref().map(|_| "virtual"))
            .finish()
    }
}

/// What kind of machine runs the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuKind {
    /// A real GPU through the CUDA driver.
    Cuda,
    /// Coroutines on the CPU.
    Emulated,
}

impl fmt::Display for GpuKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuda => "cuda",
            Self::Emulated => "emulated",
        })
    }
}

/// The GPU that was opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GpuInfo {
    /// Real or emulated.
    pub kind: GpuKind,
    /// The device's name.
    pub name: String,
    /// Multiprocessors; on the emulated GPU the OS threads a launch gets at most.
    pub multiprocessors: u32,
    /// CUDA version of the driver, as `13.0`; none on the emulated GPU.
    pub driver: Option<String>,
    /// Compute capability, as `(9, 0)`; none on the emulated GPU.
    pub compute_capability: Option<(u32, u32)>,
    /// Most threads of a block.
    pub max_threads_per_block: u32,
    /// Most shared memory of a block.
    pub max_shared_bytes: u32,
    /// Most kernels that run at once: the hardware's queues, 32 if the driver was set so before
    /// it started (CUDA_DEVICE_MAX_CONNECTIONS) and 8 if not; 32 on the emulated GPU.
    pub max_kernels: u32,
    /// Why this one was chosen, in one line.
    pub reason: String,
}

impl fmt::Display for GpuInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.reason)
    }
}
