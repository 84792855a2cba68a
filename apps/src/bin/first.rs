//! The smallest complete program: a GPU, a net, a server kernel and a client kernel on it.

use gpunet_device::SocketAddr;
use gpunet_host::{Gpu, GpuChoice, Net, Shape, Task};
use gpunet_kernels::first::first_server;
use gpunet_kernels::first_client::first_client;

fn main() -> anyhow::Result<()> {
    let gpu = Gpu::open(GpuChoice::Auto)?;
    gpu.load(&gpunet_host::include_module!("gpunet_kernels"))?;
    let net = Net::builder(&gpu).sockets(16).build()?;

    // The host listens, so that the address is known before any kernel runs.
    let (listener, address) = net.listen(SocketAddr::v4([127, 0, 0, 1], 0))?;
    let shape = Shape::new(1, 32).shared_memory(1 << 10);
    let server = net.launch(first_server, shape, (listener,))?;
    net.launch(first_client, shape, (address,))?.wait()?;
    server.abort();
    server.wait()?;

    println!("a kernel said hello to another at {address}, on {}", gpu.info());
    Ok(())
}
