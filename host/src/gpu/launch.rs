//! A launch: its shape, what it runs, and the handle of a kernel that runs.
//!
//! Callers fill a [`LaunchSpec`] (usually through the typed launchers of a kernel declaration)
//! and keep the [`Running`]. The backends implement [`Handle`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::fork_guard::ForkGuard;
use super::{GpuError, KernelError, LaunchError};

/// A size in up to three dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// Along x, the fastest.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

impl Dim3 {
    /// Product of the three.
    #[must_use]
    pub fn count(self) -> u128 {
        u128::from(self.x) * u128::from(self.y) * u128::from(self.z)
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self { x, y, z: 1 }
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self { x, y, z }
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}

/// What one emulated thread runs: the kernel's function with its arguments inside.
///
/// It must unwind like Rust (no `extern "C"` between it and device calls): a failed launch
/// unwinds the threads that wait.
pub type Entry = Arc<dyn Fn() + Send + Sync>;

/// One launch of a kernel.
pub struct LaunchSpec<'a> {
    /// Name of a loaded module or image.
    pub module: Cow<'a, str>,
    /// Name of one of its kernels.
    pub kernel: Cow<'a, str>,
    /// Blocks.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Launch-sized shared memory of a block.
    pub shared_bytes: u32,
    /// The bytes of each by-value parameter, in order; the driver copies them.
    pub params: Vec<Box<[u8]>>,
    /// What one emulated thread runs.
    pub entry: Entry,
}

impl fmt::Debug for LaunchSpec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchSpec")
            .field("module", &self.module)
            .field("kernel", &self.kernel)
            .field("grid", &self.grid)
            .field("block", &self.block)
            .field("shared_bytes", &self.shared_bytes)
            .finish_non_exhaustive()
    }
}

/// Blocks, and threads of a block, of a launch that fits the hardware's fixed limits.
pub(super) struct Shape {
    pub(super) blocks: u32,
    pub(super) threads: u32,
}

impl LaunchSpec<'_> {
    /// Checks what needs no device: no zero, no block larger than `max_threads`.
    pub(super) fn shape(&self, max_threads: u32) -> Result<Shape, LaunchError> {
        let (blocks, threads) = (self.grid.count(), self.block.count());
        if blocks == 0 || threads == 0 {
            let Self { kernel, grid, block, .. } = self;
            return Err(LaunchError::Shape(format!(
                "kernel '{kernel}': grid {grid} and block {block} must not be zero in any dimension"
            )));
        }
        let threads = match u32::try_from(threads) {
            Ok(threads) if threads <= max_threads => threads,
            _ => {
                return Err(LaunchError::Shape(format!(
                    "kernel '{}': {threads} threads a block, at most {max_threads} possible",
                    self.kernel
                )));
            }
        };
        // No GPU keeps so many blocks resident; the residency check names the possible number.
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Ok(Shape { blocks, threads })
    }
}

pub(super) fn too_much_shared(kernel: &str, asked: u64, possible: u32) -> LaunchError {
    LaunchError::Shape(format!(
        "kernel '{kernel}': {asked} bytes of shared memory a block, at most {possible} possible"
    ))
}

/// What a backend supplies for a kernel that runs.
pub(super) trait Handle: Send + Sync {
    fn kernel(&self) -> &str;
    fn poll(&self) -> Option<Result<(), KernelError>>;
    fn wait(&self, timeout: Option<Duration>) -> Option<Result<(), KernelError>>;
    fn kill(&self) -> Result<(), GpuError>;
}

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

/// A kernel that was launched. Dropping it neither waits nor ends the kernel.
#[must_use = "a kernel's errors are seen only through its handle"]
pub struct Running {
    handle: ForkGuard<Box<dyn Handle>>,
}

impl Running {
    pub(super) fn new(handle: impl Handle + 'static) -> Self {
        Self { handle: ForkGuard::new(Box::new(handle)) }
    }

    /// Whether this process launched it. Asked before a lock of a launch is taken, too.
    ///
    /// # Errors
    /// [`GpuError::Forked`].
    pub(crate) fn check_process(&self) -> Result<(), GpuError> {
        self.handle.get().map(drop)
    }

    /// The kernel's name.
    #[must_use]
    pub fn kernel(&self) -> &str {
        self.handle.kernel()
    }

    /// Looks, without waiting, whether the kernel has ended, and how.
    #[must_use]
    pub fn poll(&self) -> Option<Result<(), KernelError>> {
        match self.handle.is_own() {
            true => self.handle.poll(),
            false => Some(Err(KernelError::Forked)),
        }
    }

    /// Whether the kernel has ended, well or not.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.poll().is_some()
    }

    /// Waits until the kernel ends, at most for `timeout`.
    ///
    /// # Errors
    /// How the kernel ended, when not well.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<WaitOutcome, KernelError> {
        match self.handle.get().map_err(|_| KernelError::Forked)?.wait(timeout) {
            Some(result) => result.map(|()| WaitOutcome::Finished),
            None => Ok(WaitOutcome::TimedOut { after: timeout.unwrap_or(Duration::MAX) }),
        }
    }

    /// Ends the kernel by force: each of its threads is unwound at its next wait. Returns at once.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] on CUDA, where a kernel ends only by itself.
    pub fn kill(&self) -> Result<(), GpuError> {
        self.handle.get()?.kill()
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("kernel", &self.kernel())
            .field("finished", &self.is_finished())
            .finish()
    }
}
