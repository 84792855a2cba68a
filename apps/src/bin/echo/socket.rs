//! The standard library's sockets of both families under one name, non-blocking, with waits that
//! poll as the proxy of a net does: figures of both are then of the same kind.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gpunet_device::SocketAddr;

use crate::stop::Stop;

/// A connected stream; no call waits.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn connect(to: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = match (to.to_ip(), to.to_path()) {
            (Some(ip), _) => Self::Tcp(TcpStream::connect_timeout(&ip, timeout)?),
            (None, Some(path)) => Self::Unix(UnixStream::connect(path)?),
            (None, None) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        stream.prepared()
    }

    fn prepared(self) -> io::Result<Self> {
        match &self {
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
            }
            Self::Unix(stream) => stream.set_nonblocking(true)?,
        }
        Ok(self)
    }

    /// Reads what there is: none, when nothing is there yet.
    pub(crate) fn try_read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        now_or_later(match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        })
    }

    /// Writes what fits: none, when nothing fits yet.
    pub(crate) fn try_write(&mut self, from: &[u8]) -> io::Result<Option<usize>> {
        now_or_later(match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Unix(stream) => stream.write(from),
        })
    }

    /// Reads at least a byte, or 0 at the end.
    pub(crate) fn read(&mut self, into: &mut [u8], wait: &mut Wait<'_>) -> io::Result<usize> {
        wait.begin();
        loop {
            match self.try_read(into)? {
                Some(bytes) => return Ok(bytes),
                None => wait.pause()?,
            }
        }
    }

    pub(crate) fn write_all(&mut self, mut from: &[u8], wait: &mut Wait<'_>) -> io::Result<()> {
        wait.begin();
        while !from.is_empty() {
            match self.try_write(from)? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(bytes) => {
                    from = &from[bytes..];
                    wait.begin();
                }
                None => wait.pause()?,
            }
        }
        Ok(())
    }

    /// Says that no more will be sent.
    pub(crate) fn end(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

fn now_or_later<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        // A signal came in between: the next try is as good.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

/// A listener; no call waits. The path of a UNIX one goes when it does.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(crate) fn bind(at: &SocketAddr) -> io::Result<Self> {
        match (at.to_ip(), at.to_path()) {
            (Some(ip), _) => {
                let listener = TcpListener::bind(ip)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(listener))
            }
            (None, Some(path)) => {
                let listener = UnixListener::bind(&path)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(listener, path))
            }
            (None, None) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => Ok(listener.local_addr()?.into()),
            Self::Unix(_, path) => {
                SocketAddr::path(path).ok_or_else(|| io::ErrorKind::InvalidInput.into())
            }
        }
    }

    /// The next connection, if one waits.
    pub(crate) fn try_accept(&self) -> io::Result<Option<Stream>> {
        now_or_later(match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        })?
        .map(Stream::prepared)
        .transpose()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Who cannot remove it can do nothing better than leave it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// How to wait: poll for a millisecond, then nap, longer once it has been quiet for long.
pub(crate) struct Wait<'a> {
    stop: &'a Stop,
    limit: Option<Duration>,
    since: Instant,
    crowded: bool,
}

const POLL: Duration = Duration::from_millis(1);
const NAP: Duration = Duration::from_micros(50);
const QUIET: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_millis(1);

impl<'a> Wait<'a> {
    /// Waits end with `Interrupted` when told to stop, with `TimedOut` after `limit`.
    pub(crate) fn new(stop: &'a Stop, limit: Option<Duration>) -> Self {
        // With two cores the peer, the proxy or the emulated GPU needs the one we poll on.
        let crowded = std::thread::available_parallelism().is_ok_and(|cores| cores.get() <= 2);
        Self { stop, limit, since: Instant::now(), crowded }
    }

    /// Something moved: the wait begins anew.
    pub(crate) fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// Nothing moved.
    pub(crate) fn pause(&mut self) -> io::Result<()> {
        let waited = self.since.elapsed();
        if self.stop.is_set() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match self.limit {
            Some(limit) if waited > limit => return Err(io::ErrorKind::TimedOut.into()),
            _ if waited > QUIET => std::thread::sleep(REST),
            _ if waited > POLL => std::thread::sleep(NAP),
            _ if self.crowded => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
        Ok(())
    }
}
