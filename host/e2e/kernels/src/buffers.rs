//! Buffers that a program passes to a kernel: by themselves, and in a struct.

use gpunet_device::{Shared, kernel_arg, kernels, simt};

/// How long a kernel waits for its host, so that a test that fails leaves none behind.
const LIMIT_NS: u64 = 30_000_000_000;

kernel_arg! {
    /// Numbers, and what is added to them.
    pub struct Sum {
        /// The numbers.
        pub numbers: Shared<u64>,
        /// What is added.
        pub add: u64,
    }
}

kernels! {
    /// Each thread adds to its share of the numbers, in their place and in `results`, once the first
    /// element of `go` is set.
    pub fn add_when_told(net: Net, sum: Sum, go: Shared<u32>, results: Shared<u64>) {
        let _ = net;
        let (place, begin) = (simt::position(), simt::now_ns());
        while go.get(0) == Some(0) && simt::now_ns() - begin < LIMIT_NS {
            simt::pause();
        }
        let thread = (place.block * place.threads + place.thread) as usize;
        for at in (thread..sum.numbers.len()).step_by((place.blocks * place.threads) as usize) {
            let number = sum.numbers.get(at).unwrap_or(0).wrapping_add(sum.add);
            sum.numbers.set(at, number);
            results.set(at, number);
        }
    }
}
