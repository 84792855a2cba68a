//! Memory that scripts live in. With `heap`, the only module of the harness with `unsafe`.

#![allow(unsafe_code, reason = "names GPU memory")]

use std::sync::Arc;

use gpunet_device::Shared;
use gpunet_device::buf::Plain;
use gpunet_host::gpu::Buffer;
use gpunet_host::{Gpu, Net};

use crate::limits::eventually;
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
pub struct Flags(gpunet_host::Flags<u64>);

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
        Self(gpu.flags(count).expect("host memory"))
    }

    /// As a kernel's argument, also of a kernel on another emulated GPU.
    pub(crate) fn shared(&self) -> Shared<u64> {
        let address = std::ptr::with_exposed_provenance_mut(self.0.device_address() as usize);
        // SAFETY: the memory has that many words, aligned, and outlives the kernels that get it; host and
        // kernels read and write whole words.
        unsafe { Shared::from_raw(address, self.0.len()) }
    }

    /// A flag's value.
    #[must_use]
    pub fn get(&self, at: usize) -> u64 {
        self.0.load(at)
    }

    /// Sets a flag.
    pub fn set(&self, at: usize, value: u64) {
        self.0.store(at, value);
    }

    /// Waits until a flag is set, for as long as a test's kernel may run.
    ///
    /// # Panics
    /// When it is not.
    pub fn wait(&self, at: usize) -> u64 {
        let set = eventually(|| self.get(at) != 0);
        assert!(set, "flag {at} was not set");
        self.get(at)
    }
}

/// Flags on the GPU of this process.
#[must_use]
pub fn flags() -> Arc<Flags> {
    Arc::new(Flags::new(gpu()))
}
