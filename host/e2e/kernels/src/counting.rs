//! Threads of several blocks that count and lock in GPU memory.

use core::sync::atomic::Ordering;

use gpunet_device::sync::{AtomicRef, Gpu, Lock, RwLock, System, fence};
use gpunet_device::{Group, Shared, Warp, kernel_arg, kernels, simt};

/// Words of [`Counting::totals`].
pub const TOTALS: usize = 16;

/// Counted with an atomic of 64 bits, by every thread.
pub const ATOMIC: usize = 0;
/// The same, system scope and sequentially consistent.
pub const SYSTEM: usize = 1;
/// Counted without an atomic under the lock, by every thread.
pub const LOCKED: usize = 2;
/// Counted without an atomic by writers, twice: readers find both the same.
pub const WRITTEN: usize = 3;
/// See [`WRITTEN`].
pub const WRITTEN_TOO: usize = 4;
/// The largest number that a thread brought, and ...
pub const LARGEST: usize = 5;
/// ... the smallest.
pub const SMALLEST: usize = 6;
/// A bit for each of 64 threads, set and then inverted by all blocks in turn.
pub const BITS: usize = 7;
/// Counted up by compare-and-exchange.
pub const EXCHANGED: usize = 8;
/// What went wrong: a lock not got in time, a reader that found two numbers, a message without content.
pub const WRONG: usize = 9;
/// Locks held too long, whose waits must end.
pub const TIMED_OUT: usize = 10;
/// Counted under the lock that a leader takes for its block.
pub const BY_BLOCKS: usize = 11;
/// A message of the first thread to all others, and ...
pub const MESSAGE: usize = 12;
/// ... that it is there.
pub const MESSAGE_THERE: usize = 13;

/// Counted by closures that the leader of a block alone runs, and of a warp.
pub const BY_LEADERS: usize = 14;
/// Counted by closures that all threads of a block's first warp run.
pub const BY_FIRST_WARPS: usize = 15;

/// Words of [`Counting::words`].
pub const WORDS: usize = FIRST_OF_BLOCKS + MOST_BLOCKS;
/// A lock.
pub const LOCK: usize = 0;
/// A reader-writer lock.
pub const RW_LOCK: usize = 1;
/// Counted with an atomic of 32 bits, by every thread.
pub const NARROW: usize = 2;
/// A lock that the host has made held, for waits that end.
pub const HELD: usize = 3;
/// A reader-writer lock that the host has given a reader.
pub const READ: usize = 4;
/// A word for each block, from here on.
pub const FIRST_OF_BLOCKS: usize = 8;
/// Blocks that there may be.
pub const MOST_BLOCKS: usize = 64;

/// Threads of a block that count under the lock that its leader has taken.
pub const IN_TURN: usize = 4;

/// How long a lock is waited for: longer than all others together hold it.
const TIMEOUT_NS: u64 = 60_000_000_000;
/// How long one that nobody releases.
const SHORT_NS: u64 = 200_000;

kernel_arg! {
    /// What the threads share.
    pub struct Counting {
        /// Locks and narrow counters.
        pub words: Shared<u32>,
        /// Counters.
        pub totals: Shared<u64>,
        /// How often each thread counts.
        pub rounds: u64,
    }
}

kernels! {
    /// Every thread counts in each way that there is, `rounds` times.
    pub fn counting(net: Net, work: Counting) {
        if let Some(threads) = Threads::of(&work) {
            threads.count(net.block().group());
        }
    }
}

struct Threads<'w> {
    work: &'w Counting,
    lock: Lock,
    rw: RwLock,
    wrong: AtomicRef<u64>,
}

impl<'w> Threads<'w> {
    #[inline(always)]
    fn of(work: &'w Counting) -> Option<Self> {
        let lock = Lock::new(work.words.atomic(LOCK)?);
        let rw = RwLock::new(work.words.atomic(RW_LOCK)?);
        Some(Self { work, lock, rw, wrong: work.totals.atomic(WRONG)? })
    }

    /// Adds to a counter without an atomic.
    #[inline(always)]
    fn add(&self, at: usize) {
        let totals = self.work.totals;
        totals.set(at, totals.get(at).unwrap_or(0) + 1);
    }

    fn count<G: Group>(&self, block: G) {
        for round in 0..self.work.rounds {
            self.atomics();
            self.locks(round);
        }
        self.waits_end();
        self.message();
        for _ in 0..self.work.rounds {
            self.together(block);
            self.led(block);
        }
    }

    fn is_wrong(&self) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
    }

    #[inline(never)]
    fn atomics(&self) {
        let position = simt::position();
        let number = u64::from(position.block * position.threads + position.thread + 1);
        let Counting { words, totals, .. } = *self.work;
        let relaxed = Ordering::Relaxed;
        let all = || {
            words.atomic(NARROW)?.fetch_add(3, Ordering::AcqRel);
            words.atomic(NARROW)?.fetch_sub(2, Ordering::Release);
            totals.atomic(ATOMIC)?.fetch_add(1, relaxed);
            totals.atomic(SYSTEM)?.in_scope::<System>().fetch_add(1, Ordering::SeqCst);
            totals.atomic(LARGEST)?.fetch_max(number, relaxed);
            totals.atomic(SMALLEST)?.fetch_min(number, Ordering::Acquire);
            let bit = 1 << (number % 64);
            totals.atomic(BITS)?.fetch_or(bit, relaxed);
            let counter = totals.atomic(EXCHANGED)?;
            let mut now = counter.load(relaxed);
            while let Err(found) = counter.compare_exchange(now, now + 1, Ordering::SeqCst, relaxed)
            {
                now = found;
            }
            Some(())
        };
        if all().is_none() {
            self.is_wrong();
        }
    }

    /// Each thread for itself, all lanes of a warp at a time.
    #[inline(never)]
    fn locks(&self, round: u64) {
        match self.lock.lock(TIMEOUT_NS) {
            Some(_guard) => self.add(LOCKED),
            None => self.is_wrong(),
        }
        let writes = (u64::from(simt::position().thread) + round).is_multiple_of(4);
        if writes {
            match self.rw.write(TIMEOUT_NS) {
                Some(_guard) => {
                    self.add(WRITTEN);
                    self.add(WRITTEN_TOO);
                }
                None => self.is_wrong(),
            }
        } else {
            let totals = self.work.totals;
            match self.rw.read(TIMEOUT_NS) {
                Some(_guard) if totals.get(WRITTEN) == totals.get(WRITTEN_TOO) => {}
                _ => self.is_wrong(),
            }
        }
    }

    /// Locks that nobody releases are waited for as long as was said.
    #[inline(never)]
    fn waits_end(&self) {
        let all = || {
            let held = Lock::new(self.work.words.atomic(HELD)?);
            let read = RwLock::new(self.work.words.atomic(READ)?);
            let began = simt::now_ns();
            let timed_out = held.lock(SHORT_NS).is_none() && read.write(SHORT_NS).is_none();
            if timed_out && simt::now_ns() - began >= 2 * SHORT_NS {
                self.work.totals.atomic(TIMED_OUT)?.fetch_add(1, Ordering::Relaxed);
            }
            Some(())
        };
        if all().is_none() {
            self.is_wrong();
        }
    }

    /// One thread leaves a message with fences and without a lock; all others find it.
    #[inline(never)]
    fn message(&self) {
        let Some(there) = self.work.totals.atomic(MESSAGE_THERE) else { return self.is_wrong() };
        let position = simt::position();
        if position.block == 0 && position.thread == 0 {
            self.work.totals.set(MESSAGE, 42);
            fence::<Gpu>(Ordering::Release);
            there.store(1, Ordering::Relaxed);
            return;
        }
        let end = simt::now_ns() + TIMEOUT_NS;
        while there.load(Ordering::Relaxed) == 0 && simt::now_ns() < end {
            simt::pause();
        }
        fence::<Gpu>(Ordering::Acquire);
        if self.work.totals.get(MESSAGE) != Some(42) {
            self.is_wrong();
        }
    }

    /// Closures that one thread runs, and that a warp does: what they did is there for all.
    #[inline(never)]
    fn led<G: Group>(&self, block: G) {
        let Counting { words, totals, .. } = *self.work;
        let relaxed = Ordering::Relaxed;
        let count = |at: usize| totals.atomic(at).map_or(0, |total| total.fetch_add(1, relaxed));
        let place = FIRST_OF_BLOCKS + simt::position().block as usize;
        let [one, two] = block.leader_only(|| {
            let before = count(BY_LEADERS);
            words.set(place, before as u32);
            [before, !before]
        });
        let mut wrong = two != !one || words.get(place) != Some(one as u32);
        // The next closure stores to the same place.
        block.barrier();
        let [first] = Warp.leader_only(|| [count(BY_LEADERS)]);
        wrong |= first != Warp.broadcast([first])[0];
        let [rank] = block.in_first_warp(|| {
            count(BY_FIRST_WARPS);
            [block.rank() as u64]
        });
        wrong |= rank != 0;
        if wrong {
            self.is_wrong();
        }
    }

    /// The leader takes the lock, some threads count one after the other, and the leader releases it.
    #[inline(never)]
    fn together<G: Group>(&self, block: G) {
        let [held] = block.leader_only(|| {
            [u64::from(self.rw.write(TIMEOUT_NS).map(|guard| guard.into_raw()).is_some())]
        });
        if held == 0 {
            return self.is_wrong();
        }
        for rank in 0..block.size().min(IN_TURN) {
            if rank == block.rank() {
                self.add(BY_BLOCKS);
            }
            block.barrier();
        }
        if block.is_leader() {
            self.rw.release_write();
        }
    }
}
