//! Streams and listeners of every kind.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use gpunet_device::SocketAddr;
use rsocket_shim::stock::StockSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Limits, Stock};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// How sockets with IP addresses go; those with paths are the system's in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// RDMA where that is possible, else TCP; a listener takes both.
    Auto,
    /// TCP.
    Tcp,
    /// RDMA, with the stock rsocket library.
    Rdma,
}

/// A connected stream, whose calls wait within its limits.
pub struct Stream {
    socket: Socket,
    limits: Limits,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Stock(Stock),
}

impl Stream {
    /// Connects.
    ///
    /// # Errors
    /// The system's, and nobody who answers in time.
    pub fn connect(to: &SocketAddr, by: By, limits: &Limits) -> io::Result<Self> {
        let tcp = |ip| TcpStream::connect_timeout(ip, limits.longest()).map(Socket::Tcp);
        let rdma = |ip| Stock::connect(ip, limits).map(Socket::Stock);
        let socket = match (to.to_ip(), to.to_path()) {
            (Some(ip), _) => match by {
                By::Tcp => tcp(&ip)?,
                By::Rdma => rdma(ip)?,
                By::Auto => rdma(ip).or_else(|_| tcp(&ip))?,
            },
            (None, Some(path)) => Socket::Unix(UnixStream::connect(path)?),
            (None, None) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        Self::new(socket, limits)
    }

    fn new(socket: Socket, limits: &Limits) -> io::Result<Self> {
        match &socket {
            Socket::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
            }
            Socket::Unix(stream) => stream.set_nonblocking(true)?,
            Socket::Stock(_) => {}
        }
        Ok(Self { socket, limits: limits.clone() })
    }

    /// Whether it goes by RDMA.
    #[must_use]
    pub fn is_rdma(&self) -> bool {
        matches!(self.socket, Socket::Stock(_))
    }

    /// Ends the sending direction.
    ///
    /// # Errors
    /// The system's.
    pub fn end(&self) -> io::Result<()> {
        match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
            Socket::Stock(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Closes with a reset; only TCP has one, others just close.
    pub fn reset(self) {
        if let Socket::Tcp(stream) = self.socket {
            // Where the system refuses, the peer sees an ordinary end, which it must bear, too.
            let _ = socket2::Socket::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

/// Waits for a moment until the system's socket is ready.
fn ready(socket: BorrowedFd<'_>, wanted: PollFlags, time: Duration) -> io::Result<()> {
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    match poll(&mut [PollFd::new(&socket, wanted)], Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Through a reference: one thread may read while another writes.
impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let readable = |socket: BorrowedFd<'_>, time| ready(socket, PollFlags::IN, time);
        match &self.socket {
            Socket::Tcp(stream) => {
                self.limits.wait(|| (&*stream).read(into), |time| readable(stream.as_fd(), time))
            }
            Socket::Unix(stream) => {
                self.limits.wait(|| (&*stream).read(into), |time| readable(stream.as_fd(), time))
            }
            Socket::Stock(stream) => stream.receive(into),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let writable = |socket: BorrowedFd<'_>, time| ready(socket, PollFlags::OUT, time);
        match &self.socket {
            Socket::Tcp(stream) => {
                self.limits.wait(|| (&*stream).write(from), |time| writable(stream.as_fd(), time))
            }
            Socket::Unix(stream) => {
                self.limits.wait(|| (&*stream).write(from), |time| writable(stream.as_fd(), time))
            }
            Socket::Stock(stream) => stream.send(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listener; no call waits. The path of a UNIX one goes when it does.
pub struct Listener(Kind);

enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
    Stock(StockSocket),
    /// At the same port.
    Both(TcpListener, StockSocket),
}

impl Listener {
    /// Listens; port 0 lets the system choose. On `Auto` for both kinds, if RDMA can be had at that address.
    ///
    /// # Errors
    /// An address that cannot be had.
    pub fn bind(at: &SocketAddr, by: By) -> io::Result<Self> {
        let kind = match (at.to_ip(), at.to_path()) {
            (Some(ip), _) => match by {
                By::Rdma => Kind::Stock(Stock::listen(ip, BACKLOG)?),
                By::Auto => bind_both(ip)?,
                By::Tcp => Kind::Tcp(bind_tcp(ip)?),
            },
            (None, Some(path)) => {
                let listener = UnixListener::bind(&path)?;
                listener.set_nonblocking(true)?;
                Kind::Unix(listener, path)
            }
            (None, None) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        Ok(Self(kind))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Kind::Tcp(listener) | Kind::Both(listener, _) => Ok(listener.local_addr()?.into()),
            Kind::Stock(listener) => Ok(listener.local_address()?.into()),
            Kind::Unix(_, path) => {
                SocketAddr::path(path).ok_or_else(|| io::ErrorKind::InvalidInput.into())
            }
        }
    }

    /// The next connection, if one waits.
    ///
    /// # Errors
    /// The system's, such as too many open files.
    pub fn accept(&self, limits: &Limits) -> io::Result<Option<Stream>> {
        let tcp = |listener: &TcpListener| {
            now_or_later(listener.accept().map(|(stream, _)| Socket::Tcp(stream)))
        };
        let rdma = |listener: &StockSocket| {
            let accepted = now_or_later(listener.accept())?;
            let stream = accepted.map(|(stream, _)| Stock::new(stream, limits)).transpose()?;
            io::Result::Ok(stream.map(Socket::Stock))
        };
        let accepted = match &self.0 {
            Kind::Tcp(listener) => tcp(listener)?,
            Kind::Stock(listener) => rdma(listener)?,
            Kind::Both(by_tcp, by_rdma) => match rdma(by_rdma)? {
                None => tcp(by_tcp)?,
                accepted => accepted,
            },
            Kind::Unix(listener, _) => {
                now_or_later(listener.accept().map(|(stream, _)| Socket::Unix(stream)))?
            }
        };
        accepted.map(|socket| Stream::new(socket, limits)).transpose()
    }
}

fn bind_tcp(at: std::net::SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// By RDMA, too, where there is RDMA. It has ports of its own: one that the system chooses may be that of a
/// stream there.
fn bind_both(at: std::net::SocketAddr) -> io::Result<Kind> {
    const PORTS: usize = 32;
    for _ in 0..PORTS {
        let listener = bind_tcp(at)?;
        match Stock::listen(listener.local_addr()?, BACKLOG).map_err(|error| error.kind()) {
            Ok(rdma) => return Ok(Kind::Both(listener, rdma)),
            Err(io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable) if at.port() == 0 => {}
            Err(_) => return Ok(Kind::Tcp(listener)),
        }
    }
    Ok(Kind::Tcp(bind_tcp(at)?))
}

fn now_or_later<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Kind::Unix(_, path) = &self.0 {
            // Who cannot remove it can do nothing better than leave it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether a call gave up waiting.
#[must_use]
pub fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(at: &SocketAddr) -> (Stream, Stream, Listener) {
        let limits = Limits::timeout(Duration::from_millis(300));
        let listener = Listener::bind(at, By::Tcp).unwrap();
        assert!(listener.accept(&limits).unwrap().is_none());
        let caller = Stream::connect(&listener.address().unwrap(), By::Tcp, &limits).unwrap();
        let begin = std::time::Instant::now();
        loop {
            if let Some(accepted) = listener.accept(&limits).unwrap() {
                return (caller, accepted, listener);
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "nobody was accepted");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn streams_of_both_families_carry_bytes_and_give_up_in_time() {
        let path =
            std::env::temp_dir().join(format!("gpunet-sockets-{}.socket", std::process::id()));
        for at in [SocketAddr::v4([127, 0, 0, 1], 0), SocketAddr::path(&path).unwrap()] {
            let (caller, accepted, listener) = pair(&at);
            (&caller).write_all(b"hello").unwrap();
            caller.end().unwrap();
            let mut got = Vec::new();
            (&accepted).read_to_end(&mut got).unwrap();
            assert_eq!(got, b"hello");
            let error = (&caller).read(&mut [0; 1]).unwrap_err();
            assert!(is_time_out(&error), "{error}");
            drop(listener);
        }
        assert!(!path.exists());
    }

    #[test]
    fn a_reset_reaches_the_peer() {
        let (caller, accepted, _listener) = pair(&SocketAddr::v4([127, 0, 0, 1], 0));
        caller.reset();
        let error = (&accepted).read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}
