//! The kernel that the README shows.

use gpunet_device::{Handle, Listener, kernels, simt};

kernels! {
    /// Every block serves one connection at a time, for ever: what comes in goes back out.
    pub fn first_server(net: Net, listener: Handle) {
        let listener = Listener::borrow(net.block(), listener);
        let buffer = simt::shared_memory();
        while let Ok(stream) = listener.accept() {
            while let Ok(bytes @ 1..) = stream.read(buffer) {
                if stream.write_all(buffer.first(bytes)).is_err() {
                    break;
                }
            }
        }
    }
}
