//! What a seed draws.

use crate::gpu::emulated::random::SplitMix;

/// Draws numbers.
pub(super) struct Draw(pub(super) SplitMix);

impl Draw {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0.next() % limit.max(1)
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    pub(super) fn split(&mut self) -> SplitMix {
        SplitMix(self.0.next())
    }
}
