//! Transports: what moves bytes between rings and peers.
//!
//! ```text
//!  Endpoint      what the proxy has of a socket: one of four states
//!   ├ Unconnected   a socket of the system, for its address and options, and what was chosen
//!   ├ Connecting    candidates, in order, one of which is being tried
//!   ├ Listener      acceptors, one for each transport that peers may come by
//!   └ Stream        a stream of one transport, by what carries its bytes
//! ```
//!
//! | transport | addresses | candidate where | moves bytes |
//! | --- | --- | --- | --- |
//! | `p2p` | all of this machine | a kernel of this user listens there | kernels, straight into each other's rings |
//! | `rdma` | IPv4, IPv6 | the route to the peer has a device | the network's device, from ring and to ring |
//! | `tcp` | IPv4, IPv6 | always | the system's socket reads into the ring and writes from it |
//! | `unix` | paths | always | likewise |
//!
//! A transport beside the system's sockets is a `Provider`: a net has a list of them, and nothing else here names
//! one. A transport supplies a `Connector`, an `Acceptor` and a `Stream`; that of the system's
//! sockets a `SystemSocket` as well. What a stream is asked for depends on what carries its bytes
//! (`Carrier`): a socket of the system is given slices of a ring to fill or drain, a device says how far it
//! came, kernels report how they end. Nothing waits. What they use of the operating system is passed in (`system`).

mod bound_path;
mod choice;
mod connecting;
mod descriptor;
pub(crate) mod endpoint;
mod errno;
pub(crate) mod linux;
mod listener;
mod name;
pub(crate) mod p2p;
pub(crate) mod provider;
pub(crate) mod rdma;
mod ready_set;
mod socket;
pub(crate) mod system;
#[cfg(test)]
mod tests;
mod timeout;
mod unconnected;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use gpunet_device::abi::descriptor::RingLocation;
use gpunet_device::abi::errno::Errno;
use gpunet_device::{Domain, SocketAddr};

pub use choice::{Placement, Placements, TransportChoice};
pub(crate) use endpoint::Endpoint;
pub use name::{Transport, TransportNames};
pub(crate) use socket::{
    Acceptor, Carrier, Connector, DeviceStream, KernelStream, PeerEnding, Socket, Stream,
    SystemSocket, SystemStream,
};

pub(crate) use provider::{KernelMemory, Provider};
use system::SystemRef;
use unconnected::Unconnected;

/// What an attempt to move bytes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transferred {
    /// That many bytes; none where it was busy otherwise, and is to be tried again soon.
    Bytes(usize),
    /// None now; the descriptor will become ready.
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

/// In which memory a socket's rings lie: a location's region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RingRegion {
    /// Pinned host memory.
    Host = 0,
    /// GPU memory, which the proxy itself cannot reach.
    Gpu = 1,
    /// The arenas of p2p streams, whose rings come with the stream.
    Window = gpunet_device::abi::net::WINDOW,
}

/// The rings that a stream has got.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// From the peer.
    pub receive: RingLocation,
    /// To the peer.
    pub send: RingLocation,
}

/// Capacities that a socket's rings shall have, where the transport makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingSizes {
    pub(crate) receive: u32,
    pub(crate) send: u32,
}

/// No address in particular, of a domain. A path has to be named.
fn any_address(domain: Domain) -> Result<SocketAddr, Errno> {
    match domain {
        Domain::V4 => Ok(SocketAddr::v4([0; 4], 0)),
        Domain::V6 => Ok(SocketAddr::v6([0; 16], 0, 0, 0)),
        Domain::Unix => Err(Errno::EINVAL),
    }
}

/// What the sockets of a net have in common.
struct Available {
    system: SystemRef,
    providers: Vec<Arc<dyn Provider>>,
}

impl Available {
    /// The providers by which sockets of a domain may travel that have made this choice.
    fn providers(
        &self,
        choice: TransportChoice,
        domain: Domain,
    ) -> impl Iterator<Item = &Arc<dyn Provider>> {
        let auto = choice == TransportChoice::Auto;
        let chosen = move |it: &dyn Provider| auto || it.transport().choice() == choice;
        self.providers.iter().filter(move |it| chosen(&***it) && it.serves(domain))
    }

    /// The candidates for a connection to a peer, in the order in which they are tried.
    fn candidates(&self, choice: TransportChoice, peer: &SocketAddr) -> VecDeque<Candidate> {
        let auto = choice == TransportChoice::Auto;
        let served = peer.domain().into_iter().flat_map(|domain| self.providers(choice, domain));
        let reached = served.filter(|provider| !auto || provider.reaches(peer));
        let mut all: VecDeque<_> = reached.cloned().map(Some).collect();
        // A path that was to be reached by RDMA is the system's.
        let others = matches!(choice, TransportChoice::Tcp | TransportChoice::Rdma);
        if auto || others && all.is_empty() {
            all.push_back(None);
        }
        all
    }
}

/// A transport to be tried: a provider's, or the system's socket.
type Candidate = Option<Arc<dyn Provider>>;

/// What the sockets of a net are made with.
pub(crate) struct Transports {
    choice: TransportChoice,
    available: Arc<Available>,
}

impl Transports {
    /// `providers`: the transports of the net beside the system's sockets, in the order in which they are
    /// tried.
    pub(crate) fn new(
        choice: TransportChoice,
        system: SystemRef,
        providers: Vec<Arc<dyn Provider>>,
    ) -> Self {
        Self { choice, available: Arc::new(Available { system, providers }) }
    }

    /// What is known of the RDMA devices that were used.
    pub(crate) fn adapters(&self) -> Vec<rdma::AdapterReport> {
        self.available.providers.iter().flat_map(|provider| provider.adapters()).collect()
    }

    /// See [`Provider::kernel_memory`]: of the first transport that has any.
    pub(crate) fn kernel_memory(&self, bytes: u32) -> Option<Result<Box<dyn KernelMemory>, Errno>> {
        self.available.providers.iter().find_map(|provider| provider.kernel_memory(bytes))
    }

    /// Frees memory of streams that are closed at both ends by now.
    pub(crate) fn tidy(&self) {
        self.available.providers.iter().for_each(|provider| provider.tidy());
    }

    /// A new socket for a domain.
    pub(crate) fn make(&self, domain: Domain) -> Result<Endpoint, Errno> {
        let socket = Unconnected::new(Arc::clone(&self.available), self.choice, domain)?;
        Ok(socket.into())
    }
}

/// A socket that a program made; and whether it listens.
pub(crate) fn adopt(descriptor: OwnedFd) -> Result<(Endpoint, bool), Errno> {
    let (socket, listens) = descriptor::adopt(descriptor)?;
    let endpoint = match listens {
        true => Endpoint::from(socket as Box<dyn Acceptor>),
        false => Endpoint::from(Carrier::System(socket)),
    };
    Ok((endpoint, listens))
}
