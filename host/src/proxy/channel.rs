//! The memory that a socket shares with kernels, as the proxy keeps it: rings, counters, endings, and
//! the descriptor. It touches this socket's words and rings, and nothing else of the net's memory.

use gpunet_device::Handle;
use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::descriptor::{Inboxes, Kind, RingLocation, SocketDescriptor};
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::{HEAD_AT, STATUS_AT, TAIL_AT};
use gpunet_device::planted::{Bug, planted};

use super::context::Context;
use super::counted::Counted;
use super::endings::Endings;
use super::shared::Shared;
use crate::memory::Memory;
use crate::pool::Account;
use crate::transport::{RingRegion, RingSizes, Rings};

/// Sockets of a proxy thread that ended with EPROTO and are logged; the rest are counted.
const LOGGED_VIOLATIONS: u64 = 100;

/// See the module.
#[derive(Default)]
pub(crate) struct Channel {
    handle: Handle,
    /// The socket's slot in the net's tables.
    pub(crate) index: usize,
    /// What the proxy fills: bytes, a listener's handles, a poller's events.
    pub(crate) receive: Counted,
    /// What kernels fill.
    pub(crate) send: Counted,
    pub(crate) endings: Endings,
    /// Of a p2p stream.
    inboxes: Option<Inboxes>,
    /// It is being connected by a transport that may turn out to be another, which would need other
    /// rings: a kernel gets none before.
    pub(super) rings_may_change: bool,
    /// Descriptors that were published of it.
    descriptors: u8,
    /// Whether what was received last is a packet in the inbox.
    pub(super) packet_holds: bool,
    /// Where the units of the inbox were made anew.
    pub(super) units_since: u64,
}

impl Channel {
    /// That of a socket in a slot of the net's tables, without rings.
    pub(super) fn new(handle: Handle, index: usize) -> Self {
        Self { handle, index, ..Self::default() }
    }

    /// Takes both rings of a stream.
    pub(crate) fn allocate(
        &mut self,
        shared: &Shared,
        account: Account,
        region: RingRegion,
        sizes: RingSizes,
    ) -> Result<(), Errno> {
        if region == RingRegion::Window {
            // They come with the stream.
            return Ok(());
        }
        let head = shared.memory.receive_head(self.index).load();
        self.receive = shared.ring_in(account, region, sizes.receive, head)?;
        let tail = shared.memory.send_tail(self.index).load();
        let send = shared.ring_in(account, region, sizes.send, tail);
        let give_back = |_: &Errno| {
            shared.pool.free_ring(&std::mem::take(&mut self.receive).location);
        };
        self.send = send.inspect_err(give_back)?;
        Ok(())
    }

    /// Uses the rings that a p2p stream has brought.
    pub(super) fn use_rings(&mut self, memory: &Memory, (rings, inboxes): (Rings, Inboxes)) {
        self.receive = Counted::new(rings.receive, memory.receive_head(self.index).load());
        self.send = Counted::new(rings.send, memory.send_tail(self.index).load());
        self.inboxes = Some(inboxes);
    }

    /// Whether the proxy has a part in what passes through one of its rings. Without a ring, and of a p2p
    /// stream, the GPU's word in the control block is still that of the socket which had the slot before.
    pub(super) fn moves(&self, ring: &Counted) -> bool {
        ring.location.capacity != 0 && self.inboxes.is_none()
    }

    /// Gives both rings back to the pool.
    pub(crate) fn release(&mut self, shared: &Shared) {
        shared.pool.free_ring(&self.receive.location);
        if !planted(Bug::RingLeaked) {
            shared.pool.free_ring(&self.send.location);
        }
        self.receive = Counted::default();
        self.send = Counted::default();
        self.inboxes = None;
        self.rings_may_change = false;
    }

    /// Bytes that the kernel sent and that are still to go.
    pub(crate) fn unsent(&self) -> u64 {
        if self.endings.send { 0 } else { self.send.unsent() }
    }

    /// Publishes everything the GPU may read of it; the descriptor last.
    pub(super) fn publish(&mut self, memory: &Memory, kind: Kind, timeout_ns: u64) {
        self.units_since = self.receive.ours;
        memory.renew_units(self.index, self.units_since);
        self.publish_status(memory);
        self.publish_receive(memory);
        self.publish_send(memory);
        let location = |ring: &Counted| match self.rings_may_change {
            true => RingLocation::default(),
            false => ring.location,
        };
        let descriptor = SocketDescriptor {
            generation: self.handle.generation(),
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

    pub(super) fn publish_status(&self, memory: &Memory) {
        memory.live(self.index).get(STATUS_AT).store_release(self.endings.status().0);
    }

    /// Release: bytes before the counter, status before its failure bit.
    pub(crate) fn publish_receive(&self, memory: &Memory) {
        let packet = if self.packet_holds { Progress::PACKET } else { 0 };
        let progress =
            Progress::new(self.receive.ours, self.endings.flags(self.endings.receive) | packet);
        let word = memory.live(self.index).get(TAIL_AT);
        if planted(Bug::ReceiveWithoutRelease) {
            return word.store(progress.0);
        }
        word.store_release(progress.0);
    }

    /// Release: what was sent may be overwritten.
    pub(crate) fn publish_send(&self, memory: &Memory) {
        // Sending is over for the kernel as soon as it said so, though bytes may still be on their way.
        let ended = self.endings.send || self.endings.finish_send;
        let progress = Progress::new(self.send.ours, self.endings.flags(ended));
        memory.live(self.index).get(HEAD_AT).store_release(progress.0);
    }

    /// Loads the GPU's receive head.
    pub(crate) fn load_head(&mut self, context: &Context) {
        if !self.moves(&self.receive) {
            return;
        }
        // Acquire: the GPU has read the bytes before the counter, so they may be overwritten.
        let word = context.memory().receive_head(self.index).load_acquire();
        if self.receive.update_head(word).is_err() {
            self.violate("receive head", word, context);
        }
    }

    /// Ends the socket with an error; bytes that have arrived can still be read.
    pub(crate) fn fail(&mut self, errno: Errno, context: &Context) {
        self.endings.receive = true;
        self.fail_send(errno, context);
    }

    /// Ends sending with an error. What the peer sent before it left may still be in the system's
    /// hands: receiving goes on to its own end.
    pub(super) fn fail_send(&mut self, errno: Errno, context: &Context) {
        if self.endings.fail_send(errno) {
            context.counters.failed.add(1);
            tracing::debug!(handle = self.handle.0, %errno, "socket failed");
        }
        let memory = context.memory();
        self.publish_status(memory);
        // Sending first: a kernel that has seen its receive fail does not find that bytes are sent.
        self.publish_send(memory);
        self.publish_receive(memory);
    }

    /// Ends the socket because the GPU wrote a word that makes no sense. One that goes on writing
    /// is not reported again: it has ended, and neither the count nor the log is the kernel's to
    /// fill.
    pub(crate) fn violate(&mut self, what: &str, word: u64, context: &Context) {
        if std::mem::replace(&mut self.endings.violated, true) {
            return;
        }
        context.counters.violations.add(1);
        if context.counters.violations.get() <= LOGGED_VIOLATIONS {
            tracing::warn!(
                handle = self.handle.0,
                word,
                "a kernel wrote a bad {what}; its socket ends"
            );
        }
        self.fail(Errno::EPROTO, context);
    }
}
