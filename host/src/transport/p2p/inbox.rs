//! Where a p2p stream receives, its inbox, and where its other end does, its outbox: a ring and an
//! inbox of counters and packet units each, in an arena.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gpunet_device::abi::bits::{Progress, Unit};
use gpunet_device::abi::descriptor::RingLocation;
use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::layout::{
    HEAD_AT, P2P_INBOX_BYTES, P2P_INBOX_WORDS, PAGE_BYTES, TAIL_AT, UNITS_AT,
};
use gpunet_device::abi::net::WINDOW;
use gpunet_device::planted::{Bug, planted};

use super::super::provider::KernelMemory;
use super::chunk::{Chunk, out_of_memory};
use super::message::Offer;
use crate::gpu::Arena;
use crate::lock::lock;

/// Where a stream receives. Dropped, its memory can be used by the next stream with the same peer:
/// who drops it knows that the peer's kernel no longer writes there, or spoils it.
pub(crate) struct Inbox {
    pub(super) chunk: Arc<Chunk>,
    offer: Offer,
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.chunk.arena.mark(self.offer.inbox as usize, false);
        let mut free = lock(&self.chunk.free);
        free.free(self.offer.ring, self.offer.capacity);
        free.free(self.offer.inbox, P2P_INBOX_BYTES as u32);
    }
}

/// Where the other end of a stream receives.
pub(crate) struct Outbox {
    pub(super) arena: Arc<Arena>,
    pub(super) offer: Offer,
}

impl Inbox {
    /// Takes one of a chunk, if that has the room.
    pub(super) fn take(chunk: &Arc<Chunk>, capacity: u32, base: u64) -> Option<Self> {
        if chunk.spoilt.load(Ordering::Relaxed) {
            return None;
        }
        let mut free = lock(&chunk.free);
        let ring = free.allocate(capacity)?;
        let Some(inbox) = free.allocate(P2P_INBOX_BYTES as u32) else {
            free.free(ring, capacity);
            return None;
        };
        drop(free);
        let (arena, arena_bytes) = (chunk.number, chunk.arena.len() as u64);
        let offer = Offer { arena, arena_bytes, ring, capacity, inbox, base };
        Some(Self { chunk: Arc::clone(chunk), offer })
    }

    /// Writes the inbox anew: what stands there is the last stream's.
    pub(super) fn prepare(&self) -> Result<(), Errno> {
        // No unit belongs to a packet of the stream.
        let mut words = vec![Unit::blank(self.offer.base).0; P2P_INBOX_WORDS];
        words[..UNITS_AT].fill(0);
        words[TAIL_AT] = Progress::new(self.offer.base, 0).0;
        words[HEAD_AT] = Progress::new(self.offer.base, 0).0;
        if planted(Bug::UnitsOfLastStream) {
            words.truncate(UNITS_AT);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let written = self.chunk.arena.write(self.offer.inbox as usize, &bytes);
        self.chunk.arena.mark(self.offer.inbox as usize, true);
        written.map_err(|error| out_of_memory(&error))
    }

    /// Kernels may use it as long as they run: its stream was not closed in order.
    pub(crate) fn abandon(&self) {
        self.chunk.arena.abandon();
    }

    /// The other end has gone without a word, and its kernels may run on: no other stream is to
    /// receive in this memory, or in what belongs with it.
    pub(crate) fn spoil(&self) {
        // Relaxed: it says nothing of other memory.
        self.chunk.spoilt.store(true, Ordering::Relaxed);
    }

    /// Where the stream's counters begin.
    pub(crate) fn base(&self) -> u64 {
        self.offer.base
    }

    pub(crate) fn location(&self) -> RingLocation {
        location(&self.chunk.arena, &self.offer)
    }

    pub(crate) fn inbox_page(&self) -> u32 {
        page(&self.chunk.arena, self.offer.inbox)
    }

    /// What the peer is sent of it, and the descriptor of its arena.
    pub(crate) fn offer(&self) -> Result<(Offer, OwnedFd), Errno> {
        let descriptor = self.chunk.arena.export();
        Ok((self.offer, descriptor.map_err(|error| out_of_memory(&error.into()))?))
    }

    /// Notifies this side's kernel that nobody takes what it sends: the other end's, which writes the head
    /// otherwise, is gone. The tail stays as it is. Who reads it must pair with the release of the kernel
    /// that has sent the bytes, which a word written by the host does not carry on; and what the proxy says
    /// of the end is read beside it.
    pub(crate) fn fail_head(&self) -> Result<(), Errno> {
        let at = self.offer.inbox as usize + HEAD_AT * 8;
        let mut head = [0; 8];
        self.chunk.arena.read(at, &mut head).map_err(|error| out_of_memory(&error))?;
        let failed = u64::from_ne_bytes(head) | Progress::ENDED | Progress::FAILED;
        let written = self.chunk.arena.write(at, &failed.to_ne_bytes());
        written.map_err(|error| out_of_memory(&error))
    }
}

impl KernelMemory for Inbox {
    fn page(&self) -> u32 {
        page(&self.chunk.arena, self.offer.ring)
    }
}

impl Outbox {
    /// As [`Inbox::abandon`].
    pub(crate) fn abandon(&self) {
        self.arena.abandon();
    }

    pub(crate) fn location(&self) -> RingLocation {
        location(&self.arena, &self.offer)
    }

    pub(crate) fn inbox_page(&self) -> u32 {
        page(&self.arena, self.offer.inbox)
    }
}

fn location(arena: &Arena, offer: &Offer) -> RingLocation {
    let Offer { ring, capacity, base, .. } = *offer;
    RingLocation { region: WINDOW, offset: arena.offset() + ring, capacity, base }
}

fn page(arena: &Arena, inbox: u64) -> u32 {
    ((arena.offset() + inbox) / PAGE_BYTES as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::super::super::linux::Linux;
    use super::super::arena::{Arenas, BASE};
    use super::super::process::Process;
    use super::*;
    use crate::gpu::{EmulatedOptions, Gpu, GpuChoice};

    #[test]
    fn a_failure_leaves_the_tail_to_its_writer() {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let arenas = Arc::new(Arenas::new(&Linux, gpu, 64 << 20));
        let inbox = arenas.inbox(Process { pid: 1, token: 1 }, 4096, BASE).expect("memory");
        let announced = [Progress::new(BASE + 40, Progress::PACKET), Progress::new(BASE + 9, 0)];
        let at = inbox.offer.inbox as usize + TAIL_AT * 8;
        let bytes = announced.map(|progress| progress.0.to_ne_bytes());
        inbox.chunk.arena.write(at, bytes.as_flattened()).expect("it is there");
        inbox.fail_head().expect("it is there");
        let mut words = [[0; 8]; 2];
        inbox.chunk.arena.read(at, words.as_flattened_mut()).expect("it is there");
        let [tail, head] = words.map(|word| Progress(u64::from_ne_bytes(word)));
        assert_eq!(tail, announced[0]);
        assert_eq!((head.count(), head.has_failed(), head.is_over()), (BASE + 9, true, true));
    }
}
