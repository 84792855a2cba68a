//! Kernels that run on streams between operations, or run operations themselves.

use gpunet_device::op::PreparedOps;
use gpunet_device::{Shared, kernels, simt};

kernels! {
    /// Each number becomes three times itself and one more, so that what ran before shows.
    pub fn step(net: Net, numbers: Shared<u32>) {
        let _ = net;
        let at = simt::position();
        let (first, all) = (at.block * at.threads + at.thread, at.blocks * at.threads);
        for index in (first as usize..numbers.len()).step_by(all as usize) {
            let number = numbers.get(index).unwrap_or(0);
            numbers.set(index, number.wrapping_mul(3).wrapping_add(1));
        }
    }

    /// Faults as soon as the first word is not 0, whatever the net says meanwhile.
    pub fn fault_when_told(net: Net, words: Shared<u64>) {
        let _ = net;
        // Counted: by the host, which sets the word in the end.
        while words.get(0).unwrap_or(1) == 0 {
            simt::pause();
        }
        panic!("as the test asked");
    }

    /// Runs every operation that was prepared, and one that was not, so often; the block notes what each
    /// came to.
    pub fn run_prepared(net: Net, operations: PreparedOps, results: Shared<i64>, rounds: u32) {
        let block = net.block().group();
        for _ in 0..rounds {
            for index in 0..operations.len() + 1 {
                let result = operations.run(net, block, index);
                if simt::position().thread == 0 {
                    results.set(index, result);
                }
            }
        }
    }
}
