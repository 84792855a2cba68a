//! The table: buckets with a lock and a chain of entries each, entries in the heap.
//!
//! ```text
//!   entry   word 0  the next of the bucket        word 1  hash of the key
//!           word 2  when it expires, in ms since 1970; 0: never
//!           word 3  bytes of the key, and in the upper half of the value
//!           word 4  unused
//!           then the key, then the value from the next multiple of 8 on
//! ```
//!
//! A bucket's lock holds its chain and entries still: shared by readers, alone for a writer. One thread
//! of a group, its leader, takes and releases it; in between all threads of the group may copy.

mod sweep;

use core::sync::atomic::Ordering::Relaxed;

use gpunet_device::sync::RwLock;
use gpunet_device::{Group, Shared, SharedBuf, buf, simt};
use gpunet_serve::{Block, Heap};

use crate::store::{Store, Word};

/// Bytes of an entry in front of its key.
pub const ENTRY_BYTES: usize = 40;
/// The largest value, and the largest key.
pub const MOST_VALUE: usize = 1 << 20;
/// How long a group waits for a bucket: as no group keeps one while it waits for a client, only a
/// kernel that is in trouble takes so long.
const LOCK_TIMEOUT_NS: u64 = 2_000_000_000;
/// Where the length of a value stands when it travels with its entry in one word.
const LENGTH_SHIFT: u32 = 40;
const _: () = assert!(MOST_VALUE < 1 << (64 - LENGTH_SHIFT - 1));

/// Where a table lies.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) heap: Heap,
    heads: Shared<u64>,
    locks: Shared<u32>,
    words: Shared<u64>,
    /// From the GPU's clock to the time since 1970, ns.
    clock_offset: u64,
    /// Of the hash.
    secret: [u64; 2],
}

/// A bucket that the group has locked, and what it holds of a key.
#[derive(Clone, Copy)]
pub(crate) struct Opened {
    bucket: usize,
    hash: u64,
    writing: bool,
    /// The entry of the key; none if it is not there.
    pub(crate) entry: Block,
    /// The entry in front of it in the chain; the leader's alone.
    before: Block,
    /// When it expires, ms since 1970; 0: never.
    pub(crate) expiry: u64,
    /// Bytes of its value.
    pub(crate) length: usize,
    /// An entry that was replaced, to be freed with the lock.
    stale: Block,
}

impl Opened {
    /// Whether the key is there.
    pub(crate) const fn found(&self) -> bool {
        !self.entry.is_none()
    }
}

/// What stands in front of an entry's value.
#[derive(Clone, Copy)]
struct Seen {
    next: u64,
    hash: u64,
    expiry: u64,
    lengths: u64,
    /// The first 16 bytes behind that: of the key, if it has so many.
    key: [u64; 2],
}

impl Seen {
    const NONE: Self = Self { next: 0, hash: 0, expiry: 0, lengths: 0, key: [0; 2] };
}

/// 64 bits of a key. Products of 128 bits, folded, with words that clients do not know: else they
/// could send keys that all fall into one bucket. `begin`: the key's first 16 bytes, with zeros behind it.
#[inline(always)]
fn hash_of(key: SharedBuf, begin: [u64; 2], [first, second]: [u64; 2]) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let mut hash = second;
    if !key.is_empty() {
        hash = fold(begin[0] ^ first, begin[1] ^ hash);
    }
    let mut at = 16;
    while at < key.len() {
        hash = fold(key.word_at(at) ^ first, key.word_at(at + 8) ^ hash);
        at += 16;
    }
    fold(hash ^ first, key.len() as u64 ^ second)
}

const fn value_offset(key_length: usize) -> usize {
    ENTRY_BYTES + key_length.next_multiple_of(8)
}

impl Table {
    pub(crate) fn new(heap: Heap, store: Store, clock_offset: u64) -> Self {
        let Store { heads, locks, words, first_secret, second_secret, .. } = store;
        Self { heap, heads, locks, words, clock_offset, secret: [first_secret, second_secret] }
    }

    /// Buckets.
    pub(crate) fn buckets(&self) -> usize {
        self.heads.len().min(self.locks.len())
    }

    fn lock(&self, bucket: usize) -> Option<RwLock> {
        self.locks.atomic(bucket).map(RwLock::new)
    }

    fn word(&self, entry: Block, index: usize) -> u64 {
        self.heap.words(entry).get(index).unwrap_or(0)
    }

    fn set_word(&self, entry: Block, index: usize, value: u64) {
        self.heap.words(entry).set(index, value);
    }

    /// Adds to a word of the store. For one thread.
    #[inline(never)]
    pub(crate) fn count(&self, word: Word, more: u64) {
        if let Some(word) = self.words.atomic(word as usize) {
            word.fetch_add(more, Relaxed);
        }
    }

    /// A word of the store.
    pub(crate) fn counted(&self, word: Word) -> u64 {
        self.words.atomic(word as usize).map_or(0, |word| word.load(Relaxed))
    }

    /// The time, ms since 1970. Threads may differ in it.
    pub(crate) fn now(&self) -> u64 {
        simt::now_ns().wrapping_add(self.clock_offset) / 1_000_000
    }

    /// The value of an entry.
    #[inline(always)]
    pub(crate) fn value(&self, key: SharedBuf, opened: &Opened) -> SharedBuf {
        self.heap.memory(opened.entry).slice(value_offset(key.len()), opened.length)
    }

    /// Locks the bucket of a key and looks the key up. All threads of the group get the same; none if
    /// the bucket could not be had. [`Self::close`] follows.
    #[inline(never)]
    pub(crate) fn open<G: Group>(&self, group: G, key: SharedBuf, writing: bool) -> Option<Opened> {
        let begin = [key.word_at(0), key.word_at(8)];
        let hash = hash_of(key, begin, self.secret);
        let bucket = hash as usize & (self.buckets() - 1);
        let mut opened = Opened {
            bucket,
            hash,
            writing,
            entry: Block::NONE,
            before: Block::NONE,
            expiry: 0,
            length: 0,
            stale: Block::NONE,
        };
        let mut acquired = false;
        if group.is_leader() {
            // On its way beside the lock, and read again behind that.
            let guess = self.heads.get(bucket).unwrap_or(0);
            acquired = self.acquire(bucket, writing);
            if acquired {
                self.find(&mut opened, key, begin, guess);
            }
        }
        let found = opened.entry.0 | (opened.length as u64) << LENGTH_SHIFT;
        let [found, expiry] =
            group.broadcast([if acquired { found } else { u64::MAX }, opened.expiry]);
        if found == u64::MAX {
            return None;
        }
        opened.entry = Block(found & ((1 << LENGTH_SHIFT) - 1));
        (opened.length, opened.expiry) = ((found >> LENGTH_SHIFT) as usize, expiry);
        Some(opened)
    }

    /// Takes the lock; the guard's part is done by [`Self::close`].
    #[inline(always)]
    fn acquire(&self, bucket: usize, writing: bool) -> bool {
        let Some(lock) = self.lock(bucket) else { return false };
        match writing {
            true => lock.write(LOCK_TIMEOUT_NS).map(|guard| guard.into_raw()).is_some(),
            false => lock.read(LOCK_TIMEOUT_NS).map(|guard| guard.into_raw()).is_some(),
        }
    }

    /// Looks a key up in its bucket's chain. `guess`: the chain's first entry, most likely. For the leader.
    #[inline(always)]
    fn find(&self, opened: &mut Opened, key: SharedBuf, begin: [u64; 2], guess: u64) {
        // Both on their way before the first is looked at: what stands there is the chain's only if it
        // begins there.
        let head = self.heads.get(opened.bucket).unwrap_or(0);
        let mut seen = self.read(Block(guess));
        let mut entry = Block(head);
        if head != guess {
            seen = self.read(entry);
        }
        let mut before = Block::NONE;
        while !entry.is_none() {
            if seen.hash == opened.hash && self.is_key(entry, &seen, key, begin) {
                // Most keys never expire: the clock takes longer to read than the entry.
                if seen.expiry != 0 && seen.expiry <= self.now() {
                    return self.find_expired(opened, entry, before, seen.next);
                }
                (opened.entry, opened.before) = (entry, before);
                (opened.expiry, opened.length) = (seen.expiry, (seen.lengths >> 32) as usize);
                return;
            }
            (before, entry) = (entry, Block(seen.next));
            seen = self.read(entry);
        }
    }

    /// Takes out an entry that was found and has expired, if the bucket is open for writing.
    #[cold]
    #[inline(never)]
    fn find_expired(&self, opened: &Opened, entry: Block, before: Block, next: u64) {
        if opened.writing {
            self.unlink(opened.bucket, before, next);
            self.heap.free(entry);
            self.count(Word::Expired, 1);
        }
    }

    /// What stands in front of an entry's value, as far as most keys go; all on its way at once.
    #[inline(always)]
    fn read(&self, entry: Block) -> Seen {
        let words = self.heap.words(entry);
        // No block is smaller. Said here, so that it is not checked for each word.
        if words.len() < 8 {
            return Seen::NONE;
        }
        let word = |index: usize| words.get(index).unwrap_or(0);
        Seen {
            next: word(0),
            hash: word(1),
            expiry: word(2),
            lengths: word(3),
            key: [word(ENTRY_BYTES / 8), word(ENTRY_BYTES / 8 + 1)],
        }
    }

    /// Whether an entry's key is this one.
    #[inline(always)]
    fn is_key(&self, entry: Block, seen: &Seen, key: SharedBuf, begin: [u64; 2]) -> bool {
        let length = seen.lengths as u32 as usize;
        let low = |word: u64, at: usize| match length.saturating_sub(at) {
            0 => 0,
            left @ 1..8 => word & ((1 << (8 * left)) - 1),
            _ => word,
        };
        let [first, second] = seen.key;
        let same = [low(first, 0), low(second, 8)] == begin;
        length == key.len() && same && (length <= 16 || self.is_long_key(entry, key))
    }

    /// The same of what is behind the first 16 bytes.
    #[inline(never)]
    fn is_long_key(&self, entry: Block, key: SharedBuf) -> bool {
        let stored = self.heap.memory(entry).slice(ENTRY_BYTES, key.len());
        let mut at = 16;
        while at < key.len() && stored.word_at(at) == key.word_at(at) {
            at += 8;
        }
        at >= key.len()
    }

    /// Takes an entry out of a chain. For the leader, which writes.
    fn unlink(&self, bucket: usize, before: Block, next: u64) {
        match before.is_none() {
            true => self.heads.set(bucket, next),
            false => self.set_word(before, 0, next),
        }
        if let Some(keys) = self.words.atomic(Word::Keys as usize) {
            keys.fetch_sub(1, Relaxed);
        }
    }

    /// Makes room for a value of so many bytes under a key, in an entry that is there already or a new
    /// one; false when the heap is full, and all is as it was. The value is the caller's to fill, with
    /// all threads; what was there before may be read until [`Self::close`], if it moved.
    #[inline(never)]
    pub(crate) fn put<G: Group>(
        &self,
        group: G,
        opened: &mut Opened,
        key: SharedBuf,
        length: usize,
        expiry: u64,
    ) -> bool {
        let needed = value_offset(key.len()) + length;
        let old = opened.entry;
        // All threads have read the old lengths.
        let fits = needed <= old.bytes() && old.bytes() < needed * 4;
        if !fits && !self.put_new(group, opened, key, needed) {
            return false;
        }
        if group.is_leader() {
            let words = self.heap.words(opened.entry);
            words.set(2, expiry);
            words.set(3, key.len() as u64 | (length as u64) << 32);
        }
        (opened.expiry, opened.length) = (expiry, length);
        true
    }

    /// Puts an entry of so many bytes with this key in the place of the old one; false when the heap is
    /// full.
    #[inline(never)]
    fn put_new<G: Group>(
        &self,
        group: G,
        opened: &mut Opened,
        key: SharedBuf,
        needed: usize,
    ) -> bool {
        let mut entry = Block::NONE;
        if group.is_leader() {
            entry = self.heap.allocate(needed).unwrap_or(Block::NONE);
            if !entry.is_none() {
                self.link(opened, entry);
            }
        }
        let [made] = group.broadcast([entry.0]);
        let entry = Block(made);
        if entry.is_none() {
            return false;
        }
        let to = self.heap.memory(entry).slice(ENTRY_BYTES, key.len());
        buf::copy(group, key, to);
        (opened.stale, opened.entry) = (opened.entry, entry);
        true
    }

    /// Puts a new entry in the place of the old one, or first. For the leader.
    fn link(&self, opened: &Opened, entry: Block) {
        let (old, before) = (opened.entry, opened.before);
        let next = match old.is_none() {
            true => self.heads.get(opened.bucket).unwrap_or(0),
            false => self.word(old, 0),
        };
        let words = self.heap.words(entry);
        words.set(0, next);
        words.set(1, opened.hash);
        match old.is_none() || before.is_none() {
            true => self.heads.set(opened.bucket, entry.0),
            false => self.set_word(before, 0, entry.0),
        }
        if old.is_none() {
            self.count(Word::Keys, 1);
        }
    }

    /// Changes when an entry expires.
    pub(crate) fn set_expiry<G: Group>(&self, group: G, opened: &Opened, expiry: u64) {
        if group.is_leader() {
            self.set_word(opened.entry, 2, expiry);
        }
    }

    /// Takes the entry out; it may be read until [`Self::close`].
    #[inline(never)]
    pub(crate) fn remove<G: Group>(&self, group: G, opened: &mut Opened) {
        if group.is_leader() {
            self.unlink(opened.bucket, opened.before, self.word(opened.entry, 0));
        }
        opened.stale = opened.entry;
    }

    /// Releases the bucket, once all threads are done with it.
    #[inline(never)]
    pub(crate) fn close<G: Group>(&self, group: G, opened: Opened) {
        group.barrier();
        if group.is_leader() {
            if !opened.stale.is_none() {
                self.heap.free(opened.stale);
            }
            if let Some(lock) = self.lock(opened.bucket) {
                match opened.writing {
                    true => lock.release_write(),
                    false => lock.release_read(),
                }
            }
        }
    }
}
