//! Echo on the server loop: what a request is, and what the answer.

use gpunet_device::{Block, Handle, kernels, simt};
use gpunet_serve::{Exchange, Memory, Options, Protocol, Step, serve};

/// Bytes that one answer takes at most; the rest of the input is the next request.
const MOST: usize = 1024;

/// Sends back what it receives.
struct Echo;

impl Protocol<Block> for Echo {
    /// Of each client, how many bytes it has sent.
    type State = u64;

    fn answer(&mut self, exchange: &mut Exchange<'_, Block, u64>) -> Step {
        let input = exchange.input();
        let bytes = input.len().min(MOST);
        exchange.state += bytes as u64;
        // Each thread works out the bytes that it writes.
        exchange.write_with(bytes, |at| input.get(at).unwrap_or(0));
        Step::Consumed(bytes)
    }
}

kernels! {
    /// Serves until the program stops it.
    pub fn echo_server(net: Net, listener: Handle, memory: Memory) {
        let staging = simt::shared_memory();
        let _ = serve(net.block(), listener, memory, Options::DEFAULT, staging, &mut Echo);
    }
}
