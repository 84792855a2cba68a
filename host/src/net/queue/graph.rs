//! What runs more than once: graphs of kernels and operations, and operations that kernels run themselves.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpunet_device::kernel::{KernelArgs, LaunchArg, LaunchArgs, Launching, Memory};
use gpunet_device::op::{Op, PreparedOps};
use gpunet_device::{Errno, Kernel};

use super::completion::{StatusSlots, Statuses};
use super::{Batch, GONE, StreamQueue};
use crate::error::{MemoryError, StreamError, WaitError};
use crate::gpu::{DeviceMemory, LoadedImage, StreamGraph, StreamKernel};
use crate::lock::lock;
use crate::net::state::LaunchState;
use crate::net::{RawArguments, Shape, Task};

/// Kernels and operations of a graph, one after the other.
pub struct GraphBuilder<'a> {
    queue: &'a StreamQueue,
    kernels: Vec<StreamKernel>,
    parts: Vec<StatusSlots>,
}

impl GraphBuilder<'_> {
    /// A kernel, as [`StreamQueue::launch`] takes it.
    ///
    /// # Errors
    /// As there.
    pub fn launch<A: KernelArgs>(
        &mut self,
        kernel: Kernel<A>,
        shape: Shape,
        arguments: impl LaunchArgs<A>,
    ) -> Result<&mut Self, StreamError> {
        self.kernels.push(self.queue.kernel(kernel, shape, arguments)?);
        Ok(self)
    }

    /// A kernel of an image, as [`StreamQueue::launch_raw`] takes it.
    ///
    /// # Safety
    /// As there; what its arguments name stays until the graph is launched no more.
    ///
    /// # Errors
    /// As there.
    #[allow(unsafe_code, reason = "a promise of the caller's")]
    pub unsafe fn launch_raw(
        &mut self,
        image: &LoadedImage,
        kernel: &str,
        shape: Shape,
        arguments: &RawArguments,
    ) -> Result<&mut Self, StreamError> {
        let (launch, kernel) = (&self.queue.launch, (image, kernel, shape));
        self.kernels.push(launch.raw_kernel(&self.queue.stream, kernel, arguments)?);
        Ok(self)
    }

    /// The operations of a batch.
    ///
    /// # Errors
    /// As [`StreamQueue::post`].
    pub fn post(&mut self, batch: &Batch) -> Result<&mut Self, StreamError> {
        let slots = self.queue.own_statuses(batch.len())?;
        let runs = self.queue.runs(batch.len())?;
        let address = runs.device_ptr().cast::<u64>();
        let mut kernels = self.queue.kernels_of(batch, &slots, Some(address))?;
        kernels.iter_mut().for_each(|kernel| kernel.kept.push(Arc::clone(&runs) as Memory));
        self.kernels.append(&mut kernels);
        self.parts.push(slots);
        Ok(self)
    }
}

impl StreamQueue {
    /// A graph of kernels and operations, to be launched on this queue's stream again and again.
    ///
    /// # Errors
    /// What `build` says, or the driver.
    pub fn graph(
        &self,
        build: impl FnOnce(&mut GraphBuilder<'_>) -> Result<(), StreamError>,
    ) -> Result<Graph<'_>, StreamError> {
        let mut builder = GraphBuilder { queue: self, kernels: Vec::new(), parts: Vec::new() };
        build(&mut builder)?;
        let graph = self.stream.graph(&builder.kernels)?;
        let parts = builder.parts;
        Ok(Graph { queue: self, graph, parts, launches: Mutex::default() })
    }

    /// Operations for a kernel of the program's to run, whenever it wants: the kernel takes them as
    /// [`PreparedOps`].
    ///
    /// # Errors
    /// As [`post`](Self::post); what the driver says.
    pub fn prepare(&self, batch: &Batch) -> Result<Prepared, StreamError> {
        batch.check(self.stream.gpu())?;
        let slots = self.own_statuses(batch.len())?;
        let runs = self.runs(batch.len())?;
        let ops = self.ops(batch, &slots, Some(runs.device_ptr().cast()));
        let bytes: Vec<u8> = ops.iter().flat_map(crate::memory::bytes_of).collect();
        let table = Arc::new(self.stream.gpu().device_memory(bytes.len().max(size_of::<Op>()))?);
        table.write(0, &bytes)?;
        let mut kept = batch.kept.clone();
        kept.push(slots.memory());
        kept.push(Arc::clone(&self.latches) as Memory);
        kept.push(runs as Memory);
        Ok(Prepared { slots, table, kept, launch: Arc::clone(&self.launch) })
    }

    /// Statuses that nobody else uses, however late a kernel writes them.
    fn own_statuses(&self, count: usize) -> Result<StatusSlots, StreamError> {
        Ok(Statuses::new(self.stream.gpu(), count)?.take(count)?)
    }

    /// A word for each operation that runs more than once.
    fn runs(&self, count: usize) -> Result<Arc<DeviceMemory>, MemoryError> {
        Ok(Arc::new(self.stream.gpu().device_memory(count.max(1) * size_of::<u64>())?))
    }
}

/// Kernels and operations that are launched together, made by [`StreamQueue::graph`].
pub struct Graph<'a> {
    queue: &'a StreamQueue,
    graph: StreamGraph,
    parts: Vec<StatusSlots>,
    launches: Mutex<u32>,
}

impl Graph<'_> {
    /// Puts it on the stream; which of its launches this is, from 1.
    ///
    /// # Errors
    /// As [`StreamQueue::post`].
    pub fn launch(&self) -> Result<u32, StreamError> {
        self.queue.stream.gpu().check_process()?;
        // Numbered in the order of the stream, whichever threads launch it.
        let mut launches = lock(&self.launches);
        self.queue.launch.put_on_stream(GONE, || self.graph.launch())?;
        *launches = launches.wrapping_add(1);
        Ok(*launches)
    }

    /// Waits until all operations of a launch are done, at most so long. Launches are counted in 32 bits,
    /// cyclic: it is one of the last two billion.
    ///
    /// # Errors
    /// The first operation that failed in the last launch that ran it, or is not done; a kernel that
    /// faulted.
    pub fn wait_launch(&self, launch: u32, timeout: Duration) -> Result<(), WaitError> {
        let begin = Instant::now();
        let (mut before, mut waited) = (0, Ok(()));
        for part in &self.parts {
            let left = timeout.saturating_sub(begin.elapsed());
            match part.wait(launch, &self.queue.launch, left) {
                // Others may not be done: memory that they use must stay.
                Err(WaitError::Operation { index, errno }) => {
                    let index = before + index;
                    waited = waited.and(Err(WaitError::Operation { index, errno }));
                }
                Err(WaitError::StillRunning { operation, .. }) => {
                    let operation = operation.map(|index| before + index);
                    return Err(WaitError::StillRunning { operation, after: timeout });
                }
                other => other?,
            }
            before += part.len();
        }
        waited
    }

    /// The number of the last launch, 0 before the first.
    #[must_use]
    pub fn last_launch(&self) -> u32 {
        *lock(&self.launches)
    }

    /// How often each operation has run, and how it went the last time.
    #[must_use]
    pub fn statuses(&self) -> Vec<(u32, Result<(), Errno>)> {
        self.parts.iter().flat_map(StatusSlots::statuses).collect()
    }
}

impl Task for Graph<'_> {
    fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.wait_launch(self.last_launch(), timeout)
    }

    fn abort(&self) {
        self.queue.abort();
    }
}

/// Operations that kernels run by themselves, made by [`StreamQueue::prepare`]. A launch takes `&prepared`
/// where its kernel has [`PreparedOps`].
pub struct Prepared {
    slots: StatusSlots,
    table: Arc<DeviceMemory>,
    kept: Vec<Memory>,
    launch: Arc<LaunchState>,
}

impl Prepared {
    /// How often each operation has run, and how it went the last time.
    #[must_use]
    pub fn statuses(&self) -> Vec<(u32, Result<(), Errno>)> {
        self.slots.statuses().collect()
    }

    /// Waits until each operation has run so often, at most so long.
    ///
    /// # Errors
    /// As [`Graph::wait_launch`]; of kernels, a fault of the queue's stream alone.
    pub fn wait_runs(&self, runs: u32, timeout: Duration) -> Result<(), WaitError> {
        self.slots.wait(runs, &self.launch, timeout)
    }
}

impl Task for Prepared {
    fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.wait_runs(1, timeout)
    }

    fn abort(&self) {
        self.launch.abort();
    }
}

// SAFETY: the launch keeps the operations and all that they name.
#[allow(unsafe_code, reason = "names memory that is kept")]
unsafe impl LaunchArg<PreparedOps> for &Prepared {
    fn resolve(self, launching: &mut Launching) -> PreparedOps {
        launching.keep(Arc::clone(&self.table) as Memory);
        self.kept.iter().for_each(|memory| launching.keep(Arc::clone(memory)));
        // SAFETY: the table has as many operations as there are statuses, and is kept.
        unsafe { PreparedOps::new(self.table.device_ptr().cast_const().cast(), self.slots.len()) }
    }
}
