//! A listener: acceptors of all transports by which peers may come, in the order in which they are
//! asked, and one descriptor for all that may happen to them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;

use super::ready_set::ReadySet;
use super::{
    Acceptor, Carrier, RingRegion, RingSizes, Socket, SystemSocket, Transport, TransportChoice,
    TransportNames,
};

/// See the module.
pub(super) struct Listener {
    /// The system's last: whether peers wait there, it says only when it accepts them.
    acceptors: Vec<Box<dyn Acceptor>>,
    /// What all of them wait on; none where there is one.
    set: Option<Arc<ReadySet>>,
    /// Holds the port where the system's socket does not listen.
    port: Option<Box<dyn SystemSocket>>,
    choice: TransportChoice,
    /// Why a connection could not be prepared just now, behind which others may wait.
    failed: Option<Errno>,
}

impl Listener {
    pub(super) fn new(
        acceptors: Vec<Box<dyn Acceptor>>,
        set: Option<Arc<ReadySet>>,
        port: Option<Box<dyn SystemSocket>>,
        choice: TransportChoice,
    ) -> Self {
        // P2P acceptors have added themselves.
        for (key, acceptor) in acceptors.iter().enumerate() {
            let (Some(set), Some(descriptor)) = (&set, acceptor.descriptor()) else { continue };
            if let Err(errno) = set.add(descriptor, key as u64) {
                let transport = acceptor.transport();
                tracing::warn!(%errno, %transport, "a listener is not notified of peers there");
            }
        }
        Self { acceptors, set, port, choice, failed: None }
    }

    /// Whose address and options are the listener's.
    fn base(&self) -> Result<&dyn Socket, Errno> {
        match (&self.port, self.acceptors.last()) {
            (Some(port), _) => Ok(port.as_ref()),
            (None, Some(last)) => Ok(last.as_ref()),
            (None, None) => Err(Errno::EINVAL),
        }
    }

    /// In which memory the rings of the connection shall lie that is accepted next.
    pub(super) fn region(&mut self, sizes: RingSizes) -> Result<RingRegion, Errno> {
        self.failed = None;
        for acceptor in &mut self.acceptors {
            match acceptor.region(sizes) {
                Ok(Some(region)) => return Ok(region),
                Ok(None) => {}
                // Tried again a little later: no edge will come for who waits already.
                Err(errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => return Err(errno),
                // What is wrong with one transport is no reason to keep others waiting.
                Err(errno) => {
                    let transport = acceptor.transport();
                    tracing::debug!(%errno, %transport, "a connection cannot be accepted now");
                    self.failed = Some(errno);
                }
            }
        }
        // Where nobody comes by another transport, no rings are taken for who does not come.
        let p2p_only = self.choice == TransportChoice::Local;
        Ok(if p2p_only { RingRegion::Window } else { RingRegion::Host })
    }

    /// The next connection, if one waits: of the acceptor that `region` was about.
    pub(super) fn accept(&mut self) -> Result<Option<Carrier>, Errno> {
        let mut failed = self.failed.take();
        for acceptor in &mut self.acceptors {
            match acceptor.accept() {
                Ok(Some(stream)) => return Ok(Some(stream)),
                Ok(None) => {}
                Err(errno) => failed = failed.or(Some(errno)),
            }
        }
        // The proxy tries again a little later: no descriptor reports those that have been waiting.
        failed.map_or(Ok(None), Err)
    }

    /// Refuses those that wait and all that would come.
    pub(super) fn shutdown(&mut self) -> Result<(), Errno> {
        let system = match self.port {
            Some(_) => None,
            None => self.acceptors.pop(),
        };
        // Callers are refused as soon as these are gone.
        self.acceptors.clear();
        let Some(mut system) = system else { return Ok(()) };
        let shut = system.shutdown();
        self.acceptors.push(system);
        shut
    }

    pub(super) fn transports(&self) -> TransportNames {
        self.acceptors.iter().map(|acceptor| acceptor.transport()).collect()
    }
}

impl Socket for Listener {
    /// The one that is asked last.
    fn transport(&self) -> Transport {
        self.acceptors.last().map_or(Transport::Tcp, |last| last.transport())
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        if matches!(option, SocketOption::Transport | SocketOption::Placement) {
            return Err(Errno::EISCONN);
        }
        match (&mut self.port, self.acceptors.split_last_mut()) {
            (Some(port), _) => port.set_option(option, value),
            (None, Some((last, others))) => {
                last.set_option(option, value)?;
                for other in others {
                    // It has few, and of those what it accepts inherits the same.
                    let _ = other.set_option(option, value);
                }
                Ok(())
            }
            (None, None) => Err(Errno::EINVAL),
        }
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        if option == SocketOption::Transport {
            let only = |transport: Transport| transport.choice() as u64;
            return Ok(match self.acceptors.as_slice() {
                [one] => only(one.transport()),
                _ => self.choice as u64,
            });
        }
        let mut acceptors = self.acceptors.iter();
        let rdma = acceptors.find(|acceptor| matches!(acceptor.transport(), Transport::Rdma(_)));
        match rdma {
            Some(rdma) if option == SocketOption::Placement => rdma.option(option),
            _ => self.base()?.option(option),
        }
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        self.base()?.local_addr()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.set {
            Some(set) => Some(set.as_fd()),
            None => self.acceptors.last()?.descriptor(),
        }
    }

    fn into_descriptor(mut self: Box<Self>) -> Option<OwnedFd> {
        match self.port {
            Some(_) => None,
            None => self.acceptors.pop()?.into_descriptor(),
        }
    }
}
