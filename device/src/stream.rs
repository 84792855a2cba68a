//! Streams and listeners in the manner of `std::net`, for a group of threads.
//!
//! [`Net::block`], [`Net::warp`] and [`Net::thread`] say who calls; what is made from that closes
//! its socket when it goes out of scope, in all threads of the group.

use crate::abi::address::SocketAddr;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::option::SocketOption;
use crate::buf::{self, Received, SharedBuf, Space};
use crate::calls::{self, SOCK_STREAM};
use crate::group::{Block, Group, Thread, Warp};
use crate::library::{RECEIVE_SIDE, SEND_SIDE};
use crate::slice::RingSlice;

/// A net, and the group that uses it.
#[derive(Clone, Copy)]
pub struct On<G: Group = Block> {
    pub(crate) net: Net,
    pub(crate) group: G,
}

impl Net {
    /// The calling block on this net.
    #[inline(always)]
    pub const fn block(self) -> On<Block> {
        On { net: self, group: Block }
    }

    /// The calling warp on this net.
    #[inline(always)]
    pub const fn warp(self) -> On<Warp> {
        On { net: self, group: Warp }
    }

    /// The calling thread on this net.
    #[inline(always)]
    pub const fn thread(self) -> On<Thread> {
        On { net: self, group: Thread }
    }
}

impl<G: Group> On<G> {
    /// The net.
    #[inline(always)]
    pub const fn net(self) -> Net {
        self.net
    }

    /// The group.
    #[inline(always)]
    pub const fn group(self) -> G {
        self.group
    }

    #[inline(always)]
    fn socket(self, address: &SocketAddr) -> Result<Owned<G>, Errno> {
        let domain = address.domain().ok_or(Errno::EAFNOSUPPORT)? as i32;
        let handle = Errno::check(calls::gsocket(self.net, self.group, domain, SOCK_STREAM, 0))?;
        Ok(Owned { on: self, handle: Handle(handle) })
    }
}

/// Whether the emulated thread is being unwound: its group will not come together any more.
#[inline(always)]
fn is_unwinding() -> bool {
    #[cfg(target_arch = "nvptx64")]
    return false;
    #[cfg(not(target_arch = "nvptx64"))]
    std::thread::panicking()
}

/// A socket that is closed with its last owner.
pub(crate) struct Owned<G: Group> {
    pub(crate) on: On<G>,
    pub(crate) handle: Handle,
}

impl<G: Group> Owned<G> {
    #[inline(always)]
    pub(crate) fn set(&self, option: SocketOption, value: u64) -> Result<(), Errno> {
        let done = calls::gsetsockopt(self.on.net, self.on.group, self.handle, option, value);
        Errno::check(done).map(|_| ())
    }

    #[inline(always)]
    pub(crate) fn into_handle(self) -> Handle {
        let handle = self.handle;
        core::mem::forget(self);
        handle
    }

    #[inline(always)]
    pub(crate) fn close(self) -> Result<(), Errno> {
        let on = self.on;
        Errno::check(calls::gclose(on.net, on.group, self.into_handle())).map(|_| ())
    }
}

impl<G: Group> Drop for Owned<G> {
    #[inline(always)]
    fn drop(&mut self) {
        if !is_unwinding() {
            // Nobody is left to tell; the host closes what a kernel leaves open.
            let _ = calls::gclose(self.on.net, self.on.group, self.handle);
        }
    }
}

/// A listening socket, TCP or UNIX.
pub struct Listener<G: Group = Block>(Owned<G>);

impl<G: Group> Listener<G> {
    /// Listens at `address` with a backlog of 128.
    #[inline(always)]
    pub fn bind(on: On<G>, address: &SocketAddr) -> Result<Self, Errno> {
        let socket = on.socket(address)?;
        Errno::check(calls::gbind(on.net, on.group, socket.handle, address))?;
        Errno::check(calls::glisten(on.net, on.group, socket.handle, 128))?;
        Ok(Self(socket))
    }

    /// A listener by its handle, which it closes in the end.
    #[inline(always)]
    pub const fn from_handle(on: On<G>, handle: Handle) -> Self {
        Self(Owned { on, handle })
    }

    /// The next connection.
    #[inline(always)]
    pub fn accept(&self) -> Result<Stream<G>, Errno> {
        let on = self.0.on;
        let handle = Errno::check(calls::gaccept(on.net, on.group, self.0.handle))?;
        Ok(Stream(Owned { on, handle: Handle(handle) }))
    }

    /// Its own address, with the port that the system chose.
    #[inline(always)]
    pub fn local_addr(&self) -> Result<SocketAddr, Errno> {
        calls::ggetsockname(self.0.on.net, self.0.on.group, self.0.handle)
    }

    /// Sets an option.
    #[inline(always)]
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
    pub fn close(self) -> Result<(), Errno> {
        self.0.close()
    }
}

/// A connected byte stream, TCP or UNIX.
pub struct Stream<G: Group = Block>(Owned<G>);

impl<G: Group> Stream<G> {
    /// Connects to `address`.
    #[inline(always)]
    pub fn connect(on: On<G>, address: &SocketAddr) -> Result<Self, Errno> {
        let socket = on.socket(address)?;
        Errno::check(calls::gconnect(on.net, on.group, socket.handle, address))?;
        Ok(Self(socket))
    }

    /// Connects to `address` with rings of these capacities.
    #[inline(always)]
    pub fn connect_with_rings(
        on: On<G>,
        address: &SocketAddr,
        receive: u64,
        send: u64,
    ) -> Result<Self, Errno> {
        let socket = on.socket(address)?;
        socket.set(SocketOption::ReceiveRing, receive)?;
        socket.set(SocketOption::SendRing, send)?;
        Errno::check(calls::gconnect(on.net, on.group, socket.handle, address))?;
        Ok(Self(socket))
    }

    /// A stream by its handle, which it closes in the end.
    #[inline(always)]
    pub const fn from_handle(on: On<G>, handle: Handle) -> Self {
        Self(Owned { on, handle })
    }

    /// Receives at least one byte; 0 once the peer has closed.
    #[inline(always)]
    pub fn read(&self, buffer: impl buf::Into<G>) -> Result<usize, Errno> {
        calls::receive(self.0.on.net, self.0.on.group, self.0.handle, buffer, 0)
    }

    /// Receives until the buffer is full; how much it was if the peer closes before.
    #[inline(always)]
    pub fn read_full(&self, buffer: SharedBuf) -> Result<usize, Errno> {
        calls::receive_all(self.0.on.net, self.0.on.group, self.0.handle, buffer)
    }

    /// Receives until the buffer is full; ECONNRESET if the peer closes before.
    #[inline(always)]
    pub fn read_exact(&self, buffer: SharedBuf) -> Result<(), Errno> {
        if self.read_full(buffer)? == buffer.len() { Ok(()) } else { Err(Errno::ECONNRESET) }
    }

    /// Sends: all of it, or on a non-blocking socket as much as fits.
    #[inline(always)]
    pub fn write(&self, buffer: impl buf::From<G>) -> Result<usize, Errno> {
        calls::send(self.0.on.net, self.0.on.group, self.0.handle, buffer, 0)
    }

    /// Sends all of it, or says why not: EAGAIN on a non-blocking socket, else what ended the wait
    /// for space. Part of it may have been sent.
    #[inline(always)]
    pub fn write_all(&self, buffer: impl buf::From<G>) -> Result<(), Errno> {
        let (on, handle) = (self.0.on, self.0.handle);
        calls::send_all(on.net, on.group, handle, buffer)
    }

    /// Looks at received bytes in the ring itself: at least `least`, all there are.
    ///
    /// None once the peer has closed and all was consumed. Fewer than `least` come only at the
    /// end of the stream.
    #[inline(always)]
    pub fn look(&self, least: usize) -> Result<Option<Look<'_, G>>, Errno> {
        let on = self.0.on;
        on.group.agree("look", &[self.0.handle.0, least as u64]);
        let slice = RingSlice::open(on, self.0.handle, RECEIVE_SIDE, least.max(1), usize::MAX)?;
        Ok(slice.map(|slice| Look { stream: self, slice, used: 0 }))
    }

    /// Reserves space in the ring itself: at least `least` bytes, at most `most`.
    #[inline(always)]
    pub fn reserve(&self, least: usize, most: usize) -> Result<Reserve<'_, G>, Errno> {
        let on = self.0.on;
        on.group.agree("reserve", &[self.0.handle.0, least as u64, most as u64]);
        let slice = RingSlice::open(on, self.0.handle, SEND_SIDE, least.max(1), most.max(least))?;
        slice.map(|slice| Reserve { stream: self, slice, used: 0 }).ok_or(Errno::EPIPE)
    }

    /// Ends one direction or both ([`calls::SHUT_RD`] and its siblings).
    #[inline(always)]
    pub fn shutdown(&self, how: i32) -> Result<(), Errno> {
        let on = self.0.on;
        Errno::check(calls::gshutdown(on.net, on.group, self.0.handle, how)).map(|_| ())
    }

    /// The peer's address.
    #[inline(always)]
    pub fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        calls::ggetpeername(self.0.on.net, self.0.on.group, self.0.handle)
    }

    /// Its own address.
    #[inline(always)]
    pub fn local_addr(&self) -> Result<SocketAddr, Errno> {
        calls::ggetsockname(self.0.on.net, self.0.on.group, self.0.handle)
    }

    /// Sets an option.
    #[inline(always)]
    pub fn set(&self, option: SocketOption, value: u64) -> Result<(), Errno> {
        self.0.set(option, value)
    }

    /// Limits how long reads may wait, in nanoseconds; 0: no limit.
    #[inline(always)]
    pub fn set_read_timeout(&self, ns: u64) -> Result<(), Errno> {
        self.set(SocketOption::ReceiveTimeout, ns)
    }

    /// Limits how long writes may wait, in nanoseconds; 0: no limit.
    #[inline(always)]
    pub fn set_write_timeout(&self, ns: u64) -> Result<(), Errno> {
        self.set(SocketOption::SendTimeout, ns)
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
    pub fn close(self) -> Result<(), Errno> {
        self.0.close()
    }
}

/// Received bytes, in the ring. The reading side of the stream is held until this goes.
pub struct Look<'s, G: Group> {
    stream: &'s Stream<G>,
    slice: RingSlice,
    used: usize,
}

impl<G: Group> Look<'_, G> {
    /// The bytes, in two pieces; the second is empty unless they wrap.
    #[inline(always)]
    pub fn pieces(&self) -> [Received<'_>; 2] {
        self.slice.pieces().map(Received::new)
    }

    /// How many there are.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Consumes the first `bytes` of them; without it nothing is consumed.
    #[inline(always)]
    pub fn consume(mut self, bytes: usize) {
        self.used = bytes;
    }
}

impl<G: Group> Drop for Look<'_, G> {
    #[inline(always)]
    fn drop(&mut self) {
        let (on, handle) = (self.stream.0.on, self.stream.0.handle);
        if !is_unwinding() {
            self.slice.close(on, handle, RECEIVE_SIDE, self.used);
        }
    }
}

/// Space in the ring. The writing side of the stream is held until this goes.
pub struct Reserve<'s, G: Group> {
    stream: &'s Stream<G>,
    slice: RingSlice,
    used: usize,
}

impl<G: Group> Reserve<'_, G> {
    /// The space, in two pieces; the second is empty unless it wraps.
    #[inline(always)]
    pub fn pieces(&self) -> [Space<'_>; 2] {
        self.slice.pieces().map(Space::new)
    }

    /// How much there is.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Sends the first `bytes` of it; without it nothing is sent.
    #[inline(always)]
    pub fn commit(mut self, bytes: usize) {
        self.used = bytes;
    }
}

impl<G: Group> Drop for Reserve<'_, G> {
    #[inline(always)]
    fn drop(&mut self) {
        let (on, handle) = (self.stream.0.on, self.stream.0.handle);
        if !is_unwinding() {
            self.slice.close(on, handle, SEND_SIDE, self.used);
        }
    }
}
