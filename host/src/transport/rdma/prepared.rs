//! A connection that has a device and lacks rings: our own wish to connect, or a peer's request.

use std::net::SocketAddr as IpSocketAddr;
use std::sync::Arc;

use gpunet_device::abi::errno::Errno;
use rsocket_shim::protocol::Settings;
use rsocket_shim::stream::{Buffers, Request, Stream};
use rsocket_shim::verbs::Domain as Protection;

use super::super::{Placement, Placements, RingRegion, Rings};
use super::adapter::Adapter;
use super::{Rdma, errno};

/// See the module.
pub(super) struct Prepared {
    rdma: Arc<Rdma>,
    adapter: Arc<Adapter>,
    pub(super) local: IpSocketAddr,
    pub(super) placement: Placement,
    pub(super) request: Option<Request>,
    rings: Option<(Protection, Buffers)>,
}

impl Prepared {
    pub(super) fn new(
        rdma: &Arc<Rdma>,
        (adapter, local): (Arc<Adapter>, IpSocketAddr),
        placements: Option<Placements>,
        request: Option<Request>,
    ) -> Result<Self, Errno> {
        let placement = adapter.placement(rdma.allowed(placements)).ok_or_else(|| {
            tracing::warn!("no placement that is allowed works with this RDMA device");
            Errno::ENOBUFS
        })?;
        Ok(Self { rdma: Arc::clone(rdma), adapter, local, placement, request, rings: None })
    }

    pub(super) fn region(&self) -> RingRegion {
        match self.placement {
            Placement::Bounce => RingRegion::Host,
            _ => RingRegion::Gpu,
        }
    }

    /// Registers its rings.
    pub(super) fn attach(&mut self, rings: &Rings) -> Result<(), Errno> {
        if !self.rdma.releaser.has_room() {
            // Memory of streams that are gone is still registered, more than may be.
            return Err(Errno::ENOBUFS);
        }
        let registered = self.adapter.register(self.placement, rings).map_err(|error| {
            tracing::warn!(%error, "a stream gets no rings");
            Errno(error.errno())
        })?;
        self.rings = Some(registered);
        Ok(())
    }

    /// Begins to connect to a peer.
    pub(super) fn connect(mut self, peer: IpSocketAddr) -> Result<Stream, Errno> {
        let (domain, buffers) = self.rings.take().ok_or(Errno::ENOBUFS)?;
        Stream::connect(&domain, Some(self.local), peer, buffers, Settings::default())
            .map_err(errno)
    }

    /// Accepts the peer's request.
    pub(super) fn accept(mut self) -> Result<Stream, Errno> {
        let (domain, buffers) = self.rings.take().ok_or(Errno::ENOBUFS)?;
        let request = self.request.take().ok_or(Errno::EINVAL)?;
        Stream::accept(request, &domain, buffers, Settings::default()).map_err(errno)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(rings) = self.rings.take() {
            self.rdma.releaser.release(Box::new(rings));
        }
    }
}
