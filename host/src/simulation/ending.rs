//! The end of a launch.

use std::sync::mpsc;

/// The end of a launch, while the proxies clear up after it.
pub(super) struct Ending {
    /// Which.
    pub(super) kernel: usize,
    /// Whether no other launch has a slot.
    pub(super) last: bool,
    pub(super) phase: Phase,
}

/// How far it is.
pub(super) enum Phase {
    /// The supervisor's thread has not notified the proxies yet; it does so then.
    Begins(u64),
    /// They have been asked to commit what was accepted, or to close the launch's sockets, and answer.
    Notified { closes: bool, done: mpsc::Receiver<()>, answers: usize, deadline_ns: u64 },
}
