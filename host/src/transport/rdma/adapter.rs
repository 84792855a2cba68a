//! A device: which placements of rings it allows, why not a better one, and how a stream gets its rings
//! registered.

#![allow(unsafe_code, reason = "promises that ring memory stays where it is")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use gpunet_device::abi::descriptor::RingLocation;
use rsocket_shim::stream::{Buffer, Buffers, StreamError};
use rsocket_shim::verbs::{Access, Device, Domain, Memory, Place, Region};

use super::super::Rings;
use super::{AdapterReport, Placement, Rdma};
use crate::gpu::{DeviceMemory, HostMemory, RemoteWrites};

/// How much is registered to see whether a device takes it: what a GPU's page has.
const TRIAL_BYTES: usize = 64 << 10;

/// A device that sockets of the net use.
pub(super) struct Adapter {
    device: Device,
    /// What can be registered, in the order in which it is used.
    reached: Vec<(Placement, Arc<RingMemory>)>,
    refused: Vec<(&'static str, String)>,
}

/// All rings of one kind.
enum RingMemory {
    /// In host memory.
    Host(Arc<HostMemory>),
    /// In GPU memory, registered as a dma-buf, or without one by their address.
    Gpu { memory: Arc<DeviceMemory>, buffer: Option<OwnedFd> },
}

impl RingMemory {
    fn len(&self) -> usize {
        match self {
            Self::Host(memory) => memory.len(),
            Self::Gpu { memory, .. } => memory.len(),
        }
    }
}

/// Some of it.
struct Part {
    memory: Arc<RingMemory>,
    offset: usize,
    length: usize,
}

impl Part {
    /// Nothing where it does not lie inside.
    fn new(memory: &Arc<RingMemory>, offset: usize, length: usize) -> Option<Self> {
        let end = offset.checked_add(length)?;
        let memory = Arc::clone(memory);
        (end <= memory.len()).then_some(Self { memory, offset, length })
    }
}

// SAFETY: the memory is mapped as long as it is held, the part lies inside, and nothing forms
// references into it: GPUs and devices write there at any time.
unsafe impl Memory for Part {
    fn place(&self) -> Place<'_> {
        let (offset, length) = (self.offset as u64, self.length);
        match &*self.memory {
            RingMemory::Host(memory) => {
                let address = memory.as_ptr().expose_provenance() as u64 + offset;
                Place::Host { address, length }
            }
            RingMemory::Gpu { memory, buffer } => {
                let address = memory.device_ptr().expose_provenance() as u64 + offset;
                match buffer {
                    Some(buffer) => {
                        Place::DmaBuf { buffer: buffer.as_fd(), offset, address, length }
                    }
                    None => Place::Peer { address, length },
                }
            }
        }
    }
}

impl Adapter {
    /// Sees where the device can reach rings.
    pub(super) fn new(rdma: &Rdma, device: &Device) -> Result<Self, StreamError> {
        let domain = Domain::allocate(device)?;
        let mut this = Self { device: device.clone(), reached: Vec::new(), refused: Vec::new() };
        for placement in Placement::ALL {
            match try_placement(rdma, &domain, placement) {
                Ok(memory) => this.reached.push((placement, memory)),
                Err(why) => {
                    tracing::info!(device = device.name(), %placement, why, "placement refused");
                    this.refused.push((placement.name(), why));
                }
            }
        }
        if let Some((placement, _)) = this.reached.first() {
            let device = device.name();
            tracing::info!(device, %placement, "rings of RDMA streams are placed");
        }
        Ok(this)
    }

    pub(super) fn report(&self) -> AdapterReport {
        AdapterReport {
            device: self.device.name().to_owned(),
            placements: self.reached.iter().map(|(placement, _)| placement.name()).collect(),
            refused: self.refused.clone(),
        }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// The best placement that may be used.
    pub(super) fn placement(&self, allowed: impl Fn(Placement) -> bool) -> Option<Placement> {
        self.reached.iter().map(|(placement, _)| *placement).find(|placement| allowed(*placement))
    }

    /// Registers the rings of a stream, and nothing else, in a domain of its own: what a key is good
    /// for, the peer that has it can write, and a domain's keys are good for all its queue pairs.
    pub(super) fn register(
        &self,
        placement: Placement,
        rings: &Rings,
    ) -> Result<(Domain, Buffers), StreamError> {
        let found = self.reached.iter().find(|(other, _)| *other == placement);
        let (_, memory) = found.ok_or(StreamError::OutsideRegion)?;
        let domain = Domain::allocate(&self.device)?;
        let send = ring(&domain, memory, &rings.send, Access::Source)?;
        let receive = ring(&domain, memory, &rings.receive, Access::Target)?;
        Ok((domain, Buffers { send, receive }))
    }
}

fn ring(
    domain: &Domain,
    memory: &Arc<RingMemory>,
    location: &RingLocation,
    access: Access,
) -> Result<Buffer, StreamError> {
    let part = Part::new(memory, location.offset as usize, location.capacity as usize);
    let part = Arc::new(part.ok_or(StreamError::OutsideRegion)?);
    let region = Arc::new(Region::register(domain, part, access)?);
    Ok(Buffer { region, offset: 0, capacity: location.capacity, base: location.base })
}

/// The memory of rings that are placed so, if the device takes it; or why not.
fn try_placement(
    rdma: &Rdma,
    domain: &Domain,
    placement: Placement,
) -> Result<Arc<RingMemory>, String> {
    let gpu_rings = || {
        if rdma.gpu.remote_writes() == RemoteWrites::Unknown {
            return Err("the GPU does not say when kernels see what a device wrote".to_owned());
        }
        rdma.gpu_rings.clone().ok_or_else(|| "the net has no rings in GPU memory".to_owned())
    };
    let memory = match placement {
        Placement::DmaBuf => {
            let memory = gpu_rings()?;
            let buffer = memory.export().map_err(|error| error.to_string())?;
            RingMemory::Gpu { memory, buffer: Some(buffer) }
        }
        Placement::PeerMemory => RingMemory::Gpu { memory: gpu_rings()?, buffer: None },
        Placement::Bounce => RingMemory::Host(Arc::clone(&rdma.host_rings)),
    };
    let memory = Arc::new(memory);
    let trial = Part::new(&memory, 0, memory.len().min(TRIAL_BYTES));
    let trial = Arc::new(trial.ok_or("the net has no rings")?);
    let tried = Region::register(domain, trial, Access::Target);
    tried.map_err(|error| error.to_string())?;
    Ok(memory)
}
