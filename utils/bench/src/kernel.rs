//! What is measured: server kernels on a net.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use gpunet_host::{Gpu, Launch, Net, Shape, Task};

/// A net with a server kernel on it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    launch: Launch,
    _net: Net,
}

impl Server {
    /// One block that echoes.
    pub(crate) fn echo(gpu: &Gpu, threads: u32) -> Result<Self> {
        let net = Net::builder(gpu).sockets(64).spin(Duration::from_secs(1)).build()?;
        let shape = Shape::new(1, threads).shared_memory(16 << 10);
        let (listener, address) = net.listen(loopback())?;
        let launch = net.launch(gpunet_bench_kernels::serve::echo_server, shape, (listener,))?;
        Self::new(net, launch, address)
    }

    /// `count` blocks that swallow streams, each with a proxy thread of its own.
    pub(crate) fn sink(gpu: &Gpu, count: u32, threads: u32, ring: u32) -> Result<Self> {
        let net = Net::builder(gpu)
            .sockets(64)
            .ring(ring)
            .ring_memory(u64::from(ring) * 32)
            .proxy_threads(count)
            .spin(Duration::from_millis(10))
            .build()?;
        let shape = Shape::new(count, threads).shared_memory(128 << 10);
        let (listener, address) = net.listen(loopback())?;
        let launch = net.launch(gpunet_bench_kernels::serve::swallow, shape, (listener,))?;
        Self::new(net, launch, address)
    }

    fn new(net: Net, launch: Launch, address: gpunet_device::SocketAddr) -> Result<Self> {
        let address = address.to_ip().context("a loopback address")?;
        Ok(Self { address, launch, _net: net })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.launch.abort();
        // The net's drop deals with a kernel that does not end.
        let _ = self.launch.wait_timeout(Duration::from_secs(5));
    }
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}
