//! RDMA: rsocket on the wire, rings wherever the device can reach them.
//!
//! ```text
//!  Rdma        the libraries, and what of the net's ring memory is for RDMA; one a net
//!   ├ Adapter     a device: which placements it takes; registers the rings of each stream
//!   └ Releaser    a thread that gives memory back to devices
//!  Prepared    a connection that has a device and lacks rings
//!  RdmaConnector, RdmaAcceptor, RdmaStream    rsocket-shim's, as transports have them
//! ```
//!
//! A device takes bytes from rings and puts them there by itself; the proxy learns how far it is.
//!
//! Why it is so: decision 19 of docs/explanation/decisions.md.

mod acceptor;
mod adapter;
mod addresses;
mod connector;
mod options;
mod peers;
mod prepared;
mod provider;
mod release;
mod stream;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use gpunet_device::abi::errno::Errno;
use rsocket_shim::load::Libraries;
use rsocket_shim::stream::{Request, StreamError};
use rsocket_shim::verbs::{Device, VerbsError};
use serde::Serialize;

use super::{Placement, Placements};
use crate::gpu::{DeviceMemory, Gpu, HostMemory, RemoteWrites};
use crate::lock::lock;
use crate::seldom::Seldom;
use adapter::Adapter;
use peers::Peers;
use release::Releaser;

/// What the RDMA sockets of a net have in common.
pub(crate) struct Rdma {
    libraries: &'static Libraries,
    gpu: Gpu,
    host_rings: Arc<HostMemory>,
    gpu_rings: Option<Arc<DeviceMemory>>,
    placements: Placements,
    adapters: Mutex<Vec<Arc<Adapter>>>,
    peers: Peers,
    /// Limits log lines about rejected requests: any peer may send them.
    refusals: Seldom,
    releaser: Releaser,
}

impl Rdma {
    pub(crate) fn new(
        libraries: &'static Libraries,
        gpu: Gpu,
        host_rings: Arc<HostMemory>,
        gpu_rings: Option<Arc<DeviceMemory>>,
        placements: Placements,
    ) -> Self {
        Self {
            libraries,
            gpu,
            host_rings,
            gpu_rings,
            placements,
            adapters: Mutex::default(),
            peers: Peers::default(),
            refusals: Seldom::default(),
            releaser: Releaser::default(),
        }
    }

    /// The adapter that has a local address.
    fn adapter(&self, local: SocketAddr) -> Result<Arc<Adapter>, StreamError> {
        let device = Device::at(self.libraries, local)?;
        let mut adapters = lock(&self.adapters);
        if let Some(known) = adapters.iter().find(|adapter| *adapter.device() == device) {
            return Ok(Arc::clone(known));
        }
        let adapter = Arc::new(Adapter::new(self, &device)?);
        adapters.push(Arc::clone(&adapter));
        Ok(adapter)
    }

    /// The adapter that a peer's request has come to, and our address there.
    fn adapter_of(&self, request: &Request) -> Result<(Arc<Adapter>, SocketAddr), StreamError> {
        let none = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        let local = request.local_address().unwrap_or(none);
        let mut why = StreamError::Verbs(VerbsError::NoDeviceAt(local));
        for local in addresses::with_scope(local) {
            match self.adapter(local) {
                Ok(adapter) if request.is_on(adapter.device()) => return Ok((adapter, local)),
                Ok(_) => {}
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The adapter on the route to a peer, and our address there.
    fn route_to(
        &self,
        bound: Option<SocketAddr>,
        peer: SocketAddr,
    ) -> Result<(Arc<Adapter>, SocketAddr), StreamError> {
        let local = match bound.filter(|bound| !bound.ip().is_unspecified()) {
            Some(bound) => bound,
            None => addresses::source_of(peer)?,
        };
        Ok((self.adapter(local)?, local))
    }

    /// Where rings may lie, by the net's wish and a socket's own.
    fn allowed(&self, wish: Option<Placements>) -> impl Fn(Placement) -> bool {
        let net = self.placements;
        move |placement| wish.unwrap_or(net).allow(placement)
    }

    /// Has kernels see what devices have written into rings in GPU memory.
    fn flush(&self) -> Result<(), Errno> {
        match self.gpu.remote_writes() {
            RemoteWrites::Ordered => Ok(()),
            RemoteWrites::AfterFlush => self.gpu.flush_remote_writes().map_err(|error| {
                tracing::error!(%error, "bytes that came by RDMA cannot be shown to kernels");
                Errno::EIO
            }),
            // Such rings are never placed there.
            RemoteWrites::Unknown => Err(Errno::EIO),
        }
    }
}

/// What a device made of a net's rings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AdapterReport {
    /// The device.
    pub device: String,
    /// Placements that work, the best first.
    pub placements: Vec<&'static str>,
    /// Those that do not, and why.
    pub refused: Vec<(&'static str, String)>,
}

/// The number for a kernel, and the reason for people.
fn errno(error: StreamError) -> Errno {
    let errno = Errno(error.errno());
    tracing::debug!(%error, %errno, "RDMA");
    errno
}
