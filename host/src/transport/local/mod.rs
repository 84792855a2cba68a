//! Direct streams: kernels of one machine write straight into each other's rings in GPU memory,
//! and the proxies only introduce them.
//!
//! ```text
//!  Local       what a net has of it: its arenas, the registry; one a net
//!   ├ registry   how ends find each other: a folder of the user's
//!   ├ talk       what their proxies say to one another
//!   ├ meeting    how a stream comes about
//!   ├ inbox      where it receives: arenas of GPU memory, by peer process
//!   └ stream     how it lives and ends
//!  near.rs     chooses between this and what else a socket can be
//! ```

mod addresses;
mod inbox;
mod meeting;
mod registry;
mod stream;
mod talk;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, OnceLock, PoisonError};

use gpunet_device::abi::errno::Errno;

pub(super) use meeting::{Meeting, Progressed};
pub(super) use registry::{Listening, nobody_at};
pub(super) use stream::{DirectStream, Names};

use crate::gpu::Gpu;
use inbox::{Arenas, Inbox};
use registry::Registry;
use stream::Grave;
use talk::Process;

/// What the direct streams of a net have in common.
pub(crate) struct Local {
    gpu: Gpu,
    arenas: Arenas,
    pub(super) registry: Registry,
    /// Inboxes whose streams are closed here and not yet at the other end.
    graves: Mutex<Vec<Grave>>,
}

impl Local {
    /// The reason where this machine has none.
    pub(crate) fn new(gpu: &Gpu, budget: u64) -> Result<Self, String> {
        gpu.arenas_work().map_err(|error| error.to_string())?;
        let registry = Registry::open()?;
        let arenas = Arenas::new(gpu.clone(), budget);
        Ok(Self { gpu: gpu.clone(), arenas, registry, graves: Mutex::default() })
    }

    fn inbox(&self, peer: Process, ring: u32, base: u64) -> Result<Inbox, Errno> {
        self.tidy();
        self.arenas.inbox(peer, ring, base)
    }

    /// Keeps an inbox until the other end no longer writes there.
    fn lay_to_rest(&self, grave: Grave) {
        self.graves.lock().unwrap_or_else(PoisonError::into_inner).push(grave);
        self.tidy();
    }

    /// Streams that are closed here alone, and bytes of arenas that are not free.
    #[cfg(feature = "simulation")]
    pub(super) fn left_behind(&self) -> (usize, u64) {
        let graves = self.graves.lock().unwrap_or_else(PoisonError::into_inner).len();
        (graves, self.arenas.used_bytes())
    }

    /// Gives back what is quiet by now.
    pub(super) fn tidy(&self) {
        let quiet: Vec<Grave> = {
            let mut graves = self.graves.lock().unwrap_or_else(PoisonError::into_inner);
            graves.extract_if(.., Grave::is_quiet).collect()
        };
        drop(quiet);
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
