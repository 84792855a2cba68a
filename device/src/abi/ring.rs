//! Where a ring lies, and a part of it, as words.

use crate::planted::{Bug, planted};

/// Where a ring lies: the address of its first byte, with the logarithm of its capacity in the
/// bits that are zero since rings begin at pages; 0: there is none.
#[derive(Clone, Copy)]
pub(crate) struct RingAddress(pub(crate) u64);

impl RingAddress {
    /// The bits of the logarithm.
    const LOG_MASK: u64 = 63;

    #[inline(always)]
    #[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
    pub(crate) fn new(address: u64, capacity: u32) -> Self {
        Self(if address == 0 { 0 } else { address | u64::from(capacity.trailing_zeros()) })
    }

    /// Whether there is none.
    #[inline(always)]
    #[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The first byte.
    #[inline(always)]
    pub(crate) fn start(self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut((self.0 & !Self::LOG_MASK) as usize)
    }

    /// Bytes that it holds, a power of two.
    #[inline(always)]
    pub(crate) fn capacity(self) -> usize {
        1 << (self.0 & Self::LOG_MASK)
    }

    /// The same as one register of a GPU: where instructions count.
    #[inline(always)]
    pub(crate) fn capacity_u32(self) -> u32 {
        1 << (self.0 as u32 & 31)
    }

    /// The two pieces of a part of it; the second is empty unless it wraps.
    #[inline(always)]
    pub(crate) fn pieces(self, span: Span) -> [(*mut u8, usize); 2] {
        let start = span.low() as usize & (self.capacity() - 1);
        let first = span.length().min(self.capacity() - start);
        let wrong = usize::from(planted(Bug::WrongWrap));
        let ring = self.start();
        [(ring.wrapping_add(start), first), (ring.wrapping_add(wrong), span.length() - first)]
    }
}

/// Part of a ring: the length in the upper half, the lowest bits of the position where it begins in
/// the lower. A ring's capacity has 31 bits, so a span is never taken for a negative error number.
#[derive(Clone, Copy)]
pub(crate) struct Span(pub(crate) u64);

impl Span {
    /// So many bytes from a position on.
    #[inline(always)]
    #[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
    pub(crate) fn new(position: u64, length: usize) -> Self {
        Self((length as u64) << 32 | u64::from(position as u32))
    }

    /// Its bytes.
    #[inline(always)]
    pub(crate) const fn length(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// The lowest bits of the position where it begins.
    #[inline(always)]
    pub(crate) const fn low(self) -> u32 {
        self.0 as u32
    }

    /// The first `most` bytes of it, or all.
    #[inline(always)]
    pub(crate) fn at_most(self, most: usize) -> Self {
        Self((self.length().min(most) as u64) << 32 | self.0 & 0xFFFF_FFFF)
    }
}
