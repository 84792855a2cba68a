//! The threads that plan a call for their group: its first warp where that is whole, else its leader.

use crate::simt;

/// Those threads. All of them run the same code.
#[derive(Clone, Copy)]
pub(crate) struct Crew {
    whole: bool,
}

impl Crew {
    /// A whole warp, or the calling thread alone.
    #[inline(always)]
    pub(crate) const fn new(whole: bool) -> Self {
        Self { whole }
    }

    /// Whether it is a whole warp.
    #[inline(always)]
    pub(crate) const fn is_warp(self) -> bool {
        self.whole
    }

    /// The calling thread's place.
    #[inline(always)]
    pub(crate) fn lane(self) -> u32 {
        if self.whole { simt::lane() } else { 0 }
    }

    /// Whether the calling thread speaks for the group.
    #[inline(always)]
    pub(crate) fn leads(self) -> bool {
        self.lane() == 0
    }

    /// The word that the first thread brought.
    #[inline(always)]
    pub(crate) fn first(self, word: u64) -> u64 {
        if self.whole { simt::from_lane(word, 0) } else { word }
    }
}
