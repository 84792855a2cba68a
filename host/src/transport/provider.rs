//! What a transport beside the system's sockets supplies to the sockets of a net: how they connect by it, and
//! how they listen. A net has a list of providers, in the order in which they are tried; the system's
//! sockets come last.

use std::sync::Arc;
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::{Domain, SocketAddr};

use super::rdma::AdapterReport;
use super::ready_set::ReadySet;
use super::unconnected::Unconnected;
use super::{Acceptor, Connector, Transport};

/// See the module.
pub(crate) trait Provider: Send + Sync {
    /// Its name.
    fn transport(&self) -> Transport;

    /// Whether sockets of that domain may use it.
    fn serves(&self, domain: Domain) -> bool;

    /// Whether a connection to a peer is tried this way, where other transports may be.
    fn reaches(&self, peer: &SocketAddr) -> bool;

    /// A connection of a socket to a peer, which has not begun. `last`: no other transport is tried after
    /// this one.
    fn connector(
        self: Arc<Self>,
        socket: &mut Unconnected,
        peer: &SocketAddr,
        last: bool,
    ) -> Result<Box<dyn Connector>, Errno>;

    /// How long a peer may take to answer.
    fn timeout(&self, last: bool) -> Option<Duration>;

    /// A connection to a peer was made this way, or could not be.
    fn tried(&self, _peer: &SocketAddr, _made: bool) {}

    /// Whether it has ports of its own. Else the system's socket holds the port of a socket.
    fn has_ports(&self) -> bool {
        false
    }

    /// The port at which a socket will listen.
    fn port(self: Arc<Self>, socket: &Unconnected, address: &SocketAddr) -> Result<Port, Errno>;

    /// Memory on the GPU that kernels of this net alone use, where streams of this transport are theirs alone.
    fn kernel_memory(&self, _bytes: u32) -> Option<Result<Box<dyn KernelMemory>, Errno>> {
        None
    }

    /// What is known of the devices that were used.
    fn adapters(&self) -> Vec<AdapterReport> {
        Vec::new()
    }

    /// Frees memory of streams that are closed at both ends by now.
    fn tidy(&self) {}

    /// Streams that are closed at one end alone, and bytes of their memory that are not free.
    #[cfg(test)]
    fn left_behind(&self) -> (usize, u64) {
        (0, 0)
    }
}

/// Memory in the window that kernels use; free once it is dropped.
pub(crate) trait KernelMemory: Send {
    /// The page of the window where it begins.
    fn page(&self) -> u32;
}

/// A port at which no socket listens yet. It has the socket listen there, with the options that it has now and
/// that backlog; the set is what all its acceptors wait on.
pub(crate) type Port =
    Box<dyn FnOnce(&Unconnected, u32, &Arc<ReadySet>) -> Result<Box<dyn Acceptor>, Errno> + Send>;
