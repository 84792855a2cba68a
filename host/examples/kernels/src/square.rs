//! A kernel that computes, between messages that a stream brings.

use gpunet_device::{Shared, kernels, simt};

kernels! {
    /// Squares each number.
    pub fn square(net: Net, numbers: Shared<u32>) {
        let _ = net;
        let at = simt::position();
        let (first, threads) = (at.block * at.threads + at.thread, at.blocks * at.threads);
        for index in (first as usize..numbers.len()).step_by(threads as usize) {
            let number = numbers.get(index).unwrap_or(0);
            numbers.set(index, number.wrapping_mul(number));
        }
    }
}
