//! What a backend supplies of an arena.

use std::os::fd::OwnedFd;

use super::window::AddressRange;
use super::{GpuError, MemoryError};

/// The backend's part of an arena. Dropped, it unmaps the memory and gives its address range back.
pub(super) trait Backing: Send + Sync {
    fn range(&self) -> &AddressRange;
    fn export(&self) -> Result<OwnedFd, GpuError>;
    /// The range is inside the arena.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), GpuError>;
    /// The range is inside the arena.
    fn write(&self, offset: usize, from: &[u8]) -> Result<(), GpuError>;
    /// Notifies who checks accesses that what begins there is in use, or free. Hardware has nobody.
    fn mark(&self, _offset: usize, _in_use: bool) {}
    /// The other GPU by its CUDA ordinal; the emulated one has none.
    fn allow(&self, ordinal: Option<i32>) -> Result<(), MemoryError>;
}
