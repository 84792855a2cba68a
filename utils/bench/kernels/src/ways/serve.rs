//! The server loop of `gpunet-serve` with the shortest protocol: what comes in goes back out.

use gpunet_device::{Block, Handle, kernels, simt};
use gpunet_serve::{Exchange, Memory, Options, Protocol, Step, serve};

/// Sends back what it receives.
struct Echo;

impl Protocol<Block> for Echo {
    type State = u64;

    #[inline(always)]
    fn answer(&mut self, exchange: &mut Exchange<'_, Block, u64>) -> Step {
        let input = exchange.input();
        exchange.write(input);
        Step::Consumed(input.len())
    }
}

kernels! {
    /// Serves until it is stopped.
    pub fn way_serve(net: Net, listener: Handle, memory: Memory) {
        let staging = simt::shared_memory();
        let _ = serve(net.block(), listener, memory, Options::DEFAULT, staging, &mut Echo);
    }
}
