//! Servers that the benchmark measures: one that echoes, and one that receives and answers with a
//! number alone. A connection a block, until it is stopped.

use gpunet_device::{Errno, Handle, Listener, kernels, simt};

kernels! {
    /// Echoes on every connection of a listener.
    pub fn echo_server(net: Net, listener: Handle) {
        let listener = Listener::borrow(net.block(), listener);
        let _ = echo(&listener);
    }

    /// Receives streams to their end and answers with the number of bytes. The bytes go into shared
    /// memory and are not looked at.
    pub fn swallow(net: Net, listener: Handle) {
        let listener = Listener::borrow(net.block(), listener);
        let buffer = simt::shared_memory();
        while let Ok(stream) = listener.accept() {
            let mut bytes = 0;
            while let Ok(more @ 1..) = stream.read(buffer) {
                bytes += more as u64;
            }
            let _ = stream.write_all(bytes.to_le_bytes().as_slice());
        }
    }
}

/// Echoes on one connection after the other; the error that ends it.
#[inline(always)]
pub(crate) fn echo(listener: &Listener) -> Errno {
    let buffer = simt::shared_memory();
    loop {
        match listener.accept() {
            Ok(stream) => {
                while let Ok(bytes @ 1..) = stream.read(buffer) {
                    if stream.write_all(buffer.first(bytes)).is_err() {
                        break;
                    }
                }
            }
            Err(Errno::ECONNABORTED) => {}
            Err(errno) => break errno,
        }
    }
}
