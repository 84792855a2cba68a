//! What belongs to the process that made it. All that a program holds of a GPU is in a [`ForkGuard`]: nets,
//! memory and streams know by it whether they are used in a forked process.
//!
//! A forked process shares memory, driver and sockets with its parent, and has none of its threads. There an
//! operation that can fail fails, and nothing is dropped. The guard is asked before a lock is taken: a thread of
//! the parent may have held it at the fork.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use gpu_usermap::ProcessId;

use super::GpuError;

/// See the module. Clones are of the same process.
#[derive(Clone)]
pub(super) struct ForkGuard<T> {
    value: ManuallyDrop<T>,
    process: ProcessId,
}

impl<T> ForkGuard<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: ProcessId::current() }
    }

    /// Whether this process made it.
    pub(super) fn is_own(&self) -> bool {
        self.process.is_current()
    }

    /// The value, in the process that made it.
    pub(super) fn get(&self) -> Result<&T, GpuError> {
        match self.is_own() {
            true => Ok(&self.value),
            false => Err(GpuError::Forked { parent: self.process.number() }),
        }
    }
}

/// In a forked process, too: for what neither waits nor touches what is shared.
impl<T> Deref for ForkGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for ForkGuard<T> {
    fn drop(&mut self) {
        if self.is_own() {
            // SAFETY: nothing uses the value after its guard.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
