//! The kernel of `kv`: a key-value store with the Redis protocol and its table in GPU memory.
//!
//! ```text
//!   serve (gpunet-serve)   connections, input and output
//!     └─ request           RESP arrays and inline commands: where the arguments stand
//!         └─ command       what each command does
//!             ├─ reply     RESP2, or RESP3 after HELLO 3
//!             ├─ state     what is kept for each client
//!             ├─ kv        the table, the clock, counts; store: the memory of it
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
#[cfg(fuzzing)]
pub mod fuzzing;
mod glob;
mod kv;
mod number;
mod reply;
mod request;
mod state;
mod store;
mod table;

use gpunet_device::{Block, Errno, Group, Handle, On, calls, kernels, simt};
use gpunet_serve::{Exchange, Heap, Memory, Options, Protocol, Refusal, Step};

use kv::Kv;
pub use state::State;
pub use store::{Store, WORDS, Word};
use table::Table;
pub use table::{ENTRY_BYTES, MOST_VALUE};

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

    fn refused(&mut self, client: &mut Exchange<'_, Block, State>, why: Refusal) {
        reply::refused(client, why);
    }

    fn closed(&mut self, on: On<Block>, _memory: Memory, state: State) {
        if on.group().is_leader() {
            self.table.heap.free(state.name);
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
