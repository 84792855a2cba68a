//! Memory for kernels: blocks of a region of GPU memory, by size class.
//!
//! One thread of any block allocates and frees; nobody waits for anybody. Zeroed memory is an empty
//! heap. The region is cut into pages of 64 KiB. Blocks up to half a page are slots of a page that has
//! slots of one size: 64 B, 128 B, 192 B, 256 B, 384 B and so on, two for each doubling. Larger ones, up
//! to [`MOST`], are whole pages in a row. A page whose slots are all free again serves any size.
//!
//! ```text
//!   word 0           units in use                    word 1   pages in use
//!   word 2           where a page may be free        word 4.. for each class: where a slot may be
//!   TAKEN   P bits   pages in use
//!   PARTIAL P bits   for each class: pages that may have a free slot of it, a hint
//!   STATES  P words  for each page of slots: its class, and how many are in use
//!   SLOTS   P x 16   for each page: a bit for each slot in use
//!   from the next multiple of 64 bytes on   P pages
//! ```
//!
//! A slot is reserved in the page's state first, and its bit is found then; a free clears the bit first.
//! So a page whose state says that nothing is in use has no bits, and belongs to whoever said so.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use gpunet_device::sync::AtomicRef;
use gpunet_device::{Shared, SharedBuf};

/// Bytes of a unit.
const UNIT: usize = 64;
/// Units of a page.
const PAGE: usize = 1024;
/// Sizes of slots: one unit, then two for each doubling, up to half a page.
const CLASSES: usize = 18;
/// Marks the class of a block of whole pages; their number is in the other bits.
const PAGES: u32 = 0x80;
/// The largest block, in bytes.
pub const MOST: usize = 32 * PAGE * UNIT;

const USED: usize = 0;
const USED_PAGES: usize = 1;
const PAGE_HINT: usize = 2;
const SLOT_HINTS: usize = 4;
const TAKEN: usize = 32;
const _: () = assert!(SLOT_HINTS + CLASSES <= TAKEN);
/// Bitmaps with a bit for each page.
const BITMAPS: usize = 1 + CLASSES;
/// Words in front of what there is for each page, and what rounding up may take.
const FIXED: usize = TAKEN + BITMAPS + UNIT / 8;
/// Words of 64 pages, with what is known of them.
const PAGES_WORDS: usize = PAGE_WORDS * 64 + BITMAPS;
/// Words of a page's bits.
const SLOT_WORDS: usize = PAGE / 64;
/// Words of a page and of what is known of it, without the bitmaps.
const PAGE_WORDS: usize = PAGE * UNIT / 8 + 1 + SLOT_WORDS;
/// How many words of a bitmap of hints are looked at before a new page is taken.
const NEAR: usize = 4;

/// Units of a block of that class: 1, 2, 3, 4, 6, 8, 12 …, or whole pages.
const fn class_units(class: u32) -> usize {
    match class {
        0 => 1,
        _ if class & PAGES != 0 => (class & !PAGES) as usize * PAGE,
        _ if class % 2 == 1 => 2 << (class / 2),
        _ => 3 << (class / 2 - 1),
    }
}

const _: () = assert!(class_units(CLASSES as u32 - 1) == PAGE / 2);

/// The smallest class of so many units; none if there is none.
fn class_of(units: usize) -> Option<u32> {
    if units > PAGE / 2 {
        let pages = units.div_ceil(PAGE);
        return (pages <= MOST / (PAGE * UNIT)).then_some(PAGES | pages as u32);
    }
    let mut class = 0;
    while class_units(class) < units {
        class += 1;
    }
    Some(class)
}

/// Slots of a page of that class.
const fn slots_of(class: u32) -> u64 {
    (PAGE / class_units(class)) as u64
}

/// Bytes of the pages that a block of that class lies in, for each of them.
const fn share_of_class(class: u32) -> usize {
    match class & PAGES {
        0 => PAGE * UNIT / slots_of(class) as usize,
        _ => class_units(class) * UNIT,
    }
}

/// The state of a page of slots.
const fn state_of(class: u32, used: u64) -> u64 {
    (used << 8) | (class as u64 + 1)
}

/// So many bits, at most 64.
const fn ones(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// Where so many bits in a row are set, at most 64.
fn run_in(bits: u64, count: usize) -> Option<u32> {
    let (mut starts, mut have) = (bits, 1);
    while have < count {
        let step = have.min(count - have);
        (starts, have) = (starts & (starts >> step), have + step);
    }
    (starts != 0).then(|| starts.trailing_zeros())
}

/// A block of the heap, as one word; [`Block::NONE`] is 0, which zeroed memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Block(pub u64);

impl Block {
    /// No block.
    pub const NONE: Self = Self(0);

    const fn new(unit: usize, class: u32) -> Self {
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

    /// Its share of the pages that it lies in, with the bytes there that no block can use.
    pub(crate) fn share(self) -> usize {
        if self.is_none() { 0 } else { share_of_class(self.class()) }
    }

    /// The share of a block of this size.
    pub(crate) fn share_of(bytes: usize) -> usize {
        class_of(bytes.div_ceil(UNIT).max(1)).map_or(usize::MAX / 2, share_of_class)
    }
}

/// A heap in a region of GPU memory.
#[derive(Clone, Copy)]
pub struct Heap {
    region: SharedBuf,
    pages: usize,
    /// Bytes in front of the pages.
    start: usize,
}

impl Heap {
    /// The heap of a region that was zeroed when it was made, aligned to 64 bytes. Every kernel that
    /// names the same region has the same heap.
    #[inline(always)]
    pub const fn new(region: SharedBuf) -> Self {
        let words = (region.len() / 8).saturating_sub(FIXED);
        let heap = Self { region, pages: words * 64 / PAGES_WORDS, start: 0 };
        Self { start: heap.header(), ..heap }
    }

    /// How large the region of a heap has to be that can hand out so many bytes.
    pub const fn bytes(capacity: usize) -> usize {
        let pages = capacity.div_ceil(PAGE * UNIT);
        (FIXED + (pages * PAGES_WORDS).div_ceil(64)) * 8
    }

    #[inline(always)]
    fn word(self, index: usize) -> Option<AtomicRef<u64>> {
        self.region.cast::<u64>().atomic(index)
    }

    const fn bitmap(self) -> usize {
        self.pages.div_ceil(64)
    }

    const fn partial(self, class: u32) -> usize {
        TAKEN + (1 + class as usize) * self.bitmap()
    }

    const fn states(self) -> usize {
        TAKEN + BITMAPS * self.bitmap()
    }

    const fn slots(self) -> usize {
        self.states() + self.pages
    }

    /// Bytes in front of the pages.
    const fn header(self) -> usize {
        ((self.slots() + self.pages * SLOT_WORDS) * 8).next_multiple_of(UNIT)
    }

    /// Bytes that it can hand out.
    pub const fn capacity(self) -> u64 {
        (self.pages * PAGE * UNIT) as u64
    }

    /// Bytes of the blocks in use.
    pub fn used(self) -> u64 {
        self.word(USED).map_or(0, |used| used.load(Relaxed)) * UNIT as u64
    }

    /// The block's memory.
    #[inline(always)]
    pub fn memory(self, block: Block) -> SharedBuf {
        match block.is_none() {
            true => SharedBuf::EMPTY,
            false => self.region.slice(self.start + block.unit() * UNIT, block.bytes()),
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
        let class = class_of(bytes.div_ceil(UNIT).max(1))?;
        let block = match class & PAGES != 0 {
            true => Block::new(self.take_pages((class & !PAGES) as usize)? * PAGE, class),
            false => self
                .slot(class, NEAR)
                .or_else(|| self.first_slot(class))
                .or_else(|| self.slot(class, self.bitmap()))
                .or_else(|| (class + 1..CLASSES as u32).find_map(|class| self.slot(class, NEAR)))?,
        };
        self.word(USED)?.fetch_add(class_units(block.class()) as u64, Relaxed);
        Some(block)
    }

    /// Gives a block back. For one thread, once for each block.
    #[inline(never)]
    pub fn free(self, block: Block) {
        if block.is_none() {
            return;
        }
        if let Some(used) = self.word(USED) {
            used.fetch_sub(class_units(block.class()) as u64, Relaxed);
        }
        let (page, class) = (block.unit() / PAGE, block.class());
        match class & PAGES != 0 {
            true => self.give_pages(page, (class & !PAGES) as usize),
            false => self.free_slot(page, class, block.unit() % PAGE / class_units(class)),
        }
    }

    /// Takes pages in a row: the first.
    fn take_pages(self, count: usize) -> Option<usize> {
        let (used, hint) = (self.word(USED_PAGES)?, self.word(PAGE_HINT)?);
        if used.load(Relaxed) as usize + count > self.pages {
            return None;
        }
        let (words, from) = (self.bitmap(), hint.load(Relaxed) as usize);
        for step in 0..words {
            // Single ones from the front, so that longer rows are left at the back.
            let at = if count == 1 { (from + step) % words } else { words - 1 - step };
            let word = self.word(TAKEN + at)?;
            let there = ones(self.pages - at * 64);
            let mut old = word.load(Relaxed);
            while let Some(bit) = run_in(!old & there, count) {
                // Pairs with the release in `give_pages`.
                match word.compare_exchange(old, old | ones(count) << bit, Acquire, Relaxed) {
                    Ok(_) => {
                        used.fetch_add(count as u64, Relaxed);
                        if count == 1 {
                            hint.store(at as u64, Relaxed);
                        }
                        return Some(at * 64 + bit as usize);
                    }
                    Err(now) => old = now,
                }
            }
        }
        None
    }

    fn give_pages(self, page: usize, count: usize) {
        let (Some(used), Some(word)) = (self.word(USED_PAGES), self.word(TAKEN + page / 64)) else {
            return;
        };
        // Pairs with the acquire in `take_pages`: the next owner's writes come after this one's reads.
        word.fetch_and(!(ones(count) << (page % 64)), Release);
        used.fetch_sub(count as u64, Relaxed);
        if let Some(hint) = self.word(PAGE_HINT) {
            hint.fetch_min((page / 64) as u64, Relaxed);
        }
    }

    /// A slot of a page that has some of that class already, as far as so many words of hints tell.
    fn slot(self, class: u32, looks: usize) -> Option<Block> {
        let hint = self.word(SLOT_HINTS + class as usize)?;
        let (words, from) = (self.bitmap(), hint.load(Relaxed) as usize);
        for step in 0..looks.min(words) {
            let at = (from + step) % words;
            let word = self.word(self.partial(class) + at)?;
            let mut bits = word.load(Relaxed);
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                let page = at * 64 + bit as usize;
                if let Some(used) = self.reserve(page, class) {
                    hint.store(at as u64, Relaxed);
                    return self.claim(page, class, used);
                }
                // Full, or of another class. Pairs with the same in `free_slot`: who sets the bit
                // before this is seen to have made room.
                word.fetch_and(!(1 << bit), AcqRel);
                if self.has_room(page, class) {
                    word.fetch_or(1 << bit, AcqRel);
                }
            }
        }
        None
    }

    /// A slot of a new page.
    fn first_slot(self, class: u32) -> Option<Block> {
        let page = self.take_pages(1)?;
        // Pairs with the acquire in `reserve`.
        self.word(self.states() + page)?.store(state_of(class, 1), Release);
        let block = self.claim(page, class, 0);
        self.tell_of(page, class);
        block
    }

    fn has_room(self, page: usize, class: u32) -> bool {
        self.word(self.states() + page).is_some_and(|state| {
            let state = state.load(Relaxed);
            state as u8 as u32 == class + 1 && state >> 8 < slots_of(class)
        })
    }

    /// Reserves a slot of a page: how many were in use before. None if it is full or of another class.
    fn reserve(self, page: usize, class: u32) -> Option<u64> {
        let state = self.word(self.states() + page)?;
        let mut old = state.load(Relaxed);
        while old as u8 as u32 == class + 1 && old >> 8 < slots_of(class) {
            // Pairs with the exchange in `free_slot`: the bit that was cleared is seen.
            match state.compare_exchange(old, old + (1 << 8), AcqRel, Relaxed) {
                Ok(_) => return Some(old >> 8),
                Err(now) => old = now,
            }
        }
        None
    }

    /// Finds the bit of a slot that was reserved; about as many are in use as `near` says.
    fn claim(self, page: usize, class: u32, near: u64) -> Option<Block> {
        let slots = slots_of(class) as usize;
        let words = slots.div_ceil(64);
        let mut at = near as usize / 64 % words;
        loop {
            let word = self.word(self.slots() + page * SLOT_WORDS + at)?;
            let mut old = word.load(Relaxed);
            while let Some(bit) = run_in(!old & ones(slots - at * 64), 1) {
                // Pairs with the release in `free_slot`.
                match word.compare_exchange(old, old | 1 << bit, Acquire, Relaxed) {
                    Ok(_) => {
                        let slot = at * 64 + bit as usize;
                        return Some(Block::new(page * PAGE + slot * class_units(class), class));
                    }
                    Err(now) => old = now,
                }
            }
            // There is one: no more are claimed than were reserved.
            at = (at + 1) % words;
        }
    }

    fn free_slot(self, page: usize, class: u32, slot: usize) {
        let (Some(bits), Some(state)) = (
            self.word(self.slots() + page * SLOT_WORDS + slot / 64),
            self.word(self.states() + page),
        ) else {
            return;
        };
        // Pairs with the acquire in `claim`: the next owner's writes come after this one's reads.
        bits.fetch_and(!(1 << (slot % 64)), Release);
        let mut old = state.load(Relaxed);
        loop {
            let is_last = old >> 8 == 1;
            let new = if is_last { 0 } else { old - (1 << 8) };
            // Pairs with that in `reserve`, and among frees: the last one has seen all bits cleared.
            match state.compare_exchange(old, new, AcqRel, Relaxed) {
                Ok(_) if is_last => return self.give_pages(page, 1),
                Ok(_) if old >> 8 == slots_of(class) => return self.tell_of(page, class),
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    /// Says that a page may have a free slot.
    fn tell_of(self, page: usize, class: u32) {
        if let Some(word) = self.word(self.partial(class) + page / 64) {
            word.fetch_or(1 << (page % 64), AcqRel);
        }
        if let Some(hint) = self.word(SLOT_HINTS + class as usize) {
            hint.store((page / 64) as u64, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
