//! Memory that scripts live in. With `heap`, the only module of the harness with `unsafe`.

#![allow(unsafe_code, reason = "names GPU memory")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gpunet_device::Shared;
use gpunet_device::buf::Plain;
use gpunet_host::gpu::{Buffer, HostMemory};
use gpunet_host::{Gpu, Net};

use crate::limits::{DEADLINE, eventually};
use crate::nets::gpu;

/// A buffer of the GPU with these values.
pub(crate) fn buffer<T: Plain + Send>(gpu: &Gpu, values: &[T]) -> Buffer<T> {
    let buffer = gpu.buffer(values.len()).expect("GPU memory");
    buffer.write(0, values).expect("the buffer was made for the values");
    buffer
}

/// The regions of a net, as a hostile kernel gets them: the GPU's control block, the host's, rings, records.
pub(crate) fn regions(net: &Net) -> [Shared<u64>; 4] {
    // SAFETY: none that holds for what is written there, which is the point; the memory itself is
    // the net's, is made of whole words, and outlives its kernels.
    net.regions().map(|(address, bytes)| unsafe { Shared::from_raw(address.cast(), bytes / 8) })
}

/// A place that is not there.
pub(crate) fn nowhere() -> Shared<u8> {
    // SAFETY: none. Only scripts that are to fault touch it, on CUDA alone, where the address is
    // never mapped.
    unsafe { Shared::from_raw(std::ptr::without_provenance_mut(0x10), 1) }
}

/// Words that the host and all kernels see, to order one another.
pub struct Flags {
    memory: HostMemory,
    count: usize,
}

impl Flags {
    /// How many a test has.
    pub const COUNT: usize = 64;

    /// All zero.
    ///
    /// # Panics
    /// When there is no memory for them.
    pub fn new(gpu: &Gpu) -> Self {
        Self::many(gpu, Self::COUNT)
    }

    /// So many, all zero.
    pub(crate) fn many(gpu: &Gpu, count: usize) -> Self {
        Self { memory: gpu.host_memory(count * 8).expect("host memory"), count }
    }

    /// As a kernel's argument.
    pub(crate) fn shared(&self) -> Shared<u64> {
        // SAFETY: the memory has that many words, page aligned, and outlives the kernels that get it. A kernel reads and writes whole words, as does the host.
        unsafe { Shared::from_raw(self.memory.device_ptr().cast(), self.count) }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.count);
        // SAFETY: in bounds, aligned, and reached as a whole word by everybody.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().cast::<u64>().add(at)) }
    }

    /// A flag's value.
    #[must_use]
    pub fn get(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Sets a flag.
    pub fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    /// Waits until a flag is set, for as long as a test's kernel may run.
    ///
    /// # Panics
    /// When it is not.
    pub fn wait(&self, at: usize) -> u64 {
        let set = eventually(DEADLINE, || self.get(at) != 0);
        assert!(set, "flag {at} was not set");
        self.get(at)
    }
}

/// Flags on the GPU of this process.
#[must_use]
pub fn flags() -> Arc<Flags> {
    Arc::new(Flags::new(gpu()))
}
