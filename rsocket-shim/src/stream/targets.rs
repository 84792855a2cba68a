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

    /// The entry as it is now. Its end, with the length, is looked at first, as it is written last.
    fn look(&self, entry: usize) -> [u8; ENTRY_BYTES] {
        let word =
            |index: usize| self.memory.read_word(entry * ENTRY_BYTES + index * 8).unwrap_or(0);
        let end = word(1);
        fence(Ordering::Acquire);
        let start = word(0);
        // Outside of the list there is nothing, which grants nothing.
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&start.to_ne_bytes());
        bytes[8..].copy_from_slice(&end.to_ne_bytes());
        bytes
    }

    /// Address and key for the peer.
    pub(super) fn place(&self) -> (u64, u32) {
        self.region.target(0, LIST_BYTES).map_or((0, 0), |target| (target.address, target.key))
    }
}

impl TargetList for Targets {
    fn read(&self, entry: usize) -> [u8; ENTRY_BYTES] {
        // The completion that reported the entry was read before.
        fence(Ordering::Acquire);
        let seen = self.look(entry);
        fence(Ordering::Acquire);
        // The peer may be writing an entry whose message is yet to come, and not every device does
        // so at once: what changes meanwhile is read when that message is there.
        if seen == self.look(entry) { seen } else { [0; ENTRY_BYTES] }
    }

    fn clear(&mut self, entry: usize) {
        let _ = self.memory.write(entry * ENTRY_BYTES, &[0; ENTRY_BYTES]);
    }
}
