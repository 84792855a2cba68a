//! The page in which the peer's device writes what we may send where.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::StreamError;
use crate::protocol::TargetList;
use crate::verbs::{Access, Domain, HostMemory, Region};

const ENTRY_BYTES: usize = 16;
const LIST_BYTES: u32 = 2 * ENTRY_BYTES as u32;

/// A target list in memory of its own.
pub(super) struct Targets {
    region: Region,
    memory: Arc<HostMemory>,
}

impl Targets {
    pub(super) fn new(domain: &Domain) -> Result<Self, StreamError> {
        let memory = HostMemory::allocate(LIST_BYTES as usize).ok_or(StreamError::NoMemory)?;
        let memory = Arc::new(memory);
        let region = Region::register(domain, memory.clone(), Access::Target)?;
        Ok(Self { region, memory })
    }

    /// Address and key for the peer.
    pub(super) fn place(&self) -> (u64, u32) {
        self.region.target(0, LIST_BYTES).map_or((0, 0), |target| (target.address, target.key))
    }
}

impl TargetList for Targets {
    fn read(&self, entry: usize) -> [u8; ENTRY_BYTES] {
        // The completion that told of the entry was read before.
        fence(Ordering::Acquire);
        let mut bytes = [0; ENTRY_BYTES];
        // Outside of it there is nothing, which grants nothing.
        let _ = self.memory.read(entry * ENTRY_BYTES, &mut bytes);
        bytes
    }

    fn clear(&mut self, entry: usize) {
        let _ = self.memory.write(entry * ENTRY_BYTES, &[0; ENTRY_BYTES]);
    }
}
