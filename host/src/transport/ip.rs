//! Sockets with IP addresses on a net that has RDMA: TCP or RDMA, chosen when they connect or
//! listen. On `auto`, a listener takes both; a connection goes by RDMA where the way to the peer
//! has a device for it, and by TCP if the peer then refuses.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};
use rustix::event::epoll;

use super::rdma::{Rdma, RdmaSocket};
use super::{
    Direction, Moved, Peers, Placement, Placements, RingRegion, Rings, Socket, TransportChoice, tcp,
};
use crate::memory::Window;

/// What it has become.
enum Way {
    /// Nothing yet: the system's socket, for options and the address.
    Open(Box<dyn Socket>),
    /// One transport.
    One(Box<dyn Socket>),
    /// By RDMA, with the system's socket for the case that the peer refuses.
    Trying { rdma: RdmaSocket, tcp: Box<dyn Socket>, peer: SocketAddr },
    /// A listener of both, with a descriptor for both.
    Both { tcp: Box<dyn Socket>, rdma: RdmaSocket, either: OwnedFd },
    /// In between.
    None,
}

/// A socket whose transport is not decided when it is made.
pub(super) struct IpSocket {
    way: Way,
    rdma: Arc<Rdma>,
    peers: Arc<Peers>,
    choice: TransportChoice,
    placements: Option<Placements>,
    bound: Option<SocketAddr>,
    domain: Domain,
    moved: bool,
}

impl IpSocket {
    pub(super) fn new(
        rdma: Arc<Rdma>,
        peers: Arc<Peers>,
        choice: TransportChoice,
        domain: Domain,
    ) -> Result<Self, Errno> {
        let way = Way::Open(tcp::make(domain)?);
        let (placements, bound) = (None, None);
        Ok(Self { way, rdma, peers, choice, placements, bound, domain, moved: false })
    }

    fn now(&self) -> Result<&dyn Socket, Errno> {
        match &self.way {
            Way::Open(socket) | Way::One(socket) => Ok(socket.as_ref()),
            Way::Trying { rdma, .. } => Ok(rdma),
            Way::Both { tcp, .. } => Ok(tcp.as_ref()),
            Way::None => Err(Errno::EINVAL),
        }
    }

    fn now_mut(&mut self) -> Result<&mut dyn Socket, Errno> {
        match &mut self.way {
            Way::Open(socket) | Way::One(socket) => Ok(socket.as_mut()),
            Way::Trying { rdma, .. } => Ok(rdma),
            Way::Both { tcp, .. } => Ok(tcp.as_mut()),
            Way::None => Err(Errno::EINVAL),
        }
    }

    fn rdma_socket(&self) -> RdmaSocket {
        RdmaSocket::new(Arc::clone(&self.rdma), self.domain, self.placements)
    }

    /// Which transport a connection to a peer takes first.
    fn first_for(&self, peer: &SocketAddr) -> TransportChoice {
        match (self.choice, peer.to_ip()) {
            (TransportChoice::Auto, Some(ip)) => match self.peers.takes_rdma(ip) {
                Some(true) => TransportChoice::Rdma,
                None if self.rdma.reaches(ip) => TransportChoice::Auto,
                _ => TransportChoice::Tcp,
            },
            (TransportChoice::Auto, None) => TransportChoice::Tcp,
            (choice, _) => choice,
        }
    }
}

/// Readable when either is.
fn either(first: &dyn Socket, second: &dyn Socket) -> Result<OwnedFd, Errno> {
    let system = |errno: rustix::io::Errno| Errno(errno.raw_os_error());
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
    for descriptor in [first.descriptor(), second.descriptor()].into_iter().flatten() {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&set, descriptor, data, epoll::EventFlags::IN).map_err(system)?;
    }
    Ok(set)
}

impl Socket for IpSocket {
    fn transport(&self) -> &'static str {
        match &self.way {
            Way::Both { .. } => "tcp and rdma",
            _ => self.now().map_or("none", |socket| socket.transport()),
        }
    }

    fn domain(&self) -> Domain {
        self.domain
    }

    fn bind(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        // The system's socket holds the port; listening by RDMA takes the same one.
        let socket = self.now_mut()?;
        socket.bind(address)?;
        self.bound = Some(socket.local_addr()?);
        Ok(())
    }

    fn listen(&mut self, backlog: u32) -> Result<(), Errno> {
        let Way::Open(_) = &self.way else { return Err(Errno::EINVAL) };
        if self.choice == TransportChoice::Tcp {
            return self.now_mut()?.listen(backlog);
        }
        // Both need one port: on the system's socket first, which may choose it.
        let socket = self.now_mut()?;
        socket.listen(backlog)?;
        let local = socket.local_addr()?;
        let mut rdma = self.rdma_socket();
        let by_rdma = rdma.bind(&local).and_then(|()| rdma.listen(backlog));
        let Way::Open(tcp) = std::mem::replace(&mut self.way, Way::None) else {
            return Err(Errno::EINVAL);
        };
        match by_rdma {
            Ok(()) if self.choice == TransportChoice::Rdma => self.way = Way::One(Box::new(rdma)),
            Ok(()) => {
                let either = either(tcp.as_ref(), &rdma)?;
                self.way = Way::Both { tcp, rdma, either };
            }
            Err(errno) if self.choice == TransportChoice::Rdma => {
                self.way = Way::Open(tcp);
                return Err(errno);
            }
            Err(errno) => {
                tracing::info!(%local, %errno, "no listening by RDMA there: tcp alone");
                self.way = Way::One(tcp);
            }
        }
        Ok(())
    }

    fn region(&mut self, peer: Option<&SocketAddr>) -> Result<RingRegion, Errno> {
        let Some(peer) = peer else {
            return match &mut self.way {
                Way::Both { rdma, .. } => rdma.region(None),
                _ => self.now_mut()?.region(None),
            };
        };
        let Way::Open(_) = &self.way else { return Err(Errno::EINVAL) };
        let first = self.first_for(peer);
        if first == TransportChoice::Tcp {
            return Ok(RingRegion::Host);
        }
        let mut rdma = self.rdma_socket();
        if first == TransportChoice::Auto {
            // It may have to be TCP in the end, which needs rings in host memory.
            rdma.set_option(SocketOption::Placement, Placement::Bounce as u64)?;
        }
        let region = rdma.region(Some(peer))?;
        let Way::Open(tcp) = std::mem::replace(&mut self.way, Way::None) else {
            return Err(Errno::EINVAL);
        };
        self.way = if first == TransportChoice::Auto {
            Way::Trying { rdma, tcp, peer: *peer }
        } else {
            Way::One(Box::new(rdma))
        };
        Ok(region)
    }

    fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        self.now_mut()?.attach(rings)
    }

    fn connect(&mut self, address: &SocketAddr) -> Result<bool, Errno> {
        self.now_mut()?.connect(address)
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        let done = self.now_mut()?.finish_connect();
        let Way::Trying { peer, .. } = &self.way else { return done };
        let (peer, ip) = (*peer, peer.to_ip());
        let takes_rdma = match done {
            Ok(false) => return Ok(false),
            Ok(true) => true,
            Err(_) => false,
        };
        if let Some(ip) = ip {
            self.peers.note(ip, takes_rdma);
        }
        let Way::Trying { rdma, mut tcp, .. } = std::mem::replace(&mut self.way, Way::None) else {
            return Err(Errno::EINVAL);
        };
        match done {
            Err(errno) => {
                tracing::info!(%peer, %errno, "the peer does not take RDMA: tcp");
                self.moved = true;
                let done = tcp.connect(&peer);
                self.way = Way::One(tcp);
                done
            }
            done => {
                self.way = Way::One(Box::new(rdma));
                done
            }
        }
    }

    fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    fn accept(&mut self) -> Result<Option<Box<dyn Socket>>, Errno> {
        if let Way::Both { rdma, tcp, .. } = &mut self.way {
            return match rdma.accept()? {
                Some(socket) => Ok(Some(socket)),
                None => tcp.accept(),
            };
        }
        self.now_mut()?.accept()
    }

    fn places_bytes(&self) -> bool {
        self.now().is_ok_and(|socket| socket.places_bytes())
    }

    fn wants_head(&self) -> bool {
        self.now().is_ok_and(|socket| socket.wants_head())
    }

    fn consumed(&mut self, head: u64) {
        if let Ok(socket) = self.now_mut() {
            socket.consumed(head);
        }
    }

    fn receive(&mut self, window: &Window) -> Result<Moved, Errno> {
        self.now_mut()?.receive(window)
    }

    fn peek(&mut self) -> Result<Moved, Errno> {
        self.now_mut()?.peek()
    }

    fn untaken(&self) -> u64 {
        self.now().map_or(0, |socket| socket.untaken())
    }

    fn send(&mut self, window: &Window) -> Result<Moved, Errno> {
        self.now_mut()?.send(window)
    }

    fn discard(&mut self) -> Result<Moved, Errno> {
        self.now_mut()?.discard()
    }

    fn shutdown(&mut self, direction: Direction) -> Result<(), Errno> {
        self.now_mut()?.shutdown(direction)
    }

    fn leave(&mut self) -> bool {
        self.now_mut().map_or(true, |socket| socket.leave())
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        let early = matches!(self.way, Way::Open(_));
        match option {
            SocketOption::Transport if early => {
                self.choice = TransportChoice::from_number(value).ok_or(Errno::EINVAL)?;
                Ok(())
            }
            SocketOption::Placement if early => {
                self.placements = Some(Placements::from_number(value).ok_or(Errno::EINVAL)?);
                Ok(())
            }
            SocketOption::Transport | SocketOption::Placement => Err(Errno::EISCONN),
            _ => self.now_mut()?.set_option(option, value),
        }
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match option {
            SocketOption::Transport => Ok(match &self.way {
                Way::One(socket) if socket.places_bytes() => TransportChoice::Rdma as u64,
                Way::One(_) => TransportChoice::Tcp as u64,
                _ => self.choice as u64,
            }),
            SocketOption::Placement => match &self.way {
                Way::One(socket) if socket.places_bytes() => socket.option(option),
                _ => Ok(self.placements.unwrap_or(Placements::ALL).number()),
            },
            _ => self.now()?.option(option),
        }
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.now()?.local_addr()
    }

    fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        self.now()?.peer_addr()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Both { either, .. } => Some(either.as_fd()),
            _ => self.now().ok()?.descriptor(),
        }
    }

    fn into_descriptor(self: Box<Self>) -> Option<OwnedFd> {
        match self.way {
            Way::Open(socket) | Way::One(socket) => socket.into_descriptor(),
            _ => None,
        }
    }
}
