//! A connection that is being made: its candidates are tried in order, and what comes of it is the
//! stream of the first that works.
//!
//! A candidate that fails leaves its rings to the next one where both have them in host memory. Else
//! the proxy is asked to begin anew ([`Connecting::starts_anew`]), with rings where the next wants them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;

use super::candidate::Candidate;
use super::p2p::{self, P2pConnector};
use super::rdma::RdmaConnector;
use super::timeout::Timeout;
use super::unconnected::Unconnected;
use super::{Carrier, Connector, RingRegion, Rings, Socket, SystemSocket, Transport};

/// How long a peer may take to answer by RDMA where other candidates follow. A machine without RDMA
/// does not even refuse, and the system would ask it for a minute.
const RDMA_TIMEOUT: Duration = Duration::from_secs(3);
/// The same for a p2p listener, whose proxy runs on this machine.
pub(super) const P2P_TIMEOUT: Duration = Duration::from_secs(5);

/// What is being tried.
enum Attempt {
    /// The system's socket, which is the unconnected one's.
    System,
    Other(Box<dyn Connector>),
    /// Nothing: the next candidate needs other rings.
    Anew,
}

/// See the module.
pub(super) struct Connecting {
    pub(super) socket: Unconnected,
    peer: SocketAddr,
    /// Those that were not tried.
    pub(super) candidates: VecDeque<Candidate>,
    attempt: Attempt,
    region: RingRegion,
    timeout: Option<Timeout>,
    /// Its descriptor is another one since that was asked last.
    descriptor_changed: bool,
    /// The listener's queue was full.
    was_full: bool,
}

/// What came of it.
pub(super) struct Connected {
    pub(super) carrier: Carrier,
    /// Holds its port, where it has none of its own.
    pub(super) port: Option<Box<dyn SystemSocket>>,
    /// The stream's descriptor is not the one that was waited on.
    pub(super) descriptor_changed: bool,
}

impl Connecting {
    /// Prepares the first candidate that can be tried. Nothing is sent yet.
    pub(super) fn new(
        socket: Unconnected,
        peer: &SocketAddr,
        candidates: VecDeque<Candidate>,
    ) -> Result<Self, (Errno, Box<Unconnected>)> {
        let (attempt, region) = (Attempt::System, RingRegion::Host);
        let (peer, timeout, descriptor_changed, was_full) = (*peer, None, false, false);
        let mut this = Self {
            socket,
            peer,
            candidates,
            attempt,
            region,
            timeout,
            descriptor_changed,
            was_full,
        };
        match this.prepare_next() {
            Ok(()) => Ok(this),
            Err(errno) => Err((errno, Box::new(this.socket))),
        }
    }

    /// One whose system socket has begun to connect.
    #[cfg(test)]
    pub(super) fn begun(socket: Unconnected, peer: &SocketAddr) -> Self {
        let (candidates, attempt, region) = (VecDeque::new(), Attempt::System, RingRegion::Host);
        let (peer, timeout, descriptor_changed, was_full) = (*peer, None, false, false);
        Self { socket, peer, candidates, attempt, region, timeout, descriptor_changed, was_full }
    }

    #[cfg(test)]
    pub(super) fn has_waited(&mut self, time: Duration) {
        let Attempt::Other(connector) = &mut self.attempt else { panic!("it tries p2p") };
        connector.has_waited(time);
    }

    fn prepare_next(&mut self) -> Result<(), Errno> {
        let mut failed = Errno::EINVAL;
        while let Some(candidate) = self.candidates.pop_front() {
            match self.prepare(candidate) {
                Ok(()) => return Ok(()),
                Err(errno) => {
                    let peer = self.peer;
                    tracing::debug!(%peer, %errno, ?candidate, "cannot be tried");
                    failed = errno;
                }
            }
        }
        Err(failed)
    }

    fn prepare(&mut self, candidate: Candidate) -> Result<(), Errno> {
        match candidate {
            Candidate::System => {
                (self.attempt, self.region) = (Attempt::System, RingRegion::Host);
                return Ok(());
            }
            Candidate::P2p => {
                let connector = self.p2p_connector()?;
                self.attempt = Attempt::Other(Box::new(connector));
            }
            Candidate::Rdma { known } => {
                let connector = self.rdma_connector(known)?;
                self.attempt = Attempt::Other(Box::new(connector));
            }
        }
        if let Attempt::Other(connector) = &mut self.attempt {
            self.region = connector.region(&self.peer)?;
        }
        Ok(())
    }

    fn p2p_connector(&mut self) -> Result<P2pConnector, Errno> {
        let Unconnected { available, domain, system, sizes, .. } = &self.socket;
        let p2p = Arc::clone(available.p2p.as_ref().ok_or(Errno::EOPNOTSUPP)?);
        let (domain, sizes) = (*domain, *sizes);
        if self.peer.domain() != Some(domain) {
            return Err(Errno::EAFNOSUPPORT);
        }
        let v6_only = system.option(SocketOption::V6Only).is_ok_and(|only| only != 0);
        if v6_only && p2p::is_mapped(&self.peer) {
            return Err(Errno::ENETUNREACH);
        }
        let channel = match p2p.call(&self.peer) {
            Ok(Some(channel)) => Some(channel),
            Ok(None) => return Err(p2p::nobody_at(&self.peer)),
            // Its queue is full.
            Err(Errno::EAGAIN) => None,
            Err(errno) => return Err(errno),
        };
        let own = self.socket.name_for(&self.peer)?;
        let names = p2p::Names { domain, own, peer: self.peer };
        Ok(P2pConnector::new(p2p, channel, names, sizes, self.p2p_timeout()))
    }

    fn p2p_timeout(&self) -> Duration {
        if self.candidates.is_empty() { p2p::TIMEOUT } else { P2P_TIMEOUT }
    }

    fn rdma_connector(&mut self, known: bool) -> Result<RdmaConnector, Errno> {
        let (options, bound) = self.socket.rdma_connection();
        let rdma = self.socket.available.rdma.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        // It may have to be the system's socket in the end, which needs rings in host memory.
        Ok(RdmaConnector::new(Arc::clone(rdma), options, bound, !known))
    }

    pub(super) fn region(&self) -> RingRegion {
        self.region
    }

    pub(super) fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        let Attempt::Other(connector) = &mut self.attempt else { return Ok(()) };
        connector.attach(rings).or_else(|errno| self.fall_back(errno))
    }

    /// Begins to connect; whether it is done already.
    pub(super) fn connect(&mut self) -> Result<bool, Errno> {
        let p2p_timeout = self.p2p_timeout();
        let connector = match &mut self.attempt {
            Attempt::System => return self.socket.system.connect(&self.peer),
            Attempt::Other(connector) => connector,
            Attempt::Anew => return Ok(false),
        };
        // It was waiting for room in the listener's queue, with no descriptor to report it.
        let waited = self.was_full;
        let begun = connector.connect(&self.peer);
        let time = match connector.transport() {
            Transport::P2p => Some(p2p_timeout),
            _ if self.candidates.is_empty() => None,
            _ => Some(RDMA_TIMEOUT),
        };
        let system = self.socket.available.system;
        let timeout = |time| Timeout::new(system, connector.descriptor(), time);
        match begun.and_then(|_| time.map(timeout).transpose()) {
            Ok(timeout) => {
                self.timeout = timeout;
                self.descriptor_changed |= waited;
                Ok(false)
            }
            Err(Errno::EAGAIN) => {
                self.was_full = true;
                Err(Errno::EAGAIN)
            }
            Err(errno) => self.try_next(errno),
        }
    }

    /// Asks whether it is connected.
    pub(super) fn finish_connect(&mut self) -> Result<bool, Errno> {
        let over = self.timeout.as_ref().is_some_and(Timeout::is_over);
        let finished = match &mut self.attempt {
            Attempt::System => return self.socket.system.finish_connect(),
            Attempt::Other(connector) => connector.finish_connect(),
            Attempt::Anew => return Ok(false),
        };
        match finished {
            Ok(false) if over => self.try_next(Errno::ETIMEDOUT),
            Err(errno) => self.try_next(errno),
            finished => finished,
        }
    }

    /// The stream of one that is connected.
    pub(super) fn into_stream(self) -> Result<Connected, Errno> {
        let Self { socket, peer, attempt, timeout, descriptor_changed, .. } = self;
        match attempt {
            Attempt::System => Ok(Connected {
                carrier: socket.system.into_stream()?,
                port: None,
                descriptor_changed,
            }),
            Attempt::Anew => Err(Errno::ENOTCONN),
            Attempt::Other(connector) => {
                // The timer watches no more.
                let descriptor_changed = descriptor_changed || timeout.is_some();
                let transport = connector.transport();
                if let Transport::Rdma(_) = transport {
                    socket.available.peers.note(&peer, true);
                }
                let port = (transport == Transport::P2p).then_some(socket.system);
                Ok(Connected { carrier: connector.into_stream()?, port, descriptor_changed })
            }
        }
    }

    /// The attempt has failed: goes on with the next one.
    fn try_next(&mut self, errno: Errno) -> Result<bool, Errno> {
        let rdma = matches!(self.transport(), Transport::Rdma(_));
        self.fall_back(errno)?;
        let begun = self.connect();
        if rdma && begun.is_ok() {
            self.socket.available.peers.note(&self.peer, false);
        }
        begun
    }

    /// The attempt has failed: prepares the next one, if there is any.
    fn fall_back(&mut self, errno: Errno) -> Result<(), Errno> {
        let (failed, peer) = (self.transport(), self.peer);
        // Before bytes reach rings that both use.
        self.attempt = Attempt::Anew;
        self.timeout = None;
        if self.candidates.is_empty() {
            return Err(errno);
        }
        tracing::info!(%peer, %errno, "no connection by {failed}");
        self.descriptor_changed = true;
        if self.region == RingRegion::Host {
            return self.prepare_next();
        }
        if let Transport::Rdma(_) = failed {
            self.socket.available.peers.note(&peer, false);
        }
        Ok(())
    }

    /// Whether it is to be connected once more, from `region` on, and where to.
    pub(super) fn starts_anew(&self) -> Option<SocketAddr> {
        matches!(self.attempt, Attempt::Anew).then_some(self.peer)
    }

    pub(super) fn descriptor_changed(&mut self) -> bool {
        std::mem::take(&mut self.descriptor_changed)
    }

    /// Of what is tried.
    fn now(&self) -> &dyn Socket {
        match &self.attempt {
            Attempt::Other(connector) => connector.as_ref(),
            _ => self.socket.system.as_ref(),
        }
    }

    pub(super) fn transport(&self) -> Transport {
        self.now().transport()
    }

    pub(super) fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        match &mut self.attempt {
            Attempt::Other(connector) => connector.set_option(option, value),
            _ => self.socket.system.set_option(option, value),
        }
    }

    pub(super) fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match option {
            SocketOption::Transport => Ok(self.socket.choice as u64),
            _ => self.now().option(option),
        }
    }

    pub(super) fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.now().local_addr()
    }

    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.timeout {
            Some(timeout) => Some(timeout.as_fd()),
            None => self.now().descriptor(),
        }
    }
}
