//! A kernel of one block that serves many clients with a poller.
//!
//! `cargo run --example poller -- emulated` (or `cuda`, or `auto`).

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use gpunet_example_kernels::poll::poll_server;
use gpunet_host::{Gpu, GpuChoice, Net, Shape, Task};

const CLIENTS: u32 = 8;
const TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let choice = std::env::args().nth(1).unwrap_or("auto".to_owned());
    let gpu = Gpu::open(choice.parse::<GpuChoice>()?)?;
    gpu.load(&gpunet_host::include_module!("gpunet_example_kernels"))?;
    let net = Net::builder(&gpu).sockets(CLIENTS + 8).build()?;

    let (listener, address) = net.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let shape = Shape::new(1, 32).shared_memory(4096);
    let server = net.launch(poll_server, shape, (listener, CLIENTS))?;

    // All are connected before the first one sends, and the last one sends first.
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let client = TcpStream::connect(address.to_string())?;
        client.set_read_timeout(Some(TIMEOUT))?;
        clients.push(client);
    }
    let mut bytes = 0;
    for (number, mut client) in clients.into_iter().enumerate().rev() {
        let text = format!("client {number}");
        client.write_all(text.as_bytes())?;
        client.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        if answer != text {
            return Err(format!("sent {text:?}, received {answer:?}").into());
        }
        bytes += answer.len();
    }

    server.wait()?;
    println!("{CLIENTS} clients, {bytes} bytes, one block");
    Ok(())
}
