//! The server of a row: a net of its own, and a launch when one is needed.

use std::net::SocketAddr;

use anyhow::Result;
use gpunet_bench_kernels::ways::Service;
use gpunet_bench_kernels::ways::call::SLOTS;
use gpunet_bench_kernels::ways::serve::way_serve;
use gpunet_device::Handle;
use gpunet_host::{Gpu, Net, Shape, TransportChoice};
use gpunet_serve::Memory;

use super::super::{Serving, polling};
use super::table::{Row, Server};

/// Shared memory for handles, entries and events, beside that for messages.
const SLOTS_AND_EVENTS: u32 = 2 * SLOTS as u32 + 512;
/// Bytes of the server loop's heap.
const HEAP: usize = 1 << 20;
/// The smallest ring.
const RING: usize = 64 << 10;

/// A net with a listener.
pub(super) struct Target {
    gpu: Gpu,
    net: Net,
    row: Row,
    listener: Handle,
    pub(super) address: gpunet_device::SocketAddr,
    /// Shared memory of a block.
    shared: u32,
}

impl Target {
    /// A server for messages of up to `longest` bytes, each of which a block has room for in shared memory.
    pub(super) fn new(gpu: &Gpu, row: Row, longest: usize, by: TransportChoice) -> Result<Self> {
        let ring = longest.max(RING).next_power_of_two() as u32;
        let connections = row.connections();
        // A listener, and a poller for each block; connections that are closing beside those that follow.
        let sockets = 2 * connections + row.blocks + 16;
        let rings = u64::from(4 * connections + 2 * row.blocks + 8) * u64::from(ring);
        let builder = Net::builder(gpu).sockets(sockets).ring(ring).ring_memory(rings);
        let net = polling(gpu, builder).transport(by).build()?;
        let (listener, address) = net.listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        // The server loop divides what it has among input and output.
        let messages = 2 * longest.next_multiple_of(1024) as u32;
        let shared = (SLOTS_AND_EVENTS + messages).min(gpu.info().max_shared_bytes);
        Ok(Self { gpu: gpu.clone(), net, row, listener, address, shared })
    }

    /// Launches the server for messages of `bytes` bytes.
    pub(super) fn launch(&self, bytes: usize) -> Result<Serving> {
        let Row { way, threads, streams, blocks, .. } = self.row;
        let shape = Shape::new(blocks, threads).shared_memory(self.shared);
        let launch = match way.server() {
            Server::Kernel(kernel) => {
                let (listener, streams) = (self.listener, u64::from(streams));
                let work = Service { listener, streams, bytes: bytes as u64 };
                self.net.launch(kernel, shape, (work,))
            }
            Server::Loop => {
                // Anew for each launch: the loop wants it zeroed.
                let connections = 2 * self.row.connections();
                let memory = self.gpu.buffer::<u8>(Memory::bytes::<u64>(connections, HEAP))?;
                let arguments = (self.listener, Memory::of::<u64>(&memory, connections));
                self.net.launch(way_serve, shape, arguments)
            }
        };
        Ok(Serving(launch?))
    }
}
