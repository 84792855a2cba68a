//! Shared memory as the language's memory model has it, rather than as one machine does.
//!
//! Each word has a history of messages, one for each store. A load may return any message that
//! the reader has no reason to know to be old: not older than what it has read there before, nor
//! than what a release and an acquire have made known to it, nor than `LATEST_NS`. Clocks of all
//! actors ([`Clock`]) say who knows of what; releases carry them, acquires and barriers join them.
//! So a store becomes visible late unless something orders it, and words of one store may be torn
//! apart. Ring bytes are words of the same kind, eight bytes wide, without any order of their own.
//!
//! Kernels have a GPU's fences: each acquires and releases. Those at the scope of the GPU make
//! nothing known to the host, nor to the kernel at the other end of a p2p stream, which runs on another GPU
//! in half of these scenes. Launches that share sockets have one GPU. Their relaxed read-modify-writes order
//! later stores, which stand behind a branch, and no loads.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::rc::Rc;

use gpunet_device::planted::Bug;
use gpunet_device::simulation::{Fence, Harness};

use super::Now;
use super::counter::Counter;
use super::history::{APART, Actor, ByAddress, KEPT, Learns, Message, join};
use super::reuse::Reuse;
use super::trace::{Entry, Trace};
use crate::gpu::emulated::random::SplitMix;

/// What a switch at an access needs: the harness decides who goes on.
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
    /// Where plain bytes lie: rings, and the arenas of p2p streams.
    plain: Vec<Range<usize>>,
    bug: Option<Bug>,
    pub(crate) trace: Rc<Trace>,
    /// One access in so many is followed by a switch.
    switch_every: u64,
    switcher: RefCell<Option<Rc<dyn Switch>>>,
    quiet: Cell<bool>,
    pub(super) counters: RefCell<ByAddress<usize, Counter>>,
    /// The first words of descriptors: whose they are.
    pub(super) descriptors: ByAddress<usize, (u32, u32)>,
    /// The same of the words that say whether records are open.
    pub(super) records: ByAddress<usize, (u32, u32)>,
    /// Memory that is handed out again.
    pub(crate) reuse: RefCell<Reuse>,
    /// A counter that went backwards.
    pub(crate) backwards: Cell<Option<(usize, u64, u64)>>,
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
            plain: Vec::new(),
            bug,
            trace,
            switch_every,
            switcher: RefCell::new(None),
            quiet: Cell::new(false),
            counters: RefCell::default(),
            descriptors: ByAddress::default(),
            records: ByAddress::default(),
            reuse: RefCell::default(),
            backwards: Cell::new(None),
        }
    }

    /// Says where plain bytes lie.
    pub(crate) fn add_plain(&mut self, start: *mut u8, bytes: usize) {
        self.plain.push(start.addr()..start.addr() + bytes);
    }

    /// Says on which GPU actors run; the host is 0.
    pub(crate) fn set_gpu(&mut self, actors: Range<usize>, gpu: usize) {
        for actor in &mut self.actors.get_mut()[actors] {
            actor.gpu = gpu;
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
        let mut depends = vec![0; clock.len()];
        for actor in &mut all[actors.clone()] {
            actor.meets = true;
            join(&mut clock, &actor.clock);
            if let Some(its) = actor.depends.take() {
                join(&mut depends, &its);
            }
            fresh.append(&mut actor.fresh);
        }
        let depends = depends.iter().any(|tick| *tick > 0).then_some(depends);
        fresh.sort_unstable();
        fresh.dedup();
        for actor in &mut all[actors] {
            actor.clock.copy_from_slice(&clock);
            actor.depends.clone_from(&depends);
            for (at, number) in &fresh {
                actor.sees(*at, *number);
            }
            if whole {
                actor.fresh.clear();
            }
        }
    }

    /// Everything that happened is known to the actor: it was started, or notified, by the host.
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
    pub(super) fn history<R>(&self, at: usize, f: impl FnOnce(&mut Vec<Message>) -> R) -> R {
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
                learns: Learns::default(),
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

    /// Adds a message; `learns`: what an acquire learns from it. `last`: it stands behind all others,
    /// as an exchange does that has read the last one; otherwise it may end up before messages of
    /// which its writer does not know, as stores of two processors do that nothing orders.
    fn append(&self, at: usize, value: u64, learns: Learns, last: bool) {
        self.append_or(at, value, learns, last, true);
    }

    /// The same; `judges`: a counter must not go back.
    fn append_or(&self, at: usize, value: u64, learns: Learns, last: bool, judges: bool) {
        let writer = self.me();
        let position = if last { usize::MAX } else { self.position(at) };
        let mut actors = self.actors.borrow_mut();
        let tick = actors[writer].clock[writer];
        let at_ns = self.now_ns.get();
        // What the host writes there begins a stream, or says that it has failed.
        let counter = self.counters.borrow().get(&at).copied().filter(|_| judges);
        let (number, old, new) = self.history(at, |history| {
            let position = position.min(history.len());
            let before = history.get(position.wrapping_sub(1)).map_or(0, |before| before.number);
            let after = history.get(position).map_or(before + 2 * APART, |after| after.number);
            let number = before + (after - before) / 2;
            let exchanged = last;
            history.insert(
                position,
                Message { value, number, exchanged, at_ns, writer, tick, learns },
            );
            // Somewhere around it a counter may have gone back.
            let around = &history[position.saturating_sub(1)..(position + 2).min(history.len())];
            let back = around.windows(2).find(|pair| {
                counter.is_some_and(|counter| counter.goes_back(pair[0].value, pair[1].value))
            });
            let (old, new) = back.map_or((0, 0), |pair| (pair[0].value, pair[1].value));
            if history.len() > KEPT {
                history.remove(0);
            }
            // For what looks at memory without the harness.
            // SAFETY: as in `history`.
            unsafe {
                std::ptr::with_exposed_provenance_mut::<u64>(at)
                    .write_volatile(history.last().map_or(value, |last| last.value));
            }
            (number, old, new)
        });
        actors[writer].sees(at, number);
        let stands =
            |descriptor| self.history(descriptor, |h| h.last().is_some_and(|last| last.value != 0));
        if new != old && counter.is_some_and(|counter| counter.descriptor.is_none_or(stands)) {
            self.backwards.set(Some((at, old, new)));
        }
    }

    /// Where in a word's history a store of the running actor ends up.
    fn position(&self, at: usize) -> usize {
        let now = self.now_ns.get();
        let actors = self.actors.borrow();
        let actor = &actors[self.me()];
        let known = actor.stores_behind(at, now);
        let mut random = self.random.borrow_mut();
        self.history(at, |history| {
            let first = history.iter().rposition(known).map_or(0, |last| last + 1);
            // Nothing comes between an exchange and what it has read. And numbers run out where
            // many came in between.
            let room = |position: &usize| {
                let Some(after) = history.get(*position) else { return true };
                !after.exchanged && after.number - history[*position - 1].number >= 2
            };
            match random.next() % 4 {
                0 if first >= 1 && first < history.len() => {
                    let position = first + (random.next() as usize) % (history.len() - first + 1);
                    if room(&position) { position } else { history.len() }
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

    /// What a store that releases makes known: all that its writer knows.
    fn knowledge(&self) -> Learns {
        let clock = self.actors.borrow()[self.me()].clock.clone();
        Learns { system: Some(Rc::new(clock)), gpu: None }
    }

    /// What one makes known that releases to the GPU of its writer.
    fn knowledge_on_gpu(&self) -> Learns {
        let actor = &self.actors.borrow()[self.me()];
        let system = actor.released.system.clone();
        Learns { system, gpu: Some((actor.gpu, Rc::new(actor.clock.clone()))) }
    }

    fn store_that(&self, at: *mut u64, value: u64, release: bool, learns: impl FnOnce() -> Learns) {
        self.maybe_switch();
        let at = at.expose_provenance();
        self.tick();
        self.append(at, value, learns(), false);
        self.check_descriptor(at, value);
        self.check_record(at, value);
        // Heartbeats are no progress.
        if !self.trace.is_heartbeat(at) {
            self.stores.set(self.stores.get() + 1);
        }
        self.note(Entry::Store { at, value, release });
    }

    fn learn(&self, message: &Message, acquire: bool, branches: bool) {
        self.actors.borrow_mut()[self.me()].learn(&message.learns, acquire, branches);
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
            self.append_or(word, u64::from_ne_bytes(bytes), Learns::default(), true, false);
            offset += count;
        }
    }
}

impl SharedMemory {
    fn is_plain(&self, at: usize) -> bool {
        self.plain.iter().any(|range| range.contains(&at))
    }

    /// The host copies bytes out of GPU memory: of an arena, or whole words.
    pub(crate) fn host_reads(&self, from: *const u8, into: &mut [u8]) {
        if self.is_plain(from.addr()) {
            return self.read_plain(from.expose_provenance(), into);
        }
        assert!(from.addr().is_multiple_of(8) && into.len().is_multiple_of(8));
        let from: *mut u64 = from.cast_mut().cast();
        for (index, word) in into.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&self.load(from.wrapping_add(index), false).to_ne_bytes());
        }
    }

    /// The host copies bytes into GPU memory, in the same way; a word is seen after all that came before.
    pub(crate) fn host_writes(&self, to: *mut u8, from: &[u8]) {
        if self.is_plain(to.addr()) {
            return self.write_plain(to.expose_provenance(), from);
        }
        let (words, rest) = from.as_chunks::<8>();
        assert!(to.addr().is_multiple_of(8) && rest.is_empty());
        let to: *mut u64 = to.cast();
        for (index, word) in words.iter().enumerate() {
            self.store(to.wrapping_add(index), u64::from_ne_bytes(*word), true);
        }
    }
}

impl Harness for SharedMemory {
    fn load(&self, at: *mut u64, acquire: bool) -> u64 {
        self.maybe_switch();
        let at = at.expose_provenance();
        let message = self.pick(at, false);
        self.learn(&message, acquire, false);
        let me = self.me();
        self.actors.borrow_mut()[me].sees(at, message.number);
        self.note(Entry::Load { at, value: message.value, acquire });
        message.value
    }

    fn store(&self, at: *mut u64, value: u64, release: bool) {
        self.store_that(at, value, release, || match release {
            true => self.knowledge(),
            false => self.actors.borrow()[self.me()].released.clone(),
        });
    }

    fn store_release_on_gpu(&self, at: *mut u64, value: u64) {
        self.store_that(at, value, true, || self.knowledge_on_gpu());
    }

    fn compare_exchange(&self, at: *mut u64, current: u64, new: u64) -> bool {
        self.maybe_switch();
        let at = at.expose_provenance();
        let message = self.pick(at, true);
        self.learn(&message, true, false);
        if message.value == current {
            self.tick();
            self.append(at, new, self.knowledge(), true);
        }
        self.note(Entry::Exchange { at, found: message.value, new });
        message.value == current
    }

    fn set(&self, at: *mut u64, bits: u64, acquire: bool) -> u64 {
        self.maybe_switch();
        let at = at.expose_provenance();
        let message = self.pick(at, true);
        let new = message.value | bits;
        self.learn(&message, acquire, true);
        self.tick();
        // An exchange goes on with the release that it has read.
        self.append(at, new, message.learns, true);
        self.note(Entry::Exchange { at, found: message.value, new });
        message.value
    }

    fn fence(&self, fence: Fence) {
        let me = self.me();
        let is_kernel = me >= self.proxies;
        let mut actors = self.actors.borrow_mut();
        let actor = &mut actors[me];
        // A GPU's fences acquire and release.
        if (is_kernel || fence == Fence::Acquire)
            && let Some(pending) = actor.pending.take()
        {
            join(&mut actor.clock, &pending);
        }
        let clock = || Rc::new(actor.clock.clone());
        match fence {
            Fence::Acquire if !is_kernel => {}
            Fence::Acquire | Fence::Release => {
                actor.released = Learns { system: Some(clock()), gpu: None };
            }
            Fence::GpuRelease => {
                actor.released = Learns {
                    system: actor.released.system.take(),
                    gpu: Some((actor.gpu, clock())),
                };
            }
        }
    }

    fn read(&self, at: *const u8, into: &mut [MaybeUninit<u8>]) -> bool {
        let at = at.expose_provenance();
        if !self.is_plain(at) {
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
        if !self.is_plain(at) {
            return false;
        }
        self.write_plain(at, from);
        true
    }

    fn planted(&self) -> Option<Bug> {
        self.bug
    }
}
