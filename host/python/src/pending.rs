//! What was put on a stream and is not known to be done, with what it uses.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

/// Operations that are not known to be done, and what they use: a GPU's stream keeps nothing of Python's.
static PENDING: Mutex<Vec<(u32, Arc<dyn Posted>)>> = Mutex::new(Vec::new());

/// What was put on a stream, with what it uses.
pub(crate) trait Posted: Send + Sync {
    /// Whether its operations are done.
    fn is_done(&self) -> bool;
}

/// Keeps what was put on a stream until its operations are done.
pub(crate) fn keep_until_done(posted: Arc<impl Posted + 'static>) {
    let posted: Arc<dyn Posted> = posted;
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    // A graph is launched again and again.
    if !pending.iter().any(|(_, other)| Arc::ptr_eq(other, &posted)) {
        pending.push((std::process::id(), posted));
    }
    drop(pending);
    let done = take_done();
    drop(done);
}

/// Lets go of what is done.
pub(crate) fn sweep(py: Python<'_>) {
    py.detach(|| drop(take_done()));
}

/// Takes out what is done. It is dropped when the lock is free: a graph ends a queue, and that takes time.
fn take_done() -> Vec<(u32, Arc<dyn Posted>)> {
    let process = std::process::id();
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut done, mut left) = (Vec::new(), Vec::new());
    for item in std::mem::take(&mut *pending) {
        if item.0 != process {
            // A fork has left them to the parent.
            std::mem::forget(item);
        } else if item.1.is_done() {
            done.push(item);
        } else {
            left.push(item);
        }
    }
    *pending = left;
    done
}
