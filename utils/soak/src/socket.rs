//! The program's own sockets: TCP and UNIX behind one type, with a time-out on every call.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How long a call on one of the program's sockets may wait. Whatever the other end does, it does
/// sooner.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Ip(SocketAddr),
    Path(PathBuf),
}

impl Address {
    /// As kernels have it; none for a path that is too long.
    pub(crate) fn for_kernels(&self) -> Option<gpunet_device::SocketAddr> {
        match self {
            Self::Ip(address) => Some((*address).into()),
            Self::Path(path) => gpunet_device::SocketAddr::path(path),
        }
    }

    /// From what a net listens at.
    pub(crate) fn of_kernels(address: &gpunet_device::SocketAddr) -> Option<Self> {
        address.to_ip().map(Self::Ip).or_else(|| address.to_path().map(Self::Path))
    }

    /// Removes the path that a listener leaves behind.
    pub(crate) fn remove(&self) {
        if let Self::Path(path) = self {
            // Not there, or in a folder that is removed in the end.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// An IP address with a port; anything with a slash is a path.
impl FromStr for Address {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('/') { Ok(Self::Path(text.into())) } else { text.parse().map(Self::Ip) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A connected stream.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn connect(to: &Address) -> io::Result<Self> {
        let this = match to {
            Address::Ip(address) => Self::Tcp(TcpStream::connect_timeout(address, PATIENCE)?),
            // Waits only where the listener's queue is full, which a round never fills.
            Address::Path(path) => Self::Unix(UnixStream::connect(path)?),
        };
        this.prepare()?;
        Ok(this)
    }

    fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))
            }
        }
    }

    /// Ends the sending side.
    pub(crate) fn shut(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Closes with a reset; UNIX sockets have none, and just close.
    pub(crate) fn reset(self) {
        if let Self::Tcp(stream) = self {
            // Where the system refuses, the peer sees an ordinary end, which it must bear, too.
            let _ = socket2::Socket::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

/// Through a reference: one thread may read while another writes.
impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).read(buffer),
            Stream::Unix(stream) => (&*stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).write(buffer),
            Stream::Unix(stream) => (&*stream).write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listener that never waits.
#[derive(Debug)]
pub(crate) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    /// Listens there, and says where that is.
    pub(crate) fn bind(at: &Address) -> io::Result<(Self, Address)> {
        match at {
            Address::Ip(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let at = Address::Ip(listener.local_addr()?);
                Ok((Self::Tcp(listener), at))
            }
            Address::Path(path) => {
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok((Self::Unix(listener), at.clone()))
            }
        }
    }

    /// The next connection, if one waits.
    pub(crate) fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        };
        match accepted {
            Ok(stream) => stream.prepare().map(|()| Some(stream)),
            Err(error) if is_time_out(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a call gave up waiting.
pub(crate) fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for text in ["127.0.0.1:80", "[::1]:9", "/tmp/x/y"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert!("nowhere".parse::<Address>().is_err());
    }
}
