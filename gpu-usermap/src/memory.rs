//! Memory of a GPU, as its owner describes it to this crate. Nothing here touches any.

#![allow(unsafe_code, reason = "an unsafe trait")]

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// What the owner of GPU memory says when it cannot do something.
pub type MemoryError = Box<dyn std::error::Error + Send + Sync>;

/// Where the bytes of an allocation lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the memory of a CUDA device; the owner keeps its primary context.
    Device {
        /// The driver's number of the device.
        ordinal: i32,
    },
    /// In pinned host memory that kernels reach too: where the CPU finds it.
    Host(NonNull<u8>),
    /// In pages of this process that an emulated GPU takes for its memory.
    Emulated(NonNull<u8>),
}

impl Location {
    /// In words, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Device { .. } => "memory of a CUDA device",
            Self::Host(_) => "host memory",
            Self::Emulated(_) => "memory of the emulated GPU",
        }
    }
}

/// A dma-buf, or a memory file in place of one.
#[derive(Debug)]
pub struct Exported {
    /// The descriptor.
    pub descriptor: OwnedFd,
    /// Where in it the memory's first byte lies.
    pub offset: u64,
}

/// An allocation of GPU memory, or a share in one.
///
/// # Safety
/// As long as the value lives, wherever it is moved: the `len` bytes from `device_address` on are
/// one allocation of this process, and a pointer in its [`Location`] is valid for reads and
/// writes of `len` bytes. Nobody holds a Rust reference to any of these bytes, but to atomics.
pub unsafe trait GpuMemory: Send + Sync {
    /// Where kernels find it.
    fn device_address(&self) -> u64;

    /// Its size in bytes.
    fn len(&self) -> usize;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where its bytes lie.
    fn location(&self) -> Location;

    /// A dma-buf of all of it.
    ///
    /// # Errors
    /// A driver that exports none.
    fn export(&self) -> Result<Exported, MemoryError>;

    /// The GPU driver's number of the allocation that lies there now, which no other allocation
    /// ever gets (CUDA's `CU_POINTER_ATTRIBUTE_BUFFER_ID`). Where pages outlive their allocation
    /// because they are mapped, this alone shows that it was freed. None: the owner cannot say.
    ///
    /// # Errors
    /// No allocation lies there.
    fn buffer_id(&self) -> Result<Option<u64>, MemoryError> {
        Ok(None)
    }

    /// Copies out by the driver's own means, to compare with.
    ///
    /// # Errors
    /// Bytes outside the memory, or what the driver says.
    fn driver_read(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError>;

    /// Copies in by the driver's own means, to compare with.
    ///
    /// # Errors
    /// Bytes outside the memory, or what the driver says.
    fn driver_write(&self, offset: usize, from: &[u8]) -> Result<(), MemoryError>;
}

macro_rules! shares {
    ($($share:ty),*) => { $(
        // SAFETY: the same memory, which lives as long as any share in it.
        unsafe impl<M: GpuMemory + ?Sized> GpuMemory for $share {
            fn device_address(&self) -> u64 {
                (**self).device_address()
            }
            fn len(&self) -> usize {
                (**self).len()
            }
            fn location(&self) -> Location {
                (**self).location()
            }
            fn export(&self) -> Result<Exported, MemoryError> {
                (**self).export()
            }
            fn buffer_id(&self) -> Result<Option<u64>, MemoryError> {
                (**self).buffer_id()
            }
            fn driver_read(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
                (**self).driver_read(offset, into)
            }
            fn driver_write(&self, offset: usize, from: &[u8]) -> Result<(), MemoryError> {
                (**self).driver_write(offset, from)
            }
        }
    )* };
}
shares!(&M, Arc<M>, Box<M>);

/// A GPU that gives memory of both kinds, for [`Mapper::allocate`](crate::Mapper::allocate).
pub trait Allocate {
    /// Memory of the GPU.
    ///
    /// # Errors
    /// What the driver says.
    fn on_device(&self, bytes: usize) -> Result<Box<dyn GpuMemory>, MemoryError>;

    /// Pinned host memory that kernels reach too.
    ///
    /// # Errors
    /// What the driver says.
    fn on_host(&self, bytes: usize) -> Result<Box<dyn GpuMemory>, MemoryError>;
}
