//! Streams in the manner of `std::net`, for a group of threads.
//!
//! [`Net::block`](crate::Net::block), [`Net::warp`](crate::Net::warp) and [`Net::thread`](crate::Net::thread) say who calls; what is made from that closes
//! its socket when it goes out of scope, in all threads of the group, unless it is [`Borrowed`].

use crate::abi::address::SocketAddr;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::option::SocketOption;
use crate::buf::{self, SharedBuf};
use crate::calls;
use crate::group::{Block, Group};
pub use crate::on::On;
use crate::owned::{Borrowed, Owned};
use crate::slice::{Peek, Reserve};

/// A connected byte stream, TCP or UNIX.
pub struct Stream<G: Group = Block>(Owned<G>);

impl<G: Group> Stream<G> {
    /// Connects to `address`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn connect(on: On<G>, address: &SocketAddr) -> Result<Self, Errno> {
        let socket = Owned::new(on, address, 0)?;
        Errno::check(calls::gconnect(on.net, on.group, socket.handle, address))?;
        Ok(Self(socket))
    }

    /// Connects to `address` with rings of these capacities.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn connect_with_rings(
        on: On<G>,
        address: &SocketAddr,
        receive: u64,
        send: u64,
    ) -> Result<Self, Errno> {
        let socket = Owned::new(on, address, 0)?;
        socket.set(SocketOption::ReceiveRing, receive)?;
        socket.set(SocketOption::SendRing, send)?;
        Errno::check(calls::gconnect(on.net, on.group, socket.handle, address))?;
        Ok(Self(socket))
    }

    /// A stream of the program or of another group, by its handle. It stays open: its owner closes it,
    /// or the net in the end.
    #[inline(always)]
    pub const fn borrow(on: On<G>, handle: Handle) -> Borrowed<Self> {
        Borrowed::new(Self::from_handle(on, handle))
    }

    /// A stream by its handle, which it closes in the end. [`Self::borrow`] does not.
    #[inline(always)]
    pub const fn from_handle(on: On<G>, handle: Handle) -> Self {
        Self(Owned { on, handle })
    }

    /// Receives at least one byte; 0 once the peer has closed.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn read(&self, buffer: impl buf::Into<G>) -> Result<usize, Errno> {
        calls::receive(self.0.on.net, self.0.on.group, self.0.handle, buffer, 0)
    }

    /// Receives until the buffer is full; how much it was if the peer closes before.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn read_full(&self, buffer: SharedBuf) -> Result<usize, Errno> {
        calls::receive_all(self.0.on.net, self.0.on.group, self.0.handle, buffer)
    }

    /// Receives until the buffer is full; ECONNRESET if the peer closes before.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn read_exact(&self, buffer: SharedBuf) -> Result<(), Errno> {
        if self.read_full(buffer)? == buffer.len() { Ok(()) } else { Err(Errno::ECONNRESET) }
    }

    /// Sends: all of it, or on a non-blocking socket as much as fits.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn write(&self, buffer: impl buf::From<G>) -> Result<usize, Errno> {
        calls::send(self.0.on.net, self.0.on.group, self.0.handle, buffer, 0)
    }

    /// Sends all of it, or says why not: EAGAIN on a non-blocking socket, else what ended the wait
    /// for space. Part of it may have been sent.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn write_all(&self, buffer: impl buf::From<G>) -> Result<(), Errno> {
        let (on, handle) = (self.0.on, self.0.handle);
        calls::send_all(on.net, on.group, handle, buffer)
    }

    /// Received bytes in the ring itself: at least `least`, all there are. They stay there until
    /// [`Peek::consume`].
    ///
    /// None once the peer has closed and all was consumed. Fewer than `least` come only at the
    /// end of the stream. The peer of a p2p stream can write there meanwhile: copy what a decision
    /// depends on.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn peek(&self, least: usize) -> Result<Option<Peek<'_, G>>, Errno> {
        Peek::open(&self.0, least)
    }

    /// Reserves space in the ring itself: at least `least` bytes, at most `most`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn reserve(&self, least: usize, most: usize) -> Result<Reserve<'_, G>, Errno> {
        Reserve::open(&self.0, least, most)
    }

    /// Ends one direction or both ([`calls::SHUT_RD`] and its siblings).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn shutdown(&self, how: i32) -> Result<(), Errno> {
        let on = self.0.on;
        Errno::check(calls::gshutdown(on.net, on.group, self.0.handle, how)).map(|_| ())
    }

    /// The peer's address.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        calls::ggetpeername(self.0.on.net, self.0.on.group, self.0.handle)
    }

    /// Its own address.
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

    /// Limits how long reads may wait, in nanoseconds; 0: no limit.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set_read_timeout(&self, ns: u64) -> Result<(), Errno> {
        self.set(SocketOption::ReceiveTimeout, ns)
    }

    /// Limits how long writes may wait, in nanoseconds; 0: no limit.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn set_write_timeout(&self, ns: u64) -> Result<(), Errno> {
        self.set(SocketOption::SendTimeout, ns)
    }

    /// Its net, and the group that uses it.
    #[inline(always)]
    pub const fn on(&self) -> On<G> {
        self.0.on
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
