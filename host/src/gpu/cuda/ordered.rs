//! Streams of the program: kernels in the order in which they were put there, and graphs of them.
//!
//! Each has an event that is recorded behind everything that this crate puts there. While it has not
//! passed, the stream counts as a kernel that runs (`Context::reap`). While the program captures a stream,
//! kernels become part of its graph and nothing is recorded: the program launches that graph itself.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode, CUstream, CUstreamCaptureStatus,
};

use super::super::launch::Shape;
use super::super::ledger::Ticket;
use super::super::stream::{
    GraphBackend, Held, MAX_WAITING, StreamBackend, StreamKernel, Submitted, check_waiting,
};
use super::super::{GpuError, KernelError, LaunchError, StreamError, StreamLimit};
use super::context::{Context, State};
use super::driver::{Failed, call};
use super::mark::{Mark, PROGRAM_STREAMS, SpareStream};
use super::module::Kernel;
use crate::lock::lock;

/// Kernels behind which a stream gets a mark of their own.
const KERNELS_A_MARK: usize = 64;

/// One of those that have no work, or a new one while no kernel runs.
fn spare_stream(context: &Context) -> Result<SpareStream, StreamError> {
    let mut state = lock(&context.state);
    context.reap(&mut state);
    for at in 0..state.program_streams.len() {
        let is_done = state.program_streams[at].mark.has_passed();
        if is_done.map_err(|failed| context.failed(failed))? {
            return Ok(state.program_streams.swap_remove(at));
        }
    }
    match state.ledger.running() {
        0 => Ok(SpareStream::new().map_err(|failed| context.failed(failed))?),
        running => Err(StreamLimit::WhileRunning { running, possible: PROGRAM_STREAMS }.into()),
    }
}

/// See the module; its graphs share it.
pub(super) struct OrderedStream(Arc<Inner>);

struct Inner {
    context: Arc<Context>,
    stream: CUstream,
    owned: bool,
    mark: Arc<Mark>,
    waiting: Mutex<Waiting>,
}

/// How many kernels may not have run, as far as marks show that stand behind some of them.
#[derive(Default)]
struct Waiting {
    /// Before each of these, behind the one before.
    marked: VecDeque<(Mark, usize)>,
    /// Behind the last.
    last: usize,
}

impl Waiting {
    /// How many there are where so many more are to come. The driver is asked only where they would be too
    /// many by what is known.
    fn count(&mut self, all: &Mark, more: usize) -> Result<usize, Failed> {
        let known = self.known();
        if known + more <= MAX_WAITING {
            return Ok(known);
        }
        if all.has_passed()? {
            *self = Self::default();
        }
        while let Some((mark, _)) = self.marked.front()
            && mark.has_passed()?
        {
            self.marked.pop_front();
        }
        Ok(self.known())
    }

    fn known(&self) -> usize {
        self.last + self.marked.iter().map(|(_, kernels)| kernels).sum::<usize>()
    }

    fn add(&mut self, kernels: usize, stream: CUstream) -> Result<(), Failed> {
        self.last += kernels;
        if self.last >= KERNELS_A_MARK {
            let mark = Mark::new()?;
            mark.record(stream)?;
            self.marked.push_back((mark, std::mem::take(&mut self.last)));
        }
        Ok(())
    }
}

// SAFETY: the driver's handles may be used from any thread once the context is current there.
unsafe impl Send for Inner {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Inner {}

impl OrderedStream {
    /// A new one, or that of the program.
    pub(super) fn new(context: &Arc<Context>, raw: Option<usize>) -> Result<Self, StreamError> {
        context.bind()?;
        let failed = |failed| context.failed(failed);
        let SpareStream { stream, mark } = match raw {
            None => spare_stream(context)?,
            Some(raw) => {
                let stream = ptr::with_exposed_provenance_mut(raw);
                let mut of = ptr::null_mut();
                // SAFETY: writes one handle; the caller of `Gpu::stream_from_raw` has promised a stream.
                unsafe { call!(cuStreamGetCtx(stream, &mut of)) }.map_err(failed)?;
                if !context.is_of(of) {
                    return Err(GpuError::Unsupported {
                        what: "a stream of another context",
                        kind: "CUDA",
                        remedy: "make it in the device's primary context, as the CUDA runtime does",
                    }
                    .into());
                }
                SpareStream { stream, mark: Arc::new(Mark::new().map_err(failed)?) }
            }
        };
        let owned = raw.is_none();
        let (context, waiting) = (Arc::clone(context), Mutex::default());
        Ok(Self(Arc::new(Inner { context, stream, owned, mark, waiting })))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.owned {
            // What is on the stream still runs, and nobody gets it before.
            let spare = SpareStream { stream: self.stream, mark: Arc::clone(&self.mark) };
            lock(&self.context.state).program_streams.push(spare);
        }
    }
}

impl Inner {
    /// Whether the program captures what is put on the stream.
    fn is_captured(&self) -> Result<bool, Failed> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: writes one number.
        unsafe { call!(cuStreamIsCapturing(self.stream, &mut status)) }?;
        Ok(status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE)
    }

    /// Has the driver put so many kernels on the stream, and knows of them until they are done.
    fn put(
        &self,
        kernels: usize,
        put: impl FnOnce(&State) -> Result<(), StreamError>,
    ) -> Result<Submitted, StreamError> {
        let context = &self.context;
        context.bind()?;
        let failed = |failed| context.failed(failed);
        let mut state = lock(&context.state);
        if self.is_captured().map_err(|failed| context.failed(failed))? {
            return put(&state).map(|()| Submitted::Captured);
        }
        let mut waiting = lock(&self.waiting);
        check_waiting(waiting.count(&self.mark, kernels).map_err(failed)?, kernels)?;
        if !self.is_counted(&state) {
            context.reap(&mut state);
            let ticket = state.ledger.begin_stream()?;
            state.streams.push((Arc::clone(&self.mark), ticket));
        }
        let outcome = put(&state);
        // Also behind a part of it.
        let marked = self.mark.record(self.stream).and_then(|()| waiting.add(kernels, self.stream));
        outcome?;
        marked.map_err(failed)?;
        Ok(Submitted::Queued)
    }

    /// Whether the ledger knows of the stream's work.
    fn is_counted(&self, state: &State) -> bool {
        let mut known = state.streams.iter().chain(&state.held);
        known.any(|(mark, _)| Arc::ptr_eq(mark, &self.mark))
    }

    /// Marks what the program itself has put there.
    fn mark(&self) -> Result<(), GpuError> {
        let context = &self.context;
        context.bind()?;
        let failed = |failed| context.failed(failed);
        let mut state = lock(&context.state);
        if self.is_captured().map_err(failed)? {
            return Ok(());
        }
        self.mark.record(self.stream).map_err(failed)?;
        if !self.is_counted(&state) {
            let ticket = state.ledger.hold_stream();
            state.streams.push((Arc::clone(&self.mark), ticket));
        }
        Ok(())
    }

    fn launch(&self, state: &State, kernel: &StreamKernel) -> Result<(), StreamError> {
        // Whether it fits the GPU was asked when it was made (`check`).
        let (function, _) = self.context.kernel_of(state, &kernel.spec)?;
        let (mut bytes, spec) = (kernel.spec.params.clone(), &kernel.spec);
        let mut params: Vec<*mut c_void> =
            bytes.iter_mut().map(|bytes| bytes.as_mut_ptr().cast()).collect();
        // SAFETY: as in `Cuda::launch`: a function of a loaded module, with as many parameters as it
        // takes, which the driver copies; the caller keeps the memory that they name.
        unsafe {
            call!(cuLaunchKernel(
                function.function,
                spec.grid.x,
                spec.grid.y,
                spec.grid.z,
                spec.block.x,
                spec.block.y,
                spec.block.z,
                spec.shared_bytes,
                self.stream,
                params.as_mut_ptr(),
                ptr::null_mut(),
            ))
        }
        .map_err(|failed| self.context.failed(failed).into())
    }
}

impl StreamBackend for OrderedStream {
    fn check(&self, kernel: &StreamKernel) -> Result<(), LaunchError> {
        self.0.context.bind()?;
        let state = lock(&self.0.context.state);
        let (_, Shape { blocks, .. }, possible) = self.0.context.fits(&state, &kernel.spec)?;
        state.ledger.fits_alone(&kernel.spec.kernel, blocks, possible)
    }

    fn submit(&self, kernels: &[StreamKernel]) -> Result<Submitted, StreamError> {
        if kernels.is_empty() {
            return Ok(Submitted::Queued);
        }
        self.0.put(kernels.len(), |state| {
            kernels.iter().try_for_each(|kernel| self.0.launch(state, kernel))
        })
    }

    fn is_done(&self) -> Result<bool, KernelError> {
        self.0.context.is_stream_done(&self.0.mark)
    }

    fn graph(&self, kernels: &[StreamKernel]) -> Result<Box<dyn GraphBackend>, LaunchError> {
        self.0.context.bind()?;
        let graph = Graph::new(&self.0, kernels)?;
        Ok(Box::new(graph))
    }

    fn mark(&self) -> Result<(), GpuError> {
        // What the program has launched of its own graphs is done before the lease ends.
        self.0.mark()
    }

    fn hold(&self) -> Result<Held, StreamError> {
        let context = &self.0.context;
        context.bind()?;
        let mut state = lock(&context.state);
        context.reap(&mut state);
        // A stream that has work has its queue of the hardware already.
        let known = state.streams.iter().position(|(mark, _)| Arc::ptr_eq(mark, &self.0.mark));
        let ticket = match known {
            Some(at) => state.streams.swap_remove(at).1,
            None if self.0.is_counted(&state) => state.ledger.hold_stream(),
            None => state.ledger.begin_stream()?,
        };
        state.held.push((Arc::clone(&self.0.mark), ticket));
        Ok(Box::new(Holder { stream: Arc::clone(&self.0), ticket }))
    }

    fn kill(&self) -> Result<(), GpuError> {
        Err(GpuError::Unsupported {
            what: "killing what is on a stream",
            kind: "CUDA",
            remedy: "stop it through the words it watches, or end the process",
        })
    }
}

/// See [`StreamBackend::hold`].
struct Holder {
    stream: Arc<Inner>,
    ticket: Ticket,
}

impl Drop for Holder {
    fn drop(&mut self) {
        let context = &self.stream.context;
        let mut state = lock(&context.state);
        let Some(at) = state.held.iter().position(|(_, ticket)| *ticket == self.ticket) else {
            return;
        };
        // What is behind the mark counts until it has passed.
        let held = state.held.swap_remove(at);
        state.streams.push(held);
        context.reap(&mut state);
    }
}

/// A chain of kernels, ready to be launched.
struct Graph {
    stream: Arc<Inner>,
    executable: CUgraphExec,
    /// What their arguments name.
    _kept: Vec<gpunet_device::kernel::Memory>,
}

// SAFETY: the driver's handles may be used from any thread; launches are under the state's lock.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

/// A graph that is being made.
struct Draft(CUgraph);

impl Drop for Draft {
    fn drop(&mut self) {
        // SAFETY: made by `Graph::new`, which has no more use for it.
        let _ = unsafe { call!(cuGraphDestroy(self.0)) };
    }
}

impl Graph {
    fn new(stream: &Arc<Inner>, kernels: &[StreamKernel]) -> Result<Self, LaunchError> {
        let context = &stream.context;
        let failed = |failed| context.failed(failed);
        let mut graph = ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { call!(cuGraphCreate(&mut graph, 0)) }.map_err(failed)?;
        let draft = Draft(graph);
        let mut last: Option<CUgraphNode> = None;
        let state = lock(&context.state);
        for kernel in kernels {
            let (function, _, _) = context.fits(&state, &kernel.spec)?;
            last = Some(add(&draft, &function, kernel, last).map_err(failed)?);
        }
        let mut executable = ptr::null_mut();
        // SAFETY: writes one handle.
        unsafe { call!(cuGraphInstantiateWithFlags(&mut executable, draft.0, 0)) }
            .map_err(failed)?;
        let kept = kernels.iter().flat_map(|kernel| kernel.kept.iter().cloned()).collect();
        Ok(Self { stream: Arc::clone(stream), executable, _kept: kept })
    }
}

/// Adds a kernel behind the last one.
fn add(
    draft: &Draft,
    function: &Kernel,
    kernel: &StreamKernel,
    last: Option<CUgraphNode>,
) -> Result<CUgraphNode, Failed> {
    let (mut bytes, spec) = (kernel.spec.params.clone(), &kernel.spec);
    let mut params: Vec<*mut c_void> =
        bytes.iter_mut().map(|bytes| bytes.as_mut_ptr().cast()).collect();
    let node = CUDA_KERNEL_NODE_PARAMS {
        func: function.function,
        gridDimX: spec.grid.x,
        gridDimY: spec.grid.y,
        gridDimZ: spec.grid.z,
        blockDimX: spec.block.x,
        blockDimY: spec.block.y,
        blockDimZ: spec.block.z,
        sharedMemBytes: spec.shared_bytes,
        kernelParams: params.as_mut_ptr(),
        extra: ptr::null_mut(),
        kern: ptr::null_mut(),
        ctx: ptr::null_mut(),
    };
    let mut made = ptr::null_mut();
    let (before, count) = (last.as_ref().map_or(ptr::null(), ptr::from_ref), last.iter().len());
    // SAFETY: writes one handle; a function of a loaded module, with as many parameters as it takes, which
    // the driver copies.
    unsafe { call!(cuGraphAddKernelNode_v2(&mut made, draft.0, before, count, &node)) }?;
    Ok(made)
}

impl GraphBackend for Graph {
    fn launch(&self) -> Result<Submitted, StreamError> {
        let context = &self.stream.context;
        let launch = |_: &State| {
            // SAFETY: both handles live; what the kernels' arguments name is kept.
            unsafe { call!(cuGraphLaunch(self.executable, self.stream.stream)) }
                .map_err(|failed| context.failed(failed).into())
        };
        self.stream.put(1, launch)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.stream.context.bind().is_ok() {
            // SAFETY: nobody else has the handle; the driver keeps it until its launches are done.
            let _ = unsafe { call!(cuGraphExecDestroy(self.executable)) };
        }
    }
}
