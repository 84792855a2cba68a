//! An emulated GPU whose kernels' threads take their turns when the caller says: for tests that decide who
//! goes on, and run everything in one OS thread.

use std::sync::Arc;

use super::super::{EmulatedOptions, Gpu, LaunchError, LaunchSpec};
use super::worker::Worker;
use super::{Emulated, Entry, Keeper, KernelError, Launch, admit};

/// See the module.
pub(crate) struct SteppedGpu {
    pub(crate) gpu: Gpu,
    keeper: Arc<Keeper>,
}

impl SteppedGpu {
    pub(crate) fn open(options: EmulatedOptions) -> Self {
        let emulated = Emulated::open(options, "a test steps through its kernels");
        let keeper = Arc::clone(&emulated.keeper);
        Self { gpu: Gpu::of(Arc::new(emulated)), keeper }
    }

    /// A kernel, none of whose threads has begun.
    pub(crate) fn stage(&self, spec: LaunchSpec<'_>) -> Result<Stage, LaunchError> {
        let (launch, _) = admit(&self.keeper.machine, &spec, false)?;
        Ok(Stage::new(launch, spec.entry))
    }
}

/// Turns that a thread in a wait takes between two pauses, at most: a group that polls meets at a few barriers.
const TURNS_OF_A_WAIT: u32 = 8;

/// A launch on such a GPU.
pub(crate) struct Stage {
    launch: Arc<Launch>,
    worker: Option<Worker>,
    /// Threads that can take a turn.
    pub(crate) ready: Vec<u32>,
    /// Turns of threads that waited for nothing but their group: lanes that vote, shuffle and meet at barriers.
    pub(crate) worked: u64,
    /// Turns of each thread since it paused.
    unpaused: Vec<u32>,
}

impl Stage {
    fn new(launch: Arc<Launch>, entry: Entry) -> Self {
        let worker = Worker::new(launch.clone(), entry, 0, 1);
        let ready = (0..worker.count()).collect();
        let unpaused = vec![0; worker.count() as usize];
        Self { launch, worker: Some(worker), ready, worked: 0, unpaused }
    }

    /// Has the thread at that place of the list take its turn.
    pub(crate) fn turn(&mut self, at: usize) -> Result<(), KernelError> {
        let Some(worker) = &mut self.worker else { return Ok(()) };
        let index = self.ready.swap_remove(at);
        let turned = worker.turn(index);
        worker.take_ready(&mut self.ready);
        let unpaused = &mut self.unpaused[index as usize];
        *unpaused = if worker.take_paused() { 0 } else { unpaused.saturating_add(1) };
        self.worked += u64::from(*unpaused > TURNS_OF_A_WAIT);
        turned
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Unwinds what has not ended.
        self.worker = None;
        self.launch.leave(Ok(()));
    }
}
