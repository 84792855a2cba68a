//! Transports: what moves bytes between rings and peers.
//!
//! The proxy knows sockets only through [`Socket`]. A stream is given windows of a ring to fill
//! or drain and says how many bytes it moved; nothing here waits. Each transport is one file:
//!
//! | transport | addresses | moves bytes |
//! | --- | --- | --- |
//! | [`tcp`] | IPv4, IPv6 | the system's socket reads into the ring and writes from it |
//! | [`unix`] | paths | likewise |
//!
//! What a transport must supply: a way to make a [`Socket`] for a domain, and everything in that
//! trait; a descriptor to wait on where there is one.

pub mod descriptor;
pub mod tcp;
pub mod unix;

use std::os::fd::{BorrowedFd, OwnedFd};

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};

use crate::memory::Window;

/// What an attempt to move bytes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// That many bytes, at least one.
    Bytes(usize),
    /// None now; the descriptor will tell.
    Later,
    /// None any more: the peer has closed.
    End,
}

/// A direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer.
    Receive,
    /// To the peer.
    Send,
}

/// A socket of some transport. No call waits.
pub trait Socket: Send {
    /// The transport's name, for people.
    fn transport(&self) -> &'static str;

    /// What addresses it speaks.
    fn domain(&self) -> Domain;

    /// Gives it its own address.
    fn bind(&mut self, address: &SocketAddr) -> Result<(), Errno>;

    /// Turns it into a listener.
    fn listen(&mut self, backlog: u32) -> Result<(), Errno>;

    /// Begins to connect; whether it is done already. EAGAIN: the listener's queue is full (UNIX),
    /// so try again.
    fn connect(&mut self, address: &SocketAddr) -> Result<bool, Errno>;

    /// Asks, after the descriptor became writable, whether the connect is done.
    fn finish_connect(&mut self) -> Result<bool, Errno>;

    /// The next connection of a listener, if one waits.
    fn accept(&mut self) -> Result<Option<Box<dyn Socket>>, Errno>;

    /// Receives into ring memory.
    fn receive(&mut self, window: &Window) -> Result<Moved, Errno>;

    /// Whether bytes are there to be received, or the end, without receiving any.
    fn peek(&mut self) -> Result<Moved, Errno> {
        Ok(Moved::Bytes(1))
    }

    /// Bytes that were sent and that the peer's side has not taken, as far as the system knows.
    fn untaken(&self) -> u64 {
        0
    }

    /// Sends from ring memory.
    fn send(&mut self, window: &Window) -> Result<Moved, Errno>;

    /// Drops bytes that arrived and that nobody will read; as `receive`.
    fn discard(&mut self) -> Result<Moved, Errno>;

    /// Ends a direction.
    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno>;

    /// Sets an option of the system's socket.
    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno>;

    /// Reads an option of the system's socket.
    fn option(&self, option: SocketOption) -> Result<u64, Errno>;

    /// Its own address.
    fn local_addr(&self) -> Result<SocketAddr, Errno>;

    /// The peer's address.
    fn peer_addr(&self) -> Result<SocketAddr, Errno>;

    /// What to wait on.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The system's socket, for a program that takes it back.
    fn into_descriptor(self: Box<Self>) -> Option<OwnedFd>;
}

/// A new socket for a domain.
pub(crate) fn make(domain: Domain) -> Result<Box<dyn Socket>, Errno> {
    #[cfg(feature = "simulation")]
    if let Some(made) = crate::simulation::network::make(domain) {
        return made;
    }
    match domain {
        Domain::V4 | Domain::V6 => tcp::make(domain),
        Domain::Unix => unix::make(),
    }
}

/// A socket that a program made; and whether it listens.
pub(crate) fn adopt(descriptor: OwnedFd) -> Result<(Box<dyn Socket>, bool), Errno> {
    descriptor::adopt(descriptor)
}
