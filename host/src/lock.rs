//! Locks over data that is consistent whenever no thread holds them: a panic of a thread that held one leaves
//! nothing half done.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, whether or not a thread has panicked with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
