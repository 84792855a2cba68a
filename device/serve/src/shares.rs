//! What a connection may keep: incomplete requests, and answers that its client has not taken.
//!
//! Each connection has two pieces of memory of its own ([`PIECE`]), which it never loses. What does not fit
//! there lies in a block of the heap, which it keeps as long as no other connection needs the memory more: where the heap is full, the
//! connection with the most of it loses its blocks, of two with as much the one that has been silent for longer, and
//! a connection that would have the most itself gets nothing. The rule: docs/reference/shares.md.
//!
//! Any group may take a connection's blocks away, also that of another one. A word for each connection says
//! whether it can:
//!
//! | bits | what |
//! | --- | --- |
//! | 0, 1 | [`NONE`], [`KEPT`], [`IN_HAND`] or [`TAKEN`] |
//! | 2 to 19 | where they are kept: their units of 64 bytes |
//! | 20 to 35 | how often blocks were put down: who takes some away has read which they are before |
//! | 36 to 63 | since when they are kept, in units of 64 ms |

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use gpunet_device::{Group, Shared, simt};

use crate::connection::Record;
use crate::heap::Block;
use crate::memory::Memory;

/// Bytes of a connection's own for an incomplete request, and as many for answers.
pub const PIECE: usize = 1 << 10;

/// The connection has no blocks.
const NONE: u64 = 0;
/// It has some, and its group does not use them at the moment.
const KEPT: u64 = 1;
/// Its group uses them, or has none.
const IN_HAND: u64 = 2;
/// They were taken away, and its group does not know yet.
const TAKEN: u64 = 3;

const STATE: u64 = 3;
const UNITS_SHIFT: u32 = 2;
const UNITS: u64 = (1 << 18) - 1;
const COUNT_SHIFT: u32 = 20;
const COUNT: u64 = (1 << 16) - 1;
const TIME_SHIFT: u32 = 36;
const TIME: u64 = (1 << 28) - 1;
const UNIT: usize = 64;

/// How many connections lose their blocks for one, at most.
const MOST_TAKEN: u32 = 64;

/// Connections that a key can name.
pub(crate) const MOST_CONNECTIONS: u32 = 1 << 24;

/// The GPU's time as claims have it. It begins anywhere.
fn now() -> u64 {
    simt::now_ns() >> 26 & TIME
}

/// Units that a claim says are kept, and may be taken away.
const fn units_of(word: u64) -> u64 {
    if word & STATE == KEPT { word >> UNITS_SHIFT & UNITS } else { 0 }
}

/// The order in which connections lose their blocks, the highest first: units, then how long they have been silent,
/// then the number.
const fn key(word: u64, now: u64, number: usize) -> u64 {
    let units = units_of(word);
    if units == 0 {
        return 0;
    }
    let silent = now.wrapping_sub(word >> TIME_SHIFT) & TIME;
    // A clock that runs a little ahead.
    let silent = if silent > TIME / 2 { 0 } else { silent };
    let silent = if silent < 1 << 18 { silent } else { (1 << 18) - 1 };
    units << 42 | silent << 24 | number as u64
}

/// The shares of a server's connections, as one of its groups sees them.
#[derive(Clone, Copy)]
pub(crate) struct Shares {
    pub(crate) memory: Memory,
    /// A word in the group's shared memory: the highest key that its threads have found.
    highest: Shared<u64>,
}

impl Shares {
    pub(crate) const fn new(memory: Memory, highest: Shared<u64>) -> Self {
        Self { memory, highest }
    }

    /// Takes a connection's blocks into the group's hand. False: they were taken away, and are no longer its.
    pub(crate) fn take_up<G: Group>(self, group: G, number: u32) -> bool {
        let [taken] = group.leader_only(|| {
            let Some(claim) = self.memory.claims().atomic(number as usize) else { return [0] };
            let mut found = claim.load(Relaxed);
            // Counted: a group that takes them away changes the word once, and after that it stays.
            while found & STATE == KEPT {
                // Acquire: who has them in hand writes there.
                match claim.compare_exchange(found, found & !STATE | IN_HAND, AcqRel, Relaxed) {
                    Ok(_) => break,
                    Err(now) => found = now,
                }
            }
            [u64::from(found & STATE == TAKEN)]
        });
        taken == 0
    }

    /// Whether they were taken away.
    pub(crate) fn are_taken<G: Group>(self, group: G, number: u32) -> bool {
        let [word] = group.leader_only(|| {
            let word = self.memory.claims().atomic(number as usize);
            [word.map_or(NONE, |word| word.load(Relaxed))]
        });
        word & STATE == TAKEN
    }

    /// Puts them down: from now on they may be taken away. For one thread, which has stored the record.
    pub(crate) fn put_down(self, number: u32, record: &Record) {
        let Some(claim) = self.memory.claims().atomic(number as usize) else { return };
        let count = (claim.load(Relaxed) >> COUNT_SHIFT).wrapping_add(1) & COUNT;
        let mut word = NONE | count << COUNT_SHIFT;
        if record.has_blocks() {
            let units = (record.input.share() + record.output.share()) / UNIT;
            word |= KEPT | (units as u64) << UNITS_SHIFT | now() << TIME_SHIFT;
        }
        // Release: who takes them away reads in the record which they are.
        claim.store(word, Release);
    }

    /// A block of this size for a connection that has a share of `others` besides; [`Block::NONE`] if it is to
    /// have none.
    #[inline(never)]
    pub(crate) fn allocate<G: Group>(self, group: G, bytes: usize, others: usize) -> Block {
        let heap = self.memory.heap();
        let mut taken = 0;
        loop {
            let [block] = group.leader_only(|| [heap.allocate(bytes).unwrap_or(Block::NONE).0]);
            if block != 0
                || taken == MOST_TAKEN
                || !self.reclaim(group, Block::share_of(bytes) + others)
            {
                return Block(block);
            }
            taken += 1;
        }
    }

    /// Takes away the blocks of the connection that has the most, if that is no less than `bytes`. Whether
    /// it has tried.
    #[cold]
    #[inline(never)]
    fn reclaim<G: Group>(self, group: G, bytes: usize) -> bool {
        let claims = self.memory.claims();
        let Some(highest) = self.highest.atomic(0) else { return false };
        if group.is_leader() {
            highest.store(0, Relaxed);
        }
        group.barrier();
        let now = now();
        let (mut at, mut best) = (group.rank(), 0);
        // Counted: the connections.
        while let Some(claim) = claims.atomic(at) {
            best = best.max(key(claim.load(Relaxed), now, at));
            at += group.size();
        }
        highest.fetch_max(best, Relaxed);
        group.barrier();
        let [tried] = group.leader_only(|| {
            let best = highest.load(Relaxed);
            let (units, number) = (best >> 42, best as u32 & (MOST_CONNECTIONS - 1));
            if units == 0 || (units as usize) * UNIT < bytes {
                return [0];
            }
            self.take_away(number, units);
            [1]
        });
        tried != 0
    }

    /// Frees the blocks of a connection, unless its group has taken them up meanwhile, or it has others. For one
    /// thread.
    fn take_away(self, number: u32, units: u64) {
        let Some(claim) = self.memory.claims().atomic(number as usize) else { return };
        // Acquire: pairs with the release in `put_down`, which comes after the record was stored.
        let found = claim.load(Acquire);
        let Some(record) = self.memory.records().get(number as usize) else { return };
        // What was read is what is there, if the claim is still the same: it is counted. Release: the record is
        // read before its group writes it again.
        let taken = found & !STATE | TAKEN;
        if units_of(found) >= units && claim.compare_exchange(found, taken, AcqRel, Relaxed).is_ok()
        {
            self.memory.heap().free(record.input);
            self.memory.heap().free(record.output);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn kept(units: u64, since: u64) -> u64 {
        KEPT | units << UNITS_SHIFT | 7 << COUNT_SHIFT | since << TIME_SHIFT
    }

    #[test]
    fn the_most_goes_first_and_then_the_longest_silence() {
        // The clock may begin anywhere, and go over.
        for now in [TIME, TIME / 2, 500] {
            let before = |time: u64| now.wrapping_sub(time) & TIME;
            let order = [
                kept(1 << 17, now),
                kept(1000, before(1 << 20)),
                kept(1000, before(50)),
                kept(1000, before(40)),
                kept(1, before(99)),
            ];
            let keys = order.map(|word| key(word, now, 7));
            assert!(keys.is_sorted_by(|more, less| more > less), "{keys:x?}");
            assert!(keys.iter().all(|key| key & 0xFF_FFFF == 7));
            // A clock that runs a little ahead.
            let ahead = key(kept(1000, now.wrapping_add(5) & TIME), now, 7);
            assert!(ahead > 0 && ahead < keys[3]);
        }
    }

    #[test]
    fn what_is_in_use_or_gone_is_left_alone() {
        for state in [NONE, IN_HAND, TAKEN] {
            assert_eq!(key(kept(9, 0) & !STATE | state, 100, 1), 0);
        }
    }
}
