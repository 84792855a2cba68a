//! Stock rsocket, the sockets of librdmacm, for comparison and for tests of interoperation.
//!
//! A thin wrapper: calls block unless [`StockSocket::set_nonblocking`] says otherwise, and errors
//! are the system's.

#![allow(unsafe_code, reason = "calls rsocket")]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::ManuallyDrop;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use crate::load::Libraries;
use crate::sys::types::SOL_RDMA;
use crate::verbs::SystemAddress;

pub use crate::sys::types::{RDMA_INLINE, RDMA_IOMAPSIZE, RDMA_RQSIZE, RDMA_SQSIZE};

/// A stream socket of rsocket, closed when dropped.
pub struct StockSocket {
    libraries: &'static Libraries,
    socket: c_int,
}

/// What [`StockSocket::poll`] waits for and finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Something can be received or accepted, or the end was reached.
    pub readable: bool,
    /// Something can be sent, or connecting has ended.
    pub writable: bool,
    /// The peer is gone, or an error is pending. Always waited for.
    pub ended: bool,
}

impl StockSocket {
    /// A new socket for addresses of the family of `like`.
    pub fn new(libraries: &'static Libraries, like: SocketAddr) -> io::Result<Self> {
        let domain = if like.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: takes numbers only.
        let socket = unsafe { libraries.cm.rsocket(domain, libc::SOCK_STREAM, 0) };
        number(socket).map(|socket| Self { libraries, socket })
    }

    /// Binds to a local address.
    pub fn bind(&self, local: SocketAddr) -> io::Result<()> {
        let address = SystemAddress::from(local);
        // SAFETY: the address is valid and as long as it says.
        number(unsafe { self.libraries.cm.rbind(self.socket, address.as_ptr(), address.length()) })
            .map(drop)
    }

    /// Listens.
    pub fn listen(&self, backlog: c_int) -> io::Result<()> {
        // SAFETY: takes numbers only.
        number(unsafe { self.libraries.cm.rlisten(self.socket, backlog) }).map(drop)
    }

    /// Takes a connection, with the peer's address.
    pub fn accept(&self) -> io::Result<(Self, SocketAddr)> {
        let mut peer = SystemAddress::empty();
        // SAFETY: there is room for any address.
        let accepted =
            unsafe { self.libraries.cm.raccept(self.socket, peer.as_mut_ptr(), peer.length_mut()) };
        let socket = Self { libraries: self.libraries, socket: number(accepted)? };
        let peer = peer.to_ip().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok((socket, peer))
    }

    /// Connects.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        let address = SystemAddress::from(peer);
        // SAFETY: the address is valid and as long as it says.
        number(unsafe {
            self.libraries.cm.rconnect(self.socket, address.as_ptr(), address.length())
        })
        .map(drop)
    }

    /// Sends some of the bytes.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the bytes are read during the call.
        count(unsafe {
            self.libraries.cm.rsend(self.socket, bytes.as_ptr().cast(), bytes.len(), 0)
        })
    }

    /// Receives some bytes; none at the end.
    pub fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        // SAFETY: there is room for so many bytes.
        count(unsafe {
            self.libraries.cm.rrecv(self.socket, room.as_mut_ptr().cast(), room.len(), 0)
        })
    }

    /// Waits until the socket is ready for one of the things asked for, or the time has passed.
    pub fn poll(&self, wanted: Readiness, limit: Option<Duration>) -> io::Result<Readiness> {
        let mut events = 0;
        for (wanted, event) in [(wanted.readable, libc::POLLIN), (wanted.writable, libc::POLLOUT)] {
            events |= if wanted { event } else { 0 };
        }
        let mut poll = libc::pollfd { fd: self.socket, events, revents: 0 };
        let limit =
            limit.map_or(-1, |limit| c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX));
        // SAFETY: one entry, which is written during the call.
        number(unsafe { self.libraries.cm.rpoll(&raw mut poll, 1, limit) })?;
        let found = |events| poll.revents & events != 0;
        Ok(Readiness {
            readable: found(libc::POLLIN),
            writable: found(libc::POLLOUT),
            ended: found(libc::POLLHUP | libc::POLLERR),
        })
    }

    /// Ends one direction or both.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => libc::SHUT_RD,
            Shutdown::Write => libc::SHUT_WR,
            Shutdown::Both => libc::SHUT_RDWR,
        };
        // SAFETY: takes numbers only.
        number(unsafe { self.libraries.cm.rshutdown(self.socket, how) }).map(drop)
    }

    /// Closes, and says how that went.
    pub fn close(self) -> io::Result<()> {
        let this = ManuallyDrop::new(self);
        // SAFETY: closed once: the drop is left out.
        number(unsafe { this.libraries.cm.rclose(this.socket) }).map(drop)
    }

    /// Makes calls return at once, or wait.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        let Ok(control) = self.libraries.cm.rfcntl.as_ref() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let flags: c_int = if on { libc::O_NONBLOCK } else { 0 };
        // SAFETY: F_SETFL takes an int.
        number(unsafe { control(self.socket, libc::F_SETFL, flags) }).map(drop)
    }

    /// Sets an option that is an int: of `SOL_SOCKET`, `IPPROTO_TCP`, or, by [`StockSocket::set_rdma`],
    /// of rsocket's own.
    pub fn set_option(&self, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
        let length = size_of::<c_int>() as libc::socklen_t;
        let value: *const c_void = (&raw const value).cast();
        // SAFETY: the value is an int, which is read during the call.
        number(unsafe { self.libraries.cm.rsetsockopt(self.socket, level, option, value, length) })
            .map(drop)
    }

    /// Sets an option of rsocket's own, such as [`RDMA_RQSIZE`]; before connecting or listening.
    pub fn set_rdma(&self, option: u32, value: u32) -> io::Result<()> {
        let narrow = |number| {
            c_int::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        };
        self.set_option(SOL_RDMA as c_int, narrow(option)?, narrow(value)?)
    }

    /// The error that is pending, as a connect that did not wait leaves it.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let mut errno: c_int = 0;
        let mut length = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: there is room for an int, and the length says so.
        number(unsafe {
            self.libraries.cm.rgetsockopt(
                self.socket,
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut errno).cast(),
                &raw mut length,
            )
        })?;
        Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
    }

    /// The local address.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let mut address = SystemAddress::empty();
        // SAFETY: there is room for any address.
        number(unsafe {
            self.libraries.cm.rgetsockname(self.socket, address.as_mut_ptr(), address.length_mut())
        })?;
        address.to_ip().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// The peer's address.
    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        let mut address = SystemAddress::empty();
        // SAFETY: there is room for any address.
        number(unsafe {
            self.libraries.cm.rgetpeername(self.socket, address.as_mut_ptr(), address.length_mut())
        })?;
        address.to_ip().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
}

impl Drop for StockSocket {
    fn drop(&mut self) {
        // Nobody is left to report it to.
        // SAFETY: opened once, closed once.
        unsafe { self.libraries.cm.rclose(self.socket) };
    }
}

fn number(returned: c_int) -> io::Result<c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

fn count(returned: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}
