//! The standard library's sockets of both families, and those of the stock rsocket library, under
//! one name, non-blocking, with waits that poll as the proxy of a net does: figures of both are then
//! of the same kind.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gpunet_apps::transport::SocketTransport;
use gpunet_device::SocketAddr;
use rsocket_shim::load::Libraries;
use rsocket_shim::stock::{Readiness, StockSocket};
use rustix::io::Errno;

use gpunet_apps::stop::Stop;

/// A connected stream; no call waits.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Rdma(StockSocket),
}

impl Stream {
    /// Connects; on `auto` by RDMA if that is possible, else by TCP.
    pub(crate) fn connect(
        to: &SocketAddr,
        transport: SocketTransport,
        timeout: Duration,
    ) -> io::Result<Self> {
        let tcp = |ip| TcpStream::connect_timeout(ip, timeout).map(Self::Tcp);
        let rdma = |ip| connect_stock(ip, timeout).map(Self::Rdma);
        let stream = match (to.to_ip(), to.to_path()) {
            (Some(ip), _) => match transport {
                SocketTransport::Tcp => tcp(&ip)?,
                SocketTransport::Rdma => rdma(ip)?,
                SocketTransport::Auto => rdma(ip).or_else(|_| tcp(&ip))?,
                // The command line has refused it: there is no GPU memory to be written into.
                SocketTransport::Local => return Err(io::ErrorKind::Unsupported.into()),
            },
            (None, Some(path)) => Self::Unix(UnixStream::connect(path)?),
            (None, None) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        stream.prepared()
    }

    pub(crate) fn is_rdma(&self) -> bool {
        matches!(self, Self::Rdma(_))
    }

    fn prepared(self) -> io::Result<Self> {
        match &self {
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
            }
            Self::Unix(stream) => stream.set_nonblocking(true)?,
            Self::Rdma(stream) => stream.set_nonblocking(true)?,
        }
        Ok(self)
    }

    /// Reads what there is: none, when nothing is there yet.
    pub(crate) fn try_read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        now_or_later(match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
            // Stock rsocket may take the word that its peer has hung up for the end before it has
            // looked for the bytes that came first. The next call looks.
            Self::Rdma(stream) => match stream.receive(into) {
                Ok(0) => stream.receive(into),
                received => received,
            },
        })
    }

    /// Writes what fits: none, when nothing fits yet.
    pub(crate) fn try_write(&mut self, from: &[u8]) -> io::Result<Option<usize>> {
        now_or_later(match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Unix(stream) => stream.write(from),
            Self::Rdma(stream) => stream.send(from),
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
            // EAGAIN: the end is on its way, which need not be waited for.
            Self::Rdma(stream) => now_or_later(stream.shutdown(Shutdown::Write)).map(drop),
        }
    }
}

fn libraries() -> io::Result<&'static Libraries> {
    Libraries::load().map_err(io::Error::other)
}

fn connect_stock(to: std::net::SocketAddr, timeout: Duration) -> io::Result<StockSocket> {
    const LOOK: Duration = Duration::from_millis(10);
    let socket = StockSocket::new(libraries()?, to)?;
    socket.set_nonblocking(true)?;
    match socket.connect(to) {
        Ok(()) => return Ok(socket),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let begin = Instant::now();
    let to_write = Readiness { writable: true, ..Readiness::default() };
    loop {
        let found = socket.poll(to_write, Some(LOOK))?;
        if found.writable || found.ended {
            return match socket.take_error()? {
                Some(error) => Err(error),
                None if found.ended => Err(io::ErrorKind::ConnectionRefused.into()),
                None => Ok(socket),
            };
        }
        if begin.elapsed() > timeout {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn listen_stock(at: std::net::SocketAddr) -> io::Result<StockSocket> {
    const BACKLOG: i32 = 128;
    let socket = StockSocket::new(libraries()?, at)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn bind_tcp(at: std::net::SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
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
    Rdma(StockSocket),
    /// At the same port.
    Both(TcpListener, StockSocket),
}

impl Listener {
    /// Listens; on `auto` for both kinds, if RDMA can be had at that address.
    pub(crate) fn bind(at: &SocketAddr, transport: SocketTransport) -> io::Result<Self> {
        match (at.to_ip(), at.to_path()) {
            (Some(ip), _) if transport == SocketTransport::Rdma => {
                Ok(Self::Rdma(listen_stock(ip)?))
            }
            (Some(ip), _) if transport == SocketTransport::Auto => Self::bind_both(ip),
            (Some(ip), _) => Ok(Self::Tcp(bind_tcp(ip)?)),
            (None, Some(path)) => {
                let listener = UnixListener::bind(&path)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(listener, path))
            }
            (None, None) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// By RDMA, too, where there is RDMA. It has ports of its own: one that the system chooses may be
    /// that of a stream there.
    fn bind_both(at: std::net::SocketAddr) -> io::Result<Self> {
        const PORTS: usize = 32;
        for _ in 0..PORTS {
            let listener = bind_tcp(at)?;
            match listen_stock(listener.local_addr()?).map_err(|error| error.kind()) {
                Ok(rdma) => return Ok(Self::Both(listener, rdma)),
                Err(io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
                    if at.port() == 0 => {}
                Err(_) => return Ok(Self::Tcp(listener)),
            }
        }
        Ok(Self::Tcp(bind_tcp(at)?))
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) | Self::Both(listener, _) => Ok(listener.local_addr()?.into()),
            Self::Rdma(listener) => Ok(listener.local_address()?.into()),
            Self::Unix(_, path) => {
                SocketAddr::path(path).ok_or_else(|| io::ErrorKind::InvalidInput.into())
            }
        }
    }

    /// The next connection, if one waits.
    pub(crate) fn try_accept(&self) -> io::Result<Option<Stream>> {
        let tcp = |listener: &TcpListener| {
            now_or_later(listener.accept().map(|(stream, _)| Stream::Tcp(stream)))
        };
        let rdma = |listener: &StockSocket| {
            now_or_later(listener.accept().map(|(stream, _)| Stream::Rdma(stream)))
        };
        let accepted = match self {
            Self::Tcp(listener) => tcp(listener)?,
            Self::Rdma(listener) => rdma(listener)?,
            Self::Both(by_tcp, by_rdma) => match rdma(by_rdma)? {
                None => tcp(by_tcp)?,
                accepted => accepted,
            },
            Self::Unix(listener, _) => {
                now_or_later(listener.accept().map(|(stream, _)| Stream::Unix(stream)))?
            }
        };
        accepted.map(Stream::prepared).transpose()
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

/// How to wait: poll for a millisecond, then sleep, longer once it has been quiet for long.
pub(crate) struct Wait<'a> {
    stop: &'a Stop,
    limit: Option<Duration>,
    since: Instant,
    crowded: bool,
}

const POLL: Duration = Duration::from_millis(1);
const SLEEP: Duration = Duration::from_micros(50);
const QUIET: Duration = Duration::from_millis(100);
const LONG_SLEEP: Duration = Duration::from_millis(1);

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
            _ if waited > QUIET => std::thread::sleep(LONG_SLEEP),
            _ if waited > POLL => std::thread::sleep(SLEEP),
            _ if self.crowded => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
        Ok(())
    }
}
