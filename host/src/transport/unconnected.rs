//! A socket that is neither connected nor listening: a socket of the system, which holds its address
//! and its options, and what was chosen for it.

use std::sync::Arc;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};

use super::listener::Listener;
use super::p2p::P2pAcceptor;
use super::rdma::{RdmaAcceptor, RdmaOptions, RdmaPort};
use super::ready_set::ReadySet;
use super::{
    Acceptor, Available, Placements, RingSizes, SystemSocket, Transport, TransportChoice,
    any_address,
};

/// How many ports are tried for a listener to which any is as good.
const PORTS: usize = 32;

/// See the module.
pub(super) struct Unconnected {
    pub(super) available: Arc<Available>,
    pub(super) domain: Domain,
    pub(super) choice: TransportChoice,
    /// Where rings of RDMA streams may lie, where that is not the net's wish.
    placements: Option<Placements>,
    pub(super) system: Box<dyn SystemSocket>,
    pub(super) sizes: RingSizes,
    bound: Option<SocketAddr>,
    /// The port that the system chose, by RDMA, for the case that this is going to listen.
    held: Option<RdmaPort>,
}

impl Unconnected {
    pub(super) fn new(
        available: Arc<Available>,
        choice: TransportChoice,
        domain: Domain,
    ) -> Result<Self, Errno> {
        let system = available.system.socket(domain)?;
        Ok(Self::with_system(available, choice, domain, system))
    }

    pub(super) fn with_system(
        available: Arc<Available>,
        choice: TransportChoice,
        domain: Domain,
        system: Box<dyn SystemSocket>,
    ) -> Self {
        let (placements, sizes) = (None, RingSizes::default());
        Self { available, domain, choice, placements, system, sizes, bound: None, held: None }
    }

    fn is_p2p_only(&self) -> bool {
        self.choice == TransportChoice::Local
    }

    /// Whether it may listen by RDMA.
    fn may_use_rdma(&self) -> bool {
        self.domain != Domain::Unix
            && self.available.rdma.is_some()
            && matches!(self.choice, TransportChoice::Auto | TransportChoice::Rdma)
    }

    pub(super) fn bind(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        let ip = address.to_ip();
        if self.is_p2p_only() && ip.is_some() {
            // The system's socket holds the port and never listens: with this option, others could
            // listen there.
            self.system.set_option(SocketOption::ReuseAddress, 0)?;
        }
        // The system's socket holds the port; listening by RDMA takes the same one.
        let any_port = ip.is_some_and(|ip| ip.port() == 0);
        if any_port && self.may_use_rdma() && self.bound.is_none() {
            return self.bind_to_common_port(address);
        }
        self.bind_to(address)
    }

    fn bind_to(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        self.system.bind(address)?;
        self.bound = Some(self.system.local_addr()?);
        Ok(())
    }

    /// Binds to a port that is free for listeners both ways. RDMA has ports of its own, and there a
    /// stream that goes out keeps listeners from its port. Another socket looks for it, since this one
    /// can be bound only once.
    fn bind_to_common_port(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        for _ in 0..PORTS {
            let mut probe = self.available.system.socket(self.domain)?;
            probe.bind(address)?;
            let free = probe.local_addr()?;
            let held = match self.rdma_port(&free) {
                Ok(port) => Some(port),
                // The latter where one of the two is no particular address.
                Err(Errno::EADDRINUSE | Errno::EADDRNOTAVAIL) => continue,
                // It is said when this listens.
                Err(_) => None,
            };
            drop(probe);
            match self.bind_to(&free) {
                // Others were faster.
                Err(Errno::EADDRINUSE) => {}
                bound => {
                    self.held = held;
                    return bound;
                }
            }
        }
        self.bind_to(address)
    }

    /// What was set on the system's socket and holds for one by RDMA, too.
    fn rdma_options(&self) -> RdmaOptions {
        let of = |option| self.system.option(option).ok();
        RdmaOptions {
            domain: self.domain,
            placements: self.placements,
            keepalive: of(SocketOption::KeepAlive).is_some_and(|on| on != 0),
            keepalive_idle_s: of(SocketOption::KeepAliveIdle),
            v6_only: of(SocketOption::V6Only).is_some_and(|on| on != 0),
        }
    }

    /// The same for a connection, and the address that it comes from; a port that was held for a
    /// listener is free from now on.
    pub(super) fn rdma_connection(&mut self) -> (RdmaOptions, Option<std::net::SocketAddr>) {
        self.held = None;
        (self.rdma_options(), self.bound.and_then(|bound| bound.to_ip()))
    }

    fn rdma_port(&self, address: &SocketAddr) -> Result<RdmaPort, Errno> {
        let rdma = self.available.rdma.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        RdmaPort::bind(Arc::clone(rdma), self.rdma_options(), address)
    }

    /// Gives it an address of its own that reaches a peer of this machine, if it has none.
    pub(super) fn name_for(&mut self, peer: &SocketAddr) -> Result<SocketAddr, Errno> {
        if let (Some(mut ip), None) = (peer.to_ip(), self.bound) {
            // A link's own address keeps its scope.
            ip.set_port(0);
            self.bind_to(&ip.into())?;
        }
        self.system.local_addr()
    }

    /// Has it listen by all transports that it may use.
    pub(super) fn listen(mut self, backlog: u32) -> Result<Listener, (Errno, Box<Self>)> {
        let p2p_only = self.is_p2p_only();
        let p2p = matches!(self.choice, TransportChoice::Auto | TransportChoice::Local)
            && self.available.p2p.is_some();
        let prepared = self.prepare_to_listen(backlog, p2p);
        let (address, set) = match prepared {
            Ok(prepared) => prepared,
            Err(errno) => return Err((errno, Box::new(self))),
        };
        let mut acceptors: Vec<Box<dyn Acceptor>> = Vec::new();
        if p2p {
            match self.listen_by_p2p(&address, set.as_ref()) {
                Ok(acceptor) => acceptors.push(acceptor),
                Err(errno) if p2p_only => return Err((errno, Box::new(self))),
                Err(errno) => tracing::info!(%address, %errno, "no p2p streams there"),
            }
        }
        if self.may_use_rdma() {
            match self.listen_by_rdma(&address, backlog) {
                Ok(acceptor) => acceptors.push(Box::new(acceptor)),
                Err(errno) if self.choice == TransportChoice::Rdma => {
                    return Err((errno, Box::new(self)));
                }
                Err(errno) => tracing::info!(%address, %errno, "no RDMA there"),
            }
        }
        let Self { choice, system, domain, .. } = self;
        let port = match choice {
            TransportChoice::Local => Some(system),
            // Nobody is accepted there.
            TransportChoice::Rdma if domain != Domain::Unix => None,
            _ => {
                acceptors.push(system.into_acceptor());
                None
            }
        };
        Ok(Listener::new(acceptors, set, port, choice))
    }

    /// Has the system's socket listen, or hold the port where nobody shall come by it. The address,
    /// and a set for what all acceptors wait on, where there may be several.
    fn prepare_to_listen(
        &mut self,
        backlog: u32,
        p2p: bool,
    ) -> Result<(SocketAddr, Option<Arc<ReadySet>>), Errno> {
        if (self.is_p2p_only() || self.may_use_rdma()) && self.bound.is_none() {
            self.bind(&any_address(self.domain)?)?;
        }
        let set = match p2p || self.may_use_rdma() {
            true => Some(Arc::new(ReadySet::new(self.available.system)?)),
            false => None,
        };
        if !self.is_p2p_only() {
            // All need one port: on the system's socket first.
            self.system.listen(backlog)?;
        }
        Ok((self.system.local_addr()?, set))
    }

    fn listen_by_p2p(
        &self,
        address: &SocketAddr,
        set: Option<&Arc<ReadySet>>,
    ) -> Result<Box<P2pAcceptor>, Errno> {
        let (Some(p2p), Some(set)) = (&self.available.p2p, set) else {
            return Err(Errno::EOPNOTSUPP);
        };
        let is_set = |option| self.system.option(option).is_ok_and(|on| on != 0);
        let v6_only = is_set(SocketOption::V6Only);
        let shared = is_set(SocketOption::ReusePort);
        let registration = p2p.registry.listen(address, v6_only, shared)?;
        let (p2p, set) = (Arc::clone(p2p), Arc::clone(set));
        P2pAcceptor::new(p2p, registration, self.domain, *address, set).map(Box::new)
    }

    fn listen_by_rdma(
        &mut self,
        address: &SocketAddr,
        backlog: u32,
    ) -> Result<RdmaAcceptor, Errno> {
        let port = match self.held.take() {
            Some(held) => held.with_options(self.rdma_options()),
            None => self.rdma_port(address)?,
        };
        port.listen(backlog)
    }

    pub(super) fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        match option {
            SocketOption::Transport => {
                let choice = TransportChoice::from_number(value).ok_or(Errno::EINVAL)?;
                match choice {
                    // What the net does not have.
                    TransportChoice::Local if self.available.p2p.is_none() => {
                        return Err(Errno::EINVAL);
                    }
                    TransportChoice::Rdma if self.domain == Domain::Unix => {
                        return Err(Errno::EOPNOTSUPP);
                    }
                    TransportChoice::Rdma if self.available.rdma.is_none() => {
                        return Err(Errno::ENOPROTOOPT);
                    }
                    _ => self.choice = choice,
                }
                Ok(())
            }
            SocketOption::Placement if self.has_placements() => {
                self.placements = Some(Placements::from_number(value).ok_or(Errno::EINVAL)?);
                Ok(())
            }
            _ => self.system.set_option(option, value),
        }
    }

    pub(super) fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match option {
            SocketOption::Transport => Ok(self.choice as u64),
            SocketOption::Placement if self.has_placements() => {
                Ok(self.placements.unwrap_or(Placements::ALL).number())
            }
            _ => self.system.option(option),
        }
    }

    fn has_placements(&self) -> bool {
        self.domain != Domain::Unix && self.available.rdma.is_some()
    }

    pub(super) fn transport(&self) -> Transport {
        self.system.transport()
    }
}
