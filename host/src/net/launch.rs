//! Launches: a kernel that runs on a net.

use std::sync::Arc;
use std::time::Duration;

use gpunet_device::kernel::{KernelArgs, LaunchArgs};
use gpunet_device::{Handle, Kernel};

use super::kept::Kept;
use super::state::{LaunchState, Work};
use super::{Net, Task};
use crate::error::{LaunchError, WaitError};
use crate::gpu::{self, Dim3, LaunchSpec};

/// How a launch is laid out: blocks, threads, shared memory.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Shape {
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) shared_bytes: u32,
}

impl Shape {
    /// `blocks` blocks of `threads` threads, without launch-sized shared memory.
    pub fn new(blocks: impl Into<Dim3>, threads: impl Into<Dim3>) -> Self {
        Self { grid: blocks.into(), block: threads.into(), shared_bytes: 0 }
    }

    /// So much dynamic shared memory for each block; `simt::shared_memory` gives it to the kernel.
    ///
    /// What the kernel declares itself (static shared memory, such as the device library's scratch
    /// words) counts as well. The sum may be as large as the device allows a block
    /// ([`GpuInfo::max_shared_bytes`](crate::gpu::GpuInfo::max_shared_bytes)): 227 KiB on an H100 or
    /// H200 and on the emulated GPU, 163 KiB on an A100, 99 KiB on most others since Ampere, 64 KiB on
    /// Turing. The opt-in that CUDA wants above its default of 48 KiB is made for every kernel when
    /// its module is loaded. More is [`LaunchError::Shape`] at
    /// the launch, and names both numbers. Blocks with much of it leave room for fewer on each
    /// multiprocessor: a grid that no longer fits as a whole is
    /// [`LaunchError::NotResident`].
    pub fn shared_memory(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// Blocks, threads of a block, bytes.
    pub(super) const fn parts(self) -> (Dim3, Dim3, u32) {
        (self.grid, self.block, self.shared_bytes)
    }
}

/// A kernel with its arguments, ready to be launched.
pub(super) fn spec<A: KernelArgs>(
    kernel: Kernel<A>,
    shape: Shape,
    device_net: gpunet_device::Net,
    arguments: A,
) -> LaunchSpec<'static> {
    let mut params = vec![crate::memory::bytes_of(&device_net)];
    arguments.each(&mut |address, bytes| params.push(crate::memory::bytes_at(address, bytes)));
    let entry = kernel.entry();
    LaunchSpec {
        module: kernel.module().into(),
        kernel: kernel.name().into(),
        grid: shape.grid,
        block: shape.block,
        shared_bytes: shape.shared_bytes,
        params,
        entry: Arc::new(move || entry(device_net, arguments)),
    }
}

impl Net {
    /// Starts a kernel with this net as its first argument and `arguments` behind it: a tuple of
    /// what the kernel takes, with a `&`[`Buffer<T>`](crate::gpu::Buffer) for each
    /// [`Shared<T>`](gpunet_device::Shared).
    ///
    /// # Errors
    /// A launch that the GPU refuses, a buffer of another GPU, or a net that is of no more use.
    pub fn launch<A: KernelArgs>(
        &self,
        kernel: Kernel<A>,
        shape: Shape,
        arguments: impl LaunchArgs<A>,
    ) -> Result<Launch, LaunchError> {
        let (arguments, buffers) = gpu::resolve(&self.gpu, arguments)?;
        let mut sockets = Vec::new();
        arguments.sockets(&mut |handle| sockets.push(handle));
        let make = |device_net| Ok(spec(kernel, shape, device_net, arguments));
        let launched = self.start_kernel(sockets, Kept::default(), make);
        // The GPU knows of the kernel, and frees nothing while it runs.
        drop(buffers);
        launched
    }

    /// Starts the kernel that `make` gives for the net of its launch. What it keeps stays until it has
    /// ended.
    pub(super) fn start_kernel(
        &self,
        sockets: Vec<Handle>,
        kept: Kept,
        make: impl FnOnce(gpunet_device::Net) -> Result<LaunchSpec<'static>, LaunchError>,
    ) -> Result<Launch, LaunchError> {
        let starting = self.start_launch()?;
        let spec = make(starting.device_net)?;
        let counted = starting.keep_awake();
        let running = self.gpu.launch(spec)?;
        let state = starting.run(running, Work::until_end(counted), None, sockets, kept);
        Ok(Launch { state })
    }
}

/// A kernel that was launched on a net. Dropping it leaves the kernel running.
#[must_use = "a kernel's errors are seen only through its launch"]
#[derive(Clone)]
pub struct Launch {
    pub(crate) state: Arc<LaunchState>,
}

impl Launch {
    /// The kernel's name.
    #[must_use]
    pub fn kernel(&self) -> &str {
        self.state.running.kernel()
    }

    /// The launch's number on its net, as statistics and printed lines name it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.state.slot
    }
}

impl Task for Launch {
    fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.state.wait_timeout(timeout)
    }

    fn abort(&self) {
        self.state.abort();
    }
}
