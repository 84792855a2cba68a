//! The sockets of a shard, by slot.

use gpunet_device::Handle;

use super::entry::Entry;

/// See the module.
pub(crate) struct Table {
    slots: Vec<Option<Box<Entry>>>,
    /// Slots from here on have no socket.
    pub(super) used: usize,
}

impl Table {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: (0..slots).map(|_| None).collect(), used: 0 }
    }

    /// How many slots there are.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no socket.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots[..self.used].iter().all(Option::is_none)
    }

    /// The socket in a slot.
    pub(crate) fn get(&self, slot: usize) -> Option<&Entry> {
        self.slots.get(slot)?.as_deref()
    }

    /// The socket that a handle names.
    pub(crate) fn find(&mut self, handle: Handle) -> Option<&mut Entry> {
        let entry = self.slots.get_mut(handle.slot() as usize)?.as_deref_mut();
        entry.filter(|entry| entry.handle == handle)
    }

    /// Whether a handle names a socket.
    pub(super) fn has(&self, handle: Handle) -> bool {
        self.get(handle.slot() as usize).is_some_and(|entry| entry.handle == handle)
    }

    /// All sockets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slots[..self.used].iter().filter_map(Option::as_deref)
    }

    /// All sockets, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.slots[..self.used].iter_mut().filter_map(Option::as_deref_mut)
    }

    /// Puts a socket into its slot.
    pub(super) fn insert(&mut self, entry: Box<Entry>) {
        let slot = entry.handle.slot() as usize;
        self.used = self.used.max(slot + 1);
        self.slots[slot] = Some(entry);
    }

    /// Takes a socket out of its slot.
    pub(super) fn remove(&mut self, slot: usize) -> Option<Box<Entry>> {
        self.slots.get_mut(slot)?.take()
    }

    /// Leaves out unused slots at the end of what is scanned. Now and then, since it may have to
    /// pass many.
    pub(super) fn shrink(&mut self) {
        while self.used > 0 && self.slots[self.used - 1].is_none() {
            self.used -= 1;
        }
    }
}
