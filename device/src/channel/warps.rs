//! A group all of whose warps are whole, as the fast ways have it: barriers and votes are one instruction
//! each, and its first warp plans for all.

#![allow(unsafe_code, reason = "words in shared memory")]

use crate::abi::layout::RECORD_WORDS;
use crate::group::{AnyGroup, GroupKind};
use crate::simt;
use crate::socket::RecordLine;

/// Words of a block's scratch memory, behind those of a line: a plan ...
const PLAN: u32 = RECORD_WORDS as u32;
/// ... and what threads have agreed on.
const AGREED: u32 = PLAN + 2;

const _: () = assert!((AGREED as usize) < simt::SCRATCH_WORDS && PLAN.is_multiple_of(2));

/// Such a group, as a thread of it sees it.
#[derive(Clone, Copy)]
pub(crate) struct Warps {
    /// The thread's place in the group.
    pub(crate) rank: u32,
    /// Threads of the group.
    pub(crate) size: u32,
    /// Whether it is a block of several warps.
    many: bool,
}

impl Warps {
    /// A group, if all its warps are whole.
    #[inline(always)]
    pub(crate) fn of(group: AnyGroup) -> Option<Self> {
        let (kind, threads) = (group.kind(), simt::block_threads());
        let warp = Self { rank: simt::lane(), size: simt::WARP, many: false };
        if kind == GroupKind::Block && threads == simt::WARP {
            return Some(warp);
        }
        let thread = simt::position().thread;
        // The last warp of a block may not be whole.
        let rest = threads - (thread & !(simt::WARP - 1));
        match kind {
            GroupKind::Warp if rest >= simt::WARP => Some(warp),
            GroupKind::Block if threads.is_multiple_of(simt::WARP) => {
                Some(Self { rank: thread, size: threads, many: true })
            }
            _ => None,
        }
    }

    /// Waits for all threads.
    #[inline(always)]
    pub(crate) fn barrier(self) {
        if self.many {
            simt::whole_block_barrier();
        } else {
            simt::whole_warp_barrier();
        }
    }

    /// Whether the calling thread is one of those that plan.
    #[inline(always)]
    pub(crate) fn plans(self) -> bool {
        self.rank < simt::WARP
    }

    /// Gives all threads the plan that was made, and the socket's line, or none. All have met at a barrier
    /// since the last time.
    #[inline(always)]
    pub(crate) fn share(self, plan: [u64; 2], line: RecordLine) -> ([u64; 2], RecordLine) {
        if !self.many {
            return (plan, line);
        }
        // SAFETY: there is room, and between these barriers only these threads touch it.
        unsafe {
            if self.rank < RECORD_WORDS as u32 {
                simt::keep_word(self.rank, line.word());
            }
            if self.rank == 0 {
                simt::keep_two(PLAN, plan);
            }
        }
        simt::whole_block_barrier();
        // SAFETY: nobody writes before the next barrier.
        unsafe {
            (simt::kept_two(PLAN), RecordLine::of(simt::kept_word(RecordLine::place() as u32)))
        }
    }

    /// The same of a plan alone.
    #[inline(always)]
    pub(crate) fn share_plan(self, plan: [u64; 2]) -> [u64; 2] {
        if !self.many {
            return plan;
        }
        if self.rank == 0 {
            // SAFETY: as above.
            unsafe { simt::keep_two(0, plan) };
        }
        simt::whole_block_barrier();
        // SAFETY: as above.
        unsafe { simt::kept_two(0) }
    }

    /// Whether all threads say yes, and the word of the first one. Also a barrier.
    #[inline(always)]
    pub(super) fn agree(self, yes: bool, word: u64) -> (bool, u64) {
        if !self.many {
            simt::whole_warp_barrier();
            return (!simt::any_lane(!yes), simt::from_lane(word, 0));
        }
        // Behind line and plan, which other threads may still read.
        // SAFETY: there is room; all threads meet between this store and the loads, and before the next.
        unsafe {
            if self.rank == 0 {
                simt::keep_word(AGREED, word);
            }
            let any = simt::any(simt::Scope::Block, !yes);
            // Lanes leave the barrier as they came to it.
            simt::come_together();
            (!any, simt::kept_word(AGREED))
        }
    }
}
