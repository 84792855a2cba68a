//! The baseline on the CPU: echo servers that poll, and a sink for streams.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Result;
use gpunet_terminal::output::complain;
use rustix::event::{Timespec, epoll};

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
            Ok(bytes) => write_all(&mut stream, &buffer[..bytes])?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
}

/// Writes all bytes to a non-blocking socket.
fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(more) => sent += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Echoes on any number of connections with one thread, which polls all of them at once by epoll.
pub(crate) struct EchoLoop {
    pub(crate) address: SocketAddr,
}

impl EchoLoop {
    /// Starts the thread, which ends with the process.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            if let Err(error) = echo_on_all(&listener) {
                complain("bench", format!("the CPU's echo server: {error}"));
            }
        });
        Ok(Self { address })
    }
}

fn echo_on_all(listener: &TcpListener) -> std::io::Result<()> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let watch = |descriptor: BorrowedFd<'_>, name: usize| {
        epoll::add(&set, descriptor, epoll::EventData::new_u64(name as u64), epoll::EventFlags::IN)
    };
    watch(listener.as_fd(), usize::MAX)?;
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut events = Vec::with_capacity(32);
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        events.clear();
        // Without a connection there is nothing to poll for.
        let timeout = streams.iter().any(Option::is_some).then_some(&at_once);
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), timeout)?;
        for event in &events {
            let name = event.data.u64() as usize;
            let Some(stream) = streams.get_mut(name) else {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                let free = streams.iter().position(Option::is_none).unwrap_or(streams.len());
                watch(stream.as_fd(), free)?;
                streams.resize_with(streams.len().max(free + 1), || None);
                streams[free] = Some(stream);
                continue;
            };
            // A connection that has ended leaves the set when it is closed.
            if !stream.as_mut().is_some_and(|stream| echo_once(stream, &mut buffer)) {
                *stream = None;
            }
        }
    }
}

/// Sends back what has come; whether the connection goes on.
fn echo_once(stream: &mut TcpStream, buffer: &mut [u8]) -> bool {
    match stream.read(buffer) {
        Ok(0) => false,
        Ok(bytes) => write_all(stream, &buffer[..bytes]).is_ok(),
        Err(error) => error.kind() == ErrorKind::WouldBlock,
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
