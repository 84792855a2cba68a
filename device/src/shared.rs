//! A buffer that all threads of a group see, as an address and a length: a `&mut [u8]` in every thread of
//! a block would be one reference too many. [`buf`](crate::buf) has what groups do with it.

#![allow(unsafe_code, reason = "reads and writes memory that several threads share")]

/// A buffer of `T` that all threads of a group see: address and length.
#[derive(Debug)]
#[repr(C)]
pub struct Shared<T> {
    address: *mut T,
    length: usize,
}

/// Bytes that all threads of a group see.
pub type SharedBuf = Shared<u8>;

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: an address and a length; `from_raw`'s caller answers for the accesses.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// No elements.
    pub const EMPTY: Self = Self { address: core::ptr::without_provenance_mut(16), length: 0 };

    /// The `length` elements from `address` on.
    ///
    /// # Safety
    /// They are aligned and initialised, and stay valid, for reading and writing by all threads
    /// that are given the buffer, as long as it is used. Threads that write the same element must
    /// be ordered by a barrier; any value must be a valid `T`.
    #[inline(always)]
    pub const unsafe fn from_raw(address: *mut T, length: usize) -> Self {
        Self { address, length }
    }

    /// Where it begins.
    #[inline(always)]
    pub const fn as_ptr(self) -> *mut T {
        self.address
    }

    /// How many elements it holds.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.length
    }

    /// Whether it holds none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// The element at `index`; none beyond the end.
    #[inline(always)]
    pub fn get(self, index: usize) -> Option<T> {
        // SAFETY: in bounds; `from_raw` promises validity. Volatile: other threads may write it
        // at the other side of a barrier.
        (index < self.length).then(|| unsafe {
            let from = self.address.add(index);
            #[cfg(feature = "simulation")]
            if let Some(value) = crate::simulation::harness::read(from) {
                return value;
            }
            from.read_volatile()
        })
    }

    /// Sets the element at `index`; nothing happens beyond the end.
    #[inline(always)]
    pub fn set(self, index: usize, value: T) {
        if index < self.length {
            // SAFETY: as in `get`.
            unsafe {
                let to = self.address.add(index);
                #[cfg(feature = "simulation")]
                if crate::simulation::harness::write(to, value) {
                    return;
                }
                to.write_volatile(value);
            }
        }
    }

    /// From `start` on, at most `length` elements: never more than there are.
    #[inline(always)]
    #[must_use]
    pub fn slice(self, start: usize, length: usize) -> Self {
        let start = start.min(self.length);
        // SAFETY: at most one past the end.
        let address = unsafe { self.address.add(start) };
        Self { address, length: length.min(self.length - start) }
    }

    /// The first `length` elements, or all.
    #[inline(always)]
    #[must_use]
    pub fn first(self, length: usize) -> Self {
        self.slice(0, length)
    }
}

impl SharedBuf {
    /// Shared memory of the block, as the hardware or the emulator reports it.
    #[inline(always)]
    pub(crate) const fn of_shared_memory(address: *mut u8, bytes: usize) -> Self {
        Self { address, length: bytes }
    }

    /// Eight bytes from `at` on as one number, the first the lowest; zeros in place of what lies beyond
    /// the end. Faster than byte by byte.
    #[inline(always)]
    #[must_use]
    pub fn word_at(self, at: usize) -> u64 {
        let left = self.length.saturating_sub(at);
        if left == 0 {
            return 0;
        }
        let word = self.eight_bytes(at, left);
        if left < 8 { word & ((1 << (8 * left)) - 1) } else { word }
    }

    /// At least the first `left` of eight bytes.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    fn eight_bytes(self, at: usize, left: usize) -> u64 {
        let from = self.address.wrapping_add(at);
        let skip = from.addr() & 7;
        let words = from.wrapping_sub(skip).cast::<u64>();
        // SAFETY: an aligned word of which at least one byte belongs to the buffer: the hardware gives
        // memory in larger pieces. Volatile as in `get`.
        let first = unsafe { words.read_volatile() };
        if skip == 0 {
            return first;
        }
        let second = match skip + left > 8 {
            // SAFETY: the same.
            true => unsafe { words.wrapping_add(1).read_volatile() },
            false => 0,
        };
        first >> (8 * skip) | second << (64 - 8 * skip)
    }

    /// At least the first `left` of eight bytes.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    fn eight_bytes(self, at: usize, left: usize) -> u64 {
        let byte = |n: usize| u64::from(self.get(at + n).unwrap_or(0)) << (8 * n);
        (0..left.min(8)).fold(0, |word, n| word | byte(n))
    }

    /// As a buffer of `T`: as many as fit behind the first aligned one.
    #[inline(always)]
    #[must_use]
    pub fn cast<T: Plain>(self) -> Shared<T> {
        let skip = self.address.align_offset(align_of::<T>()).min(self.length);
        let rest = self.slice(skip, self.length);
        Shared { address: rest.address.cast(), length: rest.length / size_of::<T>() }
    }
}

/// Types for which any bytes are a value.
///
/// # Safety
/// That is so, and there is no padding.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($t:ty)*) => { $(
        // SAFETY: every bit pattern is a value, without padding.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);
