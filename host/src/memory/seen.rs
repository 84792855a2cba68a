//! Words that the GPU writes, as a proxy thread last saw them.
//!
//! A thread looks at thousands of them in a turn, of which mostly none has changed, and after a sleep
//! its caches have gone cold. So it keeps a sum over each group of words and, where that is the same,
//! reads nothing but the GPU's words. The factors of a sum are drawn at random: kernels cannot choose
//! words whose changes cancel out.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;

use gpunet_device::abi::word::{self, Word};

/// Words of a group.
const GROUP: usize = 64;

/// An array of words in memory that the GPU writes.
pub(crate) struct GpuWords<'a> {
    start: *mut u64,
    count: usize,
    memory: std::marker::PhantomData<&'a ()>,
}

impl GpuWords<'_> {
    /// # Safety
    /// So many words from there on are valid and aligned for as long as the lifetime says.
    pub(super) unsafe fn new(start: *mut u64, count: usize) -> Self {
        Self { start, count, memory: std::marker::PhantomData }
    }

    /// Loads one of them.
    fn load(&self, at: usize) -> u64 {
        debug_assert!(at < self.count);
        // SAFETY: inside the array, as `SeenWords::compare` has checked.
        unsafe { Word::at(self.start.add(at)) }.load()
    }
}

/// See the module.
pub(crate) struct SeenWords {
    words: Vec<u64>,
    /// Of each group; none where it must be made anew.
    sums: Vec<Option<u64>>,
    factors: Box<[u64; GROUP]>,
}

impl SeenWords {
    /// So many, all zero.
    pub(crate) fn new(count: usize) -> Self {
        let random = RandomState::new();
        let factors = std::array::from_fn(|at| random.hash_one(at) | 1);
        let (words, sums) = (vec![0; count], vec![None; count.div_ceil(GROUP)]);
        Self { words, sums, factors: Box::new(factors) }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Takes a word for seen.
    pub(crate) fn set(&mut self, at: usize, word: u64) {
        self.words[at] = word;
        self.sums[at / GROUP] = None;
    }

    /// Compares a part of them with those of the GPU; what has changed goes into `changed` with its place
    /// and its new value.
    pub(crate) fn compare(
        &mut self,
        gpu: &GpuWords<'_>,
        part: Range<usize>,
        changed: &mut Vec<(usize, u64)>,
    ) {
        assert!(part.start <= part.end && part.end <= gpu.count.min(self.words.len()));
        let before = changed.len();
        let mut at = part.start;
        while at < part.end {
            let group = at / GROUP;
            let end = ((group + 1) * GROUP).min(part.end);
            let is_whole =
                at.is_multiple_of(GROUP) && end == ((group + 1) * GROUP).min(self.words.len());
            if is_whole && self.sums[group].is_some_and(|sum| sum == self.sum(gpu, at..end)) {
                at = end;
                continue;
            }
            for at in at..end {
                let now = gpu.load(at);
                if now != self.words[at] {
                    self.words[at] = now;
                    self.sums[group] = None;
                    changed.push((at, now));
                }
            }
            if is_whole && self.sums[group].is_none() {
                let words = self.words[at..end].iter().zip(self.factors.iter());
                let add = |sum: u64, (word, factor): (&u64, &u64)| {
                    sum.wrapping_add(word.wrapping_mul(*factor))
                };
                self.sums[group] = Some(words.fold(0, add));
            }
            at = end;
        }
        if changed.len() > before {
            // Acquire, for all of them: who sees a counter sees what was written before it.
            word::acquire_fence();
        }
    }

    /// The sum over a group as the GPU has it now.
    fn sum(&self, gpu: &GpuWords<'_>, group: Range<usize>) -> u64 {
        let places = group.zip(self.factors.iter());
        places.fold(0, |sum, (at, factor)| sum.wrapping_add(gpu.load(at).wrapping_mul(*factor)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(seen: &mut SeenWords, words: &mut [u64], part: Range<usize>) -> Vec<(usize, u64)> {
        // SAFETY: the words live on, and nobody else writes them.
        let gpu = unsafe { GpuWords::new(words.as_mut_ptr(), words.len()) };
        let mut changed = Vec::new();
        seen.compare(&gpu, part, &mut changed);
        changed
    }

    #[test]
    fn every_change_is_found_once() {
        for count in [1, 63, 64, 65, 200] {
            let (mut seen, mut words) = (SeenWords::new(count), vec![0; count]);
            for round in 1..=3 {
                for at in 0..count {
                    words[at] = round * 1000 + at as u64;
                    assert_eq!(compared(&mut seen, &mut words, 0..count), [(at, words[at])]);
                    assert!(compared(&mut seen, &mut words, 0..count).is_empty());
                }
            }
        }
    }

    #[test]
    fn parts_find_what_lies_in_them() {
        let (mut seen, mut words) = (SeenWords::new(300), vec![0; 300]);
        compared(&mut seen, &mut words, 0..300);
        (words[10], words[70], words[299]) = (1, 2, 3);
        assert!(compared(&mut seen, &mut words, 11..70).is_empty());
        assert_eq!(compared(&mut seen, &mut words, 70..71), [(70, 2)]);
        assert_eq!(compared(&mut seen, &mut words, 0..300), [(10, 1), (299, 3)]);
        assert!(compared(&mut seen, &mut words, 0..300).is_empty());
    }

    #[test]
    fn a_word_that_is_set_is_compared() {
        let (mut seen, mut words) = (SeenWords::new(128), vec![5; 128]);
        assert_eq!(compared(&mut seen, &mut words, 0..128).len(), 128);
        seen.set(7, 6);
        assert_eq!(compared(&mut seen, &mut words, 0..128), [(7, 5)]);
        seen.set(7, 5);
        assert!(compared(&mut seen, &mut words, 0..128).is_empty());
    }

    #[test]
    fn changes_do_not_cancel_out() {
        let (mut seen, mut words) = (SeenWords::new(64), vec![1 << 40; 64]);
        compared(&mut seen, &mut words, 0..64);
        // A sum of the words would be the same.
        (words[3], words[40]) = ((1 << 40) + 64, (1 << 40) - 64);
        assert_eq!(compared(&mut seen, &mut words, 0..64).len(), 2);
    }
}
