//! A server that faults under its clients.

use gpunet_device::calls::{gaccept, grecv};
use gpunet_device::{Handle, kernels, simt};

kernels! {
    /// Accepts a connection, keeps it until a byte comes, and faults.
    pub fn fault_under_clients(net: Net, listener: Handle) {
        let (block, buffer) = (net.block().group(), simt::shared_memory());
        let stream = gaccept(net, block, listener);
        if stream > 0 && grecv(net, block, Handle(stream as u64), buffer.first(1), 0) == 1 {
            panic!("a byte came");
        }
    }
}
