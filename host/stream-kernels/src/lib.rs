//! The kernel that the host crate puts on a CUDA stream for each batch of operations.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

use gpunet_device::kernels;
use gpunet_device::op::OpBatch;

kernels! {
    /// Runs a batch of operations: one block. The kernels of a stream follow one another, so the next one
    /// finds what this one has received.
    pub fn operations(net: Net, batch: OpBatch) {
        batch.run(net, net.block().group());
    }
}
