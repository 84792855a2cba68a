//! Groups of threads that make a call together: a block, a warp, a single thread.
//!
//! Every call is cooperative: all threads of the group make it with the same arguments, and all
//! get the same result. The group's first thread, its leader, sends requests to the proxy; all of them
//! copy. The emulated GPU reports threads that do not keep to this.
//!
//! # What the calls of a group order
//! "Visible" is said of shared and of global memory, and of the threads of the group alone. Threads of
//! other groups need an atomic or a lock ([`crate::sync`]), the CPU an atomic of system scope.
//!
//! | call | who runs the closure | a thread returns once | what is visible behind it, to all threads of the group |
//! | --- | --- | --- | --- |
//! | [`Group::barrier`] | | all have called | what each of them did before the call |
//! | [`Group::broadcast`] | | all have called | what each of them did before the call |
//! | [`Group::leader_only`] | the leader alone, once all have called | it has run | the same, and what the closure did; to the closure, what all did before |
//! | [`Group::in_first_warp`] | **all threads of the first warp**, once all have called | they have run it | the same, and what the closures did; to the closures, what all did before |
//! | [`Group::any`], block | | all have called | what each of them did before the call |
//! | [`Group::any`], warp | | all have called | **nothing more than before**: a vote orders no memory |
//!
//! | call | block | warp |
//! | --- | --- | --- |
//! | `barrier` | `barrier.sync`, `bar.warp.sync` | `bar.warp.sync` |
//! | `broadcast` | barrier; the leader stores the words in shared memory; barrier; all load them | barrier; `shfl.sync` |
//! | `leader_only`, `in_first_warp` | barrier; the closure; as `broadcast` without its first barrier | barrier; the closure; as `broadcast` |
//! | `any` | `barrier.red.or` | `vote.any.sync` |
//!
//! In a group of one thread they do nothing but run the closure.

use crate::simt::{self, Scope, WARP};

/// Threads that act as one.
pub trait Group: Copy + sealed::Sealed {
    /// Distinguishes groups that have the same leader.
    #[doc(hidden)]
    const KIND: GroupKind;
    /// Whose barriers it uses; a single thread's none.
    #[doc(hidden)]
    const SCOPE: Option<Scope>;
    /// The calling thread's place in the group, from 0.
    fn rank(self) -> usize;
    /// Threads of the group.
    fn size(self) -> usize;
    /// Waits for all threads of the group. What each did before is visible to all of them afterwards.
    fn barrier(self);
    /// Whether its first warp has all its lanes, so that [`Self::in_first_warp`] may count on them.
    fn has_whole_warp(self) -> bool;
    /// Once all threads have called it, runs `f` in every thread of the group's first warp (up to 32),
    /// and gives all threads what the leader's `f` returned: one word or two. For work that a warp does
    /// together. See [`Self::leader_only`] for what is to happen once.
    fn in_first_warp<const N: usize>(self, f: impl FnOnce() -> [u64; N]) -> [u64; N];
    /// Once all threads have called it, runs `f` in the leader alone, and gives all threads what it
    /// returned: one word or two. What `f` did is visible to all of them afterwards. `f` makes no call of
    /// the group, for which the other threads would not come.
    ///
    /// ```
    /// # use gpunet_device::{Group, Shared};
    /// # fn take<G: Group>(group: G, tickets: Shared<u64>) -> u64 {
    /// use core::sync::atomic::Ordering;
    ///
    /// // One ticket for the group, which all of its threads know.
    /// let [ticket] = group.leader_only(|| {
    ///     [tickets.atomic(0).map_or(0, |next| next.fetch_add(1, Ordering::Relaxed))]
    /// });
    /// # ticket
    /// # }
    /// ```
    fn leader_only<const N: usize>(self, f: impl FnOnce() -> [u64; N]) -> [u64; N];
    /// Gives all threads what the leader brought: one word or two. Also a barrier: what any thread did
    /// before it is visible to all of them afterwards. What the other threads bring is ignored.
    fn broadcast<const N: usize>(self, words: [u64; N]) -> [u64; N];
    /// Whether any thread said yes. A barrier in a block; in a warp it orders no memory.
    fn any(self, yes: bool) -> bool;
    /// On the emulated GPU, checks that all threads make the same call with the same arguments; its
    /// report names the caller's line.
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn agree(self, call: &'static str, arguments: &[u64]);

    /// Whether the calling thread is the group's leader.
    #[inline(always)]
    fn is_leader(self) -> bool {
        self.rank() == 0
    }
}

/// What a group is.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum GroupKind {
    /// A single thread.
    Thread = 0,
    /// A warp.
    Warp = 1,
    /// A block.
    Block = 2,
}

#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
impl GroupKind {
    /// The kind with that number, as the library's functions take it.
    #[inline(always)]
    pub(crate) const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Thread,
            1 => Self::Warp,
            _ => Self::Block,
        }
    }
}

/// A group of any kind, as the library has it: its functions exist once, for all of them.
#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnyGroup(pub(crate) GroupKind);

#[cfg(any(not(target_arch = "nvptx64"), feature = "library"))]
impl AnyGroup {
    /// What it is.
    #[inline(always)]
    pub(crate) const fn kind(self) -> GroupKind {
        self.0
    }

    /// Whose barriers it uses; a single thread's none.
    #[inline(always)]
    pub(crate) const fn scope(self) -> Option<Scope> {
        match self.0 {
            GroupKind::Thread => None,
            GroupKind::Warp => Some(Scope::Warp),
            GroupKind::Block => Some(Scope::Block),
        }
    }

    /// The calling thread's place in the group, from 0.
    #[inline(always)]
    pub(crate) fn rank(self) -> usize {
        match self.0 {
            GroupKind::Thread => 0,
            GroupKind::Warp => Warp.rank(),
            GroupKind::Block => Block.rank(),
        }
    }

    /// Threads of the group.
    #[inline(always)]
    pub(crate) fn size(self) -> usize {
        match self.0 {
            GroupKind::Thread => 1,
            GroupKind::Warp => Warp.size(),
            GroupKind::Block => Block.size(),
        }
    }

    /// Waits for all threads of the group.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn barrier(self) {
        simt::meet(self.scope());
    }

    /// Gives all threads what the leader brought. All have met at a barrier since the last time.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn share(self, [first, second]: [u64; 2]) -> [u64; 2] {
        simt::share(self.scope(), first, second).into()
    }

    /// Gives all threads what the leader brought.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn broadcast(self, word: u64) -> u64 {
        simt::meet(self.scope());
        simt::share(self.scope(), word, 0).0
    }

    /// Whether any thread said yes. Also a barrier.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(crate) fn any(self, yes: bool) -> bool {
        match self.scope() {
            None => yes,
            Some(scope) => simt::any(scope, yes),
        }
    }

    /// Whether the calling thread is the group's leader.
    #[inline(always)]
    pub(crate) fn is_leader(self) -> bool {
        self.rank() == 0
    }
}

/// All threads of the block: the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Block;

/// The threads of the calling thread's warp.
#[derive(Clone, Copy, Debug, Default)]
pub struct Warp;

/// The calling thread by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thread;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Block {}
    impl Sealed for super::Warp {}
    impl Sealed for super::Thread {}
}

impl Group for Block {
    const KIND: GroupKind = GroupKind::Block;
    const SCOPE: Option<Scope> = Some(Scope::Block);

    #[inline(always)]
    fn rank(self) -> usize {
        simt::position().thread as usize
    }

    #[inline(always)]
    fn size(self) -> usize {
        simt::position().threads as usize
    }

    #[inline(always)]
    fn barrier(self) {
        simt::block_barrier();
    }

    #[inline(always)]
    fn has_whole_warp(self) -> bool {
        simt::position().threads >= WARP
    }

    #[inline(always)]
    fn in_first_warp<const N: usize>(self, f: impl FnOnce() -> [u64; N]) -> [u64; N] {
        simt::in_first_warp(Scope::Block, f)
    }

    #[inline(always)]
    fn leader_only<const N: usize>(self, f: impl FnOnce() -> [u64; N]) -> [u64; N] {
        simt::in_first_thread(Scope::Block, f)
    }

    #[inline(always)]
    fn broadcast<const N: usize>(self, words: [u64; N]) -> [u64; N] {
        simt::broadcast(Scope::Block, words)
    }

    #[inline(always)]
    fn any(self, yes: bool) -> bool {
        simt::any(Scope::Block, yes)
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn agree(self, call: &'static str, arguments: &[u64]) {
        simt::agree(Scope::Block, call, arguments);
    }
}

impl Group for Warp {
    const KIND: GroupKind = GroupKind::Warp;
    const SCOPE: Option<Scope> = Some(Scope::Warp);

    #[inline(always)]
    fn rank(self) -> usize {
        (simt::position().thread % WARP) as usize
    }

    #[inline(always)]
    fn size(self) -> usize {
        let position = simt::position();
        (position.threads - position.thread / WARP * WARP).min(WARP) as usize
    }

    #[inline(always)]
    fn barrier(self) {
        simt::warp_barrier();
    }

    #[inline(always)]
    fn has_whole_warp(self) -> bool {
        self.size() == WARP as usize
    }

    #[inline(always)]
    fn in_first_warp<const N: usize>(self, f: impl FnOnce() -> [u64; N]) -> [u64; N] {
        simt::in_first_warp(Scope::Warp, f)
    }

    #[inline(always)]
    fn leader_only<const N: usize>(self, f: impl FnOnce() -> [u64; N]) -> [u64; N] {
        simt::in_first_thread(Scope::Warp, f)
    }

    #[inline(always)]
    fn broadcast<const N: usize>(self, words: [u64; N]) -> [u64; N] {
        simt::broadcast(Scope::Warp, words)
    }

    #[inline(always)]
    fn any(self, yes: bool) -> bool {
        simt::any(Scope::Warp, yes)
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn agree(self, call: &'static str, arguments: &[u64]) {
        simt::agree(Scope::Warp, call, arguments);
    }
}

impl Group for Thread {
    const KIND: GroupKind = GroupKind::Thread;
    const SCOPE: Option<Scope> = None;

    #[inline(always)]
    fn rank(self) -> usize {
        0
    }

    #[inline(always)]
    fn size(self) -> usize {
        1
    }

    #[inline(always)]
    fn barrier(self) {}

    #[inline(always)]
    fn has_whole_warp(self) -> bool {
        false
    }

    #[inline(always)]
    fn in_first_warp<const N: usize>(self, f: impl FnOnce() -> [u64; N]) -> [u64; N] {
        f()
    }

    #[inline(always)]
    fn leader_only<const N: usize>(self, f: impl FnOnce() -> [u64; N]) -> [u64; N] {
        f()
    }

    #[inline(always)]
    fn broadcast<const N: usize>(self, words: [u64; N]) -> [u64; N] {
        words
    }

    #[inline(always)]
    fn any(self, yes: bool) -> bool {
        yes
    }

    #[inline(always)]
    fn agree(self, _call: &'static str, _arguments: &[u64]) {}
}
