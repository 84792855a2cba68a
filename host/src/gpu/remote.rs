//! What a network device needs to reach the memory of a GPU: a descriptor to register, and to know
//! when kernels see what it wrote.

use std::os::fd::OwnedFd;

use super::memory::Given;
use super::{DeviceMemory, Gpu, GpuError, MemoryError};

/// When kernels see bytes that a network device wrote into GPU memory, once it says that it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteWrites {
    /// At once.
    Ordered,
    /// After [`Gpu::flush_remote_writes`].
    AfterFlush,
    /// Not known: such bytes had better go through host memory.
    Unknown,
}

impl Gpu {
    /// When kernels see what a network device wrote into the GPU's memory.
    #[must_use]
    pub fn remote_writes(&self) -> RemoteWrites {
        self.inner.remote_writes()
    }

    /// Has kernels see what network devices have written into the GPU's memory so far. Waits for
    /// no kernel.
    ///
    /// # Errors
    /// What the driver says.
    pub fn flush_remote_writes(&self) -> Result<(), GpuError> {
        self.inner.flush_remote_writes()
    }
}

impl DeviceMemory {
    /// A dma-buf of all of it, for a device's driver to register. The emulated GPU gives the memory
    /// file of its pages, which drivers refuse.
    ///
    /// # Errors
    /// A driver that exports none.
    pub fn export(&self) -> Result<OwnedFd, MemoryError> {
        match &self.given {
            Some(Given::Device { address }) => {
                Ok(self.owner.get()?.export(*address, self.bytes)?)
            }
            Some(Given::Pages { pages, .. }) => {
                Ok(pages.file.try_clone().map_err(|error| GpuError::system("dup", error))?)
            }
            None => {
                Err(MemoryError::OutOfRange { unit: "bytes", offset: 0, end: self.bytes, len: 0 })
            }
        }
    }
}
