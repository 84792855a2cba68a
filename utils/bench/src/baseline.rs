//! The baseline on the CPU: an echo server that polls, and a sink for streams.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::Result;

/// Bytes that a sink reads at once.
const PIECE: usize = 256 << 10;

/// Starts a thread for each connection of a listener on loopback. The threads end with the
/// process.
pub(crate) fn serve(each: fn(TcpStream) -> std::io::Result<()>) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that ends is the client's business.
            std::thread::spawn(move || each(stream));
        }
    });
    Ok(address)
}

/// Echoes, polling its socket: the fastest that a CPU does without special hardware.
pub(crate) struct EchoServer {
    pub(crate) address: SocketAddr,
}

impl EchoServer {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { address: serve(echo)? })
    }
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                let mut sent = 0;
                while sent < bytes {
                    match stream.write(&buffer[sent..bytes]) {
                        Ok(more) => sent += more,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
}

/// Receives to the end and answers with the number of bytes.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
}

impl Sink {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { address: serve(sink)? })
    }
}

fn sink(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut total = 0_u64;
    loop {
        let bytes = stream.read(&mut buffer)?;
        if bytes == 0 {
            break;
        }
        total += bytes as u64;
    }
    stream.write_all(&total.to_le_bytes())
}
