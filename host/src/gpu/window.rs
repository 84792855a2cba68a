//! The range of addresses in which all arenas of one kind of GPU lie, so that kernels name a place
//! by its offset. Reserved once in a process and never given up; pieces of it are handed out first
//! fit, and join their neighbours when they come back.
//!
//! The backends reserve the range and map memory into the pieces; here are only numbers.

use std::ops::{Range, RangeInclusive};
use std::sync::Mutex;

use rustix::process::{Resource, getrlimit};

use super::MemoryError;
use crate::lock::lock;

/// Where kernels of this process find all arenas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArenaWindow {
    /// Address for kernels, page aligned.
    pub(crate) base: *mut u8,
    /// At most 2^44, so that the numbers of its pages fit 32 bits.
    pub(crate) bytes: u64,
}

// SAFETY: an address and a length; nothing here dereferences it.
unsafe impl Send for ArenaWindow {}
// SAFETY: as above.
unsafe impl Sync for ArenaWindow {}

/// A window that is reserved when it is first needed.
pub(super) struct Reserved(Mutex<Option<&'static Window>>);

impl Reserved {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The window. `reserve` is asked for powers of two of bytes, the largest exponent first,
    /// until it succeeds. A process whose addresses are limited needs most of them for other things.
    pub(super) fn get(
        &self,
        exponents: RangeInclusive<u32>,
        mut reserve: impl FnMut(usize) -> Result<*mut u8, MemoryError>,
    ) -> Result<&'static Window, MemoryError> {
        let mut window = lock(&self.0);
        if let Some(window) = *window {
            return Ok(window);
        }
        let most = getrlimit(Resource::As).current.map_or(u64::MAX, |limit| limit / 4);
        let mut refused = None;
        for exponent in exponents.rev().filter(|exponent| 1 << exponent <= most) {
            match reserve(1 << exponent) {
                Ok(base) => {
                    let reserved = Window::new(ArenaWindow { base, bytes: 1 << exponent });
                    // Leaked on purpose: kernels may hold offsets until the process ends.
                    return Ok(*window.insert(Box::leak(Box::new(reserved))));
                }
                Err(error) => refused = Some(error),
            }
        }
        let why = "the limit of addresses is too low (ulimit -v unlimited)".to_owned();
        Err(refused.unwrap_or(MemoryError::Refused { what: "address space", asked: 0, why }))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Window {
    whole: ArenaWindow,
    gaps: Mutex<Gaps>,
}

impl Window {
    fn new(whole: ArenaWindow) -> Self {
        let everything = 0..whole.bytes;
        Self { whole, gaps: Mutex::new(Gaps(vec![everything])) }
    }

    pub(super) fn whole(&self) -> ArenaWindow {
        self.whole
    }

    /// A piece that nobody has. Offsets are sums of sizes: a backend that asks for whole pages only
    /// gets whole pages.
    pub(super) fn allocate(&'static self, bytes: usize) -> Result<AddressRange, MemoryError> {
        let mut gaps = lock(&self.gaps);
        match gaps.take(bytes as u64) {
            Some(offset) => Ok(AddressRange { window: self, offset, bytes, abandoned: false }),
            None => Err(MemoryError::WindowFull { asked: bytes, left: gaps.largest() }),
        }
    }
}

/// A piece of the window; dropped, others can have it.
#[derive(Debug)]
pub(super) struct AddressRange {
    window: &'static Window,
    offset: u64,
    bytes: usize,
    abandoned: bool,
}

impl AddressRange {
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.window.whole.base.wrapping_add(self.offset as usize)
    }

    /// Nobody gets these addresses again: what lies there is not known any more.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        if !self.abandoned {
            lock(&self.window.gaps).give(self.offset..self.offset + self.bytes as u64);
        }
    }
}

/// What is free: ranges in order that neither touch nor are empty.
#[derive(Debug)]
struct Gaps(Vec<Range<u64>>);

impl Gaps {
    /// The start of the first gap that is large enough.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let index = self.0.iter().position(|gap| gap.end - gap.start >= bytes)?;
        let gap = &mut self.0[index];
        let start = gap.start;
        gap.start += bytes;
        if gap.is_empty() {
            self.0.remove(index);
        }
        Some(start)
    }

    /// Takes back what `take` gave.
    fn give(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let after = self.0.partition_point(|gap| gap.start < range.start);
        let joins_next = self.0.get(after).is_some_and(|next| next.start == range.end);
        let joins_last = after > 0 && self.0[after - 1].end == range.start;
        match (joins_last, joins_next) {
            (true, true) => self.0[after - 1].end = self.0.remove(after).end,
            (true, false) => self.0[after - 1].end = range.end,
            (false, true) => self.0[after].start = range.start,
            (false, false) => self.0.insert(after, range),
        }
    }

    fn largest(&self) -> u64 {
        self.0.iter().map(|gap| gap.end - gap.start).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_window_shrinks_until_it_fits() {
        static WINDOW: Reserved = Reserved::new();
        let refuse =
            |bytes| Err(MemoryError::Refused { what: "x", asked: bytes, why: String::new() });
        let error = WINDOW.get(12..=14, refuse).unwrap_err();
        assert!(matches!(error, MemoryError::Refused { asked: 4096, .. }), "{error}");
        let small = |bytes: usize| {
            if bytes > 1 << 13 { refuse(bytes) } else { Ok(ptr::without_provenance_mut(4096)) }
        };
        assert_eq!(WINDOW.get(12..=14, small).unwrap().whole().bytes, 1 << 13);
        // Not reserved twice.
        assert_eq!(WINDOW.get(12..=14, refuse).unwrap().whole().bytes, 1 << 13);
    }

    #[test]
    fn a_full_window_says_what_is_left() {
        static WINDOW: Reserved = Reserved::new();
        let base = |_| Ok(ptr::without_provenance_mut(1 << 20));
        let window = WINDOW.get(14..=14, base).unwrap();
        let first = window.allocate(4096).unwrap();
        let mut second = window.allocate(8192).unwrap();
        assert_eq!((first.offset(), second.offset(), second.bytes()), (0, 4096, 8192));
        assert_eq!(second.address().addr(), (1 << 20) + 4096);
        let error = window.allocate(8192).unwrap_err();
        assert!(matches!(error, MemoryError::WindowFull { asked: 8192, left: 4096 }), "{error}");
        drop(first);
        assert_eq!(window.allocate(4096).unwrap().offset(), 0);
        second.abandon();
        drop(second);
        assert!(window.allocate(8192).is_err());
    }

    proptest! {
        /// Against a map of units: pieces never overlap, first fit is kept, and when all have come
        /// back the window is one gap again.
        #[test]
        fn pieces_never_overlap(
            steps in prop::collection::vec((any::<bool>(), 1..20_u64, any::<prop::sample::Index>()), 1..200)
        ) {
            const UNITS: u64 = 64;
            let whole = 0..UNITS;
            let mut gaps = Gaps(vec![whole.clone()]);
            let mut taken = [false; UNITS as usize];
            let mut held: Vec<Range<u64>> = Vec::new();
            for (take, size, which) in steps {
                if take || held.is_empty() {
                    let free = |start: &u64| {
                        taken[*start as usize..(*start + size) as usize].iter().all(|unit| !unit)
                    };
                    let expected = (0..=UNITS - size).find(free);
                    prop_assert_eq!(gaps.take(size), expected);
                    if let Some(start) = expected {
                        taken[start as usize..(start + size) as usize].fill(true);
                        held.push(start..start + size);
                    }
                } else {
                    let range = held.swap_remove(which.index(held.len()));
                    taken[range.start as usize..range.end as usize].fill(false);
                    gaps.give(range);
                }
                let free = taken.iter().filter(|unit| !**unit).count() as u64;
                prop_assert_eq!(gaps.0.iter().map(|gap| gap.end - gap.start).sum::<u64>(), free);
                prop_assert!(gaps.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
            held.into_iter().for_each(|range| gaps.give(range));
            prop_assert_eq!(gaps.0, [whole]);
        }
    }
}
