//! Sockets with IP addresses on a net that has RDMA: TCP or RDMA, chosen when they connect or
//! listen. On `auto`, a listener takes both; a connection goes by RDMA where the way to the peer
//! has a device for it, and by TCP if the peer then refuses.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};

use super::patience::{Patience, either};
use super::rdma::{Rdma, RdmaSocket};
use super::{
    Direction, Moved, Peers, Placement, Placements, RingRegion, Rings, Socket, TransportChoice,
    any_address, tcp,
};
use crate::memory::Window;

/// What it has become.
enum Way {
    /// Nothing yet: the system's socket, for options and the address.
    Open(Box<dyn Socket>),
    /// One transport.
    One(Box<dyn Socket>),
    /// By RDMA, with the system's socket for the case that the peer refuses.
    Trying(Box<Attempt>),
    /// A listener of both, with a descriptor for both; and why a request by RDMA could not be taken
    /// just now, behind which others may wait.
    Both { tcp: Box<dyn Socket>, rdma: Box<RdmaSocket>, either: OwnedFd, failed: Option<Errno> },
    /// In between.
    None,
}

/// A connection by RDMA that is being made.
struct Attempt {
    rdma: RdmaSocket,
    tcp: Box<dyn Socket>,
    peer: SocketAddr,
    /// Where its rings lie: TCP can use those in host memory alone.
    rings: RingRegion,
    /// For how long, where TCP may be as good.
    patience: Option<Patience>,
}

/// How long a peer may take to answer by RDMA. A machine without RDMA does not even refuse, and the
/// system would ask it for a minute.
const PATIENCE: Duration = Duration::from_secs(3);

/// How many ports are tried for a listener to which any is as good.
const PORTS: usize = 32;

/// A socket whose transport is not decided when it is made.
pub(super) struct IpSocket {
    way: Way,
    rdma: Arc<Rdma>,
    peers: Arc<Peers>,
    choice: TransportChoice,
    placements: Option<Placements>,
    bound: Option<SocketAddr>,
    /// The port that the system chose, by RDMA, for the case that this is going to listen.
    held: Option<RdmaSocket>,
    domain: Domain,
    moved: bool,
    /// RDMA did not work out, and TCP needs other rings: where to connect to, once more.
    anew: Option<SocketAddr>,
}

impl IpSocket {
    pub(super) fn new(
        rdma: Arc<Rdma>,
        peers: Arc<Peers>,
        choice: TransportChoice,
        domain: Domain,
    ) -> Result<Self, Errno> {
        let way = Way::Open(tcp::make(domain)?);
        let (placements, bound, held, anew) = (None, None, None, None);
        Ok(Self { way, rdma, peers, choice, placements, bound, held, domain, moved: false, anew })
    }

    fn now(&self) -> Result<&dyn Socket, Errno> {
        match &self.way {
            Way::Open(socket) | Way::One(socket) => Ok(socket.as_ref()),
            Way::Trying(attempt) => Ok(&attempt.rdma),
            Way::Both { tcp, .. } => Ok(tcp.as_ref()),
            Way::None => Err(Errno::EINVAL),
        }
    }

    fn now_mut(&mut self) -> Result<&mut dyn Socket, Errno> {
        match &mut self.way {
            Way::Open(socket) | Way::One(socket) => Ok(socket.as_mut()),
            Way::Trying(attempt) => Ok(&mut attempt.rdma),
            Way::Both { tcp, .. } => Ok(tcp.as_mut()),
            Way::None => Err(Errno::EINVAL),
        }
    }

    fn rdma_socket(&self) -> RdmaSocket {
        let bound = self.bound.and_then(|bound| bound.to_ip());
        let rdma = Arc::clone(&self.rdma);
        let mut made = RdmaSocket::new(rdma, self.domain, bound, None);
        self.hand_down(&mut made);
        made
    }

    /// What was set here holds for the socket by RDMA, too.
    fn hand_down(&self, to: &mut RdmaSocket) {
        if let Some(placements) = self.placements {
            // One that was checked.
            let _ = to.set_option(SocketOption::Placement, placements.number());
        }
        let of_both = [SocketOption::KeepAlive, SocketOption::KeepAliveIdle, SocketOption::V6Only];
        for option in of_both {
            if let Ok(value) = self.now().and_then(|socket| socket.option(option)) {
                // A value that TCP has is one for it.
                let _ = to.set_option(option, value);
            }
        }
    }

    /// Binds to a port that is free for listeners both ways. RDMA has ports of its own, and there a
    /// stream that goes out keeps listeners from its port. Another socket looks for it, since this one
    /// can be bound only once.
    fn bind_anywhere(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        for _ in 0..PORTS {
            let mut scout = tcp::make(self.domain)?;
            scout.bind(address)?;
            let free = scout.local_addr()?;
            let mut rdma = self.rdma_socket();
            let held = match rdma.bind(&free) {
                Ok(()) => Some(rdma),
                // The latter where one of the two is no particular address.
                Err(Errno::EADDRINUSE | Errno::EADDRNOTAVAIL) => continue,
                // It is said when this listens.
                Err(_) => None,
            };
            drop(scout);
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

    fn bind_to(&mut self, address: &SocketAddr) -> Result<(), Errno> {
        let socket = self.now_mut()?;
        socket.bind(address)?;
        self.bound = Some(socket.local_addr()?);
        Ok(())
    }

    /// A socket that listens by RDMA, at the address where this does.
    fn listen_by_rdma(&mut self, at: &SocketAddr, backlog: u32) -> Result<RdmaSocket, Errno> {
        let mut rdma = match self.held.take() {
            Some(mut held) => {
                self.hand_down(&mut held);
                held
            }
            None => {
                let mut made = self.rdma_socket();
                made.bind(at)?;
                made
            }
        };
        rdma.listen(backlog)?;
        Ok(rdma)
    }

    /// RDMA did not work out: TCP, with the same rings if they lie where it can use them.
    fn leave_rdma(&mut self, errno: Errno) -> Result<SocketAddr, Errno> {
        let Way::Trying(attempt) = std::mem::replace(&mut self.way, Way::None) else {
            return Err(Errno::EINVAL);
        };
        let Attempt { rdma, tcp, peer, rings, .. } = *attempt;
        tracing::info!(%peer, %errno, "no RDMA to that peer: tcp");
        // Before bytes reach the rings that both use.
        drop(rdma);
        self.way = Way::Open(tcp);
        self.moved = true;
        if rings != RingRegion::Host {
            self.peers.note(&peer, false);
            self.anew = Some(peer);
        }
        Ok(peer)
    }

    /// The same for an attempt that has begun.
    fn fall_back(&mut self, errno: Errno) -> Result<bool, Errno> {
        let peer = self.leave_rdma(errno)?;
        let done = self.connect(&peer);
        if done.is_ok() {
            self.peers.note(&peer, false);
        }
        done
    }

    /// Whether TCP may follow where RDMA does not work out.
    fn is_trying(&self) -> bool {
        matches!(self.way, Way::Trying(_)) && self.choice == TransportChoice::Auto
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
        let any = address.to_ip().is_some_and(|ip| ip.port() == 0);
        match self.choice {
            TransportChoice::Auto | TransportChoice::Rdma if any && self.bound.is_none() => {
                self.bind_anywhere(address)
            }
            _ => self.bind_to(address),
        }
    }

    fn listen(&mut self, backlog: u32) -> Result<(), Errno> {
        let Way::Open(_) = &self.way else { return Err(Errno::EINVAL) };
        if self.choice == TransportChoice::Tcp {
            self.held = None;
            return self.now_mut()?.listen(backlog);
        }
        if self.bound.is_none() {
            self.bind(&any_address(self.domain)?)?;
        }
        // Both need one port: on the system's socket first.
        let socket = self.now_mut()?;
        socket.listen(backlog)?;
        let local = socket.local_addr()?;
        let by_rdma = self.listen_by_rdma(&local, backlog);
        let Way::Open(tcp) = std::mem::replace(&mut self.way, Way::None) else {
            return Err(Errno::EINVAL);
        };
        match by_rdma {
            Ok(rdma) if self.choice == TransportChoice::Rdma => self.way = Way::One(Box::new(rdma)),
            Ok(rdma) => {
                let either = either([tcp.descriptor(), rdma.descriptor()])?;
                self.way = Way::Both { tcp, rdma: Box::new(rdma), either, failed: None };
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
                // What is wrong with RDMA is no reason to keep others waiting.
                Way::Both { rdma, failed, .. } => Ok(rdma.region(None).unwrap_or_else(|errno| {
                    tracing::debug!(%errno, "a connection by RDMA cannot be accepted");
                    *failed = Some(errno);
                    RingRegion::Host
                })),
                _ => self.now_mut()?.region(None),
            };
        };
        // A connect that was refused for lack of rings may come again, perhaps to someone else.
        self.way = match std::mem::replace(&mut self.way, Way::None) {
            Way::Trying(attempt) => Way::Open(attempt.tcp),
            way => way,
        };
        let Way::Open(_) = &self.way else { return Err(Errno::EINVAL) };
        // The stream that goes out needs the port.
        self.held = None;
        let first = self.first_for(peer);
        if first == TransportChoice::Tcp {
            return Ok(RingRegion::Host);
        }
        let mut rdma = self.rdma_socket();
        if first == TransportChoice::Auto && self.rdma.allowed(self.placements)(Placement::Bounce) {
            // It may have to be TCP in the end, which needs rings in host memory.
            rdma.set_option(SocketOption::Placement, Placement::Bounce as u64)?;
        }
        let rings = match rdma.region(Some(peer)) {
            Ok(rings) => rings,
            Err(errno) if self.choice == TransportChoice::Auto => {
                tracing::info!(%peer, %errno, "no RDMA to that peer: tcp");
                return Ok(RingRegion::Host);
            }
            Err(errno) => return Err(errno),
        };
        let Way::Open(tcp) = std::mem::replace(&mut self.way, Way::None) else {
            return Err(Errno::EINVAL);
        };
        let peer = *peer;
        self.way = Way::Trying(Box::new(Attempt { rdma, tcp, peer, rings, patience: None }));
        Ok(rings)
    }

    fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        match self.now_mut()?.attach(rings) {
            Err(errno) if self.is_trying() => self.leave_rdma(errno).map(drop),
            attached => attached,
        }
    }

    fn connect(&mut self, address: &SocketAddr) -> Result<bool, Errno> {
        if self.anew.is_some() {
            return Ok(false);
        }
        let Way::Trying(attempt) = &mut self.way else {
            let begun = self.now_mut()?.connect(address)?;
            self.way = match std::mem::replace(&mut self.way, Way::None) {
                Way::Open(tcp) => Way::One(tcp),
                way => way,
            };
            return Ok(begun);
        };
        let begun = attempt.rdma.connect(address);
        if self.choice != TransportChoice::Auto {
            return begun;
        }
        match begun.and_then(|_| Patience::new(attempt.rdma.descriptor(), PATIENCE)) {
            Ok(patience) => {
                attempt.patience = Some(patience);
                Ok(false)
            }
            Err(errno) => self.fall_back(errno),
        }
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        if self.anew.is_some() {
            return Ok(false);
        }
        let Way::Trying(attempt) = &mut self.way else { return self.now_mut()?.finish_connect() };
        let over = attempt.patience.as_ref().is_some_and(Patience::is_over);
        match attempt.rdma.finish_connect() {
            Ok(false) if over => self.fall_back(Errno::ETIMEDOUT),
            Ok(false) => Ok(false),
            Ok(true) => {
                let Way::Trying(attempt) = std::mem::replace(&mut self.way, Way::None) else {
                    return Err(Errno::EINVAL);
                };
                self.peers.note(&attempt.peer, true);
                // The timer watches no more.
                self.moved = attempt.patience.is_some();
                self.way = Way::One(Box::new(attempt.rdma));
                Ok(true)
            }
            Err(errno) if self.is_trying() => self.fall_back(errno),
            Err(errno) => Err(errno),
        }
    }

    fn starts_anew(&mut self) -> Option<SocketAddr> {
        self.anew.take()
    }

    fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    fn accept(&mut self) -> Result<Option<Box<dyn Socket>>, Errno> {
        if let Way::Both { rdma, tcp, failed, .. } = &mut self.way {
            let failed = failed.take();
            if let Some(socket) = rdma.accept()? {
                return Ok(Some(socket));
            }
            // No descriptor tells of those that have been waiting.
            return match (tcp.accept()?, failed) {
                (None, Some(errno)) => Err(errno),
                (accepted, _) => Ok(accepted),
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

    fn has_news(&self, of: Direction) -> bool {
        self.now().is_ok_and(|socket| socket.has_news(of))
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
        self.way = match std::mem::replace(&mut self.way, Way::None) {
            // A listener by RDMA ends with it.
            Way::Both { tcp, .. } => Way::One(tcp),
            way => way,
        };
        self.now_mut()?.shutdown(direction)
    }

    fn leave(&mut self) -> bool {
        self.now_mut().map_or(true, |socket| socket.leave())
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        let early = matches!(self.way, Way::Open(_));
        match option {
            SocketOption::Transport if early => {
                let choice = TransportChoice::from_number(value);
                // Direct streams are for the net to have, or not.
                let known = choice.filter(|choice| *choice != TransportChoice::Local);
                self.choice = known.ok_or(Errno::EINVAL)?;
                Ok(())
            }
            SocketOption::Placement if early => {
                self.placements = Some(Placements::from_number(value).ok_or(Errno::EINVAL)?);
                Ok(())
            }
            SocketOption::Transport | SocketOption::Placement => Err(Errno::EISCONN),
            _ => {
                self.now_mut()?.set_option(option, value)?;
                if let Way::Both { rdma, .. } = &mut self.way {
                    // It has few, and of those what it accepts inherits the same.
                    let _ = rdma.set_option(option, value);
                }
                Ok(())
            }
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
            Way::Trying(attempt) => match &attempt.patience {
                Some(patience) => Some(patience.as_fd()),
                None => attempt.rdma.descriptor(),
            },
            _ => self.now().ok()?.descriptor(),
        }
    }

    fn into_descriptor(self: Box<Self>) -> Option<OwnedFd> {
        match self.way {
            Way::Open(socket) | Way::One(socket) | Way::Both { tcp: socket, .. } => {
                socket.into_descriptor()
            }
            _ => None,
        }
    }
}
