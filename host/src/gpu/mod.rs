//! A GPU: its memory, its kernel modules, its launches. Real ones through the CUDA driver
//! (`cuda/`), or an emulated one whose threads are coroutines (`emulated/`).
//!
//! The net and programs call [`Gpu`]; nothing else of the crate calls a driver. What a backend
//! must supply is the trait `Backend`.
//!
//! ```text
//!   Gpu ── load, host_memory, device_memory, launch
//!    ├── cuda/      primary context, a stream for each launch, completion by polling events
//!    └── emulated/  worker threads for each launch, coroutines for a block's threads
//!   image           kernels of other languages, launched by name
//!   stream          kernels one after the other, in an order that the program chooses
//!   lease           a launch that lasts until its streams are done
//!   buffer          typed GPU memory that programs pass to kernels
//!   flags           words that programs, kernels and streams wait for
//!   arena           GPU memory that other processes can be given
//!   window          the addresses where all of it lies
//!   observer        who checks what happens on an emulated GPU
//!   remote          how network devices reach GPU memory
//!   usermap         how the CPU maps it (gpu-usermap)
//!   fork_guard      what belongs to the process that made it
//!   ledger          which kernels run, what fits beside them, which memory waits for them
//!   deferred_free   the same of all GPUs together, for arenas
//! ```
#![expect(unsafe_code, reason = "driver calls, mappings and switches of coroutines live here")]

mod arena;
mod backing;
mod buffer;
mod choice;
mod cuda;
mod deferred_free;
mod elf;
pub(crate) mod emulated;
mod flags;
mod fork_guard;
mod image;
mod launch;
mod lease;
mod ledger;
mod library;
mod memory;
mod module;
pub(crate) mod observer;
mod remote;
mod stream;
#[cfg(test)]
mod tests;
mod usermap;
mod window;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

#[cfg(fuzzing)]
pub(crate) use elf::fuzz as fuzz_elf;

pub use buffer::Buffer;
pub use choice::{Clock, EmulatedOptions, GpuChoice, GpuInfo, GpuKind};
pub use flags::{Flags, Word, Words};
pub use image::{Image, KernelRecord, LoadedImage, RawEntry, RawKernel};
pub use launch::{Dim3, Entry, LaunchSpec, Running, WaitOutcome};
pub use memory::{DeviceMemory, HostMemory};
pub use module::{KernelNeeds, Module};
pub use remote::RemoteWrites;
pub use stream::GpuStream;

pub use crate::error::{
    Blame, GpuError, KernelError, LaunchError, LoadError, MemoryError, OpenError, StreamError,
    StreamLimit,
};

pub(crate) use arena::Arena;
pub(crate) use buffer::resolve;
pub(crate) use deferred_free::Moment;
#[cfg(test)]
pub(crate) use deferred_free::RunningKernel;
pub(crate) use flags::Located;
pub(crate) use lease::Lease;
pub(crate) use stream::{StreamGraph, StreamKernel, Submitted};
pub(crate) use window::ArenaWindow;

use fork_guard::ForkGuard;
use image::ImageKernel;
use stream::StreamBackend;

/// What each backend supplies.
trait Backend: Send + Sync {
    fn info(&self) -> &GpuInfo;
    fn load(&self, module: &Module) -> Result<(), LoadError>;
    /// Loads an image of another language; its kernels.
    fn load_image(
        &self,
        name: &str,
        image: &Image,
    ) -> Result<BTreeMap<String, ImageKernel>, LoadError>;
    /// The driver's handle of a kernel; the emulated GPU has none.
    fn cuda_function(
        &self,
        image: &str,
        kernel: &str,
        threads: u32,
    ) -> Result<Option<usize>, LaunchError> {
        let _ = (image, kernel, threads);
        Ok(None)
    }
    /// What the kernels of a loaded module need; the emulated GPU has no registers.
    fn kernel_needs(&self, module: &str) -> Vec<KernelNeeds> {
        let _ = module;
        Vec::new()
    }
    fn host_memory(&self, bytes: usize) -> Result<HostMemory, MemoryError>;
    fn device_memory(&self, bytes: usize) -> Result<DeviceMemory, MemoryError>;
    /// Whether kernels on this GPU reach that memory, and keep it.
    fn owns(&self, memory: &DeviceMemory) -> bool;
    /// The same of host memory.
    fn owns_host(&self, memory: &HostMemory) -> bool;
    fn launch(&self, launch: LaunchSpec<'_>) -> Result<Running, LaunchError>;
    /// Whether a kernel is loaded and would be resident beside those that run.
    fn check_beside(&self, launch: &LaunchSpec<'_>) -> Result<(), LaunchError>;
    /// The same of a function of the driver's (`CUfunction`), which is loaded if that waits for nobody.
    ///
    /// # Safety
    /// It is one, of this GPU's context.
    unsafe fn check_function(
        &self,
        function: usize,
        shape: (Dim3, Dim3, u32),
    ) -> Result<(), StreamError> {
        let _ = (function, shape);
        Err(GpuError::Unsupported {
            what: "a function of the CUDA driver",
            kind: "emulated",
            remedy: "name a kernel of a loaded image",
        }
        .into())
    }
    /// A new stream, or one that the program has.
    fn stream(&self, raw: Option<usize>) -> Result<Arc<dyn StreamBackend>, StreamError>;
    fn remote_writes(&self) -> RemoteWrites;
    fn flush_remote_writes(&self) -> Result<(), GpuError>;
    fn arenas_work(&self) -> Result<(), GpuError>;
    fn arena_window(&self) -> Result<ArenaWindow, MemoryError>;
    fn arena(&self, bytes: usize) -> Result<Arena, MemoryError>;
    fn import_arena(&self, file: OwnedFd, bytes: usize) -> Result<Arena, MemoryError>;
    fn identity(&self) -> [u8; 17];
    /// Why its context is dead, if it is; the emulated GPU has none.
    fn lost(&self) -> Option<String> {
        None
    }
    /// The driver's number of the device; the emulated GPU has none.
    fn cuda_ordinal(&self) -> Option<i32>;
}

/// An open GPU. Clones share it; memory and running kernels keep it open.
#[derive(Clone)]
pub struct Gpu {
    inner: ForkGuard<Arc<dyn Backend>>,
}

impl Gpu {
    /// Opens a GPU.
    ///
    /// # Errors
    /// The GPU asked for is not there or does not work; never for [`GpuChoice::Auto`].
    pub fn open(choice: GpuChoice) -> Result<Self, OpenError> {
        let inner: Arc<dyn Backend> = match choice {
            GpuChoice::Cuda { ordinal } => {
                Arc::new(cuda::Cuda::open(ordinal, format!("cuda:{ordinal} was asked for"))?)
            }
            GpuChoice::Emulated(options) => {
                Arc::new(emulated::Emulated::open(options, "the emulated GPU was asked for"))
            }
            GpuChoice::Auto => match cuda::Cuda::open(0, "a CUDA device was found".to_owned()) {
                Ok(cuda) => Arc::new(cuda),
                Err(error) => {
                    let reason = error.to_string();
                    Arc::new(emulated::Emulated::open(EmulatedOptions::default(), &reason))
                }
            },
        };
        tracing::info!(gpu = %inner.info(), "GPU opened");
        Ok(Self::of(inner))
    }

    fn of(inner: Arc<dyn Backend>) -> Self {
        Self { inner: ForkGuard::new(inner) }
    }

    /// Which GPU this is, and why it was chosen.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        self.inner.info()
    }

    /// Makes a module's kernels launchable by name. A second call with the same module does
    /// nothing; the emulated GPU needs no PTX and accepts any module.
    ///
    /// # Errors
    /// No PTX compiled in, PTX that the driver refuses, or one built for another version of the
    /// device crate; and on CUDA while a kernel runs, since the driver would wait for it.
    pub fn load(&self, module: &Module) -> Result<(), LoadError> {
        self.inner.get()?.load(module)
    }

    /// What the kernels of a loaded module need, each as often as it was compiled: with as many
    /// registers as it wants, and for larger blocks with fewer. Nothing on the emulated GPU.
    #[must_use]
    pub fn kernel_needs(&self, module: &str) -> Vec<KernelNeeds> {
        self.inner.kernel_needs(module)
    }

    /// Host memory that kernels reach too: zeroed, page aligned.
    ///
    /// # Errors
    /// A size of 0 or beyond memory, or what the system or the driver says.
    pub fn host_memory(&self, bytes: usize) -> Result<HostMemory, MemoryError> {
        self.inner.get()?.host_memory(bytes)
    }

    /// Memory of the GPU, zeroed; [`buffer`](Self::buffer) is the typed form.
    ///
    /// # Errors
    /// A size of 0 or beyond memory, or what the driver says.
    pub fn device_memory(&self, bytes: usize) -> Result<DeviceMemory, MemoryError> {
        self.inner.get()?.device_memory(bytes)
    }

    /// Whether this process opened it. Asked before a lock of a net is taken, too.
    ///
    /// # Errors
    /// [`GpuError::Forked`].
    pub(crate) fn check_process(&self) -> Result<(), GpuError> {
        self.inner.get().map(drop)
    }

    /// Whether that is the same GPU, opened once.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Whether kernels here can use this memory: none of another GPU, as far as that is known.
    pub(crate) fn check_reach(
        &self,
        memory: &[gpunet_device::kernel::Memory],
    ) -> Result<(), LaunchError> {
        let reaches = |memory: &gpunet_device::kernel::Memory| {
            memory.downcast_ref().is_none_or(|memory| self.inner.owns(memory))
                && memory.downcast_ref().is_none_or(|memory| self.inner.owns_host(memory))
        };
        match memory.iter().all(reaches) {
            true => Ok(()),
            false => Err(LaunchError::OtherGpu("a buffer".to_owned())),
        }
    }

    /// Why no kernel runs here any more, if a fault ended the GPU's context.
    pub(crate) fn lost(&self) -> Option<String> {
        self.inner.lost()
    }

    /// Whether a kernel is loaded and would be resident beside those that run.
    pub(crate) fn check_beside(&self, launch: &LaunchSpec<'_>) -> Result<(), LaunchError> {
        self.inner.get()?.check_beside(launch)
    }

    /// The same of a function of the driver's.
    ///
    /// # Safety
    /// It is one (`CUfunction`), of this GPU's context.
    pub(crate) unsafe fn check_function(
        &self,
        function: usize,
        shape: (Dim3, Dim3, u32),
    ) -> Result<(), StreamError> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.get()?.check_function(function, shape) }
    }

    /// Starts a kernel and returns at once.
    ///
    /// # Errors
    /// A shape that the GPU or the kernel cannot have, or a grid that cannot be resident as a
    /// whole beside the kernels that run.
    pub fn launch(&self, launch: LaunchSpec<'_>) -> Result<Running, LaunchError> {
        self.inner.get()?.launch(launch)
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu").field("info", self.info()).finish()
    }
}
