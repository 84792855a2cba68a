//! Launches: a kernel that runs on a net.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::MAX_LAUNCHES;
use gpunet_device::kernel::{KernelArgs, LaunchArgs};
use gpunet_device::{Handle, Kernel};

use super::kept::Kept;
use super::{LaunchError, Net, NetError};
use crate::gpu::{self, Dim3, GpuError, KernelError, LaunchSpec, Lease, Running, Submitted};
use crate::proxy::control::Control;
use crate::proxy::shared::{MessageQueue, Shared};

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
    /// its module is loaded. More is [`GpuError::TooMuchShared`](crate::GpuError::TooMuchShared) at
    /// the launch, and names both numbers. Blocks with much of it leave room for fewer on each
    /// multiprocessor: a grid that no longer fits as a whole is
    /// [`GpuError::NotResident`](crate::GpuError::NotResident).
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
    ) -> Result<Launch, NetError> {
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
        make: impl FnOnce(gpunet_device::Net) -> Result<LaunchSpec<'static>, GpuError>,
    ) -> Result<Launch, NetError> {
        self.check_alive()?;
        let (slot, epoch) = self.take_slot()?;
        self.shared.memory.clear_stop(slot as usize);
        // A proxy thread that panicked before then did not stop a launch that was not there yet.
        if let Err(error) = self.check_alive() {
            self.give_slot_back(slot);
            return Err(error);
        }
        let device_net = self.shared.memory.device_net(slot, epoch);
        let spec = match make(device_net) {
            Ok(spec) => spec,
            Err(error) => {
                self.give_slot_back(slot);
                return Err(error.into());
            }
        };
        self.count_launch();
        match self.gpu.launch(spec) {
            Ok(running) => {
                let shared = Arc::clone(&self.shared);
                let mut state = LaunchState::new(slot, running, shared, sockets, None);
                state.kept = Mutex::new(kept);
                Ok(Launch { state: self.note_launch(state) })
            }
            Err(error) => {
                self.control.running.fetch_sub(1, Ordering::AcqRel);
                self.give_slot_back(slot);
                Err(error.into())
            }
        }
    }

    /// Counts a launch before it starts, so that the proxy is awake when its first request comes.
    pub(super) fn count_launch(&self) {
        self.control.running.fetch_add(1, Ordering::AcqRel);
        for queue in &self.shared.queues {
            queue.wake();
        }
    }

    /// Has the supervisor look after a launch.
    pub(super) fn note_launch(&self, state: LaunchState) -> Arc<LaunchState> {
        let state = Arc::new(state);
        self.launches.lock().launches.push(Arc::clone(&state));
        state
    }

    /// Gives back the slot of a launch that did not start.
    pub(super) fn give_slot_back(&self, slot: u32) {
        self.shared.launches.set(slot, false);
        self.launches.lock().taken.remove(&slot);
    }

    /// A slot for a launch, and its number among all launches of the net.
    pub(super) fn take_slot(&self) -> Result<(u32, u64), NetError> {
        self.check_faults()?;
        let mut running = self.launches.lock();
        let slot = (0..MAX_LAUNCHES)
            .find(|slot| !running.taken.contains(slot))
            .ok_or(NetError::TooManyLaunches(MAX_LAUNCHES))?;
        running.taken.insert(slot);
        running.launched += 1;
        self.shared.launches.set(slot, true);
        Ok((slot, running.launched))
    }
}

/// A queue of stream-ordered operations, which is a launch until it is closed. It counts as one that runs
/// while its stream has work.
pub(super) struct OpenQueue {
    pub(super) lease: Lease,
    work: Mutex<StreamWork>,
}

#[derive(Default)]
struct StreamWork {
    counted: bool,
    /// The program has captured operations, which it may launch at any time.
    captured: bool,
}

impl OpenQueue {
    pub(super) fn new(lease: Lease) -> Self {
        Self { lease, work: Mutex::default() }
    }

    /// The same where the program may have kernels run at any time: it has been counted, and is until it
    /// ends.
    pub(super) fn of_program(lease: Lease) -> Self {
        Self { lease, work: Mutex::new(StreamWork { counted: true, captured: true }) }
    }

    fn work(&self) -> MutexGuard<'_, StreamWork> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaunchState {
    /// Puts something on the stream of a queue: counted before it starts, so that the proxy is awake when
    /// its first request comes.
    pub(super) fn put_on_stream(
        &self,
        control: &Control,
        put: impl FnOnce() -> Result<Submitted, GpuError>,
    ) -> Result<Submitted, NetError> {
        let Some(queue) = &self.lease else { return Err(NetError::Gone) };
        let Some(_open) = queue.lease.hold() else { return Err(NetError::Gone) };
        let mut work = queue.work();
        if !std::mem::replace(&mut work.counted, true) {
            control.running.fetch_add(1, Ordering::AcqRel);
            self.shared.queues.iter().for_each(MessageQueue::wake);
        }
        let submitted = put()?;
        work.captured |= submitted == Submitted::Captured;
        Ok(submitted)
    }
}

/// A launch as the net's supervisor and the program share it.
pub(crate) struct LaunchState {
    pub(crate) slot: u32,
    pub(crate) running: Running,
    pub(crate) shared: Arc<Shared>,
    /// Those among its arguments, which a lease learns of later.
    sockets: Mutex<Vec<Handle>>,
    /// Of one that lasts until it is closed.
    lease: Option<OpenQueue>,
    outcome: Mutex<Option<Result<(), KernelError>>>,
    ended: Condvar,
    /// Its net is gone, and nobody calls `finish`.
    orphaned: AtomicBool,
    /// Memory of other libraries that its kernels use.
    kept: Mutex<Kept>,
}

impl LaunchState {
    pub(super) fn new(
        slot: u32,
        running: Running,
        shared: Arc<Shared>,
        sockets: Vec<Handle>,
        lease: Option<OpenQueue>,
    ) -> Self {
        Self {
            slot,
            running,
            shared,
            sockets: Mutex::new(sockets),
            lease,
            outcome: Mutex::new(None),
            ended: Condvar::new(),
            orphaned: AtomicBool::new(false),
            kept: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps memory until it has ended.
    pub(super) fn keep(&self, memory: Kept) {
        self.kept().extend(memory);
    }

    /// The sockets among its arguments.
    pub(super) fn sockets(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outcome(&self) -> MutexGuard<'_, Option<Result<(), KernelError>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the supervisor once the kernel has ended and its sockets are closing.
    pub(crate) fn finish(&self, outcome: Result<(), KernelError>) {
        drop(std::mem::take(&mut *self.kept()));
        *self.outcome() = Some(outcome);
        self.ended.notify_all();
    }

    /// Leaves the launch to those who hold it: its net goes before its kernel.
    pub(crate) fn orphan(&self) {
        self.orphaned.store(true, Ordering::Release);
        self.ended.notify_all();
    }

    /// Has one end that lasts until it is closed.
    pub(super) fn close(&self) {
        if let Some(queue) = &self.lease {
            queue.lease.close();
        }
    }

    /// Whether kernels of this launch may run now: those of a queue do while its stream has work.
    pub(super) fn is_counted(&self) -> bool {
        self.lease.as_ref().is_none_or(|queue| queue.work().counted)
    }

    /// Counts a queue no longer whose stream has no work, so that proxy threads may sleep.
    pub(super) fn check_for_work(&self, control: &Control) {
        let Some(queue) = &self.lease else { return };
        if queue.lease.has_failed() {
            // What still runs on other streams of a lease is to end as well.
            self.stop(Errno::ECANCELED);
        }
        // Who puts something there at this moment has it.
        let Ok(mut work) = queue.work.try_lock() else { return };
        if work.counted && !work.captured && matches!(queue.lease.is_stream_done(), Ok(true)) {
            work.counted = false;
            control.running.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Ends all waits of the kernel with `errno`.
    pub(crate) fn stop(&self, errno: Errno) {
        self.shared.memory.stop(self.slot as usize, errno);
    }
}

impl Drop for LaunchState {
    fn drop(&mut self) {
        // Only a launch whose net went before its kernel still keeps something.
        let kept = std::mem::take(&mut *self.kept());
        if self.outcome().is_none() && self.running.poll().is_none() {
            kept.keep_for_ever();
        }
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

    /// Waits until the kernel has ended.
    ///
    /// # Errors
    /// How the kernel ended, when not well.
    pub fn wait(&self) -> Result<(), LaunchError> {
        loop {
            match self.wait_for(Duration::from_secs(3600)) {
                Err(LaunchError::StillRunning(_)) => {}
                outcome => return outcome,
            }
        }
    }

    /// Waits until the kernel has ended, at most so long.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), or [`LaunchError::StillRunning`].
    pub fn wait_for(&self, timeout: Duration) -> Result<(), LaunchError> {
        // None: later than a clock can say.
        let deadline = Instant::now().checked_add(timeout);
        let mut outcome = self.state.outcome();
        loop {
            if let Some(outcome) = outcome.clone() {
                return Ok(outcome?);
            }
            let left = deadline.map_or(Duration::from_secs(3600), |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Err(LaunchError::StillRunning(timeout));
            }
            let orphaned = self.state.orphaned.load(Ordering::Acquire);
            if orphaned && let Some(ended) = self.state.running.poll() {
                *outcome = Some(ended);
                continue;
            }
            let sleep = if orphaned { left.min(Duration::from_millis(5)) } else { left };
            let waited = self.state.ended.wait_timeout(outcome, sleep);
            outcome = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether the kernel has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state.outcome().is_some()
    }

    /// Stops the kernel: its waits return ECANCELED. It may still close its sockets.
    /// Nothing happens to one that has ended.
    pub fn abort(&self) {
        let outcome = self.state.outcome();
        if outcome.is_none() {
            self.state.stop(Errno::ECANCELED);
        }
    }
}

impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launch")
            .field("kernel", &self.kernel())
            .field("number", &self.number())
            .field("finished", &self.is_finished())
            .finish()
    }
}
