//! The kernel of `kv`: a key-value store with the Redis protocol and its table in GPU memory.
//!
//! ```text
//!   serve (gpunet-serve)   connections, input and output
//!     └─ request           RESP arrays and inline commands: where the arguments stand
//!         └─ command       what each command does
//!             ├─ reply     RESP2, or RESP3 after HELLO 3
//!             ├─ state     what is kept for each client
//!             └─ table     keys and values: buckets with a lock each, entries in the heap
//! ```
//!
//! Every block has connections of its own, and answers one request at a time: all its threads parse,
//! one of them changes the table, all of them copy. Blocks share the table alone, whose buckets have
//! a lock each. A command of several keys takes effect key by key.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

#[cfg(not(target_arch = "nvptx64"))]
extern crate std;

mod command;
mod glob;
mod number;
mod reply;
mod request;
mod state;
mod table;

use gpunet_device::{
    Block, Errno, Group, Handle, On, Shared, SharedBuf, calls, kernel_arg, kernels, simt,
};
use gpunet_serve::{Exchange, Heap, Memory, Options, Protocol, Step};

pub use state::State;
use table::Table;
pub use table::{ENTRY_BYTES, MOST_VALUE};

/// Words of [`Store::words`]: counts, and what blocks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Word {
    /// Keys in the table.
    Keys = 0,
    /// Buckets looked at for expired keys, in all.
    Swept = 1,
    /// Keys that expired.
    Expired = 2,
    /// Look-ups that found their key.
    Hits = 3,
    /// Look-ups that did not.
    Misses = 4,
    /// The error that ended a block; 0 if all left as asked.
    Ended = 5,
}

/// Words of a store.
pub const WORDS: usize = 16;

kernel_arg! {
    /// Where the table lies. Its heap is another than the server's: a full table leaves clients the memory
    /// for their requests, and many clients leave the table its own.
    pub struct Store {
        /// The heap of keys and values, aligned to 64 bytes. Zeroed.
        pub entries: SharedBuf,
        /// The first entry of each bucket; as many as there are locks, a power of two. Zeroed.
        pub heads: Shared<u64>,
        /// A lock for each bucket. Zeroed.
        pub locks: Shared<u32>,
        /// [`WORDS`] words. Zeroed.
        pub words: Shared<u64>,
        /// What the hash of keys is mixed with, drawn by the program.
        pub first_secret: u64,
        /// The same.
        pub second_secret: u64,
        /// Port, for INFO.
        pub port: u32,
        /// Unused.
        pub reserved: u32,
    }
}

/// The protocol: the table, and the clock.
pub(crate) struct Kv {
    table: Table,
    store: Store,
    /// When it began, on the GPU's clock.
    begin: u64,
    /// Look-ups since the last tick that found their key, and that did not.
    hits: u64,
    misses: u64,
}

impl Kv {
    /// Adds the block's look-ups to the common counts.
    fn publish_counts(&mut self, on: On<Block>) {
        if on.group().is_leader() {
            self.table.count(Word::Hits, self.hits);
            self.table.count(Word::Misses, self.misses);
        }
        (self.hits, self.misses) = (0, 0);
    }
}

impl Protocol<Block> for Kv {
    type State = State;

    #[inline(always)]
    fn answer(&mut self, exchange: &mut Exchange<'_, Block, State>) -> Step {
        command::answer(self, exchange)
    }

    fn tick(&mut self, on: On<Block>, _memory: Memory) {
        self.publish_counts(on);
        self.table.expire_some(on.group());
    }

    fn closed(&mut self, on: On<Block>, memory: Memory, state: State) {
        if on.group().is_leader() {
            memory.heap().free(state.name);
        }
    }
}

kernels! {
    /// Serves until the program stops it.
    pub fn kv_server(net: Net, listener: Handle, memory: Memory, options: Options, store: Store) {
        let on = net.block();
        let group = on.group();
        let real = calls::ggettimeofday(net, group).max(0) as u64;
        let [now, clock_offset] = {
            let now = simt::now_ns();
            group.broadcast([now, real.wrapping_sub(now)])
        };
        let mut kv = Kv {
            table: Table::new(Heap::new(store.entries), store, clock_offset),
            store,
            begin: now,
            hits: 0,
            misses: 0,
        };
        let staging = simt::shared_memory();
        let ended = gpunet_serve::serve(on, listener, memory, options, staging, &mut kv);
        kv.publish_counts(on);
        if group.is_leader()
            && let Err(Errno(number)) = ended
            && let Some(word) = store.words.atomic(Word::Ended as usize)
        {
            word.store(number as u64, core::sync::atomic::Ordering::Relaxed);
        }
    }
}
