//! The kernel that measures an echo server kernel to kernel, and the bare exchange between two blocks
//! that it is compared with.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gpunet_bench_kernels::sizes::{Client, Exchange, REPORT_WORDS, exchange_bytes, measure_echo};
use gpunet_device::{Errno, SocketAddr};
use gpunet_host::{Gpu, Net, Shape, TransportChoice};

use super::Latency;
use super::client::Batch;
use crate::memory::Memory;

/// How long one call of a kernel, or one flag, may take.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a launch may take beside its batch.
const LAUNCH_SPARE: Duration = Duration::from_secs(30);
/// Shared memory for messages, beside the samples.
const MESSAGES: u32 = 16 << 10;
/// Distance of two flags, and what memory is rounded up to.
const PAGE: usize = 4096;

/// A net for the client, and memory for what it measures.
pub(crate) struct KernelClient {
    net: Net,
    threads: u32,
    ring: u32,
    flags: Memory,
    memory: Memory,
    own: Memory,
    samples: Memory,
    report: Memory,
}

impl KernelClient {
    /// A client of blocks of `threads`, for batches of up to `rounds` round trips and `bytes`.
    pub(crate) fn new(gpu: &Gpu, threads: u32, bytes: usize, rounds: usize) -> Result<Self> {
        let ring = u32::try_from(bytes.max(64 << 10)).context("a message longer than a ring")?;
        let builder = Net::builder(gpu).sockets(16).ring(ring).ring_memory(8 * u64::from(ring));
        Ok(Self {
            net: builder.transport(TransportChoice::Local).build()?,
            threads,
            ring,
            flags: Memory::new(gpu, 2 * PAGE)?,
            memory: Memory::new(gpu, 2 * bytes.next_multiple_of(PAGE))?,
            own: Memory::new(gpu, 3 * bytes.next_multiple_of(PAGE))?,
            samples: Memory::new(gpu, 8 * rounds)?,
            report: Memory::new(gpu, 8 * REPORT_WORDS)?,
        })
    }

    fn shape(&self, rounds: usize) -> Shape {
        Shape::new(1, self.threads).shared_memory(8 * rounds as u32 + MESSAGES)
    }

    /// Round trips with an echo server kernel, every byte checked.
    pub(crate) fn round_trips(&self, server: SocketAddr, batch: Batch) -> Result<Latency> {
        self.report.write(&[Errno::ECANCELED.negative() as u64; REPORT_WORDS])?;
        let work = Client {
            server,
            bytes: batch.bytes as u64,
            rounds: batch.rounds as u64,
            ring: u64::from(self.ring),
            timeout_ns: ANSWER.as_nanos() as u64,
            limit_ns: batch.limit.as_nanos() as u64,
        };
        let arguments = (work, self.memory.bytes(), self.samples.words(), self.report.words());
        let client = self.net.launch(measure_echo, self.shape(batch.rounds), arguments)?;
        let client = super::Serving(client);
        client.0.wait_for(batch.limit + LAUNCH_SPARE)?;
        let report = self.checked("the echo between kernels")?;
        let local = TransportChoice::Local as u64;
        ensure!(report[4] == local, "the echo between kernels was not local ({})", report[4]);
        self.latency(&report)
    }

    /// Round trips of a bare exchange between two blocks, every byte checked. `copies_out`: each end copies
    /// what has come, as one who receives does.
    pub(crate) fn bare_exchange(&self, batch: Batch, copies_out: bool) -> Result<Latency> {
        self.report.write(&[Errno::ECANCELED.negative() as u64; REPORT_WORDS])?;
        self.flags.write(&vec![0; 2 * PAGE / 8])?;
        let launch = |first: u64| {
            let work = Exchange {
                bytes: batch.bytes as u64,
                rounds: batch.rounds as u64,
                timeout_ns: ANSWER.as_nanos() as u64,
                first,
                copies_out: copies_out.into(),
            };
            let (flags, memory, own) = (self.flags.words(), self.memory.bytes(), self.own.bytes());
            let arguments = (work, flags, memory, own, self.samples.words(), self.report.words());
            self.net.launch(exchange_bytes, self.shape(batch.rounds), arguments)
        };
        let second = launch(0)?;
        let first = launch(1)?;
        first.wait_for(ANSWER + LAUNCH_SPARE)?;
        second.wait_for(ANSWER + LAUNCH_SPARE)?;
        let report = self.checked("the bare exchange")?;
        self.latency(&report)
    }

    fn checked(&self, what: &str) -> Result<Vec<u64>> {
        let report = self.report.read(REPORT_WORDS)?;
        let result = report[0].cast_signed();
        ensure!(result == 0, "{what} failed: {}", Errno(-result as i32));
        Ok(report)
    }

    fn latency(&self, report: &[u64]) -> Result<Latency> {
        let done = report[1] as usize;
        ensure!(done > 0, "no round trip was done");
        let ns = report[2] as f64 / report[3].max(1) as f64;
        let samples = self.samples.read(done)?;
        // The first ones find cold caches.
        let warm = samples[done / 10..].iter();
        Latency::of(warm.map(|cycles| *cycles as f64 * ns).collect())
    }
}
