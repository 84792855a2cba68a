//! The kernel: a server for any number of clients, whose protocol is echo.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

use gpunet_device::{Block, Handle, kernels, simt};
use gpunet_serve::{Exchange, Memory, Options, Protocol, Step, serve};

/// Sends back what it receives. Put your own protocol here.
struct Echo;

impl Protocol<Block> for Echo {
    /// Kept for each client; 0 when it comes. Echo needs none of it.
    type State = u64;

    fn answer(&mut self, exchange: &mut Exchange<'_, Block, u64>) -> Step {
        let input = exchange.input();
        let bytes = input.len().min(MOST);
        // Each thread works out the bytes that it writes.
        exchange.write_with(bytes, |at| input.get(at).unwrap_or(0));
        Step::Consumed(bytes)
    }
}

/// Bytes that one answer takes at most; the rest of the input is the next request.
const MOST: usize = 1024;

kernels! {
    /// Serves until the program stops it.
    pub fn echo_server(net: Net, listener: Handle, memory: Memory) {
        let staging = simt::shared_memory();
        let _ = serve(net.block(), listener, memory, Options::DEFAULT, staging, &mut Echo);
    }
}
