//! The addresses of a p2p stream's ends.

use std::net::{IpAddr, SocketAddr as IpSocketAddr};

use gpunet_device::{Domain, SocketAddr};

/// The ends' addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) domain: Domain,
    pub(crate) own: SocketAddr,
    pub(crate) peer: SocketAddr,
}

impl Names {
    /// Those of a stream that a listener accepts: of the caller, and of the address it has called.
    /// What a listener of any address lacks comes from that one, as with TCP; and at a listener of
    /// IPv6, addresses of IPv4 are mapped, at one of IPv4 they are plain.
    pub(crate) fn of_accepted(self, caller: SocketAddr, called: SocketAddr) -> Self {
        let mapped = |address: SocketAddr| match (address.to_ip(), self.domain) {
            (Some(IpSocketAddr::V4(ip)), Domain::V6) => {
                IpSocketAddr::new(ip.ip().to_ipv6_mapped().into(), ip.port()).into()
            }
            (Some(ip), Domain::V4) => IpSocketAddr::new(ip.ip().to_canonical(), ip.port()).into(),
            _ => address,
        };
        let own = match (self.own.to_ip(), mapped(called).to_ip()) {
            (Some(own), Some(mut called)) if own.ip().is_unspecified() => {
                called.set_port(own.port());
                called.into()
            }
            _ => self.own,
        };
        Self { own, peer: mapped(caller), ..self }
    }
}

/// Whether it is an address of IPv4 as sockets of IPv6 have it.
pub(super) fn is_mapped(address: &SocketAddr) -> bool {
    match address.to_ip().map(|ip| ip.ip()) {
        Some(IpAddr::V6(ip)) => ip.to_ipv4_mapped().is_some(),
        _ => false,
    }
}
