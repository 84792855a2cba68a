//! Shared memory as the language's memory model has it, rather than as one machine does.
//!
//! Each word has a history of messages, one for each store. A load may return any message that
//! the reader has no reason to know to be old: not older than what it has read there before, nor
//! than what a release and an acquire have told it of, nor than [`LATEST_NS`]. Clocks of all
//! actors ([`Clock`]) say who knows of what; releases carry them, acquires and barriers join them.
//! So a store becomes visible late unless something orders it, and words of one store may be torn
//! apart. Ring bytes are words of the same kind, eight bytes wide, without any order of their own.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::rc::Rc;

use gpunet_device::abi::layout::{HEAD_AT, Layout, TAIL_AT};
use gpunet_device::planted::Bug;
use gpunet_device::simulation::{Bench, Fence};

use super::Now;
use super::trace::{Entry, Trace};
use crate::gpu::SplitMix;

/// A store is seen by everybody after so long, whatever orders it.
const LATEST_NS: u64 = 20_000;
/// Messages of a word that are kept.
const KEPT: usize = 8;
/// Between the numbers of two messages, for those that come in between.
const APART: u64 = 1 << 20;

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
type Clock = Vec<u32>;

fn join(into: &mut Clock, other: &[u32]) {
    for (mine, theirs) in into.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

/// One store.
#[derive(Clone)]
struct Message {
    value: u64,
    /// Its place in the word's history.
    number: u64,
    /// It was written by an exchange, which has read the one before it.
    exchanged: bool,
    at_ns: u64,
    writer: usize,
    /// The writer's own clock when it wrote.
    tick: u32,
    /// What an acquire that reads it learns.
    clock: Option<Rc<Clock>>,
}

/// A processor's thread that accesses memory.
#[derive(Clone, Default)]
struct Actor {
    clock: Clock,
    /// Its clock at its last release fence.
    released: Option<Rc<Clock>>,
    /// What an acquire fence would learn.
    pending: Option<Clock>,
    /// The last message it has read or written, by word.
    seen: ByAddress<usize, u64>,
    /// Those of them that threads it meets at barriers have not been told of.
    fresh: Vec<(usize, u64)>,
    /// Whether it meets others at all.
    meets: bool,
}

impl Actor {
    /// Which messages of a word it knows to have been written, at that time.
    fn knows(&self, at: usize, now_ns: u64) -> impl Fn(&Message) -> bool {
        let seen = self.seen.get(&at).copied().unwrap_or(0);
        move |message| {
            message.number <= seen
                || self.clock[message.writer] >= message.tick
                || message.at_ns + LATEST_NS <= now_ns
        }
    }

    /// It has read or written that message of a word.
    fn sees(&mut self, at: usize, number: u64) {
        let last = self.seen.entry(at).or_insert(0);
        if *last < number {
            *last = number;
            if self.meets {
                self.fresh.push((at, number));
            }
        }
    }
}

/// What a switch at an access needs: the bench decides who goes on.
pub(crate) trait Switch {
    /// Lets others run.
    fn switch(&self, actor: usize);
}

/// See the module.
pub(crate) struct SharedMemory {
    words: RefCell<ByAddress<usize, Vec<Message>>>,
    actors: RefCell<Vec<Actor>>,
    random: RefCell<SplitMix>,
    /// Who runs. The proxies come first ...
    pub(crate) current: Cell<usize>,
    /// ... and so many there are. They are one to the memory: what they have of one another goes
    /// through locks and channels of the standard library.
    proxies: usize,
    pub(crate) now_ns: Now,
    /// Stores so far, but for heartbeats.
    pub(crate) stores: Cell<u64>,
    rings: Range<usize>,
    bug: Option<Bug>,
    pub(crate) trace: Rc<Trace>,
    /// One access in so many is followed by a switch.
    switch_every: u64,
    switcher: RefCell<Option<Rc<dyn Switch>>>,
    quiet: Cell<bool>,
    counters: ByAddress<usize, Counter>,
    /// A counter that went backwards.
    pub(crate) backwards: Cell<Option<(usize, u64, u64)>>,
}

/// A word that only grows.
struct Counter {
    /// The bits that count.
    mask: u64,
    /// The word that is 0 while the place has no socket, and the counter may begin anew.
    card: Option<usize>,
}

impl SharedMemory {
    pub(crate) fn new(
        proxies: usize,
        actors: usize,
        random: SplitMix,
        now_ns: Now,
        bug: Option<Bug>,
        trace: Rc<Trace>,
    ) -> Self {
        let actor = Actor { clock: vec![0; actors], ..Actor::default() };
        let mut random = random;
        let switch_every = 2 + random.next() % 30;
        Self {
            words: RefCell::default(),
            actors: RefCell::new(vec![actor; actors]),
            random: RefCell::new(random),
            current: Cell::new(0),
            proxies,
            now_ns,
            stores: Cell::new(0),
            rings: 0..0,
            bug,
            trace,
            switch_every,
            switcher: RefCell::new(None),
            quiet: Cell::new(false),
            counters: ByAddress::default(),
            backwards: Cell::new(None),
        }
    }

    /// Says where the rings lie.
    pub(crate) fn set_rings(&mut self, start: *mut u8, bytes: usize) {
        self.rings = start.addr()..start.addr() + bytes;
    }

    /// Says which words only grow: those of the GPU always, those of the proxy as long as a
    /// place has the same socket.
    pub(crate) fn set_counters(&mut self, layout: &Layout, gpu_words: usize, cpu_words: usize) {
        // Without their flags.
        let mask = !7;
        for socket in 0..layout.sockets() {
            for word in [layout.send_tail(socket), layout.receive_head(socket)] {
                self.counters.insert(gpu_words + 8 * word, Counter { mask, card: None });
            }
            let card = Some(cpu_words + 8 * layout.card(socket));
            for word in [layout.inbox(socket) + TAIL_AT, layout.inbox(socket) + HEAD_AT] {
                self.counters.insert(cpu_words + 8 * word, Counter { mask, card });
            }
        }
    }

    pub(crate) fn set_switcher(&self, switcher: Option<Rc<dyn Switch>>) {
        *self.switcher.borrow_mut() = switcher;
    }

    /// All of them have met at a barrier: each knows what all know. `whole`: they are all that will
    /// ever meet at one.
    pub(crate) fn meet(&self, actors: Range<usize>, whole: bool) {
        let mut all = self.actors.borrow_mut();
        let Some(mut clock) = all.get(actors.start).map(|actor| actor.clock.clone()) else {
            return;
        };
        let mut fresh = Vec::new();
        for actor in &mut all[actors.clone()] {
            actor.meets = true;
            join(&mut clock, &actor.clock);
            fresh.append(&mut actor.fresh);
        }
        fresh.sort_unstable();
        fresh.dedup();
        for actor in &mut all[actors] {
            actor.clock.copy_from_slice(&clock);
            for (at, number) in &fresh {
                actor.sees(*at, *number);
            }
            if whole {
                actor.fresh.clear();
            }
        }
    }

    /// Everything that happened is known to the actor: it was started, or told, by the host.
    pub(crate) fn knows_all(&self, actor: usize) {
        let mut all = self.actors.borrow_mut();
        let mut clock = all[actor].clock.clone();
        for other in all.iter() {
            join(&mut clock, &other.clock);
        }
        all[actor].clock = clock;
    }

    /// Whose clock the running actor has.
    fn me(&self) -> usize {
        let current = self.current.get();
        if current < self.proxies { 0 } else { current }
    }

    /// No switches for a while: the host itself does something.
    pub(crate) fn set_quiet(&self, quiet: bool) {
        self.quiet.set(quiet);
    }

    fn maybe_switch(&self) {
        if self.quiet.get() {
            return;
        }
        let switches = self.random.borrow_mut().next().is_multiple_of(self.switch_every);
        let switcher = self.switcher.borrow().clone();
        if let (true, Some(switcher)) = (switches, switcher) {
            let actor = self.current.get();
            switcher.switch(actor);
            self.current.set(actor);
        }
    }

    /// Runs `f` on the history of a word, which begins with what stands there.
    fn history<R>(&self, at: usize, f: impl FnOnce(&mut Vec<Message>) -> R) -> R {
        let mut words = self.words.borrow_mut();
        let history = words.entry(at).or_insert_with(|| {
            // SAFETY: the address of a shared word or of ring bytes, aligned by the callers; all
            // actors run on this OS thread.
            let value = unsafe { std::ptr::with_exposed_provenance::<u64>(at).read_volatile() };
            let (at_ns, tick) = (0, 0);
            vec![Message {
                value,
                number: 0,
                exchanged: false,
                at_ns,
                writer: 0,
                tick,
                clock: None,
            }]
        });
        f(history)
    }

    /// The message that a load returns.
    fn pick(&self, at: usize, newest: bool) -> Message {
        let now = self.now_ns.get();
        let actors = self.actors.borrow();
        let actor = &actors[self.me()];
        let known = actor.knows(at, now);
        let mut random = self.random.borrow_mut();
        self.history(at, |history| {
            let first = history.iter().rposition(known).unwrap_or(0);
            let last = history.len() - 1;
            let pick = match random.next() % 4 {
                0 if !newest => first + (random.next() as usize) % (last - first + 1),
                _ => last,
            };
            history[pick].clone()
        })
    }

    /// Adds a message; `clock`: what an acquire learns from it. `last`: it stands behind all others,
    /// as an exchange does that has read the last one; otherwise it may end up before messages of
    /// which its writer does not know, as stores of two processors do that nothing orders.
    fn append(&self, at: usize, value: u64, clock: Option<Rc<Clock>>, last: bool) {
        let writer = self.me();
        let place = if last { usize::MAX } else { self.place(at) };
        let mut actors = self.actors.borrow_mut();
        let tick = actors[writer].clock[writer];
        let at_ns = self.now_ns.get();
        let counter = self.counters.get(&at);
        let (number, old, new) = self.history(at, |history| {
            let place = place.min(history.len());
            let before = history.get(place.wrapping_sub(1)).map_or(0, |before| before.number);
            let after = history.get(place).map_or(before + 2 * APART, |after| after.number);
            let number = before + (after - before) / 2;
            let exchanged = last;
            history.insert(place, Message { value, number, exchanged, at_ns, writer, tick, clock });
            // Somewhere around it a counter may have gone back.
            let mask = counter.map_or(0, |counter| counter.mask);
            let around = &history[place.saturating_sub(1)..(place + 2).min(history.len())];
            let back = around.windows(2).find(|pair| pair[1].value & mask < pair[0].value & mask);
            let (old, new) =
                back.map_or((0, 0), |pair| (pair[0].value & mask, pair[1].value & mask));
            if history.len() > KEPT {
                history.remove(0);
            }
            // For what looks at memory without the bench.
            // SAFETY: as in `history`.
            unsafe {
                std::ptr::with_exposed_provenance_mut::<u64>(at)
                    .write_volatile(history.last().map_or(value, |last| last.value));
            }
            (number, old, new)
        });
        actors[writer].sees(at, number);
        let stands = |card| self.history(card, |h| h.last().is_some_and(|last| last.value != 0));
        if new < old && counter.is_some_and(|counter| counter.card.is_none_or(stands)) {
            self.backwards.set(Some((at, old, new)));
        }
    }

    /// Where in a word's history a store of the running actor ends up.
    fn place(&self, at: usize) -> usize {
        let now = self.now_ns.get();
        let actors = self.actors.borrow();
        let actor = &actors[self.me()];
        let known = actor.knows(at, now);
        let mut random = self.random.borrow_mut();
        self.history(at, |history| {
            let first = history.iter().rposition(known).map_or(0, |last| last + 1);
            // Nothing comes between an exchange and what it has read. And numbers run out where
            // many came in between.
            let room = |place: &usize| {
                let Some(after) = history.get(*place) else { return true };
                !after.exchanged && after.number - history[*place - 1].number >= 2
            };
            match random.next() % 4 {
                0 if first >= 1 && first < history.len() => {
                    let place = first + (random.next() as usize) % (history.len() - first + 1);
                    if room(&place) { place } else { history.len() }
                }
                _ => history.len(),
            }
        })
    }

    /// The running actor does something that others may learn of.
    fn tick(&self) {
        let me = self.me();
        self.actors.borrow_mut()[me].clock[me] += 1;
    }

    /// All that it knows.
    fn knowledge(&self) -> Rc<Clock> {
        Rc::new(self.actors.borrow()[self.me()].clock.clone())
    }

    fn learn(&self, message: &Message, acquire: bool) {
        let Some(clock) = &message.clock else { return };
        let mut actors = self.actors.borrow_mut();
        let actor = &mut actors[self.me()];
        if acquire {
            join(&mut actor.clock, clock);
        } else {
            let size = actor.clock.len();
            join(actor.pending.get_or_insert_with(|| vec![0; size]), clock);
        }
    }

    fn note(&self, entry: Entry) {
        self.trace.add(self.now_ns.get(), self.current.get(), entry);
    }

    /// Reads plain bytes of a ring.
    pub(crate) fn read_plain(&self, at: usize, into: &mut [u8]) {
        let mut offset = 0;
        while offset < into.len() {
            let address = at + offset;
            let (word, first) = (address & !7, address & 7);
            let count = (8 - first).min(into.len() - offset);
            let bytes = self.pick(word, false).value.to_ne_bytes();
            into[offset..offset + count].copy_from_slice(&bytes[first..first + count]);
            offset += count;
        }
    }

    /// Writes plain bytes of a ring.
    pub(crate) fn write_plain(&self, at: usize, from: &[u8]) {
        self.tick();
        let mut offset = 0;
        while offset < from.len() {
            let address = at + offset;
            let (word, first) = (address & !7, address & 7);
            let count = (8 - first).min(from.len() - offset);
            let mut bytes = self
                .history(word, |history| history.last().map_or(0, |last| last.value))
                .to_ne_bytes();
            bytes[first..first + count].copy_from_slice(&from[offset..offset + count]);
            self.append(word, u64::from_ne_bytes(bytes), None, true);
            offset += count;
        }
    }
}

impl Bench for SharedMemory {
    fn load(&self, at: *mut u64, acquire: bool) -> u64 {
        self.maybe_switch();
        let at = at.expose_provenance();
        let message = self.pick(at, false);
        self.learn(&message, acquire);
        let me = self.me();
        self.actors.borrow_mut()[me].sees(at, message.number);
        self.note(Entry::Load { at, value: message.value, acquire });
        message.value
    }

    fn store(&self, at: *mut u64, value: u64, release: bool) {
        self.maybe_switch();
        let at = at.expose_provenance();
        self.tick();
        let released = self.actors.borrow()[self.me()].released.clone();
        let clock = if release { Some(self.knowledge()) } else { released };
        self.append(at, value, clock, false);
        // A heart that beats is no news.
        if !self.trace.is_heartbeat(at) {
            self.stores.set(self.stores.get() + 1);
        }
        self.note(Entry::Store { at, value, release });
    }

    fn compare_exchange(&self, at: *mut u64, current: u64, new: u64) -> bool {
        self.maybe_switch();
        let at = at.expose_provenance();
        let message = self.pick(at, true);
        self.learn(&message, true);
        if message.value == current {
            self.tick();
            self.append(at, new, Some(self.knowledge()), true);
        }
        self.note(Entry::Exchange { at, found: message.value, new });
        message.value == current
    }

    fn set(&self, at: *mut u64, bits: u64) -> u64 {
        self.maybe_switch();
        let at = at.expose_provenance();
        let message = self.pick(at, true);
        let new = message.value | bits;
        self.learn(&message, true);
        self.tick();
        // An exchange goes on with the release that it has read.
        self.append(at, new, message.clock, true);
        self.note(Entry::Exchange { at, found: message.value, new });
        message.value
    }

    fn fence(&self, fence: Fence) {
        let mut actors = self.actors.borrow_mut();
        let actor = &mut actors[self.me()];
        match fence {
            Fence::Acquire => {
                if let Some(pending) = actor.pending.take() {
                    join(&mut actor.clock, &pending);
                }
            }
            Fence::Release => actor.released = Some(Rc::new(actor.clock.clone())),
        }
    }

    fn read(&self, at: *const u8, into: &mut [MaybeUninit<u8>]) -> bool {
        let at = at.expose_provenance();
        if !self.rings.contains(&at) {
            return false;
        }
        let mut bytes = vec![0; into.len()];
        self.read_plain(at, &mut bytes);
        for (into, byte) in into.iter_mut().zip(bytes) {
            into.write(byte);
        }
        true
    }

    fn write(&self, at: *mut u8, from: &[u8]) -> bool {
        let at = at.expose_provenance();
        if !self.rings.contains(&at) {
            return false;
        }
        self.write_plain(at, from);
        true
    }

    fn planted(&self) -> Option<Bug> {
        self.bug
    }
}
