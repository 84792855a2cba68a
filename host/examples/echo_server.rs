//! An echo server on the server loop of `gpunet-serve`, and three clients that know nothing of GPUs.
//!
//! `cargo run --example echo_server -- emulated` (or `cuda`, or `auto`).

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use gpunet_example_kernels::echo::echo_server;
use gpunet_host::{Gpu, GpuChoice, Net, Shape, Task};
use gpunet_serve::{Memory, STOP_OFFSET};

/// Clients at a time, and bytes for what waits of their requests and answers.
const CLIENTS: u32 = 100;
const HEAP: usize = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let choice = std::env::args().nth(1).unwrap_or("auto".to_owned());
    let gpu = Gpu::open(choice.parse::<GpuChoice>()?)?;
    gpu.load(&gpunet_host::include_module!("gpunet_example_kernels"))?;
    let net = Net::builder(&gpu).sockets(CLIENTS + 16).build()?;
    let memory = gpu.buffer::<u8>(Memory::bytes::<u64>(CLIENTS, HEAP))?;

    let (listener, address) = net.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let shape = Shape::new(2, 32).shared_memory(8192);
    let server = net.launch(echo_server, shape, (listener, Memory::of::<u64>(&memory, CLIENTS)))?;

    let mut clients = Vec::new();
    for number in 0..3 {
        let mut client = TcpStream::connect(address.to_string())?;
        client.set_read_timeout(Some(TIMEOUT))?;
        write!(client, "hello from client {number}")?;
        client.shutdown(Shutdown::Write)?;
        clients.push(client);
    }
    for client in &mut clients {
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        println!("{answer}");
    }

    // The orderly end: no new clients, answers to what was asked, then the kernel returns.
    memory.write(STOP_OFFSET, &[1])?;
    server.wait()?;
    Ok(())
}
