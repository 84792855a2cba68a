//! What all work of a net has in common: a program waits for it and stops it.

use std::time::Duration;

use crate::error::WaitError;

/// Work of a net that a program waits for and stops.
///
/// | type | is finished when | [`abort`](Self::abort) stops |
/// | --- | --- | --- |
/// | [`Launch`](super::Launch) | its kernel has ended | its kernel |
/// | [`Lease`](super::Lease) | it is closed and what was put on its streams is done | its kernels, those that are yet to run, too |
/// | [`StreamQueue`](super::StreamQueue) | its stream has no work | what is on its stream, and what is put there later |
/// | [`Completions`](super::Completions) | its operations are done | its queue |
/// | [`Graph`](super::Graph) | the operations of its last launch are done | its queue |
/// | [`Prepared`](super::Prepared) | each operation has run at least once | its queue; a kernel of another launch runs on |
///
/// A fault of its kernel, or of one on its streams, finishes it as well.
pub trait Task {
    /// Waits until it is finished, at most this long.
    ///
    /// # Errors
    /// How it ended, when not well, or [`WaitError::StillRunning`].
    fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError>;

    /// Stops it: waits of its kernels and operations return ECANCELED. Kernels may still close their
    /// sockets. Nothing happens to what has ended.
    fn abort(&self);

    /// Waits until it is finished.
    ///
    /// # Errors
    /// How it ended, when not well.
    fn wait(&self) -> Result<(), WaitError> {
        loop {
            match self.wait_timeout(Duration::from_secs(3600)) {
                Err(WaitError::StillRunning { .. }) => {}
                outcome => return outcome,
            }
        }
    }

    /// How it ended; none while it runs. Returns at once.
    fn try_wait(&self) -> Option<Result<(), WaitError>> {
        match self.wait_timeout(Duration::ZERO) {
            Err(WaitError::StillRunning { .. }) => None,
            outcome => Some(outcome),
        }
    }

    /// Whether it is finished.
    fn is_finished(&self) -> bool {
        self.try_wait().is_some()
    }
}
