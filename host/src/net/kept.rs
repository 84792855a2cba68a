//! Memory of other libraries that kernels use: kept until they have ended, and let go of on a thread of its
//! own.
//!
//! What is let go of may run code of the program (an array of Python's takes the interpreter's lock), which
//! must hold up neither a net's supervisor nor a stream.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, mpsc};

use gpunet_device::kernel::Memory;

/// What a launch keeps.
#[derive(Default)]
pub(crate) struct Kept(Vec<Memory>);

impl Kept {
    pub(crate) fn new(memory: &[Memory]) -> Self {
        Self(memory.to_vec())
    }

    pub(crate) fn extend(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Keeps it for as long as the process lives: nobody knows when its kernel ends.
    pub(crate) fn keep_for_ever(mut self) {
        if !self.0.is_empty() {
            tracing::warn!(pieces = self.0.len(), "memory stays with a kernel that does not end");
        }
        std::mem::take(&mut self.0).into_iter().for_each(std::mem::forget);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.0);
        if !memory.is_empty() {
            release(memory);
        }
    }
}

/// Lets go of memory elsewhere.
fn release(memory: Vec<Memory>) {
    static THREAD: LazyLock<Option<mpsc::Sender<Vec<Memory>>>> = LazyLock::new(|| {
        let (sender, pieces) = mpsc::channel::<Vec<Memory>>();
        let run = move || {
            // Ends with the process.
            for piece in pieces.into_iter().flatten() {
                // What panics is the program's, and the hook has reported it.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(piece)));
            }
        };
        let thread = std::thread::Builder::new().name("gpunet-release".to_owned()).spawn(run);
        thread.is_ok().then_some(sender)
    });
    match &*THREAD {
        // The thread does not end.
        Some(thread) => drop(thread.send(memory)),
        None => memory.into_iter().for_each(std::mem::forget),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    struct Reports(mpsc::Sender<std::thread::ThreadId>, bool);

    impl Drop for Reports {
        fn drop(&mut self) {
            let _ = self.0.send(std::thread::current().id());
            assert!(!self.1, "a destructor of the program");
        }
    }

    #[test]
    fn memory_is_let_go_of_elsewhere_and_a_panic_there_ends_nothing() {
        let (reports, reported) = mpsc::channel();
        for panics in [true, false] {
            let memory: Memory = Arc::new(Reports(reports.clone(), panics));
            let kept = Kept::new(&[memory]);
            assert!(reported.try_recv().is_err());
            drop(kept);
            let thread = reported
                .recv_timeout(gpunet_support::testing::hang_limit(Duration::from_secs(1)))
                .unwrap();
            assert_ne!(thread, std::thread::current().id());
        }
    }
}
