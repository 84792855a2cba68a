//! Memory of the GPU that a client's kernel writes its results to, and the way back from there.
#![expect(unsafe_code, reason = "gives kernels the address of memory that they write")]

use std::time::Duration;

use gpunet_apps::failure::Failure;
use gpunet_apps::transport::Travelled;
use gpunet_device::{Errno, Shared};
use gpunet_host::Gpu;
use gpunet_host::gpu::DeviceMemory;
use gpunet_kernels::echo::{NOT_CONNECTED, Outcome};

use crate::gpu::{Target, of_block};

/// Bytes of an outcome: six words.
const OUTCOME: usize = 48;
const _: () = assert!(size_of::<Outcome>() == OUTCOME && align_of::<Outcome>() == 8);

/// An outcome for each block, and behind them the samples of each block.
pub(crate) struct Results {
    memory: DeviceMemory,
    blocks: usize,
    samples: usize,
}

impl Results {
    pub(crate) fn new(gpu: &Gpu, blocks: usize, samples: usize) -> Result<Self, Failure> {
        let bytes = samples
            .checked_mul(8)
            .and_then(|bytes| bytes.checked_add(OUTCOME))
            .and_then(|bytes| bytes.checked_mul(blocks))
            .ok_or_else(|| Failure::refused("so many messages fit in no memory: use fewer"))?;
        Ok(Self { memory: gpu.device_memory(bytes)?, blocks, samples })
    }

    /// Where each block's kernel puts its outcome.
    pub(crate) fn outcomes(&self) -> Shared<Outcome> {
        // SAFETY: the memory begins, aligned to a page, with `blocks` zeroed outcomes, and any
        // bits make one. A kernel that still runs keeps the memory (gpunet-host gives dropped
        // memory back once no kernel runs), each block writes its own element, and the host reads
        // through `DeviceMemory` after the launch has ended.
        unsafe { Shared::from_raw(self.memory.device_ptr().cast(), self.blocks) }
    }

    /// Where the kernel puts its samples, in cycles.
    pub(crate) fn samples(&self) -> Shared<u64> {
        let address = self.memory.device_ptr().wrapping_add(self.blocks * OUTCOME);
        // SAFETY: as above; `blocks * samples` zeroed words lie behind the outcomes.
        unsafe { Shared::from_raw(address.cast(), self.blocks * self.samples) }
    }

    fn words(&self, offset: usize, count: usize) -> Result<Vec<u64>, Failure> {
        let mut bytes = vec![0; count * 8];
        self.memory.read(offset, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    fn read_outcomes(&self) -> Result<Vec<Outcome>, Failure> {
        let words = self.words(0, self.blocks * OUTCOME / 8)?;
        let (outcomes, _) = words.as_chunks::<6>();
        let outcome = |words: &[u64; 6]| {
            let [result, verified, elapsed_ns, elapsed_cycles, transport, placement] = *words;
            Outcome {
                result: result.cast_signed(),
                verified,
                elapsed_ns,
                elapsed_cycles,
                transport: transport.cast_signed(),
                placement: placement.cast_signed(),
            }
        };
        Ok(outcomes.iter().map(outcome).collect())
    }

    /// How the connections went: all go the same way. None where none was made.
    pub(crate) fn travelled(&self) -> Result<Option<Travelled>, Failure> {
        let outcomes = self.read_outcomes()?;
        let connected = outcomes.iter().find(|block| block.transport != NOT_CONNECTED);
        Ok(connected.map(|block| Travelled::from_options(block.transport, block.placement)))
    }

    /// Whether every block did what it should, with `bytes` checked in each.
    pub(crate) fn check(&self, doing: &str, to: Target<'_>, bytes: u64) -> Result<(), Failure> {
        for outcome in self.read_outcomes()? {
            if outcome.result != 0 {
                let number = i32::try_from(-outcome.result).unwrap_or(Errno::EIO.0);
                let connected = outcome.transport != NOT_CONNECTED;
                return Err(of_block(doing, to, connected, Errno(number)));
            }
            if outcome.verified != bytes {
                let verified = outcome.verified;
                return Err(Failure::lost(format!("{doing}: {verified} of {bytes} bytes checked")));
            }
        }
        Ok(())
    }

    /// Every block's samples in nanoseconds: both clocks ran over the whole work, so their ratio
    /// is the length of a cycle.
    pub(crate) fn round_trips_ns(&self) -> Result<Vec<u64>, Failure> {
        let outcomes = self.read_outcomes()?;
        let cycles = self.words(self.blocks * OUTCOME, self.blocks * self.samples)?;
        let mut samples = Vec::with_capacity(cycles.len());
        for (outcome, cycles) in outcomes.iter().zip(cycles.chunks(self.samples.max(1))) {
            let ns_a_cycle = outcome.elapsed_ns as f64 / outcome.elapsed_cycles.max(1) as f64;
            samples.extend(cycles.iter().map(|cycles| (*cycles as f64 * ns_a_cycle) as u64));
        }
        Ok(samples)
    }

    /// The time of the block that took longest.
    pub(crate) fn slowest(&self) -> Result<Duration, Failure> {
        let slowest = self.read_outcomes()?.iter().map(|outcome| outcome.elapsed_ns).max();
        Ok(Duration::from_nanos(slowest.unwrap_or(0)))
    }
}
