//! P2P streams: kernels of one machine write straight into each other's rings in GPU memory, and the
//! proxies only connect them.
//!
//! ```text
//!  P2p         what a net has of it: its arenas, the registry; one a net
//!   ├ registry   how ends find each other: a folder of the user's
//!   ├ channel    the control channel between the proxies of a stream's ends, and its messages
//!   ├ handshake  how a stream is connected; connector and acceptor drive it
//!   ├ arena      GPU memory by peer process, and in it
//!   ├ inbox      where a stream receives
//!   ├ stream     the stream as its proxy has it
//!   └ deferred   memory of streams that are closed at this end alone
//! ```
//!
//! Why it is so: decision 21 of docs/explanation/decisions.md.

mod acceptor;
mod addresses;
mod arena;
mod channel;
mod connector;
mod deferred;
mod handshake;
mod inbox;
mod message;
mod names;
mod registry;
mod stream;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use gpunet_device::abi::errno::Errno;

pub(super) use acceptor::P2pAcceptor;
pub(super) use connector::P2pConnector;
pub(super) use names::{Names, is_mapped};
pub(super) use registry::nobody_at;

use crate::gpu::Gpu;
use arena::Arenas;
use channel::Process;
use deferred::{DeferredFree, DeferredFrees};
use inbox::Inbox;
use registry::Registry;

/// What the p2p streams of a net have in common.
pub(crate) struct P2p {
    gpu: Gpu,
    arenas: Arenas,
    pub(super) registry: Registry,
    /// Inboxes whose streams are closed here and not yet at the other end.
    deferred: Mutex<DeferredFrees>,
}

impl P2p {
    /// The reason where this machine has none.
    pub(crate) fn new(gpu: &Gpu, budget: u64) -> Result<Self, String> {
        gpu.arenas_work().map_err(|error| error.to_string())?;
        let registry = Registry::open()?;
        let arenas = Arenas::new(gpu.clone(), budget);
        Ok(Self { gpu: gpu.clone(), arenas, registry, deferred: Mutex::default() })
    }

    fn inbox(&self, peer: Process, ring: u32, base: u64) -> Result<Inbox, Errno> {
        self.free_complete();
        match self.arenas.inbox(peer, ring, base) {
            // Arenas of other peers may be unused by now.
            Err(Errno::ENOBUFS) => {
                self.arenas.tidy();
                self.arenas.inbox(peer, ring, base)
            }
            made => made,
        }
    }

    fn deferred(&self) -> MutexGuard<'_, DeferredFrees> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an inbox until the other end no longer writes there.
    fn defer_free(&self, free: DeferredFree) {
        self.deferred().add(free);
        self.free_complete();
    }

    /// Frees the inboxes of streams that are closed at both ends by now.
    fn free_complete(&self) {
        let complete = self.deferred().collect();
        // Not under the lock.
        drop(complete);
    }

    /// Streams that are closed here alone, and bytes of arenas that are not free.
    #[cfg(feature = "simulation")]
    pub(super) fn left_behind(&self) -> (usize, u64) {
        (self.deferred().len(), self.arenas.used_bytes())
    }

    /// The same, and arenas that nobody uses.
    pub(super) fn tidy(&self) {
        self.free_complete();
        self.arenas.tidy();
    }
}

/// A number that no other process has.
fn token() -> u128 {
    static TOKEN: OnceLock<u128> = OnceLock::new();
    *TOKEN.get_or_init(|| {
        let half = || u128::from(RandomState::new().hash_one(std::process::id()));
        half() << 64 | half()
    })
}
