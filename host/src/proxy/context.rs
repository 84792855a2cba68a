//! What a shard works with and does not own: memory, clock, counters, and what its net shares. The
//! parts of a shard borrow it.

use std::sync::Arc;

use super::shared::Shared;
use super::statistics::Counters;
use crate::memory::Memory;
use crate::settings::config::Pacing;
use crate::settings::limits::Limits;

/// See the module.
pub(crate) struct Context {
    /// The shard's number.
    pub(crate) id: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<Counters>,
    /// The time of this turn.
    pub(crate) now_ns: u64,
    beats: u64,
}

impl Context {
    pub(crate) fn new(id: usize, shared: Arc<Shared>, counters: Arc<Counters>) -> Self {
        Self { id, shared, counters, now_ns: 0, beats: 0 }
    }

    /// The net's memory.
    pub(crate) fn memory(&self) -> &Memory {
        &self.shared.memory
    }

    /// How much kernels of the net may have and move.
    pub(crate) fn limits(&self) -> &Limits {
        &self.shared.policy.limits
    }

    /// After how much something else is done for a socket.
    pub(crate) fn pacing(&self) -> &Pacing {
        &self.shared.config.pacing
    }

    /// Shows that the thread lives: once a turn, and between the parts of one that may be long.
    pub(crate) fn beat(&mut self) {
        self.beats += 1;
        self.shared.memory.beat(self.id, self.beats);
    }
}
