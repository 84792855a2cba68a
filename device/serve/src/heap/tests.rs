//! The heap on the CPU: real threads stand for blocks.

#![allow(unsafe_code, reason = "names memory of the test")]

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::vec::Vec;

use super::*;

fn region(bytes: usize) -> SharedBuf {
    let words: &'static mut [[u64; 8]] = Vec::leak(std::vec![[0; 8]; bytes.div_ceil(64)]);
    // SAFETY: leaked memory, which only the heap reaches.
    unsafe { SharedBuf::from_raw(words.as_mut_ptr().cast(), bytes) }
}

#[test]
fn classes_grow_by_half_or_a_third_and_cover_every_size() {
    let sizes: Vec<usize> = (0..8).map(class_units).collect();
    assert_eq!(sizes, [1, 2, 3, 4, 6, 8, 12, 16]);
    for units in 1..=MOST / UNIT {
        let class = class_of(units).expect("a class");
        assert!(class_units(class) >= units);
        let smaller = class & !PAGES > u32::from(class & PAGES != 0);
        assert!(!smaller || class_units(class - 1) < units);
    }
    assert_eq!(class_of(MOST / UNIT + 1), None);
    const { assert!(MOST > (1 << 20) + 4096, "a value of 1 MiB with its key has to fit") };
}

#[test]
fn rows_of_bits_are_found() {
    assert_eq!(run_in(0, 1), None);
    assert_eq!(run_in(0b1000, 1), Some(3));
    assert_eq!(run_in(0b1011_0111_0100, 3), Some(4));
    assert_eq!(run_in(0b1011_0111_0100, 4), None);
    assert_eq!(run_in(u64::MAX, 64), Some(0));
    assert_eq!(run_in(u64::MAX << 31, 33), Some(31));
    assert_eq!(run_in(u64::MAX << 32, 33), None);
}

#[test]
fn all_of_a_region_is_used_and_nothing_beyond() {
    for bytes in [0, 64, 4096, 65_536, 100_000, 1 << 20, (5 << 20) + 64, 9 << 20] {
        let heap = Heap::new(region(bytes));
        assert!(heap.header() + heap.capacity() as usize <= bytes || heap.pages == 0, "{bytes}");
        assert!(heap.capacity() as usize + 140_000 > bytes, "{bytes}");
        let mut blocks = Vec::new();
        while let Some(block) = heap.allocate(PAGE * UNIT) {
            assert_eq!(heap.memory(block).len(), PAGE * UNIT);
            blocks.push(block);
        }
        assert_eq!(blocks.len(), heap.pages, "{bytes}");
        let made = Heap::new(region(Heap::bytes(bytes)));
        assert!((bytes..bytes + PAGE * UNIT).contains(&(made.capacity() as usize)), "{bytes}");
    }
}

#[test]
fn a_full_heap_says_so_and_serves_what_was_freed() {
    let heap = Heap::new(region(1 << 20));
    let mut blocks = Vec::new();
    while let Some(block) = heap.allocate(100) {
        blocks.push(block);
    }
    assert_eq!(blocks.len() as u64, heap.capacity() / 128);
    assert_eq!(heap.used(), heap.capacity());
    assert_eq!(heap.allocate(1), None);
    heap.free(blocks[3]);
    assert_eq!(
        heap.allocate(64),
        Some(blocks[3]),
        "a larger block serves when nothing else is left"
    );
    assert_eq!(heap.allocate(MOST + 1), None);
    assert_eq!(heap.allocate(usize::MAX), None);
}

#[test]
fn what_blocks_of_one_size_had_serves_all_others() {
    let heap = Heap::new(region(8 << 20));
    for bytes in [64, 1 << 20, 192, 40_000, 20_000, MOST, 1, 300_000] {
        let mut blocks = Vec::new();
        while let Some(block) = heap.allocate(bytes) {
            blocks.push(block);
        }
        let had = heap.used() as usize;
        assert!(had * 2 > heap.capacity() as usize, "{had} bytes in blocks of {bytes}");
        // Not in the order in which they were made.
        let (even, odd): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| block.unit() % 2 == 0);
        even.into_iter().chain(odd).for_each(|block| heap.free(block));
        assert_eq!(heap.used(), 0);
        assert_eq!(heap.word(USED_PAGES).map(|used| used.load(Relaxed)), Some(0));
    }
}

#[test]
fn no_block_belongs_to_two_threads() {
    no_block_is_shared(1 << 20, 700, 20_000);
    no_block_is_shared(8 << 20, 40_000, 20_000);
    no_block_is_shared(16 << 20, 300_000, 5000);
}

/// Threads allocate blocks of up to so many bytes.
fn no_block_is_shared(bytes: usize, most: usize, rounds: usize) {
    const THREADS: usize = 4;
    let heap = Heap::new(region(bytes));
    let allocated = AtomicUsize::new(0);
    let kept: Vec<Vec<Block>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|id| {
                let allocated = &allocated;
                scope.spawn(move || {
                    let mut mine: Vec<Block> = Vec::new();
                    for round in 0..rounds {
                        let block = heap.allocate(1 + (round * 3701 + id) % most);
                        let is_full = block.is_none();
                        if let Some(block) = block {
                            let mark = (id as u64) << 32 | round as u64;
                            heap.memory(block).cast::<u64>().set(5, mark);
                            heap.memory(block).cast::<u64>().set(0, mark);
                            allocated.fetch_add(1, Ordering::Relaxed);
                            mine.push(block);
                            assert_eq!(heap.memory(block).cast::<u64>().get(5), Some(mark));
                        }
                        if mine.len() > 50 || is_full && !mine.is_empty() {
                            let block = mine.swap_remove(round % mine.len());
                            let words = heap.memory(block).cast::<u64>();
                            assert_eq!(words.get(0), words.get(5), "another has written");
                            heap.free(block);
                        }
                    }
                    mine
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).collect()
    });
    assert!(allocated.load(Ordering::Relaxed) > THREADS * rounds / 4);
    let mut seen = HashSet::new();
    for block in kept.iter().flatten() {
        for unit in 0..class_units(block.class()) {
            assert!(seen.insert(block.unit() + unit), "{block:?} overlaps another");
        }
    }
    for block in kept.into_iter().flatten() {
        heap.free(block);
    }
    assert_eq!(heap.used(), 0);
    assert_eq!(heap.word(USED_PAGES).map(|used| used.load(Relaxed)), Some(0));
}
