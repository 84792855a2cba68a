//! The floor kernel to kernel: the best exchange known of the same bytes between two blocks of one GPU, by packets
//! or by a flag, with 32, 128 or 512 threads. Whatever is compared with it may not be excused by the machine.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use gpunet_bench_kernels::client::REPORT_WORDS;
use gpunet_bench_kernels::floor::{
    Exchange, FLAGS_APART, Wires, floor_flags, floor_flags_far, floor_packets,
};
use gpunet_device::{Errno, Shared};
use gpunet_host::{Gpu, Net, Shape, Task};

use super::Latency;
use crate::memory::Memory;

/// How long a launch may take.
const LAUNCH: Duration = Duration::from_secs(60);
/// Longer messages do not go by packets: these take twice the bytes.
const MOST_PACKETS: usize = 64 << 10;
/// Block sizes that are tried.
pub(super) const THREADS: [u32; 3] = [32, 128, 512];
/// Batches of each exchange that is tried.
const TRIES: usize = 3;

/// How bytes travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Travel {
    Packets,
    Flag,
    /// In by a flag, out by packets; across PCIe alone.
    FlagInPacketsOut,
}

impl fmt::Display for Travel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Packets => "packets",
            Self::Flag => "flag",
            Self::FlagInPacketsOut => "flag in, packets out",
        })
    }
}

/// An exchange: how, and by blocks of how many threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Best {
    pub(super) travel: Travel,
    pub(super) threads: u32,
}

impl fmt::Display for Best {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.travel, self.threads)
    }
}

/// The one with the least median of a few batches each, which take turns.
pub(super) fn best_of(
    candidates: &[Best],
    mut batch: impl FnMut(Best) -> Result<Latency>,
) -> Result<Best> {
    let mut medians = vec![Vec::new(); candidates.len()];
    for _ in 0..TRIES {
        for (medians, best) in medians.iter_mut().zip(candidates) {
            medians.push(batch(*best).with_context(|| best.to_string())?.p50);
        }
    }
    let median = |values: &Vec<f64>| super::figures::Spread::of(values.clone()).median;
    let found = medians.iter().map(median).zip(candidates);
    let (_, best) = found.min_by(|a, b| a.0.total_cmp(&b.0)).context("no exchange is possible")?;
    Ok(*best)
}

/// Memory for exchanges between two blocks.
pub(crate) struct Floor {
    net: Net,
    most_shared: usize,
    packets: Memory,
    lines: Memory,
    flags: Memory,
    own: Memory,
    samples: Memory,
    report: Memory,
    /// The last number that was used.
    base: Cell<u64>,
}

impl Floor {
    /// A floor for messages of up to `bytes` and batches of up to `rounds`.
    pub(crate) fn new(gpu: &Gpu, bytes: usize, rounds: usize) -> Result<Self> {
        let message = bytes.next_multiple_of(4096);
        Ok(Self {
            net: Net::builder(gpu).sockets(1).build()?,
            most_shared: gpu.info().max_shared_bytes as usize,
            packets: Memory::new(gpu, 4 * message.min(MOST_PACKETS))?,
            lines: Memory::new(gpu, 2 * message)?,
            flags: Memory::new(gpu, 8 * 2 * FLAGS_APART)?,
            own: Memory::new(gpu, 3 * message)?,
            samples: Memory::new(gpu, 8 * rounds)?,
            report: Memory::new(gpu, 8 * REPORT_WORDS)?,
            base: Cell::new(0),
        })
    }

    /// The best exchange of messages of that length; each is tried.
    pub(crate) fn best(&self, bytes: usize, rounds: usize) -> Result<Best> {
        let travels = [Travel::Packets, Travel::Flag].into_iter();
        let of = |travel| THREADS.map(|threads| Best { travel, threads });
        let fits = |best: &Best| match best.travel {
            Travel::Packets => bytes <= MOST_PACKETS && self.fits(bytes, rounds),
            _ => true,
        };
        let candidates: Vec<_> = travels.flat_map(of).filter(fits).collect();
        best_of(&candidates, |best| self.round_trips(best, bytes, rounds))
    }

    /// Shared memory for samples and two messages.
    fn shared(bytes: usize, rounds: usize) -> usize {
        (8 * rounds).next_multiple_of(16) + 2 * bytes.next_multiple_of(16)
    }

    fn fits(&self, bytes: usize, rounds: usize) -> bool {
        Self::shared(bytes, rounds) <= self.most_shared
    }

    /// The median and the 99th percentile of a batch.
    pub(crate) fn round_trips(&self, best: Best, bytes: usize, rounds: usize) -> Result<Latency> {
        Latency::of(self.samples(best, bytes, rounds)?)
    }

    /// Nanoseconds of single round trips, every byte checked.
    pub(crate) fn samples(&self, best: Best, bytes: usize, rounds: usize) -> Result<Vec<f64>> {
        self.report.write(&[Errno::ECANCELED.negative() as u64; REPORT_WORDS])?;
        let (bytes_each, base) = (bytes as u64, self.base.get());
        let work = Exchange { bytes: bytes_each, rounds: rounds as u64, base };
        self.base.set(base + rounds as u64);
        let wires = Wires {
            packets: self.packets.bytes(),
            lines: self.lines.bytes(),
            flags: self.flags.words(),
        };
        let (samples, report) = (self.samples.words(), self.report.words());
        let near = self.fits(bytes, rounds);
        let shared = if near { Self::shared(bytes, rounds) } else { Self::shared(0, rounds) };
        let shape = Shape::new(2, best.threads).shared_memory(shared as u32);
        let launch = match best.travel {
            Travel::Packets => {
                self.net.launch(floor_packets, shape, (work, wires, samples, report))
            }
            _ if near => self.net.launch(floor_flags, shape, (work, wires, samples, report)),
            _ => {
                let own: Shared<u8> = self.own.bytes();
                self.net.launch(floor_flags_far, shape, (work, wires, own, samples, report))
            }
        }?;
        super::Serving(launch).0.wait_timeout(LAUNCH)?;
        let report = self.report.read(REPORT_WORDS)?;
        let result = report[0].cast_signed();
        ensure!(result == 0, "the bare exchange failed: {}", Errno(-result as i32));
        timed(&self.samples, &report)
    }
}

/// Nanoseconds of the round trips that a kernel has reported, but for the first ones, which find cold caches.
pub(super) fn timed(samples: &Memory, report: &[u64]) -> Result<Vec<f64>> {
    let done = report[1] as usize;
    ensure!(done > 0, "no round trip was done");
    let ns = report[2] as f64 / report[3].max(1) as f64;
    let samples = samples.read(done)?;
    Ok(samples[done / 10..].iter().map(|cycles| *cycles as f64 * ns).collect())
}
