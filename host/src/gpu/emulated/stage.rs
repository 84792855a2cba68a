//! A launch whose threads take their turns when the caller says: for the simulation harness, which
//! runs everything in one OS thread.

use std::sync::Arc;

use super::worker::Worker;
use super::{Entry, KernelError, Launch};

/// See the module.
pub(crate) struct Stage {
    launch: Arc<Launch>,
    worker: Option<Worker>,
    /// Threads that can take a turn.
    pub(crate) ready: Vec<u32>,
}

impl Stage {
    pub(super) fn new(launch: Arc<Launch>, entry: Entry) -> Self {
        let worker = Worker::new(launch.clone(), entry, 0, 1);
        let ready = (0..worker.count()).collect();
        Self { launch, worker: Some(worker), ready }
    }

    /// Has the thread at that place of the list take its turn.
    pub(crate) fn turn(&mut self, at: usize) -> Result<(), KernelError> {
        let Some(worker) = &mut self.worker else { return Ok(()) };
        let index = self.ready.swap_remove(at);
        let turned = worker.turn(index);
        worker.take_ready(&mut self.ready);
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
