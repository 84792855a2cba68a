//! A socket that is neither connected nor listening: a socket of the system, which holds its address
//! and its options, and what was chosen for it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};

use super::listener::Listener;
use super::provider::{Port, Provider};
use super::ready_set::ReadySet;
use super::{
    Acceptor, Available, Placements, RingSizes, Socket, SystemSocket, Transport, TransportChoice,
    any_address,
};

/// How many ports are tried for a listener to which any is as good.
const PORTS: usize = 32;

/// See the module.
pub(crate) struct Unconnected {
    pub(super) available: Arc<Available>,
    pub(super) domain: Domain,
    pub(super) choice: TransportChoice,
    /// Where rings of RDMA streams may lie, where that is not the net's wish.
    pub(super) placements: Option<Placements>,
    pub(super) system: Box<dyn SystemSocket>,
    pub(super) sizes: RingSizes,
    bound: Option<SocketAddr>,
    /// The port that the system chose, by RDMA, for the case that this is going to listen.
    held: Option<Port>,
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

    /// The system's socket holds its port, and no peer comes by it.
    fn is_p2p_only(&self) -> bool {
        self.choice == TransportChoice::Local
    }

    /// The providers by which it may listen.
    fn providers(&self) -> Vec<Arc<dyn Provider>> {
        self.available.providers(self.choice, self.domain).cloned().collect()
    }

    /// That of those which has ports of its own.
    fn port_provider(&self) -> Option<Arc<dyn Provider>> {
        self.providers().into_iter().find(|provider| provider.has_ports())
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
        match self.port_provider() {
            Some(other) if any_port && self.bound.is_none() => {
                self.bind_to_common_port(address, &other)
            }
            _ => self.bind_to(address),
        }
    }

    fn bind_to(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        self.system.bind(address)?;
        self.bound = Some(self.system.local_addr()?);
        Ok(())
    }

    /// Binds to a port that is free for listeners both ways. RDMA has ports of its own, and there a
    /// stream that goes out keeps listeners from its port. Another socket looks for it, since this one
    /// can be bound only once.
    fn bind_to_common_port(
        &mut self,
        address: &SocketAddr,
        other: &Arc<dyn Provider>,
    ) -> Result<(), Errno> {
        for _ in 0..PORTS {
            let mut probe = self.available.system.socket(self.domain)?;
            probe.bind(address)?;
            let free = probe.local_addr()?;
            let held = match Arc::clone(other).port(self, &free) {
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

    /// The address that a connection comes from, by another transport than the system's; a port that was held for
    /// a listener is free from now on.
    pub(super) fn source(&mut self) -> Option<SocketAddr> {
        self.held = None;
        self.bound
    }

    /// Whether an option of the system's socket is set, which holds for other transports, too.
    pub(super) fn is_set(&self, option: SocketOption) -> bool {
        self.system.option(option).is_ok_and(|on| on != 0)
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
        let providers = self.providers();
        let (address, set) = match self.prepare_to_listen(backlog, !providers.is_empty()) {
            Ok(prepared) => prepared,
            Err(errno) => return Err((errno, Box::new(self))),
        };
        let mut acceptors: Vec<Box<dyn Acceptor>> = Vec::new();
        for provider in providers {
            let Some(set) = &set else { break };
            let name = provider.transport();
            match self.listen_by(provider, &address, backlog, set) {
                Ok(acceptor) => acceptors.push(acceptor),
                Err(errno) if name.choice() == self.choice => return Err((errno, Box::new(self))),
                Err(errno) => tracing::info!(%address, %errno, "nobody can come by {name}"),
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
    /// and a set for what all acceptors wait on, where there are `several`.
    fn prepare_to_listen(
        &mut self,
        backlog: u32,
        several: bool,
    ) -> Result<(SocketAddr, Option<Arc<ReadySet>>), Errno> {
        let needs_port = self.is_p2p_only() || self.port_provider().is_some();
        if needs_port && self.bound.is_none() {
            self.bind(&any_address(self.domain)?)?;
        }
        let set = several.then(|| ReadySet::new(self.available.system).map(Arc::new));
        let set = set.transpose()?;
        if !self.is_p2p_only() {
            // All need one port: on the system's socket first.
            self.system.listen(backlog)?;
        }
        Ok((self.system.local_addr()?, set))
    }

    fn listen_by(
        &mut self,
        provider: Arc<dyn Provider>,
        address: &SocketAddr,
        backlog: u32,
        set: &Arc<ReadySet>,
    ) -> Result<Box<dyn Acceptor>, Errno> {
        let held = if provider.has_ports() { self.held.take() } else { None };
        let port = held.map_or_else(|| provider.port(self, address), Ok)?;
        port(self, backlog, set)
    }

    /// Whether a provider is the one for that choice.
    fn has(&self, choice: TransportChoice) -> bool {
        self.available.providers(choice, self.domain).next().is_some()
    }
}

impl Socket for Unconnected {
    fn transport(&self) -> Transport {
        self.system.transport()
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        match option {
            SocketOption::Transport => {
                let choice = TransportChoice::from_number(value).ok_or(Errno::EINVAL)?;
                match choice {
                    TransportChoice::Rdma if self.domain == Domain::Unix => {
                        return Err(Errno::EOPNOTSUPP);
                    }
                    // What the net does not have.
                    TransportChoice::Local if !self.has(choice) => return Err(Errno::EINVAL),
                    TransportChoice::Rdma if !self.has(choice) => return Err(Errno::ENOPROTOOPT),
                    _ => self.choice = choice,
                }
                Ok(())
            }
            SocketOption::Placement if self.has(TransportChoice::Rdma) => {
                self.placements = Some(Placements::from_number(value).ok_or(Errno::EINVAL)?);
                Ok(())
            }
            _ => self.system.set_option(option, value),
        }
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match option {
            SocketOption::Transport => Ok(self.choice as u64),
            SocketOption::Placement if self.has(TransportChoice::Rdma) => {
                Ok(self.placements.unwrap_or(Placements::ALL).number())
            }
            _ => self.system.option(option),
        }
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.system.local_addr()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.system.descriptor()
    }
}
