//! An arena of a net's own for streams with one peer, and what of it is free.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use gpunet_device::abi::errno::Errno;

use crate::gpu::{Arena, MemoryError};
use crate::lock::lock;
use crate::pool::Buddies;

/// All arenas that this process has made, for its own nets: those need no descriptor.
static OWN: LazyLock<Mutex<HashMap<u64, Weak<Arena>>>> = LazyLock::new(Mutex::default);
/// The number of the next.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// See the module.
pub(super) struct Chunk {
    pub(super) number: u64,
    pub(super) arena: Arc<Arena>,
    pub(super) free: Mutex<Buddies>,
    /// Somebody may write there who has not said that it is done: no stream is to use it again.
    pub(super) spoilt: AtomicBool,
}

impl Chunk {
    /// All of an arena is free.
    pub(super) fn new(arena: Arena) -> Self {
        let arena = Arc::new(arena);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&OWN).insert(number, Arc::downgrade(&arena));
        let free = Mutex::new(Buddies::new(arena.len() as u64));
        Self { number, arena, free, spoilt: AtomicBool::new(false) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        lock(&OWN).remove(&self.number);
    }
}

/// The arena of this process with that number, whichever net has it.
pub(super) fn arena_of_this_process(number: u64) -> Option<Arc<Arena>> {
    lock(&OWN).get(&number).and_then(Weak::upgrade)
}

pub(super) fn out_of_memory(error: &MemoryError) -> Errno {
    tracing::warn!(%error, "no GPU memory for a p2p stream");
    Errno::ENOBUFS
}
