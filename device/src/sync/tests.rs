//! Atomics and locks on the host. Waits need a thread of a GPU: those are in the end-to-end suite.

#![allow(unsafe_code, reason = "names words of a test")]

use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::vec::Vec;

use super::{AtomicInteger, AtomicRef, Gpu, Lock, MemoryScope, RwLock, System, fence};
use crate::Shared;

const ORDERS: [Ordering; 5] = [Relaxed, Acquire, Release, AcqRel, SeqCst];

fn shared<T: Copy>(words: &mut [T]) -> Shared<T> {
    // SAFETY: the test's own words, which outlive what it does with them.
    unsafe { Shared::from_raw(words.as_mut_ptr(), words.len()) }
}

/// All calls with each ordering: none panics, and each does what it says.
fn calls<T, S>(word: AtomicRef<T>, number: impl Fn(u64) -> T)
where
    T: AtomicInteger + core::fmt::Debug,
    S: MemoryScope,
{
    let word = word.in_scope::<S>();
    for order in ORDERS {
        word.store(number(12), order);
        assert_eq!(word.load(order), number(12));
        assert_eq!(word.swap(number(10), order), number(12));
        assert_eq!(word.fetch_add(number(5), order), number(10));
        assert_eq!(word.fetch_sub(number(3), order), number(15));
        assert_eq!(word.fetch_and(number(6), order), number(12));
        assert_eq!(word.fetch_or(number(3), order), number(4));
        assert_eq!(word.fetch_xor(number(2), order), number(7));
        assert_eq!(word.fetch_max(number(9), order), number(5));
        assert_eq!(word.fetch_max(number(1), order), number(9));
        assert_eq!(word.fetch_min(number(2), order), number(9));
        assert_eq!(word.fetch_min(number(8), order), number(2));
        for failure in ORDERS {
            assert_eq!(word.compare_exchange(number(1), number(7), order, failure), Err(number(2)));
            assert_eq!(word.compare_exchange(number(2), number(2), order, failure), Ok(number(2)));
        }
        // Both wrap.
        assert_eq!(word.fetch_sub(number(3), order), number(2));
        assert_eq!(word.fetch_add(number(1), order), number(u64::MAX));
        assert_eq!(word.load(order), number(0));
        fence::<S>(order);
    }
}

#[test]
fn words_of_either_size_in_either_scope() {
    let (mut narrow, mut wide) = ([0_u32; 3], [0_u64; 3]);
    let (narrow, wide) = (shared(&mut narrow), shared(&mut wide));
    let (first, second) = (narrow.atomic(1).expect("there"), wide.atomic(1).expect("there"));
    calls::<u32, Gpu>(first, |number| number as u32);
    calls::<u32, System>(first, |number| number as u32);
    calls::<u64, Gpu>(second, |number| number);
    calls::<u64, System>(second, |number| number);
    // Their neighbours are as they were.
    assert_eq!([narrow.get(0), narrow.get(2)], [Some(0); 2]);
    assert_eq!([wide.get(0), wide.get(2)], [Some(0); 2]);
}

#[test]
fn there_is_nothing_beyond_the_end() {
    let mut words = [0_u32; 4];
    let words = shared(&mut words);
    assert!(words.atomic(3).is_some());
    assert_eq!(words.atomic(4), None);
    assert_eq!(words.slice(4, 1).atomic(0), None);
    assert_eq!(Shared::<u64>::EMPTY.atomic(0), None);
}

#[test]
fn a_lock_is_held_until_its_guard_goes() {
    let mut word = [0_u32];
    let lock = Lock::new(shared(&mut word).atomic(0).expect("there"));
    let guard = lock.try_lock().expect("it is free");
    assert!(lock.is_held() && lock.try_lock().is_none() && lock.lock(0).is_none());
    drop(guard);
    // Kept without a guard, and released by hand.
    let kept = lock.lock(0).expect("it is free").into_raw();
    assert!(kept.is_held() && lock.try_lock().is_none());
    kept.release();
    assert!(!lock.is_held() && lock.try_lock().is_some());
}

#[test]
fn readers_share_and_a_writer_does_not() {
    let mut word = [0_u32];
    let word = shared(&mut word).atomic(0).expect("there");
    let lock = RwLock::new(word);
    let first = lock.try_read().expect("it is free");
    let second = lock.read(0).expect("readers share");
    assert!(lock.try_write().is_none() && lock.write(0).is_none());
    drop(first);
    assert!(lock.try_write().is_none());
    second.into_raw().release_read();
    let writer = lock.try_write().expect("it is free");
    assert!(lock.try_read().is_none() && lock.read(0).is_none() && lock.try_write().is_none());
    drop(writer);
    lock.write(0).expect("it is free").into_raw().release_write();
    // Nothing is left of any of them.
    assert_eq!(word.load(Relaxed), 0);
}

#[test]
fn a_writer_that_waits_keeps_new_readers_out() {
    let mut word = [0_u32];
    let word = shared(&mut word).atomic(0).expect("there");
    let lock = RwLock::new(word);
    let reader = lock.try_read().expect("it is free");
    word.fetch_or(super::rwlock::WRITER_WAITS, Relaxed);
    assert!(lock.try_read().is_none());
    drop(reader);
    assert!(lock.try_read().is_none());
    // The writer comes in, and with it goes what kept readers out.
    drop(lock.try_write().expect("nobody holds it"));
    assert!(lock.try_read().is_some());
    assert_eq!(word.load(Relaxed), 0);
}

#[test]
fn threads_count_and_lock_exactly() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 5_000;
    let (mut words, mut totals) = ([0_u32; 3], [0_u64; 3]);
    let (words, totals) = (shared(&mut words), shared(&mut totals));
    let work = move || {
        let lock = Lock::new(words.atomic(0).expect("there"));
        let rw = RwLock::new(words.atomic(1).expect("there"));
        for _ in 0..ROUNDS {
            words.atomic(2).expect("there").fetch_add(1, Relaxed);
            let guard = core::iter::repeat_with(|| lock.try_lock()).flatten().next();
            totals.set(0, totals.get(0).expect("there") + 1);
            drop(guard);
            let guard = core::iter::repeat_with(|| rw.try_write()).flatten().next();
            totals.set(1, totals.get(1).expect("there") + 1);
            totals.set(2, totals.get(2).expect("there") + 1);
            drop(guard);
            let guard = core::iter::repeat_with(|| rw.try_read()).flatten().next();
            assert_eq!(totals.get(1), totals.get(2));
            drop(guard);
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|_| std::thread::spawn(work)).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
    assert_eq!([0, 1, 2].map(|at| totals.get(at)), [Some(THREADS * ROUNDS); 3]);
    assert_eq!([0, 1, 2].map(|at| words.get(at)), [0, 0, THREADS * ROUNDS].map(|n| Some(n as u32)));
}
