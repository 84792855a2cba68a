//! What the machine takes of a round trip, without gpunet: the CPU writes a message and a flag into pinned
//! host memory, a block reads both across PCIe, copies the bytes out, and sends them back the same way; the
//! CPU reads them. What the CPU's two copies take in ordinary memory is subtracted, since a server on the
//! CPU has them, too. A stream whose bytes and counters travel apart, through rings in host memory, cannot
//! do with less, whatever its code is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gpunet_bench_kernels::sizes::{Exchange, REPORT_WORDS, exchange_bytes};
use gpunet_host::{Gpu, Net, Shape};

use super::Latency;
use super::client::Batch;
use crate::memory::{Memory, Pinned, Watched};

/// How long one flag may take.
const ANSWER: Duration = Duration::from_secs(60);
/// Words between the two flags, as the kernel has them.
const APART: usize = 512;

/// Memory for the exchange of the CPU with a block.
pub(crate) struct PinnedExchange {
    net: Net,
    shape: Shape,
    flags: Watched,
    memory: Pinned,
    half: usize,
    own: Memory,
    report: Memory,
}

impl PinnedExchange {
    /// For messages of up to `bytes`, by a block of `threads` with so much shared memory.
    pub(crate) fn new(gpu: &Gpu, threads: u32, bytes: usize, shared_memory: u32) -> Result<Self> {
        let half = bytes.next_multiple_of(4096);
        Ok(Self {
            net: Net::builder(gpu).sockets(1).build()?,
            shape: Shape::new(1, threads).shared_memory(shared_memory),
            flags: Watched::new(gpu, 2 * APART)?,
            memory: Pinned::new(gpu, 2 * half)?,
            half,
            own: Memory::new(gpu, 3 * half)?,
            report: Memory::new(gpu, 8 * REPORT_WORDS)?,
        })
    }

    /// Round trips, every byte checked.
    pub(crate) fn round_trips(&self, batch: Batch) -> Result<Latency> {
        let warm_up = batch.rounds / 10;
        let rounds = warm_up + batch.rounds;
        let flag = |at| self.flags.all().nth(at).context("a flag");
        let (ping, pong) = (flag(0)?, flag(APART)?);
        ping.store(0, Ordering::Relaxed);
        pong.store(0, Ordering::Release);
        let work = Exchange {
            bytes: batch.bytes as u64,
            rounds: rounds as u64,
            timeout_ns: ANSWER.as_nanos() as u64,
            first: 0,
            copies_out: 1,
        };
        let words = self.report.words();
        let arguments =
            (work, self.flags.words(), self.memory.bytes(), self.own.bytes(), words, words);
        let launch = self.net.launch(exchange_bytes, self.shape, arguments)?;
        let samples = self.exchange(batch, warm_up, (ping, pong));
        // Of a batch that was cut short the block goes through the rest at once.
        ping.store(u64::MAX, Ordering::Release);
        launch.wait_for(2 * ANSWER)?;
        Latency::of(samples?)
    }

    fn exchange(
        &self,
        batch: Batch,
        warm_up: usize,
        (ping, pong): (&AtomicU64, &AtomicU64),
    ) -> Result<Vec<f64>> {
        let mut message = vec![0_u8; batch.bytes];
        let mut answer = vec![0_u8; batch.bytes];
        let mut ordinary = vec![0_u8; batch.bytes];
        let mut samples = Vec::with_capacity(batch.rounds);
        let begun = Instant::now();
        for round in 0..warm_up + batch.rounds {
            if begun.elapsed() > batch.limit && !samples.is_empty() {
                break;
            }
            for (at, byte) in message.iter_mut().enumerate() {
                *byte = (round * 7 + at + at / 251) as u8;
            }
            let start = Instant::now();
            ordinary.copy_from_slice(std::hint::black_box(&message));
            answer.copy_from_slice(std::hint::black_box(&ordinary));
            let copies = start.elapsed();
            let number = round as u64 + 1;
            let start = Instant::now();
            self.memory.write(0, &message);
            // Release: pairs with the kernel's acquire; the message is there.
            ping.store(number, Ordering::Release);
            // Acquire: pairs with the kernel's release; the answer is there.
            while pong.load(Ordering::Acquire) != number {
                ensure!(start.elapsed() < ANSWER, "the block did not answer within {ANSWER:?}");
                std::hint::spin_loop();
            }
            self.memory.read(self.half, &mut answer);
            let took = start.elapsed().saturating_sub(copies);
            ensure!(answer == message, "the answer differs from the message");
            if round >= warm_up {
                samples.push(took.as_nanos() as f64);
            }
        }
        Ok(samples)
    }
}
