//! The sockets of a shard, with the schedule of visits and what a visit may use. The parts of a shard work on
//! them: one socket at a time by a [`Visit`], or several where one has something to do with another.

use gpunet_device::Handle;

use super::context::Context;
use super::entry::{Entry, Phase};
use super::message::Message;
use super::schedule::Schedule;
use super::shared::Readiness;
use super::table::Table;
use super::visit::Visit;

/// See the module.
pub(crate) struct Sockets {
    pub(crate) context: Context,
    pub(super) table: Table,
    pub(super) schedule: Schedule,
}

impl Sockets {
    pub(super) fn new(context: Context) -> Self {
        let slots = context.memory().layout().socket_slots as usize;
        Self { context, table: Table::new(slots), schedule: Schedule::new(slots) }
    }

    /// A visit of the socket that a handle names.
    pub(super) fn visit(&mut self, handle: Handle) -> Option<Visit<'_>> {
        let Self { context, table, schedule } = self;
        let entry = table.find(handle)?;
        schedule.visits += 1;
        Some(Visit { entry, schedule, context })
    }

    /// The same of the socket in a slot.
    pub(super) fn visit_slot(&mut self, slot: usize) -> Option<Visit<'_>> {
        let handle = self.table.get(slot)?.handle;
        self.visit(handle)
    }

    /// Hands a new socket to its shard, this one or another.
    pub(super) fn hand_over(&mut self, entry: Entry, io: &mut dyn Readiness) {
        let shard = entry.handle.shard() as usize;
        let entry = Box::new(entry);
        if shard == self.context.id {
            self.adopt(entry, io);
        } else {
            self.context.shared.send(shard, Message::Adopt(entry));
        }
    }

    /// Takes a socket into its slot, published already, and starts to serve it.
    pub(super) fn adopt(&mut self, entry: Box<Entry>, io: &mut dyn Readiness) {
        let (handle, phase) = (entry.handle, entry.phase());
        // What the GPU wrote before this socket had the slot is no progress of its own.
        let stale = match entry.channel.send.location.capacity {
            0 => self.context.memory().send_tail(entry.channel.index).load(),
            _ => entry.channel.send.stale,
        };
        self.schedule.tails.set(handle.slot() as usize, stale);
        self.table.insert(entry);
        let Some(mut visit) = self.visit(handle) else { return };
        if phase != Phase::Fresh {
            visit.watch_descriptor(io);
        }
        if visit.is_left_over() {
            // Its launch has ended, and this shard may have cleared up after it already.
            self.schedule.orphans.push(handle);
        }
    }

    /// Takes a socket out of table and schedule.
    pub(super) fn remove(&mut self, handle: Handle) -> Option<Box<Entry>> {
        let mut entry = self.table.remove(handle.slot() as usize)?;
        self.schedule.forget(&mut entry);
        Some(entry)
    }

    /// The handles of sockets that are so.
    pub(super) fn select(&self, mut is: impl FnMut(&Entry) -> bool) -> Vec<Handle> {
        self.table.iter().filter(|entry| is(entry)).map(|entry| entry.handle).collect()
    }
}
