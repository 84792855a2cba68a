//! The memory that the kernel works on: entries, buckets, counters, the state of connections.

use gpunet_apps::failure::Failure;
use gpunet_device::Errno;
use gpunet_host::Gpu;
use gpunet_host::gpu::Buffer;
use gpunet_kv::{State, WORDS, Word};
use gpunet_serve::{Memory, STOP_OFFSET};

/// Bytes of memory for each bucket of the table: about one entry with a short key and value.
const BYTES_PER_BUCKET: u64 = 256;

/// Bytes for requests and answers on their way: an eighth of the table's, or this much for each connection, so that
/// each can have a request of that size at any time; within the limits below.
const PENDING_EACH: usize = 32 << 10;
const LEAST_PENDING: usize = 16 << 20;
const MOST_PENDING: usize = 1 << 30;

/// The most memory for keys and values: the table names entries in 40 bits.
const MOST_MEMORY: u64 = 192 << 30;

/// What the kernel works on; freed once it has ended.
pub(crate) struct Tables {
    pub(crate) memory: Buffer<u8>,
    pub(crate) words: Buffer<u64>,
    pub(crate) entries: Buffer<u8>,
    pub(crate) heads: Buffer<u64>,
    pub(crate) locks: Buffer<u32>,
    pub(crate) connections: u32,
}

impl Tables {
    pub(crate) fn new(gpu: &Gpu, bytes: u64, connections: u32) -> Result<Self, Failure> {
        let too_much = || Failure::refused("--memory: more than this machine can address");
        let heap = usize::try_from(bytes).map_err(|_| too_much())?;
        if bytes > MOST_MEMORY {
            return Err(Failure::refused("--memory: at most 192G"));
        }
        let pending = (heap / 8).max(connections as usize * PENDING_EACH);
        let pending = pending.clamp(LEAST_PENDING, MOST_PENDING);
        let buckets = (bytes / BYTES_PER_BUCKET).next_power_of_two().max(1024) as usize;
        Ok(Self {
            memory: gpu.buffer(Memory::bytes::<State>(connections, pending))?,
            entries: gpu.buffer(heap)?,
            words: gpu.buffer(WORDS)?,
            heads: gpu.buffer(buckets)?,
            locks: gpu.buffer(buckets)?,
            connections,
        })
    }

    /// Has the kernel end in order.
    pub(crate) fn stop(&self) -> Result<(), Failure> {
        Ok(self.memory.write(STOP_OFFSET, &1_u64.to_le_bytes())?)
    }

    /// The error that ended the kernel.
    pub(crate) fn ended_by(&self) -> Result<Errno, Failure> {
        let mut words = [0; WORDS];
        self.words.read(0, &mut words)?;
        Ok(Errno(words[Word::Ended as usize] as i32))
    }
}
