//! Where each word of a net lies: regions by who writes them.
//!
//! | region | memory | written by |
//! | --- | --- | --- |
//! | control block of the GPU | pinned host | GPU: send tails, receive heads, requests, packets |
//! | control block of the host | pinned host or GPU | proxy: stop words, heartbeats, sockets' inboxes, replies |
//! | rings | pinned host or GPU | one side each |
//! | window | GPU | kernels, those of peers too: rings and inboxes of p2p streams |
//! | records | GPU | GPU alone: locks, positions, options, relays of stop words and heartbeats |
//!
//! Regions are separate mappings, so words of the GPU and of the CPU never share a page.

use super::bits::{P2P_PACKET_UNITS, PACKET_UNITS};
use super::descriptor::DESCRIPTOR_WORDS;
use super::message::{REPLY_WORDS, REQUEST_WORDS};

/// Launches of a net that can run at once.
pub const MAX_LAUNCHES: u32 = 256;
/// Words of a socket that change while it lives, at the beginning of its inbox: how far the other end
/// has sent, how far it has received, status, and which poller watches it (p2p).
pub const LIVE_WORDS: usize = 4;
/// Where in an inbox the other end says how far it has sent.
pub const TAIL_AT: usize = 0;
/// Where it says how far it has received.
pub const HEAD_AT: usize = 1;
/// Where the proxy says what became of the socket.
pub const STATUS_AT: usize = 2;
/// In the inbox of a p2p stream: which poller watches it. The kernel that owns the inbox writes it.
pub const WATCHER_AT: usize = 3;
/// Where the socket's descriptor stands, in an inbox that the proxy writes.
pub const DESCRIPTOR_AT: usize = LIVE_WORDS;
/// Where the units of a packet begin: behind the first line.
pub const UNITS_AT: usize = 16;
const _: () = assert!(DESCRIPTOR_AT + DESCRIPTOR_WORDS <= UNITS_AT);
/// Words of an inbox that the proxy writes.
pub const INBOX_WORDS: usize = (UNITS_AT + PACKET_UNITS).next_multiple_of(16);
/// Words of an inbox that the kernel at the other end of a p2p stream writes.
pub const P2P_INBOX_WORDS: usize = UNITS_AT + P2P_PACKET_UNITS;
/// Bytes that such an inbox has in its arena: a power of two, as arenas are divided.
pub const P2P_INBOX_BYTES: usize = (8 * P2P_INBOX_WORDS).next_power_of_two();
/// Inboxes of p2p streams begin at multiples of this.
pub const PAGE_BYTES: usize = 4096;

/// Words before the entries of a poller's list of p2p streams, in GPU memory ...
pub const LIST_HEADER_WORDS: usize = 4;
/// ... and words of an entry, which is aligned to two words.
pub const LIST_ENTRY_WORDS: usize = 4;

/// Bytes of such a list in a net with this many sockets. After the entries, a word for each socket of the net says
/// where that socket's entry is.
pub const fn list_bytes(sockets: usize) -> usize {
    8 * (LIST_HEADER_WORDS + (LIST_ENTRY_WORDS + 1) * sockets)
}

/// Words before the sockets' records in GPU memory: what kernels must know of their net.
pub const HEADER_WORDS: usize = 16;
/// Words of a socket's record in GPU memory: a line of its cache.
pub const RECORD_WORDS: usize = 16;
/// Of such a record: the word that says whether it is open.
pub const RECORD_STATE: usize = 0;
/// The locks of both directions, receiving first.
pub const RECORD_LOCKS: usize = 1;
/// Words of a slot's record in GPU memory: lock, sequence number.
pub const SLOT_RECORD_WORDS: usize = 2;
/// Words of a relay in GPU memory: a line of its cache, so that relays do not slow one another down.
pub const RELAY_WORDS: usize = 16;

/// A net's shape. All offsets are in words of the region named by the method's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Proxy threads.
    pub shards: u32,
    /// Sockets a shard can hold.
    pub socket_slots: u32,
    /// Request slots of a shard.
    pub request_slots: u32,
}

impl Layout {
    /// Sockets of the net.
    #[inline(always)]
    pub const fn sockets(&self) -> usize {
        self.shards as usize * self.socket_slots as usize
    }

    /// Request slots of the net.
    #[inline(always)]
    pub const fn all_request_slots(&self) -> usize {
        self.shards as usize * self.request_slots as usize
    }

    /// Control block of the GPU: the send tail of a socket.
    #[inline(always)]
    pub const fn send_tail(&self, socket: usize) -> usize {
        socket
    }

    /// Control block of the GPU: the receive head of a socket.
    #[inline(always)]
    pub const fn receive_head(&self, socket: usize) -> usize {
        self.sockets() + socket
    }

    /// Control block of the GPU: the sequence number of the request in a slot.
    #[inline(always)]
    pub const fn request_sequence(&self, slot: usize) -> usize {
        2 * self.sockets() + slot
    }

    /// Control block of the GPU: the request in a slot.
    #[inline(always)]
    pub const fn request(&self, slot: usize) -> usize {
        2 * self.sockets() + self.all_request_slots() + slot * REQUEST_WORDS
    }

    /// Control block of the GPU: the units of the packet that a socket sends.
    #[inline(always)]
    pub const fn send_units(&self, socket: usize) -> usize {
        let first = self.request(self.all_request_slots()).next_multiple_of(PACKET_UNITS);
        first + socket * PACKET_UNITS
    }

    /// Size of the control block of the GPU.
    pub const fn gpu_control_words(&self) -> usize {
        self.send_units(self.sockets())
    }

    /// Control block of the host: stops a launch; not zero: the error number its waits return.
    #[inline(always)]
    pub const fn stop(&self, launch: usize) -> usize {
        launch
    }

    /// Control block of the host: grows while a shard's proxy thread is alive.
    #[inline(always)]
    pub const fn heartbeat(&self, shard: usize) -> usize {
        MAX_LAUNCHES as usize + shard
    }

    /// Control block of the host: a socket's inbox.
    #[inline(always)]
    pub const fn inbox(&self, socket: usize) -> usize {
        2 * MAX_LAUNCHES as usize + socket * INBOX_WORDS
    }

    /// Control block of the host: a socket's descriptor.
    #[inline(always)]
    pub const fn descriptor(&self, socket: usize) -> usize {
        self.inbox(socket) + DESCRIPTOR_AT
    }

    /// Control block of the host: the sequence number of the reply in a slot.
    #[inline(always)]
    pub const fn reply_sequence(&self, slot: usize) -> usize {
        self.inbox(self.sockets()) + slot
    }

    /// Control block of the host: the reply in a slot.
    #[inline(always)]
    pub const fn reply(&self, slot: usize) -> usize {
        self.reply_sequence(self.all_request_slots()) + slot * REPLY_WORDS
    }

    /// Size of the control block of the host.
    pub const fn host_control_words(&self) -> usize {
        self.reply(self.all_request_slots())
    }

    /// Records: a socket's record.
    #[inline(always)]
    pub const fn record(&self, socket: usize) -> usize {
        HEADER_WORDS + socket * RECORD_WORDS
    }

    /// Records: a slot's record.
    #[inline(always)]
    pub const fn slot_record(&self, slot: usize) -> usize {
        self.record(self.sockets()) + slot * SLOT_RECORD_WORDS
    }

    /// Records: what groups pass on to one another of a launch's stop word.
    #[inline(always)]
    pub const fn stop_relay(&self, launch: usize) -> usize {
        self.slot_record(self.all_request_slots()).next_multiple_of(RELAY_WORDS)
            + launch * RELAY_WORDS
    }

    /// Records: what groups pass on to one another of a shard's heartbeat.
    #[inline(always)]
    pub const fn heartbeat_relay(&self, shard: usize) -> usize {
        self.stop_relay(MAX_LAUNCHES as usize) + shard * RELAY_WORDS
    }

    /// Size of the records.
    pub const fn records_words(&self) -> usize {
        self.heartbeat_relay(self.shards as usize)
    }
}
