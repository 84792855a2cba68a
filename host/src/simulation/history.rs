//! What is known of a shared word: the stores to it, and how much of them each actor knows.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

/// A store is seen by everybody after so long, whatever orders it.
const LATEST_NS: u64 = 20_000;
/// Messages of a word that are kept.
pub(super) const KEPT: usize = 8;
/// Between the numbers of two messages, for those that come in between.
pub(super) const APART: u64 = 1 << 20;

/// A map by address. What Rust's own maps do against hostile keys would be half of the work here.
pub(crate) type ByAddress<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// Mixes the bits of an address, or of two numbers.
#[derive(Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        let mixed = (self.0 ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// How much of each actor's doings is known.
pub(super) type Clock = Vec<u32>;

pub(super) fn join(into: &mut Clock, other: &[u32]) {
    for (mine, theirs) in into.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

/// One store.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) value: u64,
    /// Its place in the word's history.
    pub(super) number: u64,
    /// It was written by an exchange, which has read the one before it.
    pub(super) exchanged: bool,
    pub(super) at_ns: u64,
    pub(super) writer: usize,
    /// The writer's own clock when it wrote.
    pub(super) tick: u32,
    /// What an acquire that reads it learns.
    pub(super) learns: Learns,
}

/// What a store makes known, by the scopes of the fences before it.
#[derive(Clone, Default)]
pub(super) struct Learns {
    /// Anybody.
    pub(super) system: Option<Rc<Clock>>,
    /// Who runs on the GPU of that number.
    pub(super) gpu: Option<(usize, Rc<Clock>)>,
}

impl Learns {
    /// The clocks of which somebody on that GPU learns.
    pub(super) fn on(&self, gpu: usize) -> impl Iterator<Item = &Clock> {
        let near = self.gpu.as_ref().filter(|(number, _)| *number == gpu).map(|(_, clock)| clock);
        self.system.iter().chain(near).map(|clock| clock.as_ref())
    }
}

/// A processor's thread that accesses memory.
#[derive(Clone, Default)]
pub(super) struct Actor {
    pub(super) clock: Clock,
    /// Where it runs: the scope of its GPU's fences. The host is one of its own.
    pub(super) gpu: usize,
    /// Its clock at its last release fences.
    pub(super) released: Learns,
    /// What an acquire fence would learn.
    pub(super) pending: Option<Clock>,
    /// What its stores come behind, though its loads may not know of it: they stand behind a branch on
    /// what was read, and no processor stores before it knows its way.
    pub(super) depends: Option<Clock>,
    /// The last message it has read or written, by word.
    pub(super) seen: ByAddress<usize, u64>,
    /// Those of them that threads with the same barriers do not know yet.
    pub(super) fresh: Vec<(usize, u64)>,
    /// Whether it meets others at all.
    pub(super) meets: bool,
}

impl Actor {
    /// Which messages of a word it knows to have been written, at that time.
    pub(super) fn knows(&self, at: usize, now_ns: u64) -> impl Fn(&Message) -> bool {
        let seen = self.seen.get(&at).copied().unwrap_or(0);
        move |message| {
            message.number <= seen
                || self.clock[message.writer] >= message.tick
                || message.at_ns + LATEST_NS <= now_ns
        }
    }

    /// The same for the place of a store of its own.
    pub(super) fn stores_behind(&self, at: usize, now_ns: u64) -> impl Fn(&Message) -> bool {
        let known = self.knows(at, now_ns);
        move |message| {
            let depends = self.depends.as_ref();
            known(message) || depends.is_some_and(|clock| clock[message.writer] >= message.tick)
        }
    }

    /// Learns of clocks: at once with an acquire, else at the next acquire fence.
    pub(super) fn learn(&mut self, learns: &Learns, acquire: bool, branches: bool) {
        let size = self.clock.len();
        for clock in learns.on(self.gpu) {
            if acquire {
                join(&mut self.clock, clock);
                continue;
            }
            join(self.pending.get_or_insert_with(|| vec![0; size]), clock);
            if branches {
                join(self.depends.get_or_insert_with(|| vec![0; size]), clock);
            }
        }
    }

    /// It has read or written that message of a word.
    pub(super) fn sees(&mut self, at: usize, number: u64) {
        let last = self.seen.entry(at).or_insert(0);
        if *last < number {
            *last = number;
            if self.meets {
                self.fresh.push((at, number));
            }
        }
    }
}
