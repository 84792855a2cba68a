//! Bytes of a ring as the proxy sees them: addresses, read and written byte by byte, since the GPU may write at any
//! time.

#![allow(unsafe_code, reason = "reads and writes ring bytes at their addresses")]

use gpunet_device::abi::word;

/// Ring bytes that the proxy may fill or drain now: addresses, never a slice.
#[derive(Clone, Copy, Debug)]
pub struct RingSlice {
    pub(super) pieces: [(*mut u8, usize); 2],
}

impl RingSlice {
    /// Addresses and lengths; the second piece is empty unless the slice wraps.
    #[must_use]
    pub fn pieces(&self) -> [(*mut u8, usize); 2] {
        self.pieces
    }

    /// Bytes of both.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces[0].1 + self.pieces[1].1
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the bytes, as many as `into` has room for, each once: nobody promises that they stand
    /// still.
    pub(super) fn read(&self, into: &mut [u8]) {
        let mut into = into.iter_mut();
        for (address, length) in self.pieces {
            word::reads_bytes(address, length.min(into.len()));
            for (at, byte) in (0..length).zip(&mut into) {
                // SAFETY: `Memory::slice` made the piece inside a ring, which its owner keeps.
                *byte = unsafe { word::load_byte(address.add(at)) };
            }
        }
    }

    /// Bytes of the proxy's own, to be sent.
    pub(crate) fn over(bytes: &mut [u8]) -> Self {
        let address = bytes.as_mut_ptr();
        Self { pieces: [(address, bytes.len()), (address, 0)] }
    }

    /// Writes bytes, as many as there are and fit.
    pub(crate) fn fill(&self, bytes: &[u8]) {
        let mut bytes = bytes.iter();
        for (address, length) in self.pieces {
            word::writes_bytes(address, length.min(bytes.len()));
            for (at, byte) in (0..length).zip(&mut bytes) {
                // SAFETY: as in `read`.
                unsafe { word::store_byte(address.add(at), *byte) };
            }
        }
    }

    /// A copy of the bytes, made without trusting them to stand still.
    #[must_use]
    pub fn copy(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.read(&mut bytes);
        bytes
    }
}
