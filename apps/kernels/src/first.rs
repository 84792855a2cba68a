//! The kernel that the README shows.

use gpunet_device::{Listener, SocketAddr, Stream, kernels, simt};

kernels! {
    /// Every block serves one connection at a time, for ever: what comes in goes back out.
    pub fn first_server(net: Net, listener: gpunet_device::Handle) {
        let listener = Listener::from_handle(net.block(), listener);
        let buffer = simt::shared_memory();
        while let Ok(stream) = listener.accept() {
            while let Ok(bytes @ 1..) = stream.read(buffer) {
                if stream.write_all(buffer.first(bytes)).is_err() {
                    break;
                }
            }
        }
    }

    /// One block says hello and waits for the answer.
    pub fn first_client(net: Net, server: SocketAddr) {
        let Ok(stream) = Stream::connect(net.block(), &server) else { return };
        let _ = stream.write_all(b"hello from a GPU".as_slice());
        let _ = stream.read_exact(simt::shared_memory().first(16));
    }
}
