//! Sockets of the system, TCP and UNIX: what both have in common, unconnected, as a stream and as a
//! listener.
//!
//! Bytes move between the system's socket and the ring itself, without a copy in between, by
//! address: no Rust slice is formed over memory that a GPU may write.

#![allow(unsafe_code, reason = "recvmsg and sendmsg on ring memory")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};
use socket2::{SockAddr, TcpKeepalive};

use super::bound_path::BoundPath;
use super::errno::errno;
use super::{
    Acceptor, Carrier, Connector, Direction, Socket, Stream, SystemSocket, SystemStream,
    Transferred, Transport,
};
use crate::memory::RingSlice;

/// A socket of the system.
pub(super) struct Descriptor {
    socket: socket2::Socket,
    domain: Domain,
    /// In a box, since few sockets have one.
    path: Option<Box<BoundPath>>,
    /// A connect has failed after it had begun: the system says so once more to the next one.
    failed: bool,
}

/// A new non-blocking stream socket.
pub(super) fn make(domain: Domain) -> Result<Box<dyn SystemSocket>, Errno> {
    let family = match domain {
        Domain::V4 => socket2::Domain::IPV4,
        Domain::V6 => socket2::Domain::IPV6,
        Domain::Unix => socket2::Domain::UNIX,
    };
    let kind = socket2::Type::STREAM.nonblocking().cloexec();
    let socket = check(socket2::Socket::new_raw(family, kind, None))?;
    if domain != Domain::Unix {
        prepare_tcp(&socket)?;
        // As the standard library does for listeners: a server can be started again at once.
        check(socket.set_reuse_address(true))?;
    }
    Ok(Box::new(Descriptor::new(socket, domain)))
}

/// What every TCP stream gets, made here or accepted. Nagle's algorithm is off unless a kernel asks for it:
/// a GPU waits for answers, not for packets to fill.
fn prepare_tcp(socket: &socket2::Socket) -> Result<(), Errno> {
    check(socket.set_tcp_nodelay(true))
}

fn check<T>(result: io::Result<T>) -> Result<T, Errno> {
    result.map_err(errno)
}

/// A socket that a program made; and whether it listens.
pub(super) fn adopt(descriptor: OwnedFd) -> Result<(Box<Descriptor>, bool), Errno> {
    let socket = socket2::Socket::from(descriptor);
    if check(socket.r#type())? != socket2::Type::STREAM {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let domain = match check(socket.domain())? {
        socket2::Domain::IPV4 => Domain::V4,
        socket2::Domain::IPV6 => Domain::V6,
        socket2::Domain::UNIX => Domain::Unix,
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    check(socket.set_nonblocking(true))?;
    let listens = check(socket.is_listener())?;
    if !listens {
        check(socket.peer_addr())?;
        if domain != Domain::Unix {
            prepare_tcp(&socket)?;
        }
    }
    Ok((Box::new(Descriptor::new(socket, domain)), listens))
}

impl Descriptor {
    pub(super) fn new(socket: socket2::Socket, domain: Domain) -> Self {
        Self { socket, domain, path: None, failed: false }
    }

    fn address(&self, address: &SocketAddr) -> Result<SockAddr, Errno> {
        if address.domain() != Some(self.domain) {
            return Err(Errno::EAFNOSUPPORT);
        }
        if let Some(ip) = address.to_ip() {
            return Ok(ip.into());
        }
        let path = address.to_path().ok_or(Errno::EINVAL)?;
        if path.as_os_str().is_empty() {
            return Err(Errno::EINVAL);
        }
        check(SockAddr::unix(path))
    }

    /// One system call on the pieces of a slice; the plain one for one piece.
    fn transfer(&self, slice: &RingSlice, direction: Direction) -> Result<usize, Errno> {
        let fd = self.socket.as_raw_fd();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let [(first, length), (_, rest)] = slice.pieces();
        let mut pieces = slice
            .pieces()
            .map(|(address, length)| libc::iovec { iov_base: address.cast(), iov_len: length });
        // SAFETY: a message header of zeros is a valid empty one.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = pieces.as_mut_ptr();
        header.msg_iovlen = pieces.len();
        loop {
            // SAFETY: the pieces lie in ring memory (`Memory::slice`), and the header names them;
            // the system reads or writes them as bytes.
            let transferred = unsafe {
                match (direction, rest) {
                    (Direction::Receive, 0) => libc::recv(fd, first.cast(), length, flags),
                    (Direction::Send, 0) => libc::send(fd, first.cast(), length, flags),
                    (Direction::Receive, _) => libc::recvmsg(fd, &raw mut header, flags),
                    (Direction::Send, _) => libc::sendmsg(fd, &raw const header, flags),
                }
            };
            if let Ok(bytes) = usize::try_from(transferred) {
                return Ok(bytes);
            }
            match errno(io::Error::last_os_error()) {
                Errno::EINTR => {}
                other => return Err(other),
            }
        }
    }
}

/// What an attempt to receive came to.
fn received(result: Result<usize, Errno>) -> Result<Transferred, Errno> {
    match result {
        Ok(0) => Ok(Transferred::End),
        Ok(bytes) => Ok(Transferred::Bytes(bytes)),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(Transferred::Later),
        Err(error) => Err(error),
    }
}

/// The address as the device knows it.
fn name(address: &SockAddr) -> Result<SocketAddr, Errno> {
    if let Some(ip) = address.as_socket() {
        return Ok(ip.into());
    }
    if address.is_unix() {
        let path = address.as_pathname().unwrap_or(std::path::Path::new(""));
        return SocketAddr::path(path).ok_or(Errno::ENAMETOOLONG);
    }
    Err(Errno::EAFNOSUPPORT)
}

impl Socket for Descriptor {
    fn transport(&self) -> Transport {
        if self.domain == Domain::Unix { Transport::Unix } else { Transport::Tcp }
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        let on = || if value > 1 { Err(Errno::EINVAL) } else { Ok(value == 1) };
        let number = || u32::try_from(value).map_err(|_| Errno::EINVAL);
        let bytes = || usize::try_from(value).map_err(|_| Errno::EINVAL);
        let seconds = || Duration::from_secs(value);
        let keepalive = TcpKeepalive::new();
        let socket = &self.socket;
        let done = match option {
            SocketOption::KeepAlive => socket.set_keepalive(on()?),
            SocketOption::ReuseAddress => socket.set_reuse_address(on()?),
            SocketOption::ReusePort => socket.set_reuse_port(on()?),
            SocketOption::SystemSendBuffer => socket.set_send_buffer_size(bytes()?),
            SocketOption::SystemReceiveBuffer => socket.set_recv_buffer_size(bytes()?),
            SocketOption::V6Only => socket.set_only_v6(on()?),
            _ if self.domain == Domain::Unix => return Err(Errno::EOPNOTSUPP),
            SocketOption::NoDelay => socket.set_tcp_nodelay(on()?),
            SocketOption::QuickAck => socket.set_tcp_quickack(on()?),
            SocketOption::KeepAliveIdle => {
                socket.set_tcp_keepalive(&keepalive.with_time(seconds()))
            }
            SocketOption::KeepAliveInterval => {
                socket.set_tcp_keepalive(&keepalive.with_interval(seconds()))
            }
            SocketOption::KeepAliveCount => {
                socket.set_tcp_keepalive(&keepalive.with_retries(number()?))
            }
            SocketOption::UserTimeout => {
                socket.set_tcp_user_timeout(Some(Duration::from_millis(value)))
            }
            _ => return Err(Errno::ENOPROTOOPT),
        };
        check(done)
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        let socket = &self.socket;
        let done = match option {
            SocketOption::KeepAlive => socket.keepalive().map(u64::from),
            SocketOption::ReuseAddress => socket.reuse_address().map(u64::from),
            SocketOption::ReusePort => socket.reuse_port().map(u64::from),
            SocketOption::SystemSendBuffer => socket.send_buffer_size().map(|n| n as u64),
            SocketOption::SystemReceiveBuffer => socket.recv_buffer_size().map(|n| n as u64),
            SocketOption::V6Only => socket.only_v6().map(u64::from),
            _ if self.domain == Domain::Unix => return Err(Errno::EOPNOTSUPP),
            SocketOption::NoDelay => socket.tcp_nodelay().map(u64::from),
            SocketOption::QuickAck => socket.tcp_quickack().map(u64::from),
            SocketOption::KeepAliveIdle => socket.tcp_keepalive_time().map(|time| time.as_secs()),
            SocketOption::KeepAliveInterval => {
                socket.tcp_keepalive_interval().map(|time| time.as_secs())
            }
            SocketOption::KeepAliveCount => socket.tcp_keepalive_retries().map(u64::from),
            SocketOption::UserTimeout => {
                socket.tcp_user_timeout().map(|time| time.map_or(0, |time| time.as_millis() as u64))
            }
            _ => return Err(Errno::ENOPROTOOPT),
        };
        check(done)
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        name(&check(self.socket.local_addr())?)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn into_descriptor(self: Box<Self>) -> Option<OwnedFd> {
        let Self { socket, path, .. } = *self;
        if let Some(path) = path {
            path.keep();
        }
        Some(socket.into())
    }
}

impl Connector for Descriptor {
    fn connect(&mut self, address: &SocketAddr) -> Result<bool, Errno> {
        let target = self.address(address)?;
        let mut begun = check(self.socket.connect(&target));
        if std::mem::take(&mut self.failed) && begun == Err(Errno::ECONNABORTED) {
            begun = check(self.socket.connect(&target));
        }
        match begun {
            Ok(()) => Ok(true),
            Err(Errno::EINPROGRESS) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        if let Some(error) = check(self.socket.take_error())? {
            self.failed = true;
            return Err(errno(error));
        }
        match check(self.socket.peer_addr()) {
            Ok(_) => Ok(true),
            Err(Errno::ENOTCONN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn into_stream(self: Box<Self>) -> Result<Carrier, Errno> {
        Ok(Carrier::System(self))
    }
}

impl SystemSocket for Descriptor {
    fn bind(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        let target = self.address(address)?;
        let bind = || check(self.socket.bind(&target));
        let Some(path) = address.to_path() else { return bind() };
        self.path = Some(Box::new(BoundPath::bind(path, bind)?));
        Ok(())
    }

    fn listen(&mut self, backlog: u32) -> Result<(), Errno> {
        check(self.socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX)))
    }

    fn into_acceptor(self: Box<Self>) -> Box<dyn Acceptor> {
        self
    }
}

impl Acceptor for Descriptor {
    fn accept(&mut self) -> Result<Option<Carrier>, Errno> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let accepted = loop {
            match check(self.socket.accept4(flags)) {
                Ok((socket, _)) => break socket,
                Err(Errno::EAGAIN) => return Ok(None),
                // A peer that was quicker to leave than we to answer: others wait behind it.
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                Err(error) => return Err(error),
            }
        };
        if self.domain != Domain::Unix {
            prepare_tcp(&accepted)?;
        }
        Ok(Some(Carrier::System(Box::new(Self::new(accepted, self.domain)))))
    }

    fn shutdown(&mut self) -> Result<(), Errno> {
        check(self.socket.shutdown(std::net::Shutdown::Read))
    }
}

impl Stream for Descriptor {
    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        name(&check(self.socket.peer_addr())?)
    }

    fn discard(&mut self) -> Result<Transferred, Errno> {
        let mut bin = [MaybeUninit::uninit(); 16 << 10];
        received(check(self.socket.recv(&mut bin)))
    }

    fn cut_off(&mut self) {
        // A socket of the UNIX domain has nothing of the kind; a peer of such a one sees the end.
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }

    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        let how = match direction {
            Direction::Receive => std::net::Shutdown::Read,
            Direction::Send => std::net::Shutdown::Write,
        };
        check(self.socket.shutdown(how))
    }
}

impl SystemStream for Descriptor {
    fn receive(&mut self, slice: &RingSlice) -> Result<Transferred, Errno> {
        received(self.transfer(slice, Direction::Receive))
    }

    fn send(&mut self, slice: &RingSlice) -> Result<Transferred, Errno> {
        match self.transfer(slice, Direction::Send) {
            Ok(0) | Err(Errno::EAGAIN) => Ok(Transferred::Later),
            Ok(bytes) => Ok(Transferred::Bytes(bytes)),
            Err(error) => Err(error),
        }
    }

    fn peek(&mut self) -> Result<Transferred, Errno> {
        let mut one = [MaybeUninit::uninit(); 1];
        received(check(self.socket.peek(&mut one)))
    }

    fn untaken(&self) -> u64 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes one int at that address.
        let asked = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        // A socket that cannot say holds nothing up.
        if asked == 0 { bytes.try_into().unwrap_or(0) } else { 0 }
    }
}
