//! The peer: a thread that receives a message of known length and sends it back, again and again.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use gpunet_apps::failure::Failure;

/// A connection to a peer that sends back each message of `bytes` bytes.
pub(crate) fn connect(bytes: usize, timeout: Duration) -> Result<TcpStream, Failure> {
    let failed = |error: io::Error| Failure::refused(format!("a TCP connection: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let near = TcpStream::connect(listener.local_addr().map_err(failed)?).map_err(failed)?;
    let (far, _) = listener.accept().map_err(failed)?;
    for end in [&near, &far] {
        end.set_nodelay(true).map_err(failed)?;
        end.set_nonblocking(true).map_err(failed)?;
    }
    // It ends with the connection.
    std::thread::Builder::new()
        .name("pingpong-peer".to_owned())
        .spawn(move || answer(far, bytes, timeout))
        .map_err(failed)?;
    Ok(near)
}

fn answer(mut far: TcpStream, bytes: usize, timeout: Duration) {
    let mut message = vec![0; bytes];
    // What breaks here shows at the other end.
    while receive(&mut far, &mut message, timeout * 10).is_ok()
        && send(&mut far, &message, timeout).is_ok()
    {}
}

/// Fills the buffer, and polls as long as there is nothing.
pub(crate) fn receive(
    stream: &mut TcpStream,
    mut into: &mut [u8],
    timeout: Duration,
) -> io::Result<()> {
    let mut wait = Wait::new(timeout);
    while !into.is_empty() {
        match stream.read(into) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(got) => into = &mut into[got..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait.turn()?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends all of it, and polls as long as there is no room.
pub(crate) fn send(stream: &mut TcpStream, mut from: &[u8], timeout: Duration) -> io::Result<()> {
    let mut wait = Wait::new(timeout);
    while !from.is_empty() {
        match stream.write(from) {
            Ok(sent) => from = &from[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait.turn()?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Polling with an end; after a while other threads get the core.
struct Wait {
    begin: Instant,
    timeout: Duration,
    turns: u32,
}

impl Wait {
    fn new(timeout: Duration) -> Self {
        Self { begin: Instant::now(), timeout, turns: 0 }
    }

    fn turn(&mut self) -> io::Result<()> {
        self.turns += 1;
        if self.turns < 20_000 {
            std::hint::spin_loop();
            return Ok(());
        }
        std::thread::yield_now();
        match self.begin.elapsed() < self.timeout {
            true => Ok(()),
            false => Err(ErrorKind::TimedOut.into()),
        }
    }
}
