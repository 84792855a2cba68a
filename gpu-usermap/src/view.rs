//! The bytes of a mapping: words and copies, each checked against the bounds. Never a Rust slice,
//! since the GPU may write the bytes at any time.

#![allow(unsafe_code, reason = "hands checked addresses to the bus")]

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use crate::bus::{self, Bus, Cpu, Word};
use crate::caching::Caching;
use crate::error::AccessError;

/// Mapped bytes, from [`Mapping::view`](crate::Mapping::view). Copies of it are the same bytes;
/// threads may share it.
#[derive(Clone, Copy, Debug)]
pub struct View<'m> {
    start: NonNull<u8>,
    len: usize,
    caching: Caching,
    mapping: PhantomData<&'m ()>,
}

// SAFETY: all access to the bytes is by `bus`, which races with nobody; the bounds do not change.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}

impl<'m> View<'m> {
    pub(crate) fn new(start: NonNull<u8>, len: usize, caching: Caching) -> Self {
        Self { start, len, caching, mapping: PhantomData }
    }

    /// How many bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// How the processor treats them.
    #[must_use]
    pub fn caching(self) -> Caching {
        self.caching
    }

    /// A part of the bytes.
    ///
    /// # Errors
    /// A range outside.
    pub fn part(self, range: Range<usize>) -> Result<Self, AccessError> {
        let length = range.end.checked_sub(range.start);
        let outside =
            AccessError::OutOfBounds { start: range.start, end: range.end, len: self.len };
        let start = self.at(range.start, length.ok_or(outside)?)?;
        Ok(Self { start, len: range.len(), ..self })
    }

    /// A word, checked once.
    ///
    /// # Errors
    /// Outside, or not aligned.
    pub fn place<T: Word>(self, offset: usize) -> Result<Place<'m, T>, AccessError> {
        let address = self.at(offset, size_of::<T>())?.cast::<T>();
        if !address.is_aligned() {
            return Err(AccessError::Misaligned { offset, width: size_of::<T>() });
        }
        Ok(Place { address, caching: self.caching, mapping: PhantomData })
    }

    /// Loads a word, with no order implied.
    ///
    /// # Errors
    /// Outside, or not aligned.
    pub fn load<T: Word>(self, offset: usize) -> Result<T, AccessError> {
        self.place(offset).map(Place::load)
    }

    /// Stores a word, with no order implied; on a combining mapping it may linger in the processor
    /// until the next [`flush`](Self::flush) or release.
    ///
    /// # Errors
    /// Outside, or not aligned.
    pub fn store<T: Word>(self, offset: usize, value: T) -> Result<(), AccessError> {
        self.place(offset).map(|place| place.store(value))
    }

    /// Loads a word before everything that this thread loads afterwards.
    ///
    /// # Errors
    /// Outside, or not aligned.
    pub fn load_acquire<T: Word>(self, offset: usize) -> Result<T, AccessError> {
        self.place(offset).map(Place::load_acquire)
    }

    /// Stores a word after everything that this thread stored before.
    ///
    /// # Errors
    /// Outside, or not aligned.
    pub fn store_release<T: Word>(self, offset: usize, value: T) -> Result<(), AccessError> {
        self.place(offset).map(|place| place.store_release(value))
    }

    /// Copies bytes in: wide aligned stores, and on a combining mapping a fence, so that they are
    /// on their way. Towards a kernel that runs, only a later `store_release` says that they are
    /// complete.
    ///
    /// # Errors
    /// Outside.
    pub fn write(self, offset: usize, from: &[u8]) -> Result<(), AccessError> {
        let to = self.at(offset, from.len())?;
        // SAFETY: `at` checked the range.
        unsafe { bus::copy_in(&Cpu, to.as_ptr(), from, self.caching) };
        Ok(())
    }

    /// Copies bytes out. Across the bus this is slow by nature: the processor waits for every line
    /// or two. Each byte is old or new if a kernel writes them meanwhile.
    ///
    /// # Errors
    /// Outside.
    pub fn read(self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        let from = self.at(offset, into.len())?;
        // SAFETY: `at` checked the range.
        unsafe { bus::copy_out(&Cpu, from.as_ptr(), into, self.caching) };
        Ok(())
    }

    /// Sends on its way what was stored and lingers in the processor.
    pub fn flush(self) {
        self.caching.store_fence();
    }

    /// Where the CPU finds the first byte, for accesses of the caller's own: atomic ones, as
    /// long as the mapping stands, with the fences that its [`Caching`] takes.
    #[must_use]
    pub fn as_ptr(self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn at(self, offset: usize, length: usize) -> Result<NonNull<u8>, AccessError> {
        match offset.checked_add(length) {
            // SAFETY: inside the mapping, or one past its end.
            Some(end) if end <= self.len => Ok(unsafe { self.start.add(offset) }),
            end => Err(AccessError::OutOfBounds {
                start: offset,
                end: end.unwrap_or(usize::MAX),
                len: self.len,
            }),
        }
    }
}

/// One word of a mapping, aligned and inside it: for loops that poll.
#[derive(Clone, Copy, Debug)]
pub struct Place<'m, T: Word> {
    address: NonNull<T>,
    caching: Caching,
    mapping: PhantomData<&'m ()>,
}

// SAFETY: all access to the word is by `bus`, which races with nobody.
unsafe impl<T: Word> Send for Place<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Word> Sync for Place<'_, T> {}

impl<T: Word> Place<'_, T> {
    /// Loads, with no order implied.
    #[inline(always)]
    #[must_use]
    pub fn load(self) -> T {
        // SAFETY: `View::place` checked it.
        unsafe { Cpu.load(self.address.as_ptr()) }
    }

    /// Stores, with no order implied.
    #[inline(always)]
    pub fn store(self, value: T) {
        // SAFETY: `View::place` checked it.
        unsafe { Cpu.store(self.address.as_ptr(), value) }
    }

    /// Loads before everything that this thread loads afterwards.
    #[inline(always)]
    #[must_use]
    pub fn load_acquire(self) -> T {
        // SAFETY: `View::place` checked it.
        unsafe { bus::load_acquire(&Cpu, self.address.as_ptr(), self.caching) }
    }

    /// Stores after everything that this thread stored before.
    #[inline(always)]
    pub fn store_release(self, value: T) {
        // SAFETY: `View::place` checked it.
        unsafe { bus::store_release(&Cpu, self.address.as_ptr(), value, self.caching) }
    }
}
