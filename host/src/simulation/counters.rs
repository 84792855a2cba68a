//! Words of the shared memory that mean something to the simulation: counters, which only grow, and
//! descriptors, which say who has which memory.

use gpunet_device::Handle;
use gpunet_device::abi::bits::RecordState;
use gpunet_device::abi::descriptor::{DESCRIPTOR_WORDS, SocketDescriptor};
use gpunet_device::abi::layout::{HEAD_AT, Layout, RECORD_STATE, TAIL_AT};

use super::counter::Counter;
use super::memory::SharedMemory;

impl SharedMemory {
    /// Says which words only grow: those of the GPU always, those of the proxy as long as a
    /// slot has the same socket.
    pub(crate) fn set_counters(
        &mut self,
        layout: &Layout,
        [gpu_control, host_control, records]: [usize; 3],
    ) {
        // Without their flags; and those of p2p streams begin with a number.
        let (mask, apart) = (!7, 15 << 60);
        let counters = self.counters.get_mut();
        for socket in 0..layout.sockets() {
            for word in [layout.send_tail(socket), layout.receive_head(socket)] {
                counters.insert(gpu_control + 8 * word, Counter { mask, apart, descriptor: None });
            }
            let descriptor = Some(host_control + 8 * layout.descriptor(socket));
            let (shard, slot) =
                (socket as u32 / layout.socket_slots, socket as u32 % layout.socket_slots);
            self.descriptors.insert(host_control + 8 * layout.descriptor(socket), (shard, slot));
            let state = layout.record(socket) + RECORD_STATE;
            self.records.insert(records + 8 * state, (shard, slot));
            for word in [layout.inbox(socket) + TAIL_AT, layout.inbox(socket) + HEAD_AT] {
                counters.insert(host_control + 8 * word, Counter { mask, apart: 0, descriptor });
            }
        }
    }

    /// The two counters of an inbox in an arena only grow, from what stands there now.
    pub(crate) fn new_inbox(&self, inbox: usize) {
        self.trace.add_inbox(inbox);
        let counter = Counter { mask: !7, apart: !0 << 36, descriptor: None };
        let counters = &mut *self.counters.borrow_mut();
        for word in [inbox + 8 * TAIL_AT, inbox + 8 * HEAD_AT] {
            counters.insert(word, counter);
        }
    }

    /// The memory of an inbox is anybody's now.
    pub(crate) fn forget_inbox(&self, inbox: usize) {
        self.trace.remove_inbox(inbox);
        let counters = &mut *self.counters.borrow_mut();
        for word in [inbox + 8 * TAIL_AT, inbox + 8 * HEAD_AT] {
            counters.remove(&word);
        }
    }

    /// A word was stored; where it closes a record, which only the host does by a store, calls that begin
    /// now find that first.
    pub(super) fn check_record(&self, at: usize, value: u64) {
        let Some((shard, slot)) = self.records.get(&at).copied() else { return };
        let handle = Handle::new(shard, slot, RecordState(value).generation());
        self.reuse.borrow_mut().closed(handle);
    }

    /// A word was stored; where it completes a descriptor, what that names is its socket's now. 0 withdraws
    /// it.
    pub(super) fn check_descriptor(&self, at: usize, value: u64) {
        let Some((shard, slot)) = self.descriptors.get(&at).copied() else { return };
        let mut words = [0; DESCRIPTOR_WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.history(at + 8 * index, |h| h.last().map_or(0, |last| last.value));
        }
        words[0] = value;
        if let Some(descriptor) = SocketDescriptor::from_words(&words) {
            let handle = Handle::new(shard, slot, descriptor.generation);
            self.reuse.borrow_mut().published(handle, &descriptor);
        } else if value == 0 {
            self.reuse.borrow_mut().withdrawn(shard, slot);
        }
    }
}
