//! What goes through many buckets: expired keys, FLUSHALL, SCAN.

use core::sync::atomic::Ordering::Relaxed;

use gpunet_device::sync::RwLock;
use gpunet_device::{Group, SharedBuf};
use gpunet_serve::Block;

use super::{ENTRY_BYTES, LOCK_TIMEOUT_NS, Table};
use crate::store::Word;

/// Buckets that a thread looks through at a time for expired keys.
const SWEEP: usize = 16;

impl Table {
    /// Removes entries of some buckets that have expired, all threads at it. Nobody is waited for.
    #[inline(never)]
    pub(crate) fn expire_some<G: Group>(&self, group: G) {
        let mut begin = 0;
        if group.is_leader() {
            let more = (SWEEP * group.size()) as u64;
            begin =
                self.words.atomic(Word::Swept as usize).map_or(0, |w| w.fetch_add(more, Relaxed));
        }
        let [begin] = group.broadcast([begin]);
        for turn in 0..SWEEP {
            let at = begin as usize + turn * group.size() + group.rank();
            let bucket = at & (self.buckets() - 1);
            if self.heads.get(bucket).unwrap_or(0) != 0
                && let Some(_guard) = self.lock(bucket).and_then(RwLock::try_write)
            {
                let now = self.now();
                let removed = self.drop_from(bucket, |expiry| expiry != 0 && expiry <= now);
                self.count(Word::Expired, removed);
            }
        }
        group.barrier();
    }

    /// Removes all entries, all threads at it. False if a bucket could not be had.
    #[inline(never)]
    pub(crate) fn clear<G: Group>(&self, group: G) -> bool {
        let mut failed = false;
        let mut bucket = group.rank();
        while bucket < self.buckets() {
            if self.heads.get(bucket).unwrap_or(0) != 0 {
                match self.lock(bucket).and_then(|lock| lock.write(LOCK_TIMEOUT_NS)) {
                    Some(_guard) => _ = self.drop_from(bucket, |_| true),
                    None => failed = true,
                }
            }
            bucket += group.size();
        }
        !group.any(failed)
    }

    /// Removes entries of a bucket by when they expire. For one thread, which has locked it.
    fn drop_from(&self, bucket: usize, doomed: impl Fn(u64) -> bool) -> u64 {
        let (mut entry, mut before) = (Block(self.heads.get(bucket).unwrap_or(0)), Block::NONE);
        let mut removed = 0;
        while !entry.is_none() {
            let next = self.word(entry, 0);
            if doomed(self.word(entry, 2)) {
                self.unlink(bucket, before, next);
                self.heap.free(entry);
                removed += 1;
            } else {
                before = entry;
            }
            entry = Block(next);
        }
        removed
    }

    /// The first bucket from `from` on that may hold something, give or take some; all threads look.
    #[inline(never)]
    pub(crate) fn next_used<G: Group>(&self, group: G, from: usize) -> usize {
        let step = SWEEP * group.size();
        let mut from = from.min(self.buckets());
        while from < self.buckets() {
            let mut used = false;
            for turn in 0..SWEEP {
                let bucket = from + turn * group.size() + group.rank();
                used |= self.heads.get(bucket).unwrap_or(0) != 0;
            }
            if group.any(used) {
                break;
            }
            from += step;
        }
        from.min(self.buckets())
    }

    /// Calls `each` with every key of a bucket that has not expired; false if the bucket could not be
    /// had. For one thread.
    pub(crate) fn keys_of(&self, bucket: usize, mut each: impl FnMut(SharedBuf)) -> bool {
        if self.heads.get(bucket).unwrap_or(0) == 0 {
            return true;
        }
        let Some(_guard) = self.lock(bucket).and_then(|lock| lock.read(LOCK_TIMEOUT_NS)) else {
            return false;
        };
        let now = self.now();
        let mut entry = Block(self.heads.get(bucket).unwrap_or(0));
        while !entry.is_none() {
            let (expiry, lengths) = (self.word(entry, 2), self.word(entry, 3));
            if expiry == 0 || expiry > now {
                each(self.heap.memory(entry).slice(ENTRY_BYTES, lengths as u32 as usize));
            }
            entry = Block(self.word(entry, 0));
        }
        true
    }
}
