//! GPU memory that kernels are given for words and bytes, and that the host reads afterwards.
#![expect(unsafe_code, reason = "gives kernels the address of memory that they write")]

use std::io::{Read, Result as IoResult, Write};
use std::sync::atomic::AtomicU64;

use anyhow::Result;
use gpunet_device::{Shared, SharedBuf};
use gpunet_host::Gpu;
use gpunet_host::gpu::{DeviceMemory, HostMemory};

/// GPU memory for a kernel's words or bytes.
pub(crate) struct Memory(pub(crate) DeviceMemory);

impl Memory {
    pub(crate) fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        Ok(Self(gpu.device_memory(bytes)?))
    }

    pub(crate) fn words(&self) -> Shared<u64> {
        // SAFETY: page-aligned memory of that size, zeroed; kernels that run keep it, and the host
        // reads it through `DeviceMemory`.
        unsafe { Shared::from_raw(self.0.device_ptr().cast(), self.0.len() / 8) }
    }

    pub(crate) fn bytes(&self) -> SharedBuf {
        // SAFETY: as above.
        unsafe { Shared::from_raw(self.0.device_ptr(), self.0.len()) }
    }

    pub(crate) fn read(&self, count: usize) -> Result<Vec<u64>> {
        let mut bytes = vec![0; count * 8];
        self.0.read(0, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    pub(crate) fn write(&self, words: &[u64]) -> Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Ok(self.0.write(0, &bytes)?)
    }
}

/// Host memory for words that a kernel writes and the host watches meanwhile, without a call of the
/// driver.
pub(crate) struct Watched(HostMemory);

impl Watched {
    pub(crate) fn new(gpu: &Gpu, words: usize) -> Result<Self> {
        Ok(Self(gpu.host_memory(8 * words)?))
    }

    pub(crate) fn words(&self) -> Shared<u64> {
        // SAFETY: page-aligned memory of that size, zeroed; kernels that run keep it, and the host
        // reads and writes it through atomics.
        unsafe { Shared::from_raw(self.0.device_ptr().cast(), self.0.len() / 8) }
    }

    /// The words, one by one.
    pub(crate) fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        self.words_of_host().iter()
    }

    /// All of them.
    pub(crate) fn words_of_host(&self) -> &[AtomicU64] {
        atomics(&self.0)
    }
}

/// Host memory as words that a kernel and the CPU reach at a time.
fn atomics(memory: &HostMemory) -> &[AtomicU64] {
    // SAFETY: page-aligned memory of that size, as long as it is borrowed, and reached through atomics alone: by
    // the host, and by kernels in whole words.
    unsafe { std::slice::from_raw_parts(memory.as_ptr().cast(), memory.len() / 8) }
}

/// Host memory for bytes that a kernel and the CPU exchange, each in its turn: a flag says whose it is.
pub(crate) struct Pinned(HostMemory);

impl Pinned {
    pub(crate) fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        Ok(Self(gpu.host_memory(bytes)?))
    }

    pub(crate) fn bytes(&self) -> SharedBuf {
        // SAFETY: page-aligned memory of that size, zeroed; kernels that run keep it.
        unsafe { Shared::from_raw(self.0.device_ptr(), self.0.len()) }
    }

    /// As words, for packets: each says by itself that it is there.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        atomics(&self.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Copies words in, before a release store that a kernel waits for.
    pub(crate) fn write_words(&self, offset: usize, words: &[u64]) {
        assert!(offset + size_of_val(words) <= self.0.len(), "outside of the memory");
        let from = words.as_ptr().cast::<u8>();
        // SAFETY: inside the memory; the kernel reads it after the flag that the caller stores next.
        unsafe {
            self.0.as_ptr().add(offset).copy_from_nonoverlapping(from, size_of_val(words));
        }
    }

    /// Copies words out, after an acquire load of what a kernel has stored after them.
    pub(crate) fn read_words(&self, offset: usize, into: &mut [u64]) {
        assert!(offset + size_of_val(into) <= self.0.len(), "outside of the memory");
        let (to, bytes) = (into.as_mut_ptr().cast::<u8>(), size_of_val(into));
        // SAFETY: inside the memory; the kernel has written it before the flag that the caller has seen.
        unsafe { to.copy_from_nonoverlapping(self.0.as_ptr().add(offset), bytes) };
    }

    /// Sends bytes, behind an acquire load of what a kernel has stored after them.
    pub(crate) fn send(&self, offset: usize, bytes: usize, to: &mut impl Write) -> IoResult<()> {
        assert!(offset + bytes <= self.0.len(), "outside of the memory");
        // SAFETY: inside the memory; the kernel leaves it alone until the caller stores that it was sent.
        to.write_all(unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(offset), bytes) })
    }

    /// Receives up to so many bytes, before a release store that a kernel waits for.
    pub(crate) fn receive(
        &self,
        offset: usize,
        bytes: usize,
        from: &mut impl Read,
    ) -> IoResult<usize> {
        assert!(offset + bytes <= self.0.len(), "outside of the memory");
        let first = self.0.as_ptr().wrapping_add(offset);
        // SAFETY: inside the memory; the kernel leaves it alone until the caller stores that it is there.
        from.read(unsafe { std::slice::from_raw_parts_mut(first, bytes) })
    }
}
