//! What the proxy counts, and how a program reads it.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::entry::{Entry, Owner, Phase};
use crate::memory::ControlMemoryReport;
use crate::transport::{Endpoint, Socket as _, TransportNames};

/// A counter that only its shard's thread writes.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.get() + amount, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One shard's counters.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* }

        /// What the proxy of a net has done so far.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub struct Statistics {
            /// Sockets that are open now; one more for a moment when the proxy looks for a peer.
            pub sockets: u64,
            /// Ring memory that is free now, bytes.
            pub free_ring_bytes: u64,
            /// Where the words that kernels poll lie, and why.
            pub control_memory: ControlMemoryReport,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Statistics {
            /// Adds a shard's counters.
            pub(crate) fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
            }
        }
    };
}

counters! {
    /// Bytes received from peers.
    received_bytes,
    /// Bytes sent to peers.
    sent_bytes,
    /// Short messages that reached a kernel as packets.
    received_packets,
    /// Short messages that came from a kernel as packets.
    sent_packets,
    /// Requests answered.
    requests,
    /// Requests that were refused with an error.
    refused_requests,
    /// Calls that the net's policy refused.
    denied,
    /// Times a socket's bytes had to wait because of the net's limits.
    throttled,
    /// Connections accepted.
    accepted,
    /// Connections made.
    connected,
    /// Sockets that ended with an error.
    failed,
    /// Words from the GPU that made no sense; each ended its socket.
    violations,
    /// Sockets closed because their kernel ended.
    closed_for_kernels,
    /// Lines printed by kernels.
    printed,
    /// Lines dropped because they came too fast.
    print_dropped,
    /// Turns of the proxy threads.
    turns,
    /// Times a proxy thread went to sleep.
    sleeps,
}

/// One socket, as the proxy sees it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SocketState {
    /// Its handle.
    pub handle: u64,
    /// What it is: fresh, connecting, stream, listener, poller, closing.
    pub state: &'static str,
    /// Which transport serves it; of a listener, all by which peers may come.
    pub transport: TransportNames,
    /// Its own address.
    pub local: Option<String>,
    /// The peer's address.
    pub peer: Option<String>,
    /// The launch that owns it; none: the host.
    pub launch: Option<u32>,
    /// Capacity of the receive ring.
    pub receive_capacity: u32,
    /// Bytes (listeners: handles times 8) that wait for the kernel.
    pub to_be_read: u64,
    /// Capacity of the send ring.
    pub send_capacity: u32,
    /// Bytes that the kernel sent and the peer's side has not yet taken.
    pub to_be_sent: u64,
    /// Bytes received so far.
    pub received: u64,
    /// Bytes sent so far.
    pub sent: u64,
    /// Whether the peer has closed its side.
    pub receive_ended: bool,
    /// Whether this side was closed.
    pub send_ended: bool,
    /// The error that ended it.
    pub error: Option<String>,
}

impl From<&Entry> for SocketState {
    fn from(entry: &Entry) -> Self {
        let socket = entry.socket.as_ref();
        let (receive, send) = (&entry.channel.receive, &entry.channel.send);
        let peer = socket.and_then(|socket| socket.carrier()?.peer_addr().ok());
        Self {
            handle: entry.handle.0,
            state: match entry.phase() {
                Phase::Fresh => "fresh",
                Phase::Connecting => "connecting",
                Phase::Open => "stream",
                Phase::Listening => "listener",
                Phase::Polling => "poller",
                Phase::Closing { .. } => "closing",
            },
            transport: socket.map_or(TransportNames::default(), Endpoint::transports),
            local: socket.and_then(|s| s.local_addr().ok()).map(|address| address.to_string()),
            peer: peer.map(|address| address.to_string()),
            launch: match entry.owner {
                Owner::Launch(launch) => Some(launch),
                Owner::Host | Owner::AnyLaunch => None,
            },
            receive_capacity: receive.location.capacity,
            to_be_read: receive.unread(),
            send_capacity: send.location.capacity,
            to_be_sent: send.theirs - send.ours,
            received: receive.ours - receive.location.base,
            sent: send.ours - send.location.base,
            receive_ended: entry.channel.endings.receive,
            send_ended: entry.channel.endings.send,
            error: entry.channel.endings.failure.map(|errno| errno.to_string()),
        }
    }
}
