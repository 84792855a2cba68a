//! One cooperative call behind a branch in which the lanes of a warp part: it must stay one call.

use gpunet_device::calls::gsend;
use gpunet_device::{Group, Handle, kernels, simt};

kernels! {
    /// Even threads write before the call and count behind it, odd ones do neither; all send together,
    /// `rounds` times a byte for each thread, and in the end 1 if all counts are right, else 0. A
    /// compiler that copies the call into both arms of the branch has the lanes of a warp enter it
    /// from two places.
    pub fn one_call(net: Net, stream: Handle, rounds: u64) {
        let thread = simt::position().thread as usize;
        let block = net.block().group();
        let message = simt::shared_memory();
        // A comparison, as the pass of the compiler knows it that copies calls.
        #[allow(clippy::manual_is_multiple_of, reason = "the compiler does not look into the call")]
        let even = thread % 2 == 0;
        message.set(thread, 0);
        let mut sent = 0;
        for round in 0..rounds {
            if even {
                message.set(thread, round as u8);
            }
            block.barrier();
            let result = gsend(net, block, stream, message, 0);
            if even {
                sent += result as u64;
            }
        }
        let wrong = even && sent != rounds * message.len() as u64;
        let right = u8::from(!block.any(wrong));
        gsend(net, block, stream, [right].as_slice(), 0);
    }
}
