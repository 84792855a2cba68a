//! The memory that a socket shares with kernels, as the proxy keeps it: rings, counters, endings, and
//! the descriptor.

use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::descriptor::{Inboxes, Kind, RingLocation, SocketDescriptor};
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::{HEAD_AT, TAIL_AT};
use gpunet_device::planted::{Bug, planted};

use super::counted::Counted;
use crate::memory::Memory;

/// See the module.
#[derive(Default)]
pub(crate) struct Channel {
    /// The socket's slot in the net's tables.
    pub(crate) index: usize,
    /// What the proxy fills: bytes, a listener's handles, a poller's events.
    pub(crate) receive: Counted,
    /// What kernels fill.
    pub(crate) send: Counted,
    /// How far the kernel has read, as last reported to a transport that places bytes by itself.
    pub(super) reported_head: u64,
    /// Of a p2p stream.
    pub(super) inboxes: Option<Inboxes>,
    /// It is being connected by a transport that may turn out to be another, which would need other
    /// rings: a kernel gets none before.
    pub(super) rings_may_change: bool,
    /// Descriptors that were published of it.
    descriptors: u8,
    /// Whether what was received last is a packet in the inbox.
    pub(super) packet_holds: bool,
    /// Where the units of the inbox were made anew.
    pub(super) units_since: u64,
    pub(crate) receive_ended: bool,
    pub(crate) send_ended: bool,
    /// The kernel will send no more: end the direction once all is sent.
    pub(crate) finish_send: bool,
    pub(crate) failure: Option<Errno>,
    /// The GPU wrote a word that makes no sense, which was reported once.
    pub(super) violated: bool,
}

impl Channel {
    /// That of the socket in a slot of the net's tables, without rings.
    pub(super) fn new(index: usize) -> Self {
        Self { index, ..Self::default() }
    }

    /// Whether it is that of a p2p stream.
    pub(crate) fn is_p2p(&self) -> bool {
        self.inboxes.is_some()
    }

    /// Bytes that the kernel sent and that are still to go.
    pub(crate) fn unsent(&self) -> u64 {
        if self.send_ended || self.is_p2p() { 0 } else { self.send.theirs - self.send.ours }
    }

    /// Publishes the descriptor; everything else that it announces is published already.
    pub(super) fn publish_descriptor(
        &mut self,
        memory: &Memory,
        generation: u32,
        kind: Kind,
        timeout_ns: u64,
    ) {
        let location = |ring: &Counted| match self.rings_may_change {
            true => RingLocation::default(),
            false => ring.in_descriptor(),
        };
        let descriptor = SocketDescriptor {
            generation,
            kind,
            change: self.descriptors,
            receive: location(&self.receive),
            send: location(&self.send),
            timeout_ns,
            inboxes: self.inboxes,
        };
        memory.publish_descriptor(self.index, &descriptor);
        if !planted(Bug::DescriptorNotNumbered) {
            self.descriptors = self.descriptors.wrapping_add(1);
        }
    }

    fn ending(&self, ended: bool) -> u64 {
        match (ended, self.failure) {
            (false, _) => 0,
            (true, None) => Progress::ENDED,
            (true, Some(_)) => Progress::ENDED | Progress::FAILED,
        }
    }

    /// Release: bytes before the counter, status before its failure bit.
    pub(crate) fn publish_receive(&self, memory: &Memory) {
        let packet = if self.packet_holds { Progress::PACKET } else { 0 };
        let flags = self.ending(self.receive_ended) | packet;
        let progress = Progress::new(self.receive.ours, flags);
        let word = memory.live(self.index).get(TAIL_AT);
        if planted(Bug::ReceiveWithoutRelease) {
            return word.store(progress.0);
        }
        word.store_release(progress.0);
    }

    /// Release: what was sent may be overwritten.
    pub(crate) fn publish_send(&self, memory: &Memory) {
        // Over for the kernel as soon as it said so, though bytes may still be on their way.
        let ended = self.send_ended || self.finish_send;
        let progress = Progress::new(self.send.ours, self.ending(ended));
        memory.live(self.index).get(HEAD_AT).store_release(progress.0);
    }
}
