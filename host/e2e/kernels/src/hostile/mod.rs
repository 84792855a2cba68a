//! Kernels that do harm: they write nonsense into the words that they share with the proxy.
//!
//! ```text
//!   a program of mutations (drawn by the test) ─┐
//!                                               ├─▶ mutate: one mutation, some words ─▶ words
//!   a generator in the kernel, from a seed ─────┘         own: its sockets, its request slots
//!                                                         any: everything that is shared
//! ```
//!
//! `own` keeps to the words of sockets that it has opened and of request slots that it has claimed,
//! and makes new sockets as the proxy ends the old ones. `any` writes anywhere in the control block of the GPU,
//! the control block of the host and the rings, and makes no call: whatever it would read there may be its own
//! nonsense. Both are bounded by a number of words and by a time.

mod mutate;
mod own;
pub mod packets;
mod slot;

use gpunet_device::abi::word::Word;
use gpunet_device::simt;
use gpunet_device::{Shared, SocketAddr, kernel_arg, kernels};
use gpunet_support::pattern::Draw;

pub use mutate::{How, Mutation, What};

kernel_arg! {
    /// What a hostile kernel is to do.
    pub struct Attack {
        /// Words that the GPU writes.
        pub gpu_control: Shared<u64>,
        /// Words that the proxy writes.
        pub host_control: Shared<u64>,
        /// All ring memory.
        pub rings: Shared<u64>,
        /// Words in GPU memory; of these only the request slots' locks are used.
        pub records: Shared<u64>,
        /// What to do, again and again; empty: the kernel draws.
        pub program: Shared<Mutation>,
        /// Sockets of the program that are given to the kernel to be spoiled.
        pub given: Shared<u64>,
        /// Where a peer listens that takes everything.
        pub sink: SocketAddr,
        /// Where listeners of the kernel bind.
        pub home: SocketAddr,
        /// What numbers are drawn from, differently in each block.
        pub seed: u64,
        /// Words that each block writes.
        pub words: u64,
        /// When it ends, however many it has written.
        pub limit_ns: u64,
        /// What came of it, [`REPORT`] words a block.
        pub reports: Shared<u64>,
    }
}

/// Words of a report.
pub const REPORT: usize = 4;
/// In a report: words written.
pub const WORDS: usize = 0;
/// In a report: sockets that the kernel opened.
pub const SOCKETS: usize = 1;
/// In a report: requests that were answered.
pub const ANSWERS: usize = 2;
/// In a report: requests that were not answered in time.
pub const UNANSWERED: usize = 3;

kernels! {
    /// Spoils the words of its own sockets and request slots; one thread a block.
    pub fn hostile_own(net: Net, attack: Attack) {
        own::run(net, &attack);
    }

    /// Spoils every shared word there is; one thread a block.
    pub fn hostile_any(net: Net, attack: Attack) {
        let (rank, mut rng) = begin(&attack);
        let until = simt::now_ns() + attack.limit_ns;
        let mut past = Past::default();
        let mut written = 0;
        for step in 0.. {
            if written >= attack.words || simt::now_ns() > until {
                break;
            }
            let mutation = mutate::next(&attack, &mut rng, step, What::ANY);
            written += mutate::anywhere(&attack, &mutation, &mut past);
            if step % 4 == 0 {
                simt::pause();
            }
        }
        attack.reports.set(rank * REPORT + WORDS, written);
        let _ = net;
    }

    /// Asks the proxy of each shard for the time, in a slot that nobody else uses any more, and
    /// reports how many answered in time.
    pub fn hostile_probe(net: Net, attack: Attack) {
        let (_, mut rng) = begin(&attack);
        let layout = net.layout();
        for shard in 0..layout.shards as usize {
            let slot = slot::Slot::at(net, &attack, shard * layout.request_slots as usize);
            // A number that stands nowhere, whatever was written before.
            let answered = slot.ask_time(net, rng.next() | 1 << 40, attack.limit_ns);
            let at = if answered { ANSWERS } else { UNANSWERED };
            attack.reports.set(at, attack.reports.get(at).unwrap_or(0) + 1);
        }
    }
}

/// The block's rank and its generator.
fn begin(attack: &Attack) -> (usize, Draw) {
    let rank = simt::position().block as usize;
    (rank, Draw::new(attack.seed, rank as u64 + 1))
}

/// Values that stood somewhere before, to be written again.
#[derive(Default)]
pub(crate) struct Past {
    values: [u64; 8],
    next: usize,
}

impl Past {
    pub(crate) fn note(&mut self, value: u64) {
        self.values[self.next % 8] = value;
        self.next += 1;
    }

    pub(crate) fn get(&self, at: u64) -> u64 {
        self.values[at as usize % 8]
    }
}

/// A word of a region.
#[allow(unsafe_code, reason = "names words of a net by their place")]
pub(crate) fn word(region: Shared<u64>, at: usize) -> Option<Word> {
    // SAFETY: in bounds, and the host says where the region lies; it outlives the kernel.
    (at < region.len()).then(|| unsafe { Word::at(region.as_ptr().wrapping_add(at)) })
}
