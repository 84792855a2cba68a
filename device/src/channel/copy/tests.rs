//! Copies of all alignments and many lengths, by groups whose threads the test runs one after the other,
//! and by warps whose lanes are OS threads that pass lines to each other.

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::Arc;
use std::thread;
use std::vec;
use std::vec::Vec;

use super::{from_ring, lines_in, lines_out, to_ring};
use crate::simt::WARP;
use crate::simt::emulated::lanes::Exchange;

/// Bytes around the target that must stay as they are.
const MARGIN: usize = 48;
/// What they are.
const UNTOUCHED: u8 = 0xA5;

/// A place in `memory` that is `offset` behind a line's beginning.
fn aligned(memory: &[u8], offset: usize) -> usize {
    MARGIN + memory.as_ptr().align_offset(16) + offset
}

/// Bytes of one copy, and where it begins behind a line in both ranges.
#[derive(Clone, Copy, Debug)]
struct Case {
    copy: Direction,
    source_offset: usize,
    target_offset: usize,
    length: usize,
}

impl Case {
    /// Copies with `run`, which calls what it is given for each rank, and looks at the target.
    fn check(self, run: impl FnOnce(&(dyn Fn(u32, u32) + Sync))) {
        let Self { copy, source_offset, target_offset, length } = self;
        let source: Vec<u8> =
            (0..length + 3 * MARGIN).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut target = vec![UNTOUCHED; length + 3 * MARGIN];
        let (from, to) = (aligned(&source, source_offset), aligned(&target, target_offset));
        let (first, first_to) =
            (source[from..].as_ptr().expose_provenance(), target[to..].as_mut_ptr());
        let first_to = first_to.expose_provenance();
        run(&|rank, size| {
            let (from, to) =
                (with_exposed_provenance(first), with_exposed_provenance_mut(first_to));
            // SAFETY: both ranges, and the lines around them, lie in the two vectors.
            unsafe {
                match copy {
                    Direction::FromRing => from_ring(rank, size, from, to, length as u32),
                    Direction::ToRing => to_ring(rank, size, from, to, length as u32),
                    Direction::LinesOut => lines_out(rank, size, from, to, length as u32),
                    Direction::LinesIn => lines_in(rank, size, from, to, length as u32),
                }
            }
        });
        assert!(target[to..to + length] == source[from..from + length], "{self:?}");
        let around = target[..to].iter().chain(&target[to + length..]);
        assert!(around.copied().all(|byte| byte == UNTOUCHED), "{self:?} wrote beyond its range");
    }
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    FromRing,
    ToRing,
    /// Where both begin with a line.
    LinesOut,
    LinesIn,
}

fn check(copy: Direction, source_offset: usize, target_offset: usize, length: usize, size: u32) {
    let one_by_one =
        |thread: &(dyn Fn(u32, u32) + Sync)| (0..size).for_each(|rank| thread(rank, size));
    Case { copy, source_offset, target_offset, length }.check(one_by_one);
}

#[test]
fn all_alignments_and_lengths_are_copied_and_nothing_else() {
    let lengths = || (0..=80).chain([127, 128, 500, 1_023, 2_048, 4_099]);
    for copy in [Direction::FromRing, Direction::ToRing] {
        for (source_offset, target_offset) in (0..16).flat_map(|a| (0..16).map(move |b| (a, b))) {
            for (length, size) in lengths().flat_map(|l| [1, 5, 32, 64].map(|size| (l, size))) {
                check(copy, source_offset, target_offset, length, size);
            }
        }
    }
}

#[test]
fn long_copies_by_large_groups() {
    for copy in [Direction::FromRing, Direction::ToRing] {
        for (source_offset, target_offset) in [(0, 0), (5, 5), (0, 1), (3, 12), (15, 14), (8, 0)] {
            for (length, size) in [(65_483, 256), (65_536, 1_024), (200_003, 33), (100_000, 1_000)]
            {
                check(copy, source_offset, target_offset, length, size);
            }
        }
    }
}

#[test]
fn copies_that_begin_with_a_line_end_anywhere() {
    let lengths =
        || (0..=80).chain([500, 511, 512, 513, 1_023, 4_096, 4_099, 32_715, 65_536, 200_003]);
    for copy in [Direction::LinesOut, Direction::LinesIn] {
        for (length, size) in lengths().flat_map(|l| [32, 64, 128, 1_024].map(|size| (l, size))) {
            check(copy, 0, 0, length, size);
        }
    }
}

#[test]
fn lanes_of_whole_warps_pass_lines() {
    for (at, (source_offset, target_offset)) in
        (0..16).flat_map(|a| (0..16).map(move |b| (a, b))).enumerate()
    {
        let copy = if at % 3 == 0 { Direction::FromRing } else { Direction::ToRing };
        for (length, size) in [(20 + at, 32), (2_000 + at, 32), (6_000 + 3 * at, 64)] {
            let warps: Vec<_> = (0..size / WARP).map(|_| Exchange::new()).collect();
            Case { copy, source_offset, target_offset, length }.check(|thread| {
                thread::scope(|scope| {
                    for rank in 0..size {
                        let warp = Arc::clone(&warps[(rank / WARP) as usize]);
                        scope.spawn(move || {
                            warp.join(rank % WARP);
                            thread(rank, size);
                        });
                    }
                });
            });
        }
    }
}
