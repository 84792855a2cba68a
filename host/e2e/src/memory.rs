//! Memory that scripts live in. With `heap`, the only module of the harness with `unsafe`.

#![allow(unsafe_code, reason = "names GPU memory and copies plain values to and from it")]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use gpunet_device::Shared;
use gpunet_device::calls::PollFd;
use gpunet_device::{Event, SocketAddr};
use gpunet_e2e_kernels::hostile::Mutation;
use gpunet_e2e_kernels::op::{Op, Outcome, Register, Span};
use gpunet_e2e_kernels::relay::Pair;
use gpunet_host::gpu::{DeviceMemory, HostMemory};
use gpunet_host::{Gpu, Net};

/// Types without padding, for which any bytes are a value.
///
/// # Safety
/// That is so.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: `#[repr(C)]` of numbers, laid out without gaps.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8, u32, u64, Mutation, Op, Outcome, Pair, Register, Span, PollFd, Event, SocketAddr);

/// Values in GPU memory.
pub(crate) struct Array<T> {
    memory: DeviceMemory,
    length: usize,
    values: PhantomData<T>,
}

impl<T: Plain> Array<T> {
    /// Copies the values to the GPU.
    pub(crate) fn new(gpu: &Gpu, values: &[T]) -> Self {
        let bytes = size_of_val(values);
        let memory = gpu.device_memory(bytes.max(1)).expect("GPU memory");
        // SAFETY: plain values are bytes.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), bytes) };
        memory.write(0, bytes).expect("the memory was made for the values");
        Self { memory, length: values.len(), values: PhantomData }
    }

    /// As a kernel's argument.
    pub(crate) fn shared(&self) -> Shared<T> {
        // SAFETY: the memory holds that many values, page aligned; the GPU keeps it as long as a
        // kernel runs, and scripts use what is their own or ordered by barriers.
        unsafe { Shared::from_raw(self.memory.device_ptr().cast(), self.length) }
    }

    /// What is there now.
    pub(crate) fn read(&self) -> Vec<T> {
        let size = size_of::<T>();
        let mut bytes = vec![0; self.length * size];
        self.memory.read(0, &mut bytes).expect("the memory was made for the values");
        // SAFETY: each chunk has the size of a plain value; it may lie at any address.
        let value = |chunk: &[u8]| unsafe { chunk.as_ptr().cast::<T>().read_unaligned() };
        bytes.chunks_exact(size).map(value).collect()
    }
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
        // SAFETY: as for an array. A kernel reads and writes whole words, as does the host.
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
        let set = crate::eventually(crate::DEADLINE, || self.get(at) != 0);
        assert!(set, "flag {at} was not set");
        self.get(at)
    }
}
