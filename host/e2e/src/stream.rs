//! A peer's ends: sockets of the system or, by RDMA, of stock rsocket or our own; whichever way the
//! suites go. Where they go straight from kernel to kernel, a relay stands behind the system's.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpunet_device::SocketAddr;
use gpunet_sockets::{Limits, Stock};
use rsocket_shim::load::Libraries;
use rsocket_shim::stock::StockSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::limits::{deadline, eventually};
use crate::own::{Own, OwnListener};
use crate::relay::{self, RelayListener};
use crate::transport;

/// One end of a connection.
pub enum Stream {
    /// Of the system.
    Tcp(TcpStream),
    /// Of stock rsocket.
    Stock(Stock),
    /// Our own RDMA streams.
    Own(Own),
}

/// What ends the waits of a peer.
fn limits() -> Limits {
    Limits::timeout(deadline())
}

fn ip(address: SocketAddr) -> io::Result<std::net::SocketAddr> {
    address.to_ip().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Both ends of a connection of the system's.
fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mine = TcpStream::connect(listener.local_addr()?)?;
    Ok((mine, listener.accept()?.0))
}

impl Stream {
    /// Connects.
    ///
    /// # Errors
    /// As the system's connect.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        if transport::is_local() {
            let (mine, near) = tcp_pair()?;
            relay::connect(near, address)?;
            return Self::of_tcp(mine);
        }
        let address = ip(address)?;
        if !transport::is_rdma() {
            return Self::of_tcp(TcpStream::connect_timeout(&address, deadline())?);
        }
        if transport::has_own_peers() {
            return Own::connect(address).map(Self::Own);
        }
        Ok(Self::Stock(Stock::connect(address, &limits())?))
    }

    /// One of the system's, with a limit for its calls.
    pub(crate) fn of_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(deadline()))?;
        stream.set_write_timeout(Some(deadline()))?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// The same end once more.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Stock(stock) => Self::Stock(stock.clone()),
            Self::Own(own) => Self::Own(own.clone()),
        })
    }

    /// Ends a direction or both.
    ///
    /// # Errors
    /// The system's.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Stock(stock) => stock.shutdown(how),
            Self::Own(own) => {
                own.shutdown(how);
                Ok(())
            }
        }
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The system's.
    pub fn peer_addr(&self) -> io::Result<std::net::SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr(),
            Self::Stock(stock) => stock.peer_address(),
            Self::Own(own) => own.peer_address(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(room),
            Self::Stock(stock) => stock.receive(room),
            Self::Own(own) => own.receive(room),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Stock(stock) => stock.send(bytes),
            Self::Own(own) => own.send(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where kernels connect to.
pub enum Listener {
    /// Of the system.
    Tcp(TcpListener),
    /// Of stock rsocket.
    Stock(StockListener),
    /// Of the system, called by the relay.
    Relayed(TcpListener, RelayListener),
    /// Our own.
    Own(OwnListener),
}

/// Stock rsocket's listeners, of which there may be few: the thread that accepts for them goes on
/// to look at memory which the fourth has had it give back (librdmacm 44). So does the one that
/// looks after connections which are being accepted, of which a server has no say.
const MOST_LISTENERS: usize = 3;

static LISTENERS: AtomicUsize = AtomicUsize::new(0);

/// A listener of stock rsocket.
pub struct StockListener(StockSocket);

impl StockListener {
    fn new(address: std::net::SocketAddr, buffer: Option<i32>, backlog: i32) -> io::Result<Self> {
        let take = || {
            let more = |count: usize| (count < MOST_LISTENERS).then_some(count + 1);
            LISTENERS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
        };
        // Those of earlier tests may be about to go.
        if !eventually(take) {
            return Err(io::Error::other("stock rsocket has too many listeners"));
        }
        // From here on its drop gives the number back.
        let libraries = Libraries::load().map_err(io::Error::other);
        let socket = libraries.and_then(|libraries| StockSocket::new(libraries, address));
        let socket = socket.map(Self).inspect_err(|_| {
            LISTENERS.fetch_sub(1, Ordering::SeqCst);
        })?;
        if let Some(bytes) = buffer {
            socket.0.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)?;
        }
        socket.0.bind(address)?;
        // Waiting for readiness of a listener would keep a processor busy: see `accept_while`.
        socket.0.set_nonblocking(true)?;
        socket.0.listen(backlog)?;
        Ok(socket)
    }
}

impl Drop for StockListener {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// An address that cannot be had.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::bind_with(address, None, 128)
    }

    /// The same with a small buffer for what arrives, or a short queue.
    pub(crate) fn bind_with(
        address: SocketAddr,
        buffer: Option<i32>,
        backlog: i32,
    ) -> io::Result<Self> {
        let wanted = address;
        let address = match transport::is_local() {
            true => (Ipv4Addr::LOCALHOST, 0).into(),
            false => ip(address)?,
        };
        if transport::is_rdma() && transport::has_own_peers() {
            let bytes = buffer.and_then(|bytes| u32::try_from(bytes).ok());
            let backlog = u32::try_from(backlog).unwrap_or(0);
            return Ok(Self::Own(OwnListener::new(address, bytes, backlog)?));
        }
        if transport::is_rdma() {
            return Ok(Self::Stock(StockListener::new(address, buffer, backlog)?));
        }
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(usize::try_from(bytes).unwrap_or_default())?;
        }
        socket.bind(&address.into())?;
        socket.listen(backlog)?;
        let listener = TcpListener::from(socket);
        if transport::is_local() {
            let near = listener.local_addr()?.into();
            let relayed = relay::listen(wanted, near, buffer.is_some())?;
            return Ok(Self::Relayed(listener, relayed));
        }
        Ok(Self::Tcp(listener))
    }

    /// Where it listens.
    ///
    /// # Panics
    /// When the system does not say.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let address = match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Stock(listener) => listener.0.local_address(),
            Self::Relayed(_, listener) => return listener.address,
            Self::Own(listener) => Ok(listener.address()),
        };
        address.expect("its address").into()
    }

    /// The next connection; it is waited for.
    ///
    /// # Errors
    /// The system's, and none in time.
    pub fn accept(&self) -> io::Result<Stream> {
        let end = Instant::now() + deadline();
        self.accept_while(|| Instant::now() < end)
    }

    /// The next connection, as long as it is wanted.
    pub(crate) fn accept_while(&self, wanted: impl Fn() -> bool) -> io::Result<Stream> {
        const LOOK: Duration = Duration::from_millis(5);
        while wanted() {
            match self {
                Self::Tcp(listener) | Self::Relayed(listener, _) => {
                    let time = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
                    if poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&time))? != 0 {
                        return Stream::of_tcp(listener.accept()?.0);
                    }
                }
                Self::Stock(listener) => match listener.0.accept() {
                    Ok((socket, _)) => return Ok(Stream::Stock(Stock::new(socket, &limits())?)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        std::thread::sleep(LOOK);
                    }
                    Err(error) => return Err(error),
                },
                Self::Own(listener) => match listener.accept() {
                    Some(own) => return Ok(Stream::Own(own)),
                    None => std::thread::sleep(LOOK),
                },
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}
