//! A launch as the net's supervisor and the program share it, from its slot to its end. What a launch takes
//! goes back by itself where it fails on the way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::MAX_LAUNCHES;

use super::kept::Kept;
use super::{Net, RawArguments, Shape};
use crate::error::{KernelError, LaunchError, StreamError, WaitError};
use crate::gpu::{GpuKind, GpuStream, Lease, LoadedImage, Running, StreamKernel, Submitted};
use crate::lock::lock;
use crate::proxy::control::Control;
use crate::proxy::shared::{MessageQueue, Shared};

/// A launch that has a slot and does not run yet. Dropping it gives the slot back.
pub(super) struct Starting<'a> {
    net: &'a Net,
    slot: u32,
    /// The net as kernels of the launch take it.
    pub(super) device_net: gpunet_device::Net,
}

impl Net {
    /// Takes a slot for a launch.
    pub(super) fn start_launch(&self) -> Result<Starting<'_>, LaunchError> {
        self.check_alive()?;
        self.check_faults()?;
        let starting = {
            let mut running = lock(&self.launches);
            let slot = (0..MAX_LAUNCHES)
                .find(|slot| !running.taken.contains(slot))
                .ok_or(LaunchError::TooManyLaunches(MAX_LAUNCHES))?;
            running.taken.insert(slot);
            running.launched += 1;
            self.shared.launches.set(slot, true);
            let device_net = self.shared.memory.device_net(slot, running.launched);
            Starting { net: self, slot, device_net }
        };
        self.shared.memory.clear_stop(starting.slot as usize);
        // A proxy thread that panicked before then did not stop a launch that was not there yet.
        self.check_alive()?;
        Ok(starting)
    }
}

impl Starting<'_> {
    /// Counts the launch before it starts, so that the proxy is awake when its first request comes.
    pub(super) fn keep_awake(&self) -> KeepAwake {
        KeepAwake::new(&self.net.control, &self.net.shared)
    }

    /// Has the supervisor look after the launch, which runs from now on.
    pub(super) fn run(
        self,
        running: Running,
        work: Work,
        lease: Option<Lease>,
        sockets: Vec<Handle>,
        kept: Kept,
    ) -> Arc<LaunchState> {
        let state = Arc::new(LaunchState {
            slot: self.slot,
            running,
            shared: Arc::clone(&self.net.shared),
            control: Arc::clone(&self.net.control),
            device_net: self.device_net,
            sockets: Mutex::new(sockets),
            lease,
            work: Mutex::new(work),
            outcome: Mutex::default(),
            ended: Condvar::new(),
            orphaned: AtomicBool::new(false),
            kept: Mutex::new(kept),
        });
        lock(&self.net.launches).launches.push(Arc::clone(&state));
        // The supervisor gives the slot back.
        std::mem::forget(self);
        state
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.net.shared.launches.set(self.slot, false);
        lock(&self.net.launches).taken.remove(&self.slot);
    }
}

/// Counts as a kernel that runs, so that proxy threads do not sleep long.
pub(super) struct KeepAwake(Arc<Control>);

impl KeepAwake {
    fn new(control: &Arc<Control>, shared: &Shared) -> Self {
        control.running.fetch_add(1, Ordering::AcqRel);
        shared.queues.iter().for_each(MessageQueue::wake);
        Self(Arc::clone(control))
    }
}

impl Drop for KeepAwake {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What may run under a launch now.
#[derive(Default)]
pub(super) struct Work {
    /// A kernel, or a stream with work.
    counted: Option<KeepAwake>,
    /// The program may have kernels run at any time until the launch ends.
    until_end: bool,
}

impl Work {
    pub(super) fn until_end(counted: KeepAwake) -> Self {
        Self { counted: Some(counted), until_end: true }
    }
}

/// See the module.
pub(crate) struct LaunchState {
    pub(crate) slot: u32,
    pub(crate) running: Running,
    pub(crate) shared: Arc<Shared>,
    control: Arc<Control>,
    pub(super) device_net: gpunet_device::Net,
    /// Those among its arguments, which a lease learns of later.
    pub(super) sockets: Mutex<Vec<Handle>>,
    /// The state of a queue or lease, which lasts until it is closed.
    lease: Option<Lease>,
    work: Mutex<Work>,
    outcome: Mutex<Option<Result<(), KernelError>>>,
    ended: Condvar,
    /// Its net is gone, and no thread calls `finish`.
    orphaned: AtomicBool,
    /// Memory of other libraries that its kernels use.
    kept: Mutex<Kept>,
}

impl LaunchState {
    /// A kernel of an image, ready for a stream of this launch, which has its sockets from now on and keeps
    /// what its arguments keep.
    pub(super) fn raw_kernel(
        self: &Arc<Self>,
        stream: &GpuStream,
        kernel: (&LoadedImage, &str, Shape),
        arguments: &RawArguments,
    ) -> Result<StreamKernel, LaunchError> {
        let spec = arguments.spec(stream.gpu(), kernel, self.device_net)?;
        let mut kernel = StreamKernel { spec: Arc::new(spec), kept: Vec::new() };
        stream.check(&kernel)?;
        let kept = Kept::new(&arguments.kept);
        // The net's memory, on a GPU that does not know of it.
        kernel.kept.push(Arc::clone(self) as _);
        match stream.gpu().info().kind {
            GpuKind::Emulated => kernel.kept.push(Arc::new(kept)),
            GpuKind::Cuda => lock(&self.kept).extend(kept),
        }
        lock(&self.sockets).extend(&arguments.sockets);
        Ok(kernel)
    }

    /// Puts something on a stream of this launch: counted before it starts, so that the proxy is awake when
    /// its first request comes. `gone` is the error where it is closed.
    pub(super) fn put_on_stream(
        &self,
        gone: &'static str,
        put: impl FnOnce() -> Result<Submitted, StreamError>,
    ) -> Result<Submitted, StreamError> {
        self.running.check_process()?;
        let open = self.lease.as_ref().and_then(Lease::hold);
        let _open = open.ok_or(StreamError::Closed(gone))?;
        let mut work = lock(&self.work);
        // Nothing of a launch that has ended runs any more.
        if work.counted.is_none() && lock(&self.outcome).is_none() {
            work.counted = Some(KeepAwake::new(&self.control, &self.shared));
        }
        let submitted = put()?;
        work.until_end |= submitted == Submitted::Captured;
        Ok(submitted)
    }

    /// Called by the supervisor once the kernel has ended and its sockets are closing.
    pub(crate) fn finish(&self, outcome: Result<(), KernelError>) {
        let mut work = lock(&self.work);
        work.counted = None;
        drop(std::mem::take(&mut *lock(&self.kept)));
        *lock(&self.outcome) = Some(outcome);
        drop(work);
        self.ended.notify_all();
    }

    /// Leaves the launch to those who hold it: its net goes before its kernel.
    pub(crate) fn orphan(&self) {
        self.orphaned.store(true, Ordering::Release);
        self.ended.notify_all();
    }

    /// Has one end that lasts until it is closed.
    pub(super) fn close(&self) {
        if let (Some(lease), Ok(())) = (&self.lease, self.running.check_process()) {
            lease.close();
        }
    }

    /// Counts a queue no longer whose stream has no work, so that proxy threads may sleep.
    pub(super) fn check_for_work(&self) {
        let Some(lease) = &self.lease else { return };
        if lease.has_failed() {
            // What still runs on other streams of a lease is to end as well.
            self.stop(Errno::ECANCELED);
        }
        // Who puts something there at this moment has it.
        let Ok(mut work) = self.work.try_lock() else { return };
        if !work.until_end && work.counted.is_some() && matches!(lease.is_stream_done(), Ok(true)) {
            work.counted = None;
        }
    }

    /// Ends all waits of the kernel with `errno`.
    pub(crate) fn stop(&self, errno: Errno) {
        self.shared.memory.stop(self.slot as usize, errno);
    }

    /// The same for the program, unless it has ended: another launch may have its slot.
    pub(super) fn abort(&self) {
        if self.running.check_process().is_err() {
            return;
        }
        let outcome = lock(&self.outcome);
        if outcome.is_none() {
            self.stop(Errno::ECANCELED);
        }
    }

    /// Whether this process launched it, for those who wait.
    pub(super) fn check_process(&self) -> Result<(), KernelError> {
        self.running.check_process().map_err(|_| KernelError::Forked)
    }

    pub(super) fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.check_process()?;
        // None: later than a clock can say.
        let deadline = Instant::now().checked_add(timeout);
        let mut outcome = lock(&self.outcome);
        loop {
            if let Some(outcome) = outcome.clone() {
                return Ok(outcome?);
            }
            let orphaned = self.orphaned.load(Ordering::Acquire);
            if orphaned && let Some(ended) = self.running.poll() {
                *outcome = Some(ended);
                continue;
            }
            let left = deadline.map_or(Duration::from_secs(3600), |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Err(WaitError::StillRunning { operation: None, after: timeout });
            }
            let sleep = if orphaned { left.min(Duration::from_millis(5)) } else { left };
            let waited = self.ended.wait_timeout(outcome, sleep);
            outcome = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for LaunchState {
    fn drop(&mut self) {
        if self.running.check_process().is_err() {
            let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget((std::mem::take(kept), Arc::clone(&self.shared)));
            return;
        }
        // Only a launch whose net went before its kernel still keeps something.
        let kept = std::mem::take(&mut *lock(&self.kept));
        if lock(&self.outcome).is_none() && self.running.poll().is_none() {
            kept.keep_for_ever();
        }
    }
}
