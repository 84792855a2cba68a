//! A connection that is being made: its candidates are tried in order, and what comes of it is the
//! stream of the first that works.
//!
//! A candidate that fails leaves its rings to the next one where both have them in host memory. Else
//! the proxy is asked to begin anew ([`Connecting::starts_anew`]), with rings where the next wants them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;

use super::provider::Provider;
use super::timeout::Timeout;
use super::unconnected::Unconnected;
use super::{Candidate, Carrier, Connector, RingRegion, Rings, Socket, SystemSocket, Transport};

/// What is being tried.
enum Attempt {
    /// The system's socket, which is the unconnected one's.
    System,
    /// Another transport.
    Other { connector: Box<dyn Connector>, provider: Arc<dyn Provider> },
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
        let mut this = Self {
            socket,
            peer: *peer,
            candidates,
            attempt: Attempt::System,
            region: RingRegion::Host,
            timeout: None,
            descriptor_changed: false,
            was_full: false,
        };
        match this.prepare_next() {
            Ok(()) => Ok(this),
            Err(errno) => Err((errno, Box::new(this.socket))),
        }
    }

    fn prepare_next(&mut self) -> Result<(), Errno> {
        let known = self.peer.domain().is_some();
        let mut failed = if known { Errno::EINVAL } else { Errno::EAFNOSUPPORT };
        while let Some(candidate) = self.candidates.pop_front() {
            let name = candidate.as_ref().map_or(Transport::Tcp, |it| it.transport());
            match self.prepare(candidate) {
                Ok(()) => return Ok(()),
                Err(errno) => {
                    tracing::debug!(peer = %self.peer, %errno, "{name} cannot be tried");
                    failed = errno;
                }
            }
        }
        Err(failed)
    }

    fn prepare(&mut self, candidate: Candidate) -> Result<(), Errno> {
        let Some(provider) = candidate else {
            (self.attempt, self.region) = (Attempt::System, RingRegion::Host);
            return Ok(());
        };
        let last = self.candidates.is_empty();
        let mut connector = Arc::clone(&provider).connector(&mut self.socket, &self.peer, last)?;
        self.region = connector.region(&self.peer)?;
        self.attempt = Attempt::Other { connector, provider };
        Ok(())
    }

    pub(super) fn region(&self) -> RingRegion {
        self.region
    }

    pub(super) fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        let Attempt::Other { connector, .. } = &mut self.attempt else { return Ok(()) };
        connector.attach(rings).or_else(|errno| self.fall_back(errno))
    }

    /// Begins to connect; whether it is done already.
    pub(super) fn connect(&mut self) -> Result<bool, Errno> {
        let (connector, provider) = match &mut self.attempt {
            Attempt::System => return self.socket.system.connect(&self.peer),
            Attempt::Other { connector, provider } => (connector, provider),
            Attempt::Anew => return Ok(false),
        };
        // It was waiting for room in the listener's queue, with no descriptor to report it.
        let waited = self.was_full;
        let begun = connector.connect(&self.peer);
        let time = provider.timeout(self.candidates.is_empty());
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
            Attempt::Other { connector, .. } => connector.finish_connect(),
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
            Attempt::Other { connector, provider } => {
                // The timer watches no more.
                let descriptor_changed = descriptor_changed || timeout.is_some();
                provider.tried(&peer, true);
                let port = (!provider.has_ports()).then_some(socket.system);
                Ok(Connected { carrier: connector.into_stream()?, port, descriptor_changed })
            }
        }
    }

    /// The attempt has failed: goes on with the next one.
    fn try_next(&mut self, errno: Errno) -> Result<bool, Errno> {
        let failed = self.provider();
        self.fall_back(errno)?;
        let begun = self.connect();
        if let (Some(failed), Ok(_)) = (failed, begun) {
            failed.tried(&self.peer, false);
        }
        begun
    }

    /// The attempt has failed: prepares the next one, if there is any.
    fn fall_back(&mut self, errno: Errno) -> Result<(), Errno> {
        let (failed, name, peer) = (self.provider(), self.transport(), self.peer);
        // Before bytes reach rings that both use.
        self.attempt = Attempt::Anew;
        self.timeout = None;
        if self.candidates.is_empty() {
            return Err(errno);
        }
        tracing::info!(%peer, %errno, "no connection by {name}");
        self.descriptor_changed = true;
        if self.region == RingRegion::Host {
            return self.prepare_next();
        }
        if let Some(failed) = failed {
            failed.tried(&peer, false);
        }
        Ok(())
    }

    /// The transport that is tried, if it is not the system's.
    fn provider(&self) -> Candidate {
        match &self.attempt {
            Attempt::Other { provider, .. } => Some(Arc::clone(provider)),
            Attempt::System | Attempt::Anew => None,
        }
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
            Attempt::Other { connector, .. } => connector.as_ref(),
            _ => self.socket.system.as_ref(),
        }
    }
}

impl Socket for Connecting {
    fn transport(&self) -> Transport {
        self.now().transport()
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        if matches!(option, SocketOption::Transport | SocketOption::Placement) {
            return Err(Errno::EISCONN);
        }
        match &mut self.attempt {
            Attempt::Other { connector, .. } => connector.set_option(option, value),
            _ => self.socket.system.set_option(option, value),
        }
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match option {
            SocketOption::Transport => Ok(self.socket.choice as u64),
            _ => self.now().option(option),
        }
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.now().local_addr()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.timeout {
            Some(timeout) => Some(timeout.as_fd()),
            None => self.now().descriptor(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    impl Connecting {
        /// One whose system socket has begun to connect.
        pub(crate) fn begun(socket: Unconnected, peer: &SocketAddr) -> Self {
            let (candidates, attempt, region) =
                (VecDeque::new(), Attempt::System, RingRegion::Host);
            let (peer, timeout, descriptor_changed, was_full) = (*peer, None, false, false);
            Self {
                socket,
                peer,
                candidates,
                attempt,
                region,
                timeout,
                descriptor_changed,
                was_full,
            }
        }

        pub(crate) fn has_waited(&mut self, time: Duration) {
            let Attempt::Other { connector, .. } = &mut self.attempt else {
                panic!("it tries p2p")
            };
            connector.has_waited(time);
        }
    }
}
