//! An RDMA stream that is being connected.

use std::net::SocketAddr as IpSocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;

use super::super::{
    Carrier, Connector, Placement, Placements, RingRegion, Rings, Socket, Transport, any_address,
};
use super::options::RdmaOptions;
use super::prepared::Prepared;
use super::stream::RdmaStream;
use super::{Rdma, errno};

enum State {
    /// It has no device yet, or it failed.
    Idle,
    Prepared(Prepared),
    Connecting(Box<RdmaStream>),
}

/// See the module.
pub(super) struct RdmaConnector {
    rdma: Arc<Rdma>,
    options: RdmaOptions,
    bound: Option<IpSocketAddr>,
    state: State,
}

impl RdmaConnector {
    /// From an address that the socket is bound to, if any; with rings in host memory alone, if they
    /// may lie there, where the system's sockets may have to use them in the end.
    pub(super) fn new(
        rdma: Arc<Rdma>,
        mut options: RdmaOptions,
        bound: Option<IpSocketAddr>,
        in_host_memory: bool,
    ) -> Self {
        if in_host_memory && rdma.allowed(options.placements)(Placement::Bounce) {
            options.placements = Some(Placements::only(Placement::Bounce));
        }
        Self { rdma, options, bound, state: State::Idle }
    }
}

impl Socket for RdmaConnector {
    fn transport(&self) -> Transport {
        Transport::Rdma(match &self.state {
            State::Prepared(prepared) => Some(prepared.placement),
            State::Connecting(stream) => return stream.transport(),
            State::Idle => None,
        })
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        match &mut self.state {
            State::Connecting(stream) => stream.set_option(option, value),
            _ => self.options.set(option, value),
        }
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        match &self.state {
            State::Connecting(stream) => stream.option(option),
            _ => self.options.get(option, None, self.rdma.placements),
        }
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        match (&self.state, self.bound) {
            (State::Connecting(stream), _) => stream.local_addr(),
            (_, Some(bound)) => Ok(self.options.name(bound)),
            (_, None) => any_address(self.options.domain),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Connecting(stream) => stream.descriptor(),
            _ => None,
        }
    }
}

impl Connector for RdmaConnector {
    fn region(&mut self, peer: &SocketAddr) -> Result<RingRegion, Errno> {
        let peer = self.options.ip(peer)?;
        let route = self.rdma.route_to(self.bound, peer).map_err(errno)?;
        let prepared = Prepared::new(&self.rdma, route, self.options.placements, None)?;
        let region = prepared.region();
        self.state = State::Prepared(prepared);
        Ok(region)
    }

    fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        match &mut self.state {
            State::Prepared(prepared) => prepared.attach(rings),
            _ => Err(Errno::EINVAL),
        }
    }

    fn connect(&mut self, peer: &SocketAddr) -> Result<bool, Errno> {
        let peer = self.options.ip(peer)?;
        let State::Prepared(prepared) = std::mem::replace(&mut self.state, State::Idle) else {
            return Err(Errno::EINVAL);
        };
        let (local, placement) = (prepared.local, prepared.placement);
        let stream = prepared.connect(peer)?;
        let rdma = Arc::clone(&self.rdma);
        let stream =
            RdmaStream::connecting(rdma, self.options, stream, placement, (local, Some(peer)));
        self.state = State::Connecting(Box::new(stream));
        Ok(false)
    }

    fn finish_connect(&mut self) -> Result<bool, Errno> {
        match &mut self.state {
            State::Connecting(stream) => stream.is_open(),
            _ => Err(Errno::ENOTCONN),
        }
    }

    fn into_stream(self: Box<Self>) -> Result<Carrier, Errno> {
        match self.state {
            State::Connecting(stream) => Ok(Carrier::Device(stream)),
            _ => Err(Errno::ENOTCONN),
        }
    }
}
