//! Words in host memory that kernels, streams and the program set and wait for.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gpunet_device::Shared;
use gpunet_device::buf::Plain;
use gpunet_device::kernel::{LaunchArg, Launching, Memory};
use gpunet_device::op::Width;

use super::{Buffer, Gpu, HostMemory, MemoryError};

/// A word's type: `u32` or `u64`.
pub trait Word: Plain + Send + sealed::Sealed {
    #[doc(hidden)]
    const WIDTH: Width;
    #[doc(hidden)]
    fn number(self) -> u64;
}

mod sealed {
    use super::*;

    pub trait Sealed: Copy {
        /// # Safety
        /// `at` is a word that lives, aligned, reached by others atomically alone.
        unsafe fn load(at: *mut u8) -> Self;
        /// # Safety
        /// As `load`.
        unsafe fn store(at: *mut u8, value: Self);
    }

    macro_rules! words {
        ($($word:ty, $atomic:ty;)*) => { $(
            impl Sealed for $word {
                unsafe fn load(at: *mut u8) -> Self {
                    // SAFETY: the caller's promise.
                    unsafe { <$atomic>::from_ptr(at.cast()) }.load(Ordering::Acquire)
                }

                unsafe fn store(at: *mut u8, value: Self) {
                    // SAFETY: the caller's promise.
                    unsafe { <$atomic>::from_ptr(at.cast()) }.store(value, Ordering::Release);
                }
            }
        )* };
    }
    words! { u32, AtomicU32; u64, AtomicU64; }
}

impl Word for u32 {
    const WIDTH: Width = Width::Bits32;

    fn number(self) -> u64 {
        u64::from(self)
    }
}

impl Word for u64 {
    const WIDTH: Width = Width::Bits64;

    fn number(self) -> u64 {
        self
    }
}

/// Words in host memory, 0 at first, made by [`Gpu::flags`]. A kernel gets them as a `Shared` of the same
/// type, and reaches them by atomics of system scope.
pub struct Flags<W> {
    memory: Arc<HostMemory>,
    len: usize,
    words: PhantomData<fn() -> W>,
}

impl Gpu {
    /// So many words, of 32 or 64 bits.
    ///
    /// # Errors
    /// None at all, or what the system or the driver says.
    pub fn flags<W: Word>(&self, len: usize) -> Result<Flags<W>, MemoryError> {
        let bytes = len.saturating_mul(size_of::<W>());
        Ok(Flags { memory: Arc::new(self.host_memory(bytes)?), len, words: PhantomData })
    }
}

impl<W: Word> Flags<W> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: none at all are refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A word, with all that its writer did before.
    ///
    /// # Panics
    /// Where there is no such word.
    #[must_use]
    pub fn load(&self, index: usize) -> W {
        // SAFETY: checked; the pages live as long as `self`, aligned, and are reached atomically.
        unsafe { sealed::Sealed::load(self.memory.as_ptr().wrapping_add(self.offset(index))) }
    }

    /// Sets a word; who waits for it sees all that was done before.
    ///
    /// # Panics
    /// Where there is no such word.
    pub fn store(&self, index: usize, value: W) {
        let at = self.memory.as_ptr().wrapping_add(self.offset(index));
        // SAFETY: as in `load`.
        unsafe { sealed::Sealed::store(at, value) };
    }

    /// Where the first word is, for kernels. Good while these live, or what was given them to keep.
    #[must_use]
    pub fn device_address(&self) -> u64 {
        self.memory.device_ptr().expose_provenance() as u64
    }

    /// What they lie in.
    pub(crate) fn memory(&self) -> &Arc<HostMemory> {
        &self.memory
    }

    fn offset(&self, index: usize) -> usize {
        assert!(index < self.len, "flag {index} of {}", self.len);
        index * size_of::<W>()
    }
}

// SAFETY: the launch keeps the memory.
unsafe impl<W: Word> LaunchArg<Shared<W>> for &Flags<W> {
    fn resolve(self, launching: &mut Launching) -> Shared<W> {
        launching.keep(Arc::clone(&self.memory) as Memory);
        // SAFETY: the memory has that many words, aligned; it is kept, and accesses are atomic.
        unsafe { Shared::from_raw(self.memory.device_ptr().cast(), self.len) }
    }
}

impl<W> std::fmt::Debug for Flags<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flags").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Memory of a GPU's that an operation names: what keeps it, and where it is for kernels.
#[derive(Clone)]
pub(crate) struct Located {
    pub(crate) memory: Option<Memory>,
    pub(crate) address: *mut u8,
    pub(crate) bytes: usize,
}

/// Where a word can be that operations wait for or write: a [`Flags`] or a [`Buffer`] of `u32` or `u64`.
pub trait Words: words::Sealed {
    /// The words' type.
    type Word: Word;
}

pub(crate) mod words {
    pub trait Sealed {
        #[allow(private_interfaces, reason = "nobody else implements or calls it")]
        fn locate(&self, index: usize) -> Result<super::Located, super::MemoryError>;
    }
}

impl<W: Word> Words for Flags<W> {
    type Word = W;
}

impl<W: Word> words::Sealed for Flags<W> {
    #[allow(private_interfaces, reason = "as declared")]
    fn locate(&self, index: usize) -> Result<Located, MemoryError> {
        MemoryError::check("words", index, 1, self.len)?;
        let address = self.memory.device_ptr().wrapping_add(index * size_of::<W>());
        let memory = Some(Arc::clone(&self.memory) as Memory);
        Ok(Located { memory, address, bytes: size_of::<W>() })
    }
}

impl<W: Word> Words for Buffer<W> {
    type Word = W;
}

impl<W: Word> words::Sealed for Buffer<W> {
    #[allow(private_interfaces, reason = "as declared")]
    fn locate(&self, index: usize) -> Result<Located, MemoryError> {
        self.locate_range(index..index.saturating_add(1))
    }
}

impl<T: Plain> Buffer<T> {
    /// Elements for an operation.
    pub(crate) fn locate_range(&self, range: Range<usize>) -> Result<Located, MemoryError> {
        let len = range.end.checked_sub(range.start).ok_or(MemoryError::OutOfRange {
            unit: "elements",
            offset: range.start,
            end: range.end,
            len: self.len(),
        })?;
        let start = self.start(range.start, len)?;
        let address = self.memory.as_ref().map_or(std::ptr::null_mut(), |it| it.device_ptr());
        Ok(Located {
            memory: self.memory.clone().map(|memory| memory as Memory),
            address: address.wrapping_add(start),
            bytes: len * size_of::<T>(),
        })
    }
}
