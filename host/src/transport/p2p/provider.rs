//! P2p streams as the sockets of a net use them.

use std::sync::Arc;
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};

use super::super::provider::{KernelMemory, Port, Provider};
use super::super::unconnected::Unconnected;
use super::super::{Connector, Transport};
use super::acceptor::P2pAcceptor;
use super::arena::BASE;
use super::connector::P2pConnector;
use super::handshake::TIMEOUT;
use super::names::{Names, is_mapped};
use super::process::Process;
use super::registry::nobody_at;
use super::shared::P2p;
use crate::pool::LARGEST_RING;

/// How long a listener may take to answer where other transports follow: its proxy runs on this machine.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

impl Provider for P2p {
    fn transport(&self) -> Transport {
        Transport::P2p
    }

    fn serves(&self, _domain: Domain) -> bool {
        true
    }

    fn reaches(&self, _peer: &SocketAddr) -> bool {
        true
    }

    fn connector(
        self: Arc<Self>,
        socket: &mut Unconnected,
        peer: &SocketAddr,
        last: bool,
    ) -> Result<Box<dyn Connector>, Errno> {
        let (domain, sizes) = (socket.domain, socket.sizes);
        if peer.domain() != Some(domain) {
            return Err(Errno::EAFNOSUPPORT);
        }
        if is_mapped(peer) && socket.is_set(SocketOption::V6Only) {
            return Err(Errno::ENETUNREACH);
        }
        let channel = match self.call(peer) {
            Ok(Some(channel)) => Some(channel),
            Ok(None) => return Err(nobody_at(peer)),
            // Its queue is full.
            Err(Errno::EAGAIN) => None,
            Err(errno) => return Err(errno),
        };
        let names = Names { domain, own: socket.name_for(peer)?, peer: *peer };
        let timeout = if last { TIMEOUT } else { SHORT_TIMEOUT };
        Ok(Box::new(P2pConnector::new(self, channel, names, sizes, timeout)))
    }

    fn timeout(&self, last: bool) -> Option<Duration> {
        Some(if last { TIMEOUT } else { SHORT_TIMEOUT })
    }

    fn port(self: Arc<Self>, socket: &Unconnected, address: &SocketAddr) -> Result<Port, Errno> {
        let v6_only = socket.is_set(SocketOption::V6Only);
        let shared = socket.is_set(SocketOption::ReusePort);
        let (address, registration) = (*address, self.registry.listen(address, v6_only, shared)?);
        Ok(Box::new(move |socket, _backlog, set| {
            let (domain, set) = (socket.domain, Arc::clone(set));
            Ok(Box::new(P2pAcceptor::new(self, registration, domain, address, set)?))
        }))
    }

    fn kernel_memory(&self, bytes: u32) -> Option<Result<Box<dyn KernelMemory>, Errno>> {
        if bytes > LARGEST_RING {
            return Some(Err(Errno::ENOBUFS));
        }
        // As for a stream of this process with itself: nobody else is given that arena.
        let memory = self.inbox(Process::this(), bytes, BASE);
        Some(memory.map(|inbox| Box::new(inbox) as _))
    }

    fn tidy(&self) {
        self.free_complete();
        self.arenas.tidy();
    }

    #[cfg(test)]
    fn left_behind(&self) -> (usize, u64) {
        (crate::lock::lock(&self.deferred).len(), self.arenas.used_bytes())
    }
}
