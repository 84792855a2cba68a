//! Numbers drawn from a seed, for tests on the host and in kernels: the same seed, the same numbers.

/// A generator (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Numbers that depend on the seed and on what they are for.
    #[inline(always)]
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut this = Self(seed ^ purpose.wrapping_mul(0xD1B5_4A32_D192_ED03));
        this.next();
        this
    }

    /// Any number.
    #[inline(always)]
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Less than `limit`; 0 where that is 0.
    #[inline(always)]
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// From `least` to `most`.
    #[inline(always)]
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most.saturating_sub(least).saturating_add(1)).max(1)
    }

    /// Whether one time in `times`.
    #[inline(always)]
    pub fn once_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times.max(1))
    }

    /// One of them.
    #[inline(always)]
    pub fn pick<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[(self.next() % N as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Draw;

    #[test]
    fn the_same_seed_draws_the_same_and_stays_in_range() {
        let (mut one, mut other) = (Draw::new(7, 1), Draw::new(7, 1));
        for _ in 0..1000 {
            let number = one.between(3, 9);
            assert_eq!(number, other.between(3, 9));
            assert!((3..=9).contains(&number));
        }
        assert_ne!(Draw::new(7, 1).next(), Draw::new(7, 2).next());
        assert_eq!(one.between(5, 5), 5);
        assert!(one.once_in(1));
    }
}
