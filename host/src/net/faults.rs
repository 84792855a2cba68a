//! What a net makes of kernels that fault: a line in the log at once, and a call to the program.
//!
//! The supervisor reports; the program's function runs in a thread of its own, so that nothing waits
//! for it. There are few: a net whose kernel has faulted launches no more.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::wait_until;
use crate::gpu::KernelError;
use crate::lock::lock;

/// How long a net that is dropped waits for functions that have been called.
const FINISH: Duration = Duration::from_secs(2);

/// Takes the launch's number, the kernel's name, and how it ended.
pub(super) type OnFault = dyn Fn(u32, &str, &KernelError) + Send + Sync;

/// See the module.
#[derive(Default)]
pub(super) struct Faults {
    on_fault: Option<Arc<OnFault>>,
    called: Mutex<Vec<JoinHandle<()>>>,
}

impl Faults {
    pub(super) fn new(on_fault: Option<Arc<OnFault>>) -> Self {
        Self { on_fault, called: Mutex::default() }
    }

    /// A kernel has ended, and not well.
    pub(super) fn report(&self, launch: u32, kernel: &str, error: &KernelError) {
        tracing::error!(launch, kernel, %error, "a kernel failed; its net launches no more");
        let Some(on_fault) = self.on_fault.clone() else { return };
        let (kernel, error) = (kernel.to_owned(), error.clone());
        let thread = std::thread::Builder::new()
            .name("gpunet-fault".to_owned())
            .spawn(move || on_fault(launch, &kernel, &error));
        match thread {
            Ok(thread) => lock(&self.called).push(thread),
            Err(error) => tracing::warn!(%error, "no thread to notify the program of a fault"),
        }
    }

    /// Waits for the program's function, but not for ever.
    pub(super) fn finish(&self) {
        let deadline = Instant::now() + FINISH;
        let me = std::thread::current().id();
        // A function that drops the net does not wait for itself.
        for thread in lock(&self.called).drain(..).filter(|thread| thread.thread().id() != me) {
            wait_until(deadline, || thread.is_finished());
        }
    }
}
