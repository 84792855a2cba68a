//! What a transport supplies: a connector, an acceptor and a stream. No call waits.

use std::ops::{Deref, DerefMut};
use std::os::fd::{BorrowedFd, OwnedFd};

use gpunet_device::SocketAddr;
use gpunet_device::abi::descriptor::Inboxes;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;

use super::{Direction, RingRegion, RingSizes, Rings, Transferred, Transport};
use crate::memory::RingSlice;

/// What connectors, acceptors and streams have in common.
pub(crate) trait Socket: Send {
    /// Which transport it belongs to.
    fn transport(&self) -> Transport;

    /// Sets an option. One that has none says ENOPROTOOPT.
    fn set_option(&mut self, _option: SocketOption, _value: u64) -> Result<(), Errno> {
        Err(Errno::ENOPROTOOPT)
    }

    /// Reads an option.
    fn option(&self, _option: SocketOption) -> Result<u64, Errno> {
        Err(Errno::ENOPROTOOPT)
    }

    /// Its own address.
    fn local_addr(&self) -> Result<SocketAddr, Errno>;

    /// What to wait on, if there is anything.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The system's socket, for a program that takes it back.
    fn into_descriptor(self: Box<Self>) -> Option<OwnedFd> {
        None
    }
}

/// A connection that is being made: the calls come in this order.
pub(crate) trait Connector: Socket {
    /// In which memory the rings of a connection to `peer` shall lie.
    fn region(&mut self, _peer: &SocketAddr) -> Result<RingRegion, Errno> {
        Ok(RingRegion::Host)
    }

    /// Its rings.
    fn attach(&mut self, _rings: &Rings) -> Result<(), Errno> {
        Ok(())
    }

    /// Begins to connect; whether it is done already. EAGAIN: the listener's queue is full, so try
    /// again.
    fn connect(&mut self, peer: &SocketAddr) -> Result<bool, Errno>;

    /// Asks, after the descriptor became ready, whether the connect is done.
    fn finish_connect(&mut self) -> Result<bool, Errno>;

    /// As if it had waited so long for room in the listener's queue.
    #[cfg(test)]
    fn has_waited(&mut self, _time: std::time::Duration) {}

    /// The stream, once it is.
    fn into_stream(self: Box<Self>) -> Result<Carrier, Errno>;
}

/// A socket of the system, or of what stands for it, which may connect or listen.
pub(crate) trait SystemSocket: Connector {
    /// Gives it its own address.
    fn bind(&mut self, address: &SocketAddr) -> Result<(), Errno>;

    /// Has it listen.
    fn listen(&mut self, backlog: u32) -> Result<(), Errno>;

    /// The acceptor, once it does.
    fn into_acceptor(self: Box<Self>) -> Box<dyn Acceptor>;
}

/// Connections of peers that wait to be accepted.
pub(crate) trait Acceptor: Socket {
    /// In which memory the rings of the connection shall lie that is accepted next. None: none
    /// waits, or it is a matter of host memory whichever it is.
    fn region(&mut self, _sizes: RingSizes) -> Result<Option<RingRegion>, Errno> {
        Ok(None)
    }

    /// The next connection, if one waits.
    fn accept(&mut self) -> Result<Option<Carrier>, Errno>;

    /// Refuses those that wait and all that would come.
    fn shutdown(&mut self) -> Result<(), Errno> {
        Ok(())
    }
}

/// A connection, by what carries its bytes.
pub(crate) enum Carrier {
    /// The proxy, between the rings and a socket of the system.
    System(Box<dyn SystemStream>),
    /// A device, which reads one ring and writes the other by itself.
    Device(Box<dyn DeviceStream>),
    /// The kernels at both ends, straight into each other's memory.
    Kernels(Box<dyn KernelStream>),
}

impl Deref for Carrier {
    type Target = dyn Stream;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::System(stream) => stream.as_ref(),
            Self::Device(stream) => stream.as_ref(),
            Self::Kernels(stream) => stream.as_ref(),
        }
    }
}

impl DerefMut for Carrier {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::System(stream) => stream.as_mut(),
            Self::Device(stream) => stream.as_mut(),
            Self::Kernels(stream) => stream.as_mut(),
        }
    }
}

/// What all connections have, whatever carries their bytes.
pub(crate) trait Stream: Socket {
    /// The peer's address.
    fn peer_addr(&self) -> Result<SocketAddr, Errno>;

    /// Its rings, after it was accepted.
    fn attach(&mut self, _rings: &Rings) -> Result<(), Errno> {
        Ok(())
    }

    /// Drops bytes that arrived and that no kernel will read.
    fn discard(&mut self) -> Result<Transferred, Errno> {
        Ok(Transferred::Later)
    }

    /// Has the peer see a reset when this is dropped: not all was sent.
    fn cut_off(&mut self) {}

    /// Ends a direction.
    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno>;

    /// Disconnects from the peer. Whether that is done, so that it can be dropped without harm.
    fn leave(&mut self) -> bool {
        true
    }
}

/// A socket of the system.
pub(crate) trait SystemStream: Stream {
    /// Receives into ring memory.
    fn receive(&mut self, slice: &RingSlice) -> Result<Transferred, Errno>;

    /// Sends from ring memory.
    fn send(&mut self, slice: &RingSlice) -> Result<Transferred, Errno>;

    /// Whether bytes are there to be received, or the end, without receiving any.
    fn peek(&mut self) -> Result<Transferred, Errno> {
        Ok(Transferred::Bytes(1))
    }

    /// Bytes that were sent and that the peer's side has not taken, as far as the system knows.
    fn untaken(&self) -> u64 {
        0
    }
}

/// A stream of a device. `receive` and `send` say how many more bytes have reached the receive ring and
/// have left the send ring; each of them learns of both directions.
pub(crate) trait DeviceStream: Stream {
    /// Reports at most `most` more bytes that have arrived.
    fn receive(&mut self, most: u64) -> Result<Transferred, Errno>;

    /// The device may send `most` bytes from where the last report ended; how many of them it has sent.
    fn send(&mut self, most: u64) -> Result<Transferred, Errno>;

    /// What `receive` would report.
    fn peek(&mut self) -> Result<Transferred, Errno> {
        Ok(Transferred::Bytes(1))
    }

    /// Bytes that were handed to `send` and that it has not reported.
    fn untaken(&self) -> u64;

    /// Whether it must know how far the kernel has read, lest the peer waits.
    fn wants_head(&self) -> bool {
        false
    }

    /// The kernel has read up to here; asked for again and again by [`Self::wants_head`].
    fn consumed(&mut self, _head: u64) {}

    /// Whether it knows of something that `receive`, or `send`, would report, and that the descriptor
    /// has reported already.
    fn has_progress(&self, of: Direction) -> bool;
}

/// What is known of the end of a p2p stream at the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerEnding {
    /// It sends no more.
    pub(crate) ended: bool,
    /// It is closed.
    pub(crate) closed: bool,
    /// More messages may wait than were received in one go.
    pub(crate) more: bool,
}

/// The proxy's part of a p2p stream, whose bytes and counters go from kernel to kernel.
pub(crate) trait KernelStream: Stream {
    /// Where its rings and inboxes lie, for a kernel.
    fn rings(&mut self) -> Option<(Rings, Inboxes)>;

    /// What the other end's proxy has said. An error: it is gone.
    fn receive_ending(&mut self) -> Result<PeerEnding, Errno>;

    /// It is about to be closed though kernels of this side may still use it: the other end is not
    /// to be notified that they no longer do.
    fn abandon(&mut self);
}
