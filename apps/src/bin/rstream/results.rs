//! Memory of the GPU that holds a connection's tests and what the kernel says of them.
#![expect(unsafe_code, reason = "gives kernels the address of memory that they read and write")]

use gpunet_apps::failure::Failure;
use gpunet_device::Shared;
use gpunet_host::Gpu;
use gpunet_host::gpu::DeviceMemory;
use gpunet_kernels::rstream::{Test, TestOutcome};

use crate::plan::Case;

/// Words of a test and of an outcome.
const TEST: usize = 3;
const OUTCOME: usize = 7;
const _: () = assert!(size_of::<Test>() == 8 * TEST && align_of::<Test>() == 8);
const _: () = assert!(size_of::<TestOutcome>() == 8 * OUTCOME && align_of::<TestOutcome>() == 8);

/// Tests, and behind them an outcome for each.
pub(crate) struct Results {
    memory: DeviceMemory,
    tests: usize,
}

impl Results {
    pub(crate) fn new(gpu: &Gpu, cases: &[Case]) -> Result<Self, Failure> {
        let memory = gpu.device_memory(cases.len() * 8 * (TEST + OUTCOME))?;
        let words = cases.iter().flat_map(|case| [case.bytes, case.transfers, case.iterations]);
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        memory.write(0, &bytes)?;
        Ok(Self { memory, tests: cases.len() })
    }

    pub(crate) fn tests(&self) -> Shared<Test> {
        // SAFETY: the memory begins, aligned to a page, with so many tests, which the kernel only
        // reads; any bits make one. A kernel that still runs keeps the memory: gpunet-host gives
        // dropped memory back once no kernel runs.
        unsafe { Shared::from_raw(self.memory.device_ptr().cast(), self.tests) }
    }

    pub(crate) fn outcomes(&self) -> Shared<TestOutcome> {
        let address = self.memory.device_ptr().wrapping_add(self.tests * 8 * TEST);
        // SAFETY: as above; so many zeroed outcomes lie behind the tests. One block writes them, and
        // the host reads through `DeviceMemory` after the launch has ended.
        unsafe { Shared::from_raw(address.cast(), self.tests) }
    }

    /// What the kernel said, of the tests that it tried.
    pub(crate) fn read(&self) -> Result<Vec<TestOutcome>, Failure> {
        let mut bytes = vec![0; self.tests * 8 * OUTCOME];
        self.memory.read(self.tests * 8 * TEST, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<_> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let (outcomes, _) = words.as_chunks::<OUTCOME>();
        let outcomes = outcomes.iter().map(|words| {
            let [tried, result, elapsed_ns, sent, received, transport, placement] = *words;
            TestOutcome {
                tried,
                result: result.cast_signed(),
                elapsed_ns,
                sent,
                received,
                transport: transport.cast_signed(),
                placement: placement.cast_signed(),
            }
        });
        Ok(outcomes.take_while(|outcome| outcome.tried != 0).collect())
    }
}
