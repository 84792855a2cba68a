//! The other end for the program `first`.

use gpunet_device::{SocketAddr, Stream, kernels, simt};

kernels! {
    /// One block says hello and waits for the answer.
    pub fn first_client(net: Net, server: SocketAddr) {
        let Ok(stream) = Stream::connect(net.block(), &server) else { return };
        let _ = stream.write_all(b"hello from a GPU".as_slice());
        let _ = stream.read_exact(simt::shared_memory().first(16));
    }
}
