//! The floor by TCP: the best exchange known of the same bytes between a thread of the CPU that polls and one block,
//! through pinned memory. Whatever a kernel's stream adds to a server on the CPU is to be held against it: the
//! bytes have to cross PCIe and come back.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use gpunet_bench_kernels::floor::{
    Exchange, FLAGS_APART, Wires, pinned_flag_in, pinned_flags, pinned_flags_far, pinned_packets,
};
use gpunet_host::{Gpu, Launch, Net, Shape, Task};

use super::Latency;
use super::floor::{Best, Travel, best_of};
use crate::memory::{Memory, Pinned, Watched};

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a block may take to give up.
const LAUNCH: Duration = Duration::from_secs(60);
/// Longer messages do not go by packets.
const MOST_PACKETS: usize = 64 << 10;
/// Block sizes that are tried.
const THREADS: [u32; 4] = [32, 128, 256, 512];
/// Looks at memory between two looks at the clock.
const LOOKS: u32 = 1 << 16;

/// Memory for exchanges of the CPU with a block.
pub(crate) struct PinnedFloor {
    net: Net,
    most_shared: usize,
    packets: Pinned,
    lines: Pinned,
    flags: Watched,
    own: Memory,
    /// The last number that was used.
    base: Cell<u64>,
}

impl PinnedFloor {
    /// An exchange for messages of up to `bytes`.
    pub(crate) fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        let message = bytes.next_multiple_of(4096);
        Ok(Self {
            net: Net::builder(gpu).sockets(1).build()?,
            most_shared: gpu.info().max_shared_bytes as usize,
            packets: Pinned::new(gpu, 4 * message.min(MOST_PACKETS))?,
            lines: Pinned::new(gpu, 2 * message)?,
            flags: Watched::new(gpu, 2 * FLAGS_APART)?,
            own: Memory::new(gpu, message)?,
            base: Cell::new(0),
        })
    }

    /// The best exchange of messages of that length; each is tried.
    pub(crate) fn best(&self, bytes: usize, rounds: usize) -> Result<Best> {
        let travels = [Travel::Packets, Travel::FlagInPacketsOut, Travel::Flag].into_iter();
        let of = |travel| THREADS.map(|threads| Best { travel, threads });
        let by_packets = bytes <= MOST_PACKETS.min(self.most_shared);
        let fits = |best: &Best| best.travel == Travel::Flag || by_packets;
        let candidates: Vec<_> = travels.flat_map(of).filter(fits).collect();
        best_of(&candidates, |best| self.round_trips(best, bytes, rounds))
    }

    /// Round trips, every byte checked. The CPU's copies from and to memory of its own count.
    pub(crate) fn round_trips(&self, best: Best, bytes: usize, rounds: usize) -> Result<Latency> {
        let warm_up = rounds / 10;
        let rounds = warm_up + rounds;
        let base = self.base.get();
        self.base.set(base + rounds as u64);
        let work = Exchange { bytes: bytes as u64, rounds: rounds as u64, base };
        let launch = self.launch(best, bytes, work)?;
        let samples = self.exchange(best.travel, bytes, (base, rounds, warm_up));
        let ended = launch.wait_timeout(LAUNCH);
        let samples = samples?;
        ended?;
        Latency::of(samples)
    }

    fn launch(&self, best: Best, bytes: usize, work: Exchange) -> Result<Launch> {
        let wires = Wires {
            packets: self.packets.bytes(),
            lines: self.lines.bytes(),
            flags: self.flags.words(),
        };
        let shared = bytes.next_multiple_of(16);
        let near = shared <= self.most_shared;
        let shape = Shape::new(1, best.threads);
        let (far, shape) = (shape, shape.shared_memory(shared as u32));
        Ok(match best.travel {
            Travel::Packets => self.net.launch(pinned_packets, shape, (work, wires)),
            Travel::FlagInPacketsOut => self.net.launch(pinned_flag_in, shape, (work, wires)),
            Travel::Flag if near => self.net.launch(pinned_flags, shape, (work, wires)),
            Travel::Flag => self.net.launch(pinned_flags_far, far, (work, wires, self.own.bytes())),
        }?)
    }

    fn exchange(
        &self,
        travel: Travel,
        bytes: usize,
        (base, rounds, warm_up): (u64, usize, usize),
    ) -> Result<Vec<f64>> {
        let mut message = vec![0_u64; bytes.div_ceil(8)];
        let mut answer = vec![0_u64; bytes.div_ceil(8)];
        let mut samples = Vec::with_capacity(rounds);
        for round in 0..rounds {
            let number = base + round as u64 + 1;
            for (at, word) in message.iter_mut().enumerate() {
                *word = gpunet_support::pattern::word(number, at as u64);
            }
            answer.fill(0);
            let start = Instant::now();
            match travel {
                Travel::Packets => self.send_packets(&message, number),
                Travel::Flag | Travel::FlagInPacketsOut => self.send_by_flag(&message, number),
            }
            match travel {
                Travel::Packets | Travel::FlagInPacketsOut => {
                    self.receive_packets(&mut answer, number, start)?;
                }
                Travel::Flag => self.receive_by_flag(&mut answer, number, start)?,
            }
            let took = start.elapsed();
            ensure!(answer == message, "the answer differs from the message ({travel})");
            if round >= warm_up {
                samples.push(took.as_nanos() as f64);
            }
        }
        Ok(samples)
    }

    fn send_packets(&self, message: &[u64], number: u64) {
        let (packets, _) = self.packets.words().as_chunks::<2>();
        for ([payload, tag], word) in packets.iter().zip(message) {
            payload.store(*word, Ordering::Relaxed);
            // Release: the bytes come first; the kernel reads both at once.
            tag.store(number, Ordering::Release);
        }
    }

    fn receive_packets(&self, answer: &mut [u64], number: u64, start: Instant) -> Result<()> {
        let words = self.packets.words();
        let (packets, _) = words[words.len() / 2..].as_chunks::<2>();
        for ([payload, tag], word) in packets.iter().zip(answer) {
            await_number(tag, number, start)?;
            *word = payload.load(Ordering::Relaxed);
        }
        Ok(())
    }

    fn send_by_flag(&self, message: &[u64], number: u64) {
        self.lines.write_words(0, message);
        // Release: pairs with the kernel's acquire; the message is there.
        self.flags.words_of_host()[0].store(number, Ordering::Release);
    }

    fn receive_by_flag(&self, answer: &mut [u64], number: u64, start: Instant) -> Result<()> {
        await_number(&self.flags.words_of_host()[FLAGS_APART], number, start)?;
        self.lines.read_words(self.lines.len() / 2, answer);
        Ok(())
    }
}

/// Waits for a number. Acquire: pairs with the kernel's release, or with its store of a whole packet.
fn await_number(word: &AtomicU64, number: u64, start: Instant) -> Result<()> {
    loop {
        for _ in 0..LOOKS {
            if word.load(Ordering::Acquire) == number {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        ensure!(start.elapsed() < ANSWER, "the block did not answer within {ANSWER:?}");
    }
}
