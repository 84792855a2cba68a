//! Serves echo from a GPU kernel until its standard input ends.
//!
//! Arguments: the GPU (`auto`, `cuda` or `emulated`), and the address to listen at.

use std::error::Error;
use std::io::Read;
use std::net::SocketAddr;

use gpunet_host::{Task, Gpu, GpuChoice, Net, Shape};
use gpunet_serve::{Counter, Memory, STOP_OFFSET};
use kernels::echo_server;

/// Clients at a time, and bytes for what waits of their requests and answers.
const CLIENTS: u32 = 100;
const HEAP: usize = 16 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let choice: GpuChoice = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let address: SocketAddr = arguments.next().as_deref().unwrap_or("127.0.0.1:7777").parse()?;

    let gpu = Gpu::open(choice)?;
    // Named as the kernel crate is, with underscores.
    gpu.load(&gpunet_host::include_module!("{{crate_name}}_kernels"))?;
    let net = Net::builder(&gpu).sockets(CLIENTS + 16).build()?;
    let memory = gpu.buffer::<u8>(Memory::bytes::<u64>(CLIENTS, HEAP))?;

    // The host listens, so that the address is known before the kernel runs.
    let (listener, address) = net.listen(address)?;
    let shape = Shape::new(2, 32).shared_memory(8192);
    let server = net.launch(echo_server, shape, (listener, Memory::of::<u64>(&memory, CLIENTS)))?;
    println!("on the {} GPU, listening at {address}; ends with its standard input", gpu.info().kind);

    std::io::stdin().read_to_end(&mut Vec::new())?;
    // The orderly end: no new clients, answers to what was asked, then the kernel returns.
    memory.write(STOP_OFFSET, &[1])?;
    server.wait()?;
    let mut requests = [0; 8];
    memory.read(Counter::Requests.offset(), &mut requests)?;
    println!("{} requests", u64::from_le_bytes(requests));
    Ok(())
}
