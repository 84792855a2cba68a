//! The kernel that measures an echo server kernel to kernel.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gpunet_bench_kernels::client::{Client, REPORT_WORDS, measure_echo};
use gpunet_bench_kernels::ways::call::SLOTS;
use gpunet_device::{Errno, Kernel, Shared, SharedBuf, SocketAddr};
use gpunet_host::{Gpu, Net, Shape, Task, TransportChoice};

use super::Latency;
use super::client::Batch;
use super::floor::timed;
use crate::memory::Memory;

/// How long one call of a kernel may take.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a launch may take beside its batch.
const LAUNCH_SPARE: Duration = Duration::from_secs(30);
/// Shared memory for handles and messages, beside the samples.
const MESSAGES: u32 = 16 << 10;
/// What memory is rounded up to.
const PAGE: usize = 4096;

/// A kernel that measures.
pub(super) type Measure = Kernel<(Client, SharedBuf, Shared<u64>, Shared<u64>)>;

/// What a client does.
pub(crate) struct Settings {
    /// Threads of its block.
    pub(crate) threads: u32,
    /// The longest message.
    pub(crate) bytes: usize,
    /// Round trips of a batch at most.
    pub(crate) rounds: usize,
    /// Connections, which messages take in turns.
    pub(crate) streams: u32,
    /// Shared memory for handles and messages; longer ones lie in GPU memory.
    pub(crate) messages: u32,
    /// The kernel.
    pub(super) kernel: Measure,
}

impl Settings {
    /// One stream, read and written by blocking calls of a block.
    pub(crate) fn new(threads: u32, bytes: usize, rounds: usize) -> Self {
        Self { threads, bytes, rounds, streams: 1, messages: MESSAGES, kernel: measure_echo }
    }

    /// Shared memory for all of a message and its answer, where they are no longer than this.
    pub(crate) fn messages_up_to(bytes: usize) -> u32 {
        2 * bytes.next_multiple_of(16) as u32 + SLOTS as u32
    }
}

/// A net for the client, and memory for what it measures.
pub(crate) struct KernelClient {
    net: Net,
    settings: Settings,
    ring: u32,
    memory: Memory,
    samples: Memory,
    report: Memory,
}

impl KernelClient {
    pub(crate) fn new(gpu: &Gpu, settings: Settings) -> Result<Self> {
        let Settings { bytes, rounds, streams, .. } = settings;
        let ring = u32::try_from(bytes.max(64 << 10)).context("a message longer than a ring")?;
        let rings = u64::from(2 * streams + 6) * u64::from(ring.next_power_of_two());
        let builder = Net::builder(gpu).sockets(streams + 15).ring(ring).ring_memory(rings);
        Ok(Self {
            net: builder.transport(TransportChoice::Local).build()?,
            settings,
            ring,
            memory: Memory::new(gpu, 2 * bytes.next_multiple_of(PAGE))?,
            samples: Memory::new(gpu, 8 * rounds)?,
            report: Memory::new(gpu, 8 * REPORT_WORDS)?,
        })
    }

    /// Round trips with an echo server kernel, every byte checked.
    pub(crate) fn round_trips(&self, server: SocketAddr, batch: Batch) -> Result<Latency> {
        self.report.write(&[Errno::ECANCELED.negative() as u64; REPORT_WORDS])?;
        let Settings { threads, streams, messages, kernel, .. } = self.settings;
        let work = Client {
            server,
            streams: streams.into(),
            bytes: batch.bytes as u64,
            rounds: batch.rounds as u64,
            ring: u64::from(self.ring),
            timeout_ns: ANSWER.as_nanos() as u64,
            limit_ns: batch.limit.as_nanos() as u64,
        };
        let arguments = (work, self.memory.bytes(), self.samples.words(), self.report.words());
        let shape = Shape::new(1, threads).shared_memory(8 * batch.rounds as u32 + messages);
        let client = super::Serving(self.net.launch(kernel, shape, arguments)?);
        client.0.wait_timeout(batch.limit + LAUNCH_SPARE)?;
        let report = self.report.read(REPORT_WORDS)?;
        let result = report[0].cast_signed();
        ensure!(result == 0, "the echo between kernels failed: {}", Errno(-result as i32));
        let local = TransportChoice::Local as u64;
        ensure!(report[4] == local, "the echo between kernels was not local ({})", report[4]);
        Latency::of(timed(&self.samples, &report)?)
    }
}
