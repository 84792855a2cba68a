//! Memory for kernels: blocks of a region of GPU memory, by size class.
//!
//! One thread of any block allocates and frees; nobody waits for anybody. Zeroed memory is an empty
//! heap. Sizes are 64 B, 128 B, 192 B, 256 B, 384 B and so on, two for each doubling, up to
//! [`MOST`]. A freed block serves later requests of its size, or of a smaller one when nothing else is
//! left; blocks are never split or joined.
//!
//! ```text
//!   word 0          units ever handed out        word 1   units in use
//!   word 2..2+N     a list of free blocks for each size: first block and a count of changes
//!   from HEADER on  units of 64 bytes; the first word of a free block names the next
//! ```

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use gpunet_device::sync::AtomicRef;
use gpunet_device::{Shared, SharedBuf};

/// Bytes of a unit.
const UNIT: usize = 64;
/// Size classes: one unit, then two for each doubling.
const CLASSES: usize = 30;
/// The largest block, in bytes.
pub const MOST: usize = class_units(CLASSES as u32 - 1) * UNIT;
/// Bytes in front of the units.
const HEADER: usize = 512;
const _: () = assert!((2 + CLASSES) * 8 <= HEADER);

/// Units of a block of that class: 1, 2, 3, 4, 6, 8, 12 …
const fn class_units(class: u32) -> usize {
    match class {
        0 => 1,
        _ if class % 2 == 1 => 2 << (class / 2),
        _ => 3 << (class / 2 - 1),
    }
}

/// The smallest class of so many units.
fn class_of(units: usize) -> u32 {
    let mut class = 0;
    while class_units(class) < units && class < CLASSES as u32 {
        class += 1;
    }
    class
}

/// A block of the heap, as one word; [`Block::NONE`] is 0, which zeroed memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Block(pub u64);

impl Block {
    /// No block.
    pub const NONE: Self = Self(0);

    const fn new(unit: u32, class: u32) -> Self {
        // The first unit is 1 here, so that no block is 0.
        Self(((unit as u64 + 1) << 8) | class as u64)
    }

    /// Whether there is none.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    const fn unit(self) -> usize {
        (self.0 >> 8) as usize - 1
    }

    const fn class(self) -> u32 {
        self.0 as u32 & 0xFF
    }

    /// Bytes that it holds.
    pub const fn bytes(self) -> usize {
        if self.is_none() { 0 } else { class_units(self.class()) * UNIT }
    }
}

/// A heap in a region of GPU memory.
#[derive(Clone, Copy)]
pub struct Heap {
    region: SharedBuf,
}

impl Heap {
    /// The heap of a region that was zeroed when it was made, aligned to 64 bytes. Every kernel that
    /// names the same region has the same heap.
    #[inline(always)]
    pub const fn new(region: SharedBuf) -> Self {
        Self { region }
    }

    #[inline(always)]
    fn word(self, index: usize) -> Option<AtomicRef<u64>> {
        self.region.cast::<u64>().atomic(index)
    }

    fn units(self) -> usize {
        self.region.len().saturating_sub(HEADER) / UNIT
    }

    /// Bytes that it can hand out.
    pub fn capacity(self) -> u64 {
        (self.units() * UNIT) as u64
    }

    /// Bytes of the blocks in use.
    pub fn used(self) -> u64 {
        self.word(1).map_or(0, |used| used.load(Relaxed)) * UNIT as u64
    }

    /// The block's memory.
    #[inline(always)]
    pub fn memory(self, block: Block) -> SharedBuf {
        match block.is_none() {
            true => SharedBuf::EMPTY,
            false => self.region.slice(HEADER + block.unit() * UNIT, block.bytes()),
        }
    }

    /// The block's memory as words, which it is a whole number of.
    #[inline(always)]
    pub fn words(self, block: Block) -> Shared<u64> {
        self.memory(block).cast()
    }

    /// A block of at least so many bytes, not zeroed; none when the heap is full or the size is above
    /// [`MOST`]. For one thread.
    #[inline(never)]
    pub fn allocate(self, bytes: usize) -> Option<Block> {
        let class = class_of(bytes.div_ceil(UNIT).max(1));
        if class >= CLASSES as u32 {
            return None;
        }
        let block = self
            .pop(class)
            .or_else(|| self.fresh(class))
            .or_else(|| (class + 1..CLASSES as u32).find_map(|larger| self.pop(larger)))?;
        if let Some(used) = self.word(1) {
            used.fetch_add(class_units(block.class()) as u64, Relaxed);
        }
        Some(block)
    }

    /// Gives a block back. For one thread, once for each block.
    #[inline(never)]
    pub fn free(self, block: Block) {
        if block.is_none() {
            return;
        }
        let Some(head) = self.word(2 + block.class() as usize) else { return };
        if let Some(used) = self.word(1) {
            used.fetch_sub(class_units(block.class()) as u64, Relaxed);
        }
        let number = block.unit() as u64 + 1;
        let Some(next) = self.memory(block).cast::<u64>().atomic(0) else { return };
        let mut old = head.load(Relaxed);
        loop {
            next.store(old & 0xFFFF_FFFF, Relaxed);
            // Pairs with the acquire in `pop`: who takes the block sees which one comes next.
            match head.compare_exchange(old, changed(old) | number, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    /// Takes a free block of the class.
    fn pop(self, class: u32) -> Option<Block> {
        let head = self.word(2 + class as usize)?;
        let mut old = head.load(Acquire);
        loop {
            let number = (old & 0xFFFF_FFFF) as u32;
            let block = Block::new(number.checked_sub(1)?, class);
            // Another thread may have taken the block and filled this word: then the count has
            // changed, and the exchange fails.
            let next = self.memory(block).cast::<u64>().atomic(0)?.load(Relaxed) & 0xFFFF_FFFF;
            match head.compare_exchange(old, changed(old) | next, Acquire, Acquire) {
                Ok(_) => return Some(block),
                Err(now) => old = now,
            }
        }
    }

    /// Takes units that were never used.
    fn fresh(self, class: u32) -> Option<Block> {
        let cursor = self.word(0)?;
        let (units, mut old) = (class_units(class) as u64, cursor.load(Relaxed));
        loop {
            let end = old + units;
            if end > self.units() as u64 || end > u64::from(u32::MAX) {
                return None;
            }
            match cursor.compare_exchange(old, end, Relaxed, Relaxed) {
                Ok(_) => return Some(Block::new(old as u32, class)),
                Err(now) => old = now,
            }
        }
    }
}

/// The count of changes in the upper half, one higher.
const fn changed(head: u64) -> u64 {
    ((head >> 32).wrapping_add(1) & 0xFFFF_FFFF) << 32
}

#[cfg(test)]
mod tests;
