//! A kernel, a message, its answer and a kernel again, all put on a stream at once.
//!
//! `cargo run --example stream_exchange -- emulated` (or `cuda`, or `auto`).

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use gpunet_example_kernels::square::square;
use gpunet_host::{Batch, Gpu, GpuChoice, Net, Shape, Task};

const NUMBERS: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A peer that adds one to each number of a message.
fn add_one(mut stream: TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; 4 * NUMBERS];
    stream.read_exact(&mut bytes)?;
    for number in bytes.chunks_exact_mut(4) {
        let one_more = u32::from_le_bytes([number[0], number[1], number[2], number[3]]) + 1;
        number.copy_from_slice(&one_more.to_le_bytes());
    }
    stream.write_all(&bytes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let choice = std::env::args().nth(1).unwrap_or("auto".to_owned());
    let gpu = Gpu::open(choice.parse::<GpuChoice>()?)?;
    gpu.load(&gpunet_host::include_module!("gpunet_example_kernels"))?;
    // Before kernels run: the first stream loads one.
    let stream = gpu.stream()?;
    let net = Net::builder(&gpu).build()?;

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let socket = net.hand_over(TcpStream::connect(listener.local_addr()?)?)?;
    let (peer, _) = listener.accept()?;
    let peer = std::thread::spawn(move || add_one(peer));

    let numbers = gpu.buffer::<u32>(NUMBERS)?;
    numbers.write(0, &[0, 1, 2, 3])?;
    let queue = net.queue(&stream)?.timeout(TIMEOUT);
    let mut exchange = Batch::new();
    exchange.send(socket, &numbers, ..)?.receive(socket, &numbers, ..)?;

    // Nothing of this waits: the stream keeps the order.
    queue.launch(square, Shape::new(1, 32), (&numbers,))?;
    let exchanged = queue.post(&exchange)?;
    queue.launch(square, Shape::new(1, 32), (&numbers,))?;

    exchanged.wait_timeout(TIMEOUT)?;
    peer.join().map_err(|_| "the peer has panicked")??;
    if !stream.wait(TIMEOUT)? {
        return Err("the stream is not done in time".into());
    }
    println!("{:?}", numbers.to_vec()?);
    Ok(())
}
