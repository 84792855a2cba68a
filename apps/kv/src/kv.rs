//! What commands work on: the table, the clock, and what was counted since the last tick.

use gpunet_device::{Block, Group, On};

use crate::store::{Store, Word};
use crate::table::Table;

/// The protocol: the table, and the clock.
pub(crate) struct Kv {
    pub(crate) table: Table,
    pub(crate) store: Store,
    /// When it began, on the GPU's clock.
    pub(crate) begin: u64,
    /// Look-ups since the last tick that found their key, and that did not.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl Kv {
    /// Adds the block's look-ups to the common counts.
    pub(crate) fn publish_counts(&mut self, on: On<Block>) {
        if on.group().is_leader() {
            self.table.count(Word::Hits, self.hits);
            self.table.count(Word::Misses, self.misses);
        }
        (self.hits, self.misses) = (0, 0);
    }
}
