//! Memory that is handed out again too early: the rings, the inbox or the slot of a socket that is
//! gone, while a group is still inside a call on its handle. Such a call may read or write what belongs
//! to another socket by then. Noticed when they are given back, and once more when the next socket's
//! descriptor is published, by whatever way it came to them.
//!
//! Two kinds of calls touch nothing of a socket, and are left out: those that begin when the host has
//! closed its record, and those of launches that began when its descriptor was withdrawn. Where no launch
//! runs at that moment nothing drains, and the record still says *open*, to the launches of then.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use gpunet_device::Handle;
use gpunet_device::abi::descriptor::{RingLocation, SocketDescriptor};

/// What a socket has had: its rings, by region, and the inboxes of a p2p stream, by page.
#[derive(Clone, Debug, Default)]
struct Parts {
    rings: Vec<(u8, Range<u64>)>,
    inboxes: Vec<u32>,
}

impl Parts {
    fn of(descriptor: &SocketDescriptor) -> Self {
        let ring = |location: &RingLocation| {
            let end = location.offset + u64::from(location.capacity);
            (location.capacity != 0).then_some((location.region, location.offset..end))
        };
        let rings = [&descriptor.receive, &descriptor.send].into_iter().filter_map(ring).collect();
        // The other end's inbox goes with that end.
        Self { rings, inboxes: descriptor.inboxes.iter().map(|pages| pages.own).collect() }
    }

    /// A part of both.
    fn common(&self, other: &Self) -> Option<&'static str> {
        let overlap = |a: &(u8, Range<u64>), b: &(u8, Range<u64>)| {
            a.0 == b.0 && a.1.start < b.1.end && b.1.start < a.1.end
        };
        // The two ends of a p2p stream have one pair of rings.
        let host = |ring: &&(u8, Range<u64>)| ring.0 < 2;
        let rings = self.rings.iter().filter(host);
        if rings.into_iter().any(|ring| other.rings.iter().any(|theirs| overlap(ring, theirs))) {
            return Some("a ring");
        }
        let inbox = self.inboxes.iter().any(|page| other.inboxes.contains(page));
        inbox.then_some("the inbox")
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Reuse {
    /// What each handle has had, as long as somebody may be inside a call on it.
    parts: HashMap<u64, Parts>,
    /// Calls under way: the actor that leads the group, and the handle.
    inside: Vec<(usize, Handle)>,
    /// Handles whose records the host has closed: a call that begins then touches nothing.
    closed: HashSet<u64>,
    /// The handle of each slot that has a descriptor.
    alive: HashMap<(u32, u32), Handle>,
    /// Handles whose descriptors were withdrawn, numbered in that order.
    withdrawn: HashMap<u64, usize>,
    /// How many were when the launch of an actor began.
    began: HashMap<usize, usize>,
    /// What was handed out too early.
    pub(super) complaint: Option<String>,
}

impl Reuse {
    /// The launch of an actor begins: what was withdrawn before is known to it.
    pub(super) fn begins(&mut self, actor: usize) {
        self.began.insert(actor, self.withdrawn.len());
    }

    /// Whether the descriptor of a handle was withdrawn before an actor's launch began.
    fn was_dead_before(&self, actor: usize, handle: Handle) -> bool {
        let began = self.began.get(&actor).copied().unwrap_or_default();
        self.withdrawn.get(&handle.0).is_some_and(|number| *number < began)
    }

    /// A group begins a call on a handle, or ends it.
    pub(super) fn calls(&mut self, leader: usize, handle: Handle, begins: bool) {
        match begins {
            true if self.closed.contains(&handle.0) => {}
            true if self.was_dead_before(leader, handle) => {}
            true => self.inside.push((leader, handle)),
            false => {
                let at = self.inside.iter().position(|call| *call == (leader, handle));
                at.map(|at| self.inside.swap_remove(at));
            }
        }
    }

    /// The host has closed a record.
    pub(super) fn closed(&mut self, handle: Handle) {
        self.closed.insert(handle.0);
    }

    /// Slot and rings of a socket are given back.
    pub(super) fn freed(&mut self, handle: Handle) {
        if self.inside.iter().any(|(_, inside)| *inside == handle) {
            let complaint = format!("{handle:?} is free, though a call uses it");
            self.complaint.get_or_insert(complaint);
        }
    }

    /// The descriptor in a slot is withdrawn.
    pub(super) fn withdrawn(&mut self, shard: u32, slot: u32) {
        if let Some(handle) = self.alive.remove(&(shard, slot)) {
            self.withdrawn.insert(handle.0, self.withdrawn.len());
        }
    }

    /// The descriptor of a socket is published.
    pub(super) fn published(&mut self, handle: Handle, descriptor: &SocketDescriptor) {
        let parts = Parts::of(descriptor);
        for (_, old) in self.inside.iter().filter(|(_, old)| *old != handle) {
            let slot = (old.shard(), old.slot()) == (handle.shard(), handle.slot());
            let common = self.parts.get(&old.0).and_then(|theirs| parts.common(theirs));
            if let Some(what) = if slot { Some("the slot") } else { common } {
                let complaint = format!("{what} of {old:?} is {handle:?}'s, though a call uses it");
                self.complaint.get_or_insert(complaint);
            }
        }
        self.parts.insert(handle.0, parts);
        self.alive.insert((handle.shard(), handle.slot()), handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpunet_device::abi::descriptor::Kind;

    /// Two sockets that have the same rings, one after the other.
    fn socket(slot: u32) -> (Handle, SocketDescriptor) {
        let ring = |offset| RingLocation { region: 0, offset, capacity: 4096, base: 128 };
        let descriptor = SocketDescriptor {
            kind: Kind::Stream,
            generation: 1,
            change: 1,
            receive: ring(0),
            send: ring(4096),
            timeout_ns: 0,
            inboxes: None,
        };
        (Handle::new(0, slot, 1), descriptor)
    }

    /// Whether a call is taken to be inside when its socket's rings are handed out again.
    fn complains(before: impl FnOnce(&mut Reuse, Handle)) -> bool {
        let mut reuse = Reuse::default();
        let ((first, descriptor), (second, next)) = (socket(3), socket(4));
        reuse.begins(7);
        reuse.published(first, &descriptor);
        before(&mut reuse, first);
        reuse.published(second, &next);
        reuse.complaint.is_some()
    }

    #[test]
    fn a_call_under_way_keeps_its_rings() {
        assert!(complains(|reuse, handle| {
            reuse.calls(7, handle, true);
            reuse.withdrawn(0, 3);
        }));
        // The launch ran when the descriptor was withdrawn: it may know the socket's record.
        assert!(complains(|reuse, handle| {
            reuse.withdrawn(0, 3);
            reuse.calls(7, handle, true);
        }));
        assert!(!complains(|reuse, handle| {
            reuse.calls(7, handle, true);
            reuse.withdrawn(0, 3);
            reuse.calls(7, handle, false);
        }));
    }

    #[test]
    fn a_socket_is_not_freed_under_a_call() {
        let (handle, _) = socket(3);
        for ends in [false, true] {
            let mut reuse = Reuse::default();
            reuse.calls(7, handle, true);
            if ends {
                reuse.calls(7, handle, false);
            }
            reuse.freed(handle);
            assert_eq!(reuse.complaint.is_none(), ends);
        }
    }

    #[test]
    fn a_call_that_touches_nothing_keeps_nothing() {
        assert!(!complains(|reuse, handle| {
            reuse.withdrawn(0, 3);
            reuse.begins(9);
            reuse.calls(9, handle, true);
        }));
        assert!(!complains(|reuse, handle| {
            reuse.closed(handle);
            reuse.calls(7, handle, true);
        }));
    }
}
