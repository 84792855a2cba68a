//! Kernels that the benchmark measures and compares with.

use gpunet_device::{Handle, Listener, kernels, simt};

kernels! {
    /// Receives streams to their end and answers with the number of bytes: a connection a block,
    /// until told to stop. The bytes go into shared memory and are not looked at.
    pub fn swallow(net: Net, listener: Handle) {
        let listener = Listener::from_handle(net.block(), listener);
        let buffer = simt::shared_memory();
        while let Ok(stream) = listener.accept() {
            let mut bytes = 0;
            while let Ok(more @ 1..) = stream.read(buffer) {
                bytes += more as u64;
            }
            let _ = stream.write_all(bytes.to_le_bytes().as_slice());
        }
        let _ = listener.into_handle();
    }
}
