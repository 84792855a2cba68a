//! RDMA as the sockets of a net use it.

use std::sync::Arc;
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::{Domain, SocketAddr};

use super::super::provider::{Port, Provider};
use super::super::unconnected::Unconnected;
use super::super::{Connector, Transport, TransportChoice};
use super::acceptor::RdmaAcceptor;
use super::connector::RdmaConnector;
use super::options::RdmaOptions;
use super::{AdapterReport, Rdma};
use crate::lock::lock;

/// How long a peer may take to answer where other transports follow. A machine without RDMA
/// does not even refuse, and the system would ask it for a minute.
const TIMEOUT: Duration = Duration::from_secs(3);

impl Provider for Rdma {
    fn transport(&self) -> Transport {
        Transport::Rdma(None)
    }

    fn serves(&self, domain: Domain) -> bool {
        domain != Domain::Unix
    }

    fn reaches(&self, peer: &SocketAddr) -> bool {
        let Some(ip) = peer.to_ip() else { return false };
        self.peers.takes_rdma(ip).unwrap_or_else(|| self.route_to(None, ip).is_ok())
    }

    fn connector(
        self: Arc<Self>,
        socket: &mut Unconnected,
        peer: &SocketAddr,
        _last: bool,
    ) -> Result<Box<dyn Connector>, Errno> {
        let takes = peer.to_ip().and_then(|ip| self.peers.takes_rdma(ip)) == Some(true);
        // Else it may have to be the system's socket in the end, which needs rings in host memory.
        let alone = takes || socket.choice == TransportChoice::Rdma;
        let bound = socket.source().and_then(|bound| bound.to_ip());
        let options = RdmaOptions::of(socket);
        Ok(Box::new(RdmaConnector::new(self, options, bound, !alone)))
    }

    fn timeout(&self, last: bool) -> Option<Duration> {
        (!last).then_some(TIMEOUT)
    }

    fn tried(&self, peer: &SocketAddr, made: bool) {
        self.peers.note(peer, made);
    }

    fn has_ports(&self) -> bool {
        true
    }

    fn port(self: Arc<Self>, socket: &Unconnected, address: &SocketAddr) -> Result<Port, Errno> {
        let port = RdmaAcceptor::bind(self, RdmaOptions::of(socket), address)?;
        Ok(Box::new(move |socket, backlog, _set| {
            Ok(Box::new(port.listen(RdmaOptions::of(socket), backlog)?))
        }))
    }

    fn adapters(&self) -> Vec<AdapterReport> {
        lock(&self.adapters).iter().map(|adapter| adapter.report()).collect()
    }
}
