//! Transports: what moves bytes between rings and peers.
//!
//! The proxy knows sockets only through [`Socket`]. A stream is given windows of a ring to fill
//! or drain and says how many bytes it moved; nothing here waits. Each transport is one file:
//!
//! | transport | addresses | moves bytes |
//! | --- | --- | --- |
//! | [`tcp`] | IPv4, IPv6 | the system's socket reads into the ring and writes from it |
//! | [`unix`] | paths | likewise |
//! | `rdma` | IPv4, IPv6 | the network's device takes them out of the ring and puts them there |
//! | `local` | all of this machine | kernels, straight into each other's rings |
//!
//! `ip` chooses between TCP and RDMA, `near` between the last and all others.
//!
//! What a transport must supply: a way to make a [`Socket`] for a domain, and everything in that
//! trait; a descriptor to wait on where there is one.

mod choice;
pub mod descriptor;
mod ip;
pub(crate) mod local;
mod near;
mod patience;
pub(crate) mod rdma;
pub mod tcp;
pub mod unix;

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpunet_device::abi::card::{Inboxes, Place};
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};

pub use choice::{Placement, Placements, TransportChoice};

use crate::memory::Window;
use ip::IpSocket;
use local::Local;
use near::NearSocket;
use rdma::Rdma;

/// What an attempt to move bytes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// That many bytes; none where it was busy otherwise, and is to be tried again soon.
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

/// In which memory a socket's rings lie: a place's region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RingRegion {
    /// Pinned host memory.
    Host = 0,
    /// GPU memory, which the proxy itself cannot reach.
    Gpu = 1,
    /// The window of direct streams, whose rings come with the socket.
    Window = gpunet_device::abi::net::WINDOW,
}

/// The rings that a stream has got.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// From the peer.
    pub receive: Place,
    /// To the peer.
    pub send: Place,
}

/// What is known of the other end of a direct stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// How far its kernel has sent, as last heard.
    pub sent: u64,
    /// How far it has received, as last heard.
    pub received: u64,
    /// It sends no more.
    pub ended: bool,
    /// It is closed.
    pub closed: bool,
    /// It may have said more than was heard in one go.
    pub more: bool,
}

/// The proxy's part of a direct stream, whose bytes and counters go from kernel to kernel.
pub trait Direct {
    /// Where its rings and inboxes lie, for a kernel.
    fn rings(&mut self) -> Option<(Rings, Inboxes)>;

    /// What the other end's proxy has said. An error: it is gone.
    fn hear(&mut self) -> Result<News, Errno>;

    /// Tells how far this side's kernel has sent and received, if a poller at the other end wants
    /// to know.
    fn tell(&mut self, tail: u64, head: u64);

    /// Whether one does.
    fn is_watched(&self) -> bool;

    /// A poller of this side wants to know how far the other end is.
    fn watch(&mut self);

    /// Looks for itself how far the other end is: rarely, since that takes the GPU's driver.
    fn look(&mut self);

    /// It is about to be closed though kernels of this side may still use it: the other end is not
    /// to be told that they no longer do.
    fn abandon(&mut self);
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

    /// Which rings it shall have, where it makes them itself: before `region`.
    fn wish(&mut self, receive_ring: u32, send_ring: u32) {
        let _ = (receive_ring, send_ring);
    }

    /// In which memory its rings shall lie: of a connection to `peer`, or of the one that is
    /// accepted next.
    fn region(&mut self, peer: Option<&SocketAddr>) -> Result<RingRegion, Errno> {
        let _ = peer;
        Ok(RingRegion::Host)
    }

    /// Its rings, before it connects or after it was accepted.
    fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        let _ = rings;
        Ok(())
    }

    /// Begins to connect; whether it is done already. EAGAIN: the listener's queue is full (UNIX),
    /// so try again.
    fn connect(&mut self, address: &SocketAddr) -> Result<bool, Errno>;

    /// Asks, after the descriptor became writable, whether the connect is done.
    fn finish_connect(&mut self) -> Result<bool, Errno>;

    /// Asked after that was not done: whether it is to be connected once more, from `region` on,
    /// and where to. What it tried first did not work out.
    fn starts_anew(&mut self) -> Option<SocketAddr> {
        None
    }

    /// Whether its descriptor is another one since the last time this was asked.
    fn has_moved(&mut self) -> bool {
        false
    }

    /// The next connection of a listener, if one waits.
    fn accept(&mut self) -> Result<Option<Box<dyn Socket>>, Errno>;

    /// Whether bytes reach the ring and leave it by themselves: `receive` and `send` only say how
    /// many did. Windows then begin where the last one's bytes ended.
    fn places_bytes(&self) -> bool {
        false
    }

    /// Its proxy's part, if it is a direct stream.
    fn direct(&mut self) -> Option<&mut dyn Direct> {
        None
    }

    /// Whether it wants to know how far the kernel has read, lest the peer waits.
    fn wants_head(&self) -> bool {
        false
    }

    /// The kernel has read up to here; asked for again and again by [`Self::wants_head`].
    fn consumed(&mut self, head: u64) {
        let _ = head;
    }

    /// Whether it has heard of something that `receive`, or `send`, would tell, and that the
    /// descriptor has told already: each of them hears of both directions.
    fn has_news(&self, of: Direction) -> bool {
        let _ = of;
        false
    }

    /// Receives into ring memory.
    fn receive(&mut self, window: &Window) -> Result<Moved, Errno>;

    /// Whether bytes are there to be received, or the end, without receiving any.
    fn peek(&mut self) -> Result<Moved, Errno> {
        Ok(Moved::Bytes(1))
    }

    /// Bytes that were sent and that the peer's side has not taken, as far as the system knows; with
    /// [`Self::places_bytes`], those that were handed to `send` and of which it has not told.
    fn untaken(&self) -> u64 {
        0
    }

    /// Sends from ring memory.
    fn send(&mut self, window: &Window) -> Result<Moved, Errno>;

    /// Drops bytes that arrived and that nobody will read; as `receive`.
    fn discard(&mut self) -> Result<Moved, Errno>;

    /// Ends a direction.
    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno>;

    /// Says goodbye to the peer. Whether that is done, so that it can be dropped without harm.
    fn leave(&mut self) -> bool {
        true
    }

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

/// How long it is remembered whether a peer takes RDMA.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Peers that are remembered.
const MOST_PEERS: usize = 4096;

/// Which peers were found to take RDMA, and which not: only `auto` asks.
#[derive(Default)]
pub(crate) struct Peers(Mutex<HashMap<std::net::SocketAddr, (bool, Instant)>>);

impl Peers {
    fn lock(&self) -> MutexGuard<'_, HashMap<std::net::SocketAddr, (bool, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn takes_rdma(&self, peer: std::net::SocketAddr) -> Option<bool> {
        let peers = self.lock();
        let (takes, noted) = peers.get(&peer)?;
        (noted.elapsed() < REMEMBERED).then_some(*takes)
    }

    fn note(&self, peer: &SocketAddr, takes: bool) {
        let Some(peer) = peer.to_ip() else { return };
        let mut peers = self.lock();
        if peers.len() >= MOST_PEERS {
            peers.clear();
        }
        peers.insert(peer, (takes, Instant::now()));
    }
}

/// No address in particular, of a domain. A path has to be named.
fn any_address(domain: Domain) -> Result<SocketAddr, Errno> {
    match domain {
        Domain::V4 => Ok(SocketAddr::v4([0; 4], 0)),
        Domain::V6 => Ok(SocketAddr::v6([0; 16], 0, 0, 0)),
        Domain::Unix => Err(Errno::EINVAL),
    }
}

/// What the sockets of a net are made with.
#[derive(Default)]
pub(crate) struct Transports {
    choice: TransportChoice,
    /// None: this machine has none, or the net shall not use it.
    rdma: Option<Arc<Rdma>>,
    /// The same of direct streams.
    local: Option<Arc<Local>>,
    peers: Arc<Peers>,
}

impl Transports {
    pub(crate) fn new(choice: TransportChoice, rdma: Option<Rdma>, local: Option<Local>) -> Self {
        let (rdma, local) = (rdma.map(Arc::new), local.map(Arc::new));
        Self { choice, rdma, local, peers: Arc::default() }
    }

    /// What is known of the devices that were used.
    pub(crate) fn adapters(&self) -> Vec<rdma::AdapterReport> {
        self.rdma.as_ref().map_or(Vec::new(), |rdma| rdma.report())
    }

    /// Gives back what streams left behind that are closed at both ends by now.
    pub(crate) fn tidy(&self) {
        if let Some(local) = &self.local {
            local.tidy();
        }
    }

    /// Direct streams that are closed at one end alone, and bytes of their memory that are not free.
    #[cfg(feature = "simulation")]
    pub(crate) fn left_behind(&self) -> (usize, u64) {
        self.local.as_ref().map_or((0, 0), |local| local.left_behind())
    }

    /// A new socket for a domain.
    pub(crate) fn make(&self, domain: Domain) -> Result<Box<dyn Socket>, Errno> {
        let far = self.make_far(domain)?;
        Ok(match &self.local {
            Some(local) => Box::new(NearSocket::new(Arc::clone(local), far, self.choice)),
            None => far,
        })
    }

    /// The same without direct streams.
    fn make_far(&self, domain: Domain) -> Result<Box<dyn Socket>, Errno> {
        #[cfg(feature = "simulation")]
        if let Some(made) = crate::simulation::network::make(domain) {
            return made;
        }
        match (domain, &self.rdma) {
            (Domain::Unix, _) => unix::make(),
            (_, None) => tcp::make(domain),
            (_, Some(rdma)) => {
                let (rdma, peers) = (Arc::clone(rdma), Arc::clone(&self.peers));
                Ok(Box::new(IpSocket::new(rdma, peers, self.choice, domain)?) as _)
            }
        }
    }
}

/// A socket as a net with direct streams makes it, over one of a test's own.
#[cfg(test)]
pub(crate) fn beside_direct_streams(local: Local, far: Box<dyn Socket>) -> Box<dyn Socket> {
    Box::new(NearSocket::new(Arc::new(local), far, TransportChoice::Tcp))
}

/// A socket that a program made; and whether it listens.
pub(crate) fn adopt(descriptor: OwnedFd) -> Result<(Box<dyn Socket>, bool), Errno> {
    descriptor::adopt(descriptor)
}
