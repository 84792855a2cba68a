//! Arrays in GPU memory, and the one place of the soak with `unsafe`.

#![allow(unsafe_code, reason = "names GPU memory and copies plain values to and from it")]

use std::marker::PhantomData;

use anyhow::{Context as _, Result};
use gpunet_device::{KernelArg, Shared};
use gpunet_e2e_kernels::soak::{Call, Job, Outcome};
use gpunet_host::Gpu;
use gpunet_host::gpu::DeviceMemory;

/// Kernel arguments without padding, for which any bytes are a value.
///
/// # Safety
/// That is so.
pub(crate) unsafe trait Plain: KernelArg {}

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: `#[repr(C)]` of 8-byte numbers, and of addresses that are whole words of bytes.
        unsafe impl Plain for $t {}
    )* };
}
plain!(Call, Job, Outcome);

/// Values in GPU memory.
pub(crate) struct Array<T> {
    memory: DeviceMemory,
    length: usize,
    values: PhantomData<T>,
}

impl<T: Plain> Array<T> {
    /// Copies the values to the GPU.
    pub(crate) fn of(gpu: &Gpu, values: &[T]) -> Result<Self> {
        let this = Self::zeroed(gpu, values.len())?;
        // SAFETY: plain values are bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values))
        };
        this.memory.write(0, bytes).context("writing GPU memory")?;
        Ok(this)
    }

    /// Room for so many, all zero.
    pub(crate) fn zeroed(gpu: &Gpu, length: usize) -> Result<Self> {
        let bytes = (length * size_of::<T>()).max(1);
        let memory = gpu.device_memory(bytes).context("taking GPU memory")?;
        Ok(Self { memory, length, values: PhantomData })
    }

    /// As a kernel's argument.
    pub(crate) fn shared(&self) -> Shared<T> {
        // SAFETY: the memory holds that many values, page aligned; the GPU keeps it as long as a
        // kernel runs; each group writes what is its own alone.
        unsafe { Shared::from_raw(self.memory.device_ptr().cast(), self.length) }
    }

    /// What is there now.
    pub(crate) fn read(&self) -> Result<Vec<T>> {
        let mut bytes = vec![0; self.length * size_of::<T>()];
        self.memory.read(0, &mut bytes).context("reading GPU memory")?;
        // SAFETY: each chunk has the size of a plain value; it may lie at any address.
        let value = |chunk: &[u8]| unsafe { chunk.as_ptr().cast::<T>().read_unaligned() };
        Ok(bytes.chunks_exact(size_of::<T>()).map(value).collect())
    }
}
