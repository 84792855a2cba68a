//! Stream-ordered operations: sends, receives and waits that run on a stream between kernels, in order,
//! with no thread of the program on the way.
//!
//! ```text
//!   program: queue.launch(first) ─ queue.post(send, receive) ─ queue.launch(second) ─ goes away
//!   stream:  first ──▶ operations (one block: send, receive) ──▶ second
//!                         │  rings, as of any kernel
//!                       proxy ──▶ network
//! ```
//!
//! A queue is a launch of its net that lasts until it is dropped: a stream runs under it the program's
//! kernels, and for each batch the kernel `operations`, which makes the same calls on sockets as any other.
//! So all transports, deadlines, a peer that dies, a proxy that dies and a net that is stopped are
//! what they are for kernels: the operation ends, writes its status, and the stream goes on.
//!
//! Why it is so: decision 22 of docs/explanation/decisions.md.

mod batch;
mod completion;
mod graph;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpunet_device::kernel::{KernelArgs, LaunchArgs, Memory};
use gpunet_device::op::{OPS_OF_LAUNCH, Op, OpBatch, OpKind, OpWords};
use gpunet_device::{Handle, Kernel};
use gpunet_stream_kernels::operations;

pub use batch::{Batch, MAX_BATCH};
pub use completion::Completions;
pub use graph::{Graph, GraphBuilder, Prepared};

use super::kept::Kept;
use super::launch;
use super::state::{LaunchState, Work};
use super::{Net, RawArguments, Shape, Task};
use crate::error::{GpuError, LaunchError, MemoryError, StreamError, WaitError};
use crate::gpu::{self, DeviceMemory, GpuStream, Lease, LoadedImage, StreamKernel, Submitted};
use crate::lock::lock;
use completion::{PostState, StatusSlots, Statuses};

/// How long an operation may take where the program does not say.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why nothing can be put on its stream any more.
const GONE: &str = "the net of this queue is gone: make a new one";
/// Operations of a queue whose outcome can be asked for at once.
const STATUSES: usize = 4096;

/// A queue of operations and kernels on a stream.
///
/// Dropping it leaves what is on the stream to run; the net counts it as a launch until that is done. While
/// its stream has no work it keeps no thread of the proxy awake. A socket that it uses stays the program's:
/// it outlives the queue, and keeps its own timeouts.
///
/// All threads may post on one queue; a batch stays together there. Operations of different queues, and
/// kernels, may use one socket at the same time, each direction of it in pieces of up to a ring's size: no
/// byte is lost or sent twice, but pieces of one operation may come between those of another. A program
/// that wants messages whole has one queue for each direction of a socket, or has one queue wait for a word
/// that the other writes.
///
/// A queue that was stopped stays so: by [`abort`](Task::abort), or by a net whose proxy thread hung
/// (ENETDOWN), even if that goes on. Every wait of its operations ends at once, and a new queue is well.
/// After a kernel's fault nothing more runs on the stream: posts are refused
/// ([`StreamError::Failed`], or [`GpuError::ContextLost`] on CUDA), and
/// waits for operations give [`WaitError::Kernel`].
pub struct StreamQueue {
    stream: GpuStream,
    launch: Arc<LaunchState>,
    statuses: Arc<Statuses>,
    latches: Arc<DeviceMemory>,
    timeout: Duration,
    /// What graphs of the program name, which it may launch at any time.
    captured: Mutex<Vec<Memory>>,
}

impl Net {
    /// Opens a queue of operations on a stream.
    ///
    /// # Errors
    /// A stream of another GPU, one whose kernel has faulted ([`StreamError::Failed`]), what the GPU
    /// refuses, or a net that is of no more use.
    pub fn queue(&self, stream: &GpuStream) -> Result<StreamQueue, StreamError> {
        self.check_streams(std::slice::from_ref(stream))?;
        let statuses = Statuses::new(&self.gpu, STATUSES)?;
        let latches = self.latches()?;
        let starting = self.start_launch()?;
        let (running, lease) = Lease::of_queue(stream);
        let work = Work::default();
        Ok(StreamQueue {
            stream: stream.clone(),
            launch: starting.run(running, work, Some(lease), Vec::new(), Kept::default()),
            statuses,
            latches,
            timeout: TIMEOUT,
            captured: Mutex::default(),
        })
    }

    /// A word for each direction of each socket.
    fn latches(&self) -> Result<Arc<DeviceMemory>, MemoryError> {
        if let Some(latches) = self.latches.get() {
            return Ok(Arc::clone(latches));
        }
        let sockets = self.shared.memory.layout().sockets();
        let latches = Arc::new(self.gpu.device_memory(sockets * 2 * size_of::<u64>())?);
        // The first one stands.
        Ok(Arc::clone(self.latches.get_or_init(|| latches)))
    }
}

impl StreamQueue {
    /// How long operations may take from when the stream comes to them, where their batch does not say:
    /// 30 s unless set.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The stream.
    #[must_use]
    pub fn stream(&self) -> &GpuStream {
        &self.stream
    }

    /// Puts a kernel on the stream, with the net as its first argument.
    ///
    /// # Errors
    /// As [`Net::launch`], and as many streams with work as the hardware has queues for.
    pub fn launch<A: KernelArgs>(
        &self,
        kernel: Kernel<A>,
        shape: Shape,
        arguments: impl LaunchArgs<A>,
    ) -> Result<(), StreamError> {
        let kernel = self.kernel(kernel, shape, arguments)?;
        self.submit(&[kernel]).map(drop)
    }

    /// Puts a kernel of an image on the stream, with the net as its first argument. What the arguments keep
    /// stays until the kernel has ended, on CUDA until the queue has.
    ///
    /// # Safety
    /// As [`Net::launch_raw`].
    ///
    /// # Errors
    /// As [`Net::launch_raw`] and [`launch`](Self::launch).
    #[allow(unsafe_code, reason = "a promise of the caller's")]
    pub unsafe fn launch_raw(
        &self,
        image: &LoadedImage,
        kernel: &str,
        shape: Shape,
        arguments: &RawArguments,
    ) -> Result<(), StreamError> {
        let kernel = (image, kernel, shape);
        let kernel = self.launch.raw_kernel(&self.stream, kernel, arguments)?;
        self.submit(&[kernel]).map(drop)
    }

    /// Puts the operations of a batch on the stream: all of them, or none.
    ///
    /// # Errors
    /// A buffer of another GPU, too many operations whose outcome is unknown, as many streams with work as
    /// the hardware has queues for ([`StreamLimit::Streams`](crate::StreamLimit::Streams)), or a net
    /// that is gone.
    pub fn post(&self, batch: &Batch) -> Result<Completions, StreamError> {
        self.stream.gpu().check_process()?;
        let mut slots = self.statuses.take(batch.len())?;
        let kernels = self.kernels_of(batch, &slots, None)?;
        let submitted = self.submit(&kernels);
        slots.state = match &submitted {
            Ok(Submitted::Queued) => PostState::Posted,
            Ok(Submitted::Captured) => PostState::Captured,
            // Refused as a whole, or nothing runs there any more.
            Err(
                StreamError::Closed(_)
                | StreamError::Limit(_)
                | StreamError::Failed(_)
                | StreamError::Launch(LaunchError::Gpu(GpuError::ContextLost { .. })),
            ) => PostState::Unposted,
            // A driver that failed may have put some of them on the stream.
            Err(_) => PostState::Posted,
        };
        submitted.map(|_| Completions { slots, launch: Arc::clone(&self.launch) })
    }

    /// Sends elements of a buffer: a batch of one.
    ///
    /// # Errors
    /// As [`Batch::send`] and [`post`](Self::post).
    pub fn send<T: gpunet_device::buf::Plain>(
        &self,
        socket: Handle,
        buffer: &gpu::Buffer<T>,
        range: impl std::ops::RangeBounds<usize>,
    ) -> Result<Completions, StreamError> {
        let mut batch = Batch::new();
        self.post(batch.send(socket, buffer, range)?)
    }

    /// Fills elements of a buffer with what is received: a batch of one.
    ///
    /// # Errors
    /// As [`Batch::receive`] and [`post`](Self::post).
    pub fn receive<T: gpunet_device::buf::Plain>(
        &self,
        socket: Handle,
        buffer: &gpu::Buffer<T>,
        range: impl std::ops::RangeBounds<usize>,
    ) -> Result<Completions, StreamError> {
        let mut batch = Batch::new();
        self.post(batch.receive(socket, buffer, range)?)
    }

    /// A kernel of the program's, ready for the stream.
    fn kernel<A: KernelArgs>(
        &self,
        kernel: Kernel<A>,
        shape: Shape,
        arguments: impl LaunchArgs<A>,
    ) -> Result<StreamKernel, LaunchError> {
        let (arguments, kept) = gpu::resolve(self.stream.gpu(), arguments)?;
        let spec = Arc::new(launch::spec(kernel, shape, self.launch.device_net, arguments));
        let kernel = StreamKernel { spec, kept };
        self.stream.check(&kernel)?;
        Ok(kernel)
    }

    /// The kernels that run a batch. `runs` counts the runs of each operation, in GPU memory.
    fn kernels_of(
        &self,
        batch: &Batch,
        slots: &StatusSlots,
        runs: Option<*mut u64>,
    ) -> Result<Vec<StreamKernel>, StreamError> {
        batch.check(self.stream.gpu())?;
        let ops = self.ops(batch, slots, runs);
        // Of few threads where bytes are few: they have less to wait for one another.
        let threads = match batch.longest() {
            0..=4096 => 64,
            4097..=65_536 => 256,
            _ => 512,
        };
        let kernel = |ops: &[Op]| {
            let arguments = (OpBatch::new(ops),);
            let shape = Shape::new(1, threads);
            let spec = launch::spec(operations, shape, self.launch.device_net, arguments);
            let mut kept = batch.kept.clone();
            kept.push(slots.memory());
            kept.push(Arc::clone(&self.latches) as Memory);
            // The net's memory, on a GPU that does not know of it.
            kept.push(Arc::clone(&self.launch) as Memory);
            StreamKernel { spec: Arc::new(spec), kept }
        };
        Ok(ops.chunks(OPS_OF_LAUNCH).map(kernel).collect())
    }

    /// The operations of a batch, as kernels get them.
    fn ops(&self, batch: &Batch, slots: &StatusSlots, runs: Option<*mut u64>) -> Vec<Op> {
        batch.ops(self.timeout, |index, transfer| OpWords {
            status: slots.address(index),
            latch: transfer.map_or(std::ptr::null_mut(), |(socket, kind)| self.latch(socket, kind)),
            runs: runs.map_or(std::ptr::null_mut(), |runs| runs.wrapping_add(index)),
        })
    }

    /// Where a direction of a socket is marked as failed.
    fn latch(&self, socket: Handle, kind: OpKind) -> *mut u64 {
        let layout = self.launch.shared.memory.layout();
        if socket.shard() >= layout.shards || socket.slot() >= layout.socket_slots {
            // Of no socket: it gets EBADF, and no socket is marked for that.
            return std::ptr::null_mut();
        }
        let direction = usize::from(kind == OpKind::Send);
        let index = self.launch.shared.index(socket) * 2 + direction;
        self.latches.device_ptr().cast::<u64>().wrapping_add(index)
    }

    fn submit(&self, kernels: &[StreamKernel]) -> Result<Submitted, StreamError> {
        let submitted = self.launch.put_on_stream(GONE, || self.stream.submit(kernels))?;
        if submitted == Submitted::Captured {
            let mut captured = lock(&self.captured);
            captured.extend(kernels.iter().flat_map(|kernel| kernel.kept.iter().cloned()));
        }
        Ok(submitted)
    }
}

impl Task for StreamQueue {
    fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        match self.stream.wait(timeout)? {
            true => Ok(()),
            false => Err(WaitError::StillRunning { operation: None, after: timeout }),
        }
    }

    fn abort(&self) {
        self.launch.abort();
    }
}

impl Drop for StreamQueue {
    fn drop(&mut self) {
        self.launch.close();
    }
}
