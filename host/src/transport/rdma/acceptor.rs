//! The RDMA part of a listener: a port, and the requests of peers there.

use std::net::SocketAddr as IpSocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use rsocket_shim::stream::Listener;

use super::super::{Acceptor, Carrier, RingRegion, RingSizes, Socket, Transport, any_address};
use super::options::RdmaOptions;
use super::prepared::Prepared;
use super::stream::RdmaStream;
use super::{Rdma, errno};

/// See the module. It holds its port from the start, and peers come once it listens.
pub(super) struct RdmaAcceptor {
    rdma: Arc<Rdma>,
    options: RdmaOptions,
    /// None when it was shut down.
    listener: Option<Listener>,
    bound: IpSocketAddr,
    /// The request that is accepted next.
    next: Option<Prepared>,
}

impl RdmaAcceptor {
    /// Holds a port from now on, as a socket's address is.
    pub(super) fn bind(
        rdma: Arc<Rdma>,
        options: RdmaOptions,
        address: &SocketAddr,
    ) -> Result<Self, Errno> {
        let local = options.ip(address)?;
        let listener = match local {
            IpSocketAddr::V4(_) => Listener::bind(rdma.libraries, local),
            IpSocketAddr::V6(v6) => Listener::bind_v6(rdma.libraries, v6, options.v6_only),
        };
        let listener = listener.map_err(errno)?;
        let bound = listener.local_address().unwrap_or(local);
        Ok(Self { rdma, options, listener: Some(listener), bound, next: None })
    }

    /// Listens, with options that were set since.
    pub(super) fn listen(mut self, options: RdmaOptions, backlog: u32) -> Result<Self, Errno> {
        // A port that is bound has its family.
        self.options = RdmaOptions { v6_only: self.options.v6_only, ..options };
        self.listener.as_ref().ok_or(Errno::EINVAL)?.listen(backlog).map_err(errno)?;
        Ok(self)
    }

    /// The next request, with its device. After an error there may be more.
    fn next_request(&self) -> Result<Option<Prepared>, Errno> {
        let Some(listener) = &self.listener else { return Ok(None) };
        let Some(request) = listener.next().map_err(errno)? else {
            return Ok(None);
        };
        // Its device may not be for us: then it is rejected, and others wait behind it.
        let device = self.rdma.adapter_of(&request).map_err(|error| {
            self.rdma.refusals.log(|left_out| {
                tracing::warn!(%error, left_out, "a peer's request is rejected");
            });
            Errno::EAGAIN
        })?;
        Prepared::new(&self.rdma, device, self.options.placements, Some(request)).map(Some)
    }
}

impl Socket for RdmaAcceptor {
    fn transport(&self) -> Transport {
        Transport::Rdma(None)
    }

    fn set_option(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        self.options.set(option, value)
    }

    fn option(&self, option: SocketOption) -> Result<u64, Errno> {
        self.options.get(option, None, self.rdma.placements)
    }

    fn local_addr(&self) -> Result<SocketAddr, Errno> {
        match self.bound.port() {
            0 => any_address(self.options.domain),
            _ => Ok(self.options.name(self.bound)),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(Listener::descriptor)
    }
}

impl Acceptor for RdmaAcceptor {
    fn region(&mut self, _: RingSizes) -> Result<Option<RingRegion>, Errno> {
        if self.next.is_none() {
            self.next = self.next_request()?;
        }
        Ok(self.next.as_ref().map(Prepared::region))
    }

    fn accept(&mut self) -> Result<Option<Carrier>, Errno> {
        let Some(prepared) = self.next.take() else { return Ok(None) };
        let rdma = Arc::clone(&self.rdma);
        let stream = RdmaStream::accepted(rdma, self.options, prepared);
        Ok(Some(Carrier::Device(Box::new(stream))))
    }

    fn shutdown(&mut self) -> Result<(), Errno> {
        (self.listener, self.next) = (None, None);
        Ok(())
    }
}
