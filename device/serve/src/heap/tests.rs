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
    for units in 1..=class_units(CLASSES as u32 - 1) {
        let class = class_of(units);
        assert!(class_units(class) >= units);
        assert!(class == 0 || class_units(class - 1) < units);
    }
    assert!(MOST > (1 << 20) + 4096, "a value of 1 MiB with its key has to fit");
}

#[test]
fn a_full_heap_says_so_and_serves_what_was_freed() {
    let heap = Heap::new(region(64 << 10));
    let mut blocks = Vec::new();
    while let Some(block) = heap.allocate(100) {
        blocks.push(block);
    }
    assert_eq!(blocks.len(), ((64 << 10) - HEADER) / 128);
    assert!(heap.used() <= heap.capacity());
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
fn no_block_belongs_to_two_threads() {
    const THREADS: usize = 4;
    let heap = Heap::new(region(1 << 20));
    let allocated = AtomicUsize::new(0);
    let kept: Vec<Vec<Block>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|id| {
                let allocated = &allocated;
                scope.spawn(move || {
                    let mut mine: Vec<Block> = Vec::new();
                    for round in 0..20_000_usize {
                        if let Some(block) = heap.allocate(1 + (round * 37 + id) % 700) {
                            let mark = (id as u64) << 32 | round as u64;
                            heap.memory(block).cast::<u64>().set(5, mark);
                            allocated.fetch_add(1, Ordering::Relaxed);
                            mine.push(block);
                            assert_eq!(heap.memory(block).cast::<u64>().get(5), Some(mark));
                        }
                        if mine.len() > 50 {
                            heap.free(mine.swap_remove(round % 50));
                        }
                    }
                    mine
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).collect()
    });
    assert!(allocated.load(Ordering::Relaxed) > THREADS * 10_000);
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
}
