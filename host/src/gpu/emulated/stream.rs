//! Streams of the emulated GPU: a thread each, which launches one kernel after the other.
//!
//! As on hardware a kernel that finds no room waits for it, and what comes behind one that faulted does
//! not run.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use gpunet_device::planted::{Bug, planted};

use super::super::launch::Handle;
use super::super::ledger::Ticket;
use super::super::stream::{
    GraphBackend, Held, StreamBackend, StreamKernel, Submitted, check_waiting,
};
use super::super::{GpuError, KernelError, LaunchError, StreamError, deferred_free};
use super::{Keeper, Launch, Stop, launch_on};
use crate::lock::lock;

/// Between two attempts to launch a kernel that does not fit beside those that run.
const AGAIN: Duration = Duration::from_micros(50);

#[derive(Default)]
struct Work {
    kernels: VecDeque<StreamKernel>,
    /// The thread has one.
    running: bool,
    failure: Option<KernelError>,
    /// Of the ledger, while there is work or the stream is held.
    ticket: Option<Ticket>,
    /// Who counts it as one with work, whether there is any or not.
    holders: usize,
    /// The kernel that runs.
    current: Option<Arc<Launch>>,
    /// What is there is to end.
    killed: bool,
    /// Nobody puts anything there any more.
    left: bool,
}

impl Work {
    fn is_done(&self) -> bool {
        self.kernels.is_empty() && !self.running
    }
}

#[derive(Default)]
struct Queue {
    work: Mutex<Work>,
    changed: Condvar,
}

impl Queue {
    fn work(&self) -> MutexGuard<'_, Work> {
        lock(&self.work)
    }
}

/// See the module; its graphs share it.
pub(super) struct EmulatedStream(Arc<Inner>);

struct Inner {
    keeper: Arc<Keeper>,
    queue: Arc<Queue>,
}

impl EmulatedStream {
    pub(super) fn new(keeper: &Arc<Keeper>) -> Result<Self, StreamError> {
        let queue = Arc::new(Queue::default());
        let (served, keeper_of_thread) = (Arc::clone(&queue), Arc::downgrade(keeper));
        std::thread::Builder::new()
            .name("gpu-stream".to_owned())
            .spawn(move || serve(&served, &keeper_of_thread))
            .map_err(|error| GpuError::system("pthread_create", error))?;
        Ok(Self(Arc::new(Inner { keeper: Arc::clone(keeper), queue })))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.work().left = true;
        self.queue.changed.notify_all();
    }
}

/// The thread of a stream: until nobody has the stream and nothing is left on it, or the GPU is gone.
fn serve(queue: &Queue, keeper: &Weak<Keeper>) {
    let mut work = queue.work();
    loop {
        let next = match planted(Bug::NewestKernelFirst) {
            true => work.kernels.pop_back(),
            false => work.kernels.pop_front(),
        };
        let Some(kernel) = next else {
            if work.left {
                return;
            }
            work = queue.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        work.running = true;
        drop(work);
        // A GPU that is gone runs nothing.
        let outcome = keeper.upgrade().map_or(Ok(()), |keeper| run(&keeper, queue, &kernel));
        drop(kernel);
        let mut left = VecDeque::new();
        work = queue.work();
        work.running = false;
        work.current = None;
        if let Err(error) = outcome {
            work.failure.get_or_insert(error);
            if !planted(Bug::FaultPassedOver) {
                left = std::mem::take(&mut work.kernels);
            }
        }
        end(&mut work, keeper);
        queue.changed.notify_all();
        if !left.is_empty() {
            // What they keep may be the last to hold the stream, which takes the lock when it goes.
            drop(work);
            drop(left);
            work = queue.work();
        }
    }
}

/// If the stream has no more work and nobody holds it, what waited for that is freed.
fn end(work: &mut Work, keeper: &Weak<Keeper>) {
    if !work.is_done() || work.holders > 0 {
        return;
    }
    let (Some(ticket), Some(keeper)) = (work.ticket.take(), keeper.upgrade()) else { return };
    let free = {
        let mut ledger = lock(&keeper.machine.ledger);
        ledger.end_stream(ticket);
        ledger.drain()
    };
    drop(free);
    deferred_free::release();
}

/// Launches a kernel as soon as there is room for it, and waits for its end.
fn run(keeper: &Arc<Keeper>, queue: &Queue, kernel: &StreamKernel) -> Result<(), KernelError> {
    loop {
        if queue.work().killed {
            return Err(KernelError::Killed { kernel: kernel.spec.kernel.to_string() });
        }
        match launch_on(keeper, &kernel.spec, true) {
            Ok(handle) => {
                let mut work = queue.work();
                work.current = Some(Arc::clone(&handle.launch));
                if work.killed {
                    handle.launch.request(Stop::Killed);
                }
                drop(work);
                return handle.wait(None).unwrap_or(Ok(()));
            }
            Err(LaunchError::NotResident { .. }) => std::thread::sleep(AGAIN),
            Err(error) => {
                return Err(KernelError::Fault {
                    kernel: kernel.spec.kernel.to_string(),
                    block: None,
                    thread: None,
                    message: format!("it could not be launched: {error}"),
                });
            }
        }
    }
}

impl Inner {
    fn submit(&self, kernels: &[StreamKernel]) -> Result<Submitted, StreamError> {
        let mut work = self.queue.work();
        if let Some(failure) = &work.failure {
            return Err(StreamError::Failed(failure.to_string()));
        }
        if kernels.is_empty() {
            return Ok(Submitted::Queued);
        }
        check_waiting(work.kernels.len(), kernels.len())?;
        if work.ticket.is_none() {
            work.ticket = Some(lock(&self.keeper.machine.ledger).begin_stream()?);
        }
        work.kernels.extend(kernels.iter().cloned());
        self.queue.changed.notify_all();
        Ok(Submitted::Queued)
    }
}

impl StreamBackend for EmulatedStream {
    fn check(&self, kernel: &StreamKernel) -> Result<(), LaunchError> {
        let machine = &self.0.keeper.machine;
        let (shape, possible) = super::fits(machine, &kernel.spec)?;
        lock(&machine.ledger).fits_alone(&kernel.spec.kernel, shape.blocks, possible)
    }

    fn submit(&self, kernels: &[StreamKernel]) -> Result<Submitted, StreamError> {
        self.0.submit(kernels)
    }

    fn is_done(&self) -> Result<bool, KernelError> {
        let work = self.0.queue.work();
        match &work.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(work.is_done()),
        }
    }

    fn graph(&self, kernels: &[StreamKernel]) -> Result<Box<dyn GraphBackend>, LaunchError> {
        Ok(Box::new(Graph { stream: Arc::clone(&self.0), kernels: kernels.into() }))
    }

    fn mark(&self) -> Result<(), GpuError> {
        // Nobody else puts anything there.
        Ok(())
    }

    fn hold(&self) -> Result<Held, StreamError> {
        let mut work = self.0.queue.work();
        if work.ticket.is_none() {
            work.ticket = Some(lock(&self.0.keeper.machine.ledger).begin_stream()?);
        }
        work.holders += 1;
        Ok(Box::new(Holder(Arc::clone(&self.0))))
    }

    fn kill(&self) -> Result<(), GpuError> {
        let mut work = self.0.queue.work();
        if !work.is_done() {
            work.killed = true;
            if let Some(launch) = &work.current {
                launch.request(Stop::Killed);
            }
        }
        Ok(())
    }
}

/// See [`StreamBackend::hold`].
struct Holder(Arc<Inner>);

impl Drop for Holder {
    fn drop(&mut self) {
        let mut work = self.0.queue.work();
        work.holders -= 1;
        end(&mut work, &Arc::downgrade(&self.0.keeper));
    }
}

struct Graph {
    stream: Arc<Inner>,
    kernels: Vec<StreamKernel>,
}

impl GraphBackend for Graph {
    fn launch(&self) -> Result<Submitted, StreamError> {
        self.stream.submit(&self.kernels)
    }
}
