//! RDMA: rsocket on the wire, rings wherever the device can reach them.
//!
//! ```text
//!  Rdma      the libraries, and what of the net's ring memory is for RDMA; one a net
//!   └ Adapter   a device: its protection domain, the rings' registrations, the placement
//!  RdmaSocket   a stream or a listener: rsocket-shim's, in the terms of `Socket`
//! ```
//!
//! A device takes bytes from rings and puts them there by itself; the proxy hears how far it is.

mod adapter;
mod socket;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

use gpunet_device::abi::errno::Errno;
use rsocket_shim::load::{Libraries, LoadError};
use rsocket_shim::stream::StreamError;
use rsocket_shim::verbs::Device;
use serde::Serialize;

use super::{Placement, Placements};
use crate::gpu::{DeviceMemory, Gpu, HostMemory, RemoteWrites};
use adapter::Adapter;
pub(super) use socket::RdmaSocket;

/// What the RDMA sockets of a net have in common.
pub(crate) struct Rdma {
    libraries: &'static Libraries,
    gpu: Gpu,
    host_rings: Arc<HostMemory>,
    gpu_rings: Option<Arc<DeviceMemory>>,
    placements: Placements,
    adapters: Mutex<Vec<Arc<Adapter>>>,
}

impl Rdma {
    /// Whether this machine has RDMA.
    pub(crate) fn look() -> Result<&'static Libraries, LoadError> {
        Libraries::load()
    }

    pub(crate) fn new(
        libraries: &'static Libraries,
        gpu: Gpu,
        host_rings: Arc<HostMemory>,
        gpu_rings: Option<Arc<DeviceMemory>>,
        placements: Placements,
    ) -> Self {
        let adapters = Mutex::default();
        Self { libraries, gpu, host_rings, gpu_rings, placements, adapters }
    }

    /// The adapter that has a local address.
    fn adapter(&self, local: SocketAddr) -> Result<Arc<Adapter>, StreamError> {
        let device = Device::at(self.libraries, local)?;
        let mut adapters = self.adapters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = adapters.iter().find(|adapter| adapter.is_of(&device)) {
            return Ok(Arc::clone(known));
        }
        let adapter = Arc::new(Adapter::new(self, &device)?);
        adapters.push(Arc::clone(&adapter));
        Ok(adapter)
    }

    /// The adapter on the way to a peer, and our address there.
    fn way_to(
        &self,
        bound: Option<SocketAddr>,
        peer: SocketAddr,
    ) -> Result<(Arc<Adapter>, SocketAddr), StreamError> {
        let local = match bound.filter(|bound| !bound.ip().is_unspecified()) {
            Some(bound) => bound,
            None => SocketAddr::new(source_of(peer)?, 0),
        };
        Ok((self.adapter(local)?, local))
    }

    /// Whether the way to a peer has an RDMA device.
    pub(super) fn reaches(&self, peer: SocketAddr) -> bool {
        self.way_to(None, peer).is_ok()
    }

    /// What each device that was used made of the rings.
    pub(super) fn report(&self) -> Vec<AdapterReport> {
        let adapters = self.adapters.lock().unwrap_or_else(PoisonError::into_inner);
        adapters.iter().map(|adapter| adapter.report()).collect()
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

/// The address from which the system would send to a peer.
fn source_of(peer: SocketAddr) -> Result<IpAddr, StreamError> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a datagram socket sends nothing: the system looks for the route, and says from
    // where.
    let asked = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(peer)?;
        socket.local_addr()
    });
    asked.map(|local| local.ip()).map_err(|error| StreamError::System {
        call: "looking for the route",
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    })
}

/// The number for a kernel, and the reason for people.
fn errno(error: &StreamError) -> Errno {
    let errno = Errno(error.errno());
    tracing::debug!(%error, %errno, "RDMA");
    errno
}
