//! A device with the net's rings registered: which placement it allows, and why not a better one.

#![allow(unsafe_code, reason = "promises that ring memory stays where it is")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rsocket_shim::stream::StreamError;
use rsocket_shim::verbs::{Access, Device, Domain, Memory, Place, Region};

use super::{AdapterReport, Placement, Rdma};
use crate::gpu::{DeviceMemory, HostMemory, RemoteWrites};

/// A device that sockets of the net use.
pub(super) struct Adapter {
    domain: Domain,
    /// What could be registered, in the order in which it is used.
    regions: Vec<(Placement, Arc<Region>)>,
    refused: Vec<(&'static str, String)>,
}

/// Rings in host memory.
struct HostRings(Arc<HostMemory>);

// SAFETY: the memory is mapped as long as it is held, and nothing forms references into it: GPUs
// and devices write there at any time.
unsafe impl Memory for HostRings {
    fn place(&self) -> Place<'_> {
        let address = self.0.as_ptr().expose_provenance() as u64;
        Place::Host { address, length: self.0.len() }
    }
}

/// Rings in GPU memory, registered as a dma-buf, or without one by their address.
struct GpuRings {
    memory: Arc<DeviceMemory>,
    buffer: Option<OwnedFd>,
}

// SAFETY: as above, for memory of the GPU.
unsafe impl Memory for GpuRings {
    fn place(&self) -> Place<'_> {
        let address = self.memory.device_ptr().expose_provenance() as u64;
        let length = self.memory.len();
        match &self.buffer {
            Some(buffer) => Place::DmaBuf { buffer: buffer.as_fd(), offset: 0, address, length },
            None => Place::Peer { address, length },
        }
    }
}

impl Adapter {
    /// Registers rings with the device, wherever it can reach them.
    pub(super) fn new(rdma: &Rdma, device: &Device) -> Result<Self, StreamError> {
        let domain = Domain::allocate(device)?;
        let mut this = Self { domain, regions: Vec::new(), refused: Vec::new() };
        for placement in Placement::ALL {
            match this.register(rdma, placement) {
                Ok(region) => this.regions.push((placement, Arc::new(region))),
                Err(why) => {
                    tracing::info!(device = device.name(), %placement, why, "placement refused");
                    this.refused.push((placement.name(), why));
                }
            }
        }
        if let Some((placement, _)) = this.regions.first() {
            let device = device.name();
            tracing::info!(device, %placement, "rings of RDMA streams are placed");
        }
        Ok(this)
    }

    fn register(&self, rdma: &Rdma, placement: Placement) -> Result<Region, String> {
        let gpu_rings = || {
            if rdma.gpu.remote_writes() == RemoteWrites::Unknown {
                return Err("the GPU does not say when kernels see what a device wrote".to_owned());
            }
            rdma.gpu_rings.clone().ok_or_else(|| "the net has no rings in GPU memory".to_owned())
        };
        let memory: Arc<dyn Memory> = match placement {
            Placement::DmaBuf => {
                let memory = gpu_rings()?;
                let buffer = memory.export().map_err(|error| error.to_string())?;
                Arc::new(GpuRings { memory, buffer: Some(buffer) })
            }
            Placement::PeerMemory => Arc::new(GpuRings { memory: gpu_rings()?, buffer: None }),
            Placement::Bounce => Arc::new(HostRings(Arc::clone(&rdma.host_rings))),
        };
        Region::register(&self.domain, memory, Access::Target).map_err(|error| error.to_string())
    }

    pub(super) fn report(&self) -> AdapterReport {
        AdapterReport {
            device: self.domain.device().name().to_owned(),
            placements: self.regions.iter().map(|(placement, _)| placement.name()).collect(),
            refused: self.refused.clone(),
        }
    }

    pub(super) fn is_of(&self, device: &Device) -> bool {
        self.domain.device() == device
    }

    pub(super) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The best placement that may be used.
    pub(super) fn placement(&self, allowed: impl Fn(Placement) -> bool) -> Option<Placement> {
        self.regions.iter().map(|(placement, _)| *placement).find(|placement| allowed(*placement))
    }

    /// The rings' registration for a placement.
    pub(super) fn region(&self, placement: Placement) -> Option<Arc<Region>> {
        let found = self.regions.iter().find(|(other, _)| *other == placement);
        found.map(|(_, region)| Arc::clone(region))
    }
}
