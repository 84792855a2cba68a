//! Groups of threads as scripts use them.

use gpunet_device::{Block, Errno, Group, Handle, Net, Thread, Warp, calls};

/// Groups, and whether they can receive into a thread's own memory.
pub(crate) trait Receiver: Group {
    /// Receives into the caller's own memory.
    fn receive_local(self, net: Net, handle: Handle, buffer: &mut [u8], flags: u32) -> i64;
}

impl Receiver for Thread {
    #[inline(always)]
    fn receive_local(self, net: Net, handle: Handle, buffer: &mut [u8], flags: u32) -> i64 {
        calls::grecv(net, self, handle, buffer, flags)
    }
}

impl Receiver for Warp {
    #[inline(always)]
    fn receive_local(self, _: Net, _: Handle, _: &mut [u8], _: u32) -> i64 {
        Errno::EOPNOTSUPP.negative()
    }
}

impl Receiver for Block {
    #[inline(always)]
    fn receive_local(self, _: Net, _: Handle, _: &mut [u8], _: u32) -> i64 {
        Errno::EOPNOTSUPP.negative()
    }
}
