//! Listeners in the manner of `std::net`, for a group of threads.

use crate::abi::address::SocketAddr;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::option::SocketOption;
use crate::calls::{self, SOCK_NONBLOCK};
use crate::group::{Block, Group};
use crate::on::On;
use crate::owned::{Borrowed, Owned};
use crate::stream::Stream;

/// How [`Listener::bind_with`] listens.
///
/// ```
/// use gpunet_device::ListenOptions;
///
/// let shared = ListenOptions { reuse_port: true, ..ListenOptions::default() };
/// assert_eq!((shared.backlog, shared.nonblocking), (128, false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections that may wait in the system's queue: 128 by default. Those that the proxy has
    /// accepted ahead of kernels come on top.
    pub backlog: i32,
    /// Whether other sockets may listen at the same address (SO_REUSEPORT), if all of them ask for it:
    /// the system spreads connections among them. Off by default, and a second one gets EADDRINUSE.
    /// Blocks of one net need no second listener; they share one.
    pub reuse_port: bool,
    /// Whether [`Listener::accept`] gives EAGAIN where nobody waits. Accepted streams do not inherit it.
    pub nonblocking: bool,
    /// Whether a listener at `[::]` takes peers of IPv6 alone (IPV6_V6ONLY). At an address of IPv4 it is
    /// ENOPROTOOPT, at a path EOPNOTSUPP. Off by default.
    pub only_v6: bool,
}

impl Default for ListenOptions {
    #[inline(always)]
    fn default() -> Self {
        Self { backlog: 128, reuse_port: false, nonblocking: false, only_v6: false }
    }
}

/// A listening socket, TCP or UNIX.
pub struct Listener<G: Group = Block>(Owned<G>);

impl<G: Group> Listener<G> {
    /// Listens at `address`, as [`ListenOptions::default`] has it. EADDRINUSE where another socket
    /// listens there, of this process or of another.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn bind(on: On<G>, address: &SocketAddr) -> Result<Self, Errno> {
        Self::bind_with(on, address, ListenOptions::default())
    }

    /// Listens at `address` with these options.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn bind_with(
        on: On<G>,
        address: &SocketAddr,
        options: ListenOptions,
    ) -> Result<Self, Errno> {
        let kind = if options.nonblocking { SOCK_NONBLOCK } else { 0 };
        let socket = Owned::new(on, address, kind)?;
        if options.reuse_port {
            socket.set(SocketOption::ReusePort, 1)?;
        }
        if options.only_v6 {
            socket.set(SocketOption::V6Only, 1)?;
        }
        Errno::check(calls::gbind(on.net, on.group, socket.handle, address))?;
        Errno::check(calls::glisten(on.net, on.group, socket.handle, options.backlog))?;
        Ok(Self(socket))
    }

    /// A listener of the program or of another group, by its handle. It stays open: its owner closes
    /// it, or the net in the end.
    #[inline(always)]
    pub const fn borrow(on: On<G>, handle: Handle) -> Borrowed<Self> {
        Borrowed::new(Self::from_handle(on, handle))
    }

    /// A listener by its handle, which it closes in the end. [`Self::borrow`] does not.
    #[inline(always)]
    pub const fn from_handle(on: On<G>, handle: Handle) -> Self {
        Self(Owned { on, handle })
    }

    /// The next connection.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn accept(&self) -> Result<Stream<G>, Errno> {
        let on = self.0.on;
        let handle = Errno::check(calls::gaccept(on.net, on.group, self.0.handle))?;
        Ok(Stream::from_handle(on, Handle(handle)))
    }

    /// Its own address, with the port that the system chose.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn local_addr(&self) -> Result<SocketAddr, Errno> {
        calls::ggetsockname(self.0.on.net, self.0.on.group, self.0.handle)
    }

    /// Sets an option.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set(&self, option: SocketOption, value: u64) -> Result<(), Errno> {
        self.0.set(option, value)
    }

    /// Its handle.
    #[inline(always)]
    pub const fn handle(&self) -> Handle {
        self.0.handle
    }

    /// Its handle; it stays open.
    #[inline(always)]
    pub fn into_handle(self) -> Handle {
        self.0.into_handle()
    }

    /// Closes it and says whether that went well.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn close(self) -> Result<(), Errno> {
        self.0.close()
    }
}
