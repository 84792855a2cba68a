//! A stream of stock rsocket whose calls wait, but not for ever.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rsocket_shim::load::Libraries;
use rsocket_shim::stock::{Readiness, StockSocket};
use rustix::io::Errno;

use crate::Limits;

const TO_READ: Readiness = Readiness { readable: true, writable: false, ended: false };
const TO_WRITE: Readiness = Readiness { readable: false, writable: true, ended: false };

/// A connected stream. Its clones are the same end.
#[derive(Clone)]
pub struct Stock {
    socket: Arc<StockSocket>,
    limits: Limits,
}

impl Stock {
    /// Of a socket that is connected.
    ///
    /// # Errors
    /// The library's.
    pub fn new(socket: StockSocket, limits: &Limits) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Arc::new(socket), limits: limits.clone() })
    }

    /// Connects.
    ///
    /// # Errors
    /// The library's, and none without the library.
    pub fn connect(to: SocketAddr, limits: &Limits) -> io::Result<Self> {
        let socket = unconnected(to)?;
        socket.set_nonblocking(true)?;
        match socket.connect(to) {
            Ok(()) => return Self::new(socket, limits),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let mut found = Readiness::default();
        limits.wait(
            || {
                found = socket.poll(TO_WRITE, Some(Duration::ZERO))?;
                let is_done = found.writable || found.ended;
                if is_done { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
            },
            |time| socket.poll(TO_WRITE, Some(time)).map(drop),
        )?;
        match socket.take_error()? {
            Some(error) => Err(error),
            None if found.ended => Err(io::ErrorKind::ConnectionRefused.into()),
            None => Self::new(socket, limits),
        }
    }

    /// Listens; accepting does not wait.
    ///
    /// # Errors
    /// The library's, and none without the library.
    pub fn listen(at: SocketAddr, backlog: i32) -> io::Result<StockSocket> {
        let socket = unconnected(at)?;
        socket.bind(at)?;
        socket.listen(backlog)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Receives at least a byte; 0 at the end.
    ///
    /// # Errors
    /// The library's, and none in time.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        // It may take the word that its peer has hung up for the end before it has looked for the bytes
        // that came first. The next call looks.
        match self.wait(TO_READ, || self.socket.receive(into))? {
            0 => self.wait(TO_READ, || self.socket.receive(into)),
            received => Ok(received),
        }
    }

    /// Sends at least a byte.
    ///
    /// # Errors
    /// The library's, and none in time.
    pub fn send(&self, from: &[u8]) -> io::Result<usize> {
        self.wait(TO_WRITE, || self.socket.send(from))
    }

    /// Ends a direction or both.
    ///
    /// # Errors
    /// The library's.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self.socket.shutdown(how) {
            // The end is on its way, which need not be waited for.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            done => done,
        }
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The library's.
    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        self.socket.peer_address()
    }

    fn wait<T>(&self, wanted: Readiness, act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.limits.wait(act, |time| self.socket.poll(wanted, Some(time)).map(drop))
    }
}

fn unconnected(like: SocketAddr) -> io::Result<StockSocket> {
    let libraries = Libraries::load().map_err(io::Error::other)?;
    StockSocket::new(libraries, like)
}
