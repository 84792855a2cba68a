//! One emulated block: who runs, who waits at which barrier, who ended; its shared memory.
//!
//! The block's threads call it from their coroutines, all on one OS thread. It decides and
//! reports; it switches nothing and wakes nobody itself.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt::Write as _;
use std::ptr::NonNull;
use std::sync::Arc;

use gpunet_device::simt::emulated::Site;
use gpunet_device::simt::{SCRATCH_WORDS, Scope, WARP};

use super::super::KernelError;
use super::call::Call;
use super::shared::SharedMemory;
use crate::error::scope_name;

/// What a thread brings to a barrier.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrival {
    /// A plain barrier, and where it stands.
    Barrier(Site),
    /// A cooperative call.
    Call(Call),
}

impl Arrival {
    /// Both threads stand at the barrier of this block: the one waits there, or has just come.
    fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Barrier(a), Self::Barrier(b)) => a == b,
            // SAFETY: threads leave the call when the barrier has opened, and their status says so
            // from then on.
            (Self::Call(a), Self::Call(b)) => unsafe { a.agrees(b) },
            _ => false,
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Barrier(site) => format!("at {site}"),
            // SAFETY: as in `agrees`.
            Self::Call(call) => unsafe { call.describe() },
        }
    }
}

/// What follows from an arrival.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// Others are missing: wait.
    Waits,
    /// All are here; the others were named to `wake`. `polled`: a thread of the scope sat in a
    /// wait loop while others were here already, so that a wait has ended now.
    Opens { polled: bool },
}

#[derive(Clone, Copy, Debug)]
enum Status {
    Runs,
    Waits(Scope, Waiting),
    Ended,
}

/// What a waiting thread brought, on its stack: copied, it would cost each barrier what only reports need.
#[derive(Clone, Copy, Debug)]
struct Waiting(NonNull<Arrival>);

impl Waiting {
    fn arrival(&self) -> &Arrival {
        // SAFETY: `arrive` is promised that the thread stands still until the barrier has opened, or the block
        // is abandoned; its status no longer says that it waits then.
        unsafe { self.0.as_ref() }
    }
}

/// The barrier of one scope.
#[derive(Debug)]
struct Barrier {
    size: usize,
    ended: usize,
    waiting: Vec<u32>,
    /// A thread of the scope has paused since the first of `waiting` came.
    polled: bool,
    /// What threads have brought to it.
    brought: Words,
    /// The words contributed before the barrier last opened. Each thread takes them before it arrives again,
    /// and until then the barrier cannot open.
    opened: Words,
}

/// Words that threads bring to a barrier.
#[derive(Debug)]
struct Words {
    count: usize,
    words: [u64; SCRATCH_WORDS],
}

impl Words {
    const NONE: Self = Self { count: 0, words: [0; SCRATCH_WORDS] };

    fn bring(&mut self, words: &[u64]) {
        self.count = words.len();
        self.words[..self.count].copy_from_slice(words);
    }

    fn get(&self) -> &[u64] {
        &self.words[..self.count]
    }
}

impl Barrier {
    fn new(size: u32) -> Self {
        let (brought, opened) = (Words::NONE, Words::NONE);
        Self { size: size as usize, ended: 0, waiting: Vec::new(), polled: false, brought, opened }
    }
}

#[derive(Debug)]
struct State {
    threads: Vec<Status>,
    whole: Barrier,
    warps: Vec<Barrier>,
    live: u32,
    runnable: u32,
}

impl State {
    fn barrier(&mut self, scope: Scope, rank: u32) -> &mut Barrier {
        match scope {
            Scope::Block => &mut self.whole,
            Scope::Warp => &mut self.warps[(rank / WARP) as usize],
        }
    }
}

/// See the module.
pub(super) struct Block {
    kernel: Arc<str>,
    rank: u32,
    state: RefCell<State>,
    shared: SharedMemory,
    scratch: UnsafeCell<[u64; SCRATCH_WORDS]>,
    /// A word for each lane of each warp.
    lane_words: Box<[UnsafeCell<[u64; WARP as usize]>]>,
    is_abandoned: Cell<bool>,
}

impl Block {
    pub(super) fn new(kernel: Arc<str>, rank: u32, threads: u32, shared_bytes: u32) -> Self {
        let warps = (0..threads).step_by(WARP as usize);
        let state = State {
            threads: vec![Status::Runs; threads as usize],
            whole: Barrier::new(threads),
            warps: warps.clone().map(|first| Barrier::new((threads - first).min(WARP))).collect(),
            live: threads,
            runnable: threads,
        };
        Self {
            is_abandoned: Cell::new(false),
            kernel,
            rank,
            state: RefCell::new(state),
            shared: SharedMemory::new(shared_bytes as usize),
            scratch: UnsafeCell::new([0; SCRATCH_WORDS]),
            lane_words: warps.map(|_| UnsafeCell::new([0; WARP as usize])).collect(),
        }
    }

    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    pub(super) fn kernel(&self) -> &str {
        &self.kernel
    }

    pub(super) fn shared(&self) -> &SharedMemory {
        &self.shared
    }

    pub(super) fn lane_words(&self, rank: u32) -> *mut u64 {
        self.lane_words[(rank / WARP) as usize].get().cast()
    }

    pub(super) fn scratch(&self) -> *mut u64 {
        self.scratch.get().cast()
    }

    /// A thread is about to come to the barrier of a scope, and brings words, for all its threads.
    pub(super) fn bring(&self, rank: u32, scope: Scope, words: &[u64]) {
        self.state.borrow_mut().barrier(scope, rank).brought.bring(words);
    }

    /// Copies the contributed words, if any, of the barrier that has just opened for a thread.
    pub(super) fn take(&self, rank: u32, scope: Scope, into: &mut [u64]) {
        let state = &mut *self.state.borrow_mut();
        let words = state.barrier(scope, rank).opened.get();
        debug_assert!(words.len() <= into.len(), "more words than a thread has room for");
        if let Some(into) = into.get_mut(..words.len()) {
            into.copy_from_slice(words);
        }
    }

    /// A thread comes to the barrier of a scope. `wake` is given every other thread when it opens.
    ///
    /// # Safety
    /// If the thread is to wait, `arrival` stays where it is until the barrier opens or the launch has failed.
    #[inline(always)]
    pub(super) unsafe fn arrive(
        &self,
        rank: u32,
        scope: Scope,
        arrival: &Arrival,
        mut wake: impl FnMut(u32),
    ) -> Result<Met, KernelError> {
        let state = &mut *self.state.borrow_mut();
        let barrier = state.barrier(scope, rank);
        let first = barrier.waiting.first().copied();
        if let Some(first) = first
            && let Status::Waits(_, expected) = state.threads[first as usize]
            && !expected.arrival().agrees(arrival)
        {
            let expected = *expected.arrival();
            return Err(self.differ(state, scope, (first, expected), (rank, *arrival)));
        }
        let barrier = state.barrier(scope, rank);
        if barrier.waiting.len() + 1 == barrier.size {
            let polled = std::mem::take(&mut barrier.polled);
            let mut woken = std::mem::take(&mut barrier.waiting);
            for other in woken.drain(..) {
                state.threads[other as usize] = Status::Runs;
                state.runnable += 1;
                wake(other);
            }
            let barrier = state.barrier(scope, rank);
            // The room for waiters is kept: barriers are many.
            barrier.waiting = woken;
            barrier.opened.bring(barrier.brought.get());
            barrier.brought.count = 0;
            return Ok(Met::Opens { polled });
        }
        if barrier.waiting.is_empty() {
            barrier.polled = false;
        }
        barrier.waiting.push(rank);
        let ended = barrier.ended;
        state.threads[rank as usize] = Status::Waits(scope, Waiting(NonNull::from(arrival)));
        state.runnable -= 1;
        if ended > 0 {
            return Err(self.incomplete(state, scope, rank));
        }
        self.alive(state).map(|()| Met::Waits)
    }

    /// The launch has failed. The pointers to arrivals are dead: their stacks are unwound.
    pub(super) fn abandon(&self) {
        let state = &mut *self.state.borrow_mut();
        state.threads.fill(Status::Ended);
        state.whole.waiting.clear();
        state.warps.iter_mut().for_each(|warp| warp.waiting.clear());
        self.is_abandoned.set(true);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.get()
    }

    /// A thread takes a turn of a wait loop.
    pub(super) fn pause(&self, rank: u32) {
        let state = &mut *self.state.borrow_mut();
        state.whole.polled = true;
        state.barrier(Scope::Warp, rank).polled = true;
    }

    /// A thread has returned from the kernel.
    pub(super) fn end(&self, rank: u32) -> Result<(), KernelError> {
        let state = &mut *self.state.borrow_mut();
        state.threads[rank as usize] = Status::Ended;
        state.live -= 1;
        state.runnable -= 1;
        for scope in [Scope::Warp, Scope::Block] {
            let barrier = state.barrier(scope, rank);
            barrier.ended += 1;
            if !barrier.waiting.is_empty() {
                return Err(self.incomplete(state, scope, rank));
            }
        }
        self.alive(state)
    }

    /// Some thread can run, or all have ended.
    fn alive(&self, state: &State) -> Result<(), KernelError> {
        if state.runnable > 0 || state.live == 0 { Ok(()) } else { Err(self.deadlock(state)) }
    }

    #[cold]
    fn deadlock(&self, state: &State) -> KernelError {
        KernelError::Deadlock {
            kernel: self.kernel.to_string(),
            block: self.rank,
            waiting: waiting(state, 0..state.threads.len(), None),
        }
    }

    #[cold]
    fn differ(
        &self,
        state: &State,
        scope: Scope,
        first: (u32, Arrival),
        second: (u32, Arrival),
    ) -> KernelError {
        let (kernel, block) = (self.kernel.to_string(), self.rank);
        let say =
            |(rank, arrival): (u32, Arrival)| format!("thread {rank} is {}", arrival.describe());
        if let (Arrival::Call(_), Arrival::Call(_)) = (first.1, second.1) {
            return KernelError::DivergentCall {
                kernel,
                block,
                scope,
                first: say(first),
                second: say(second),
            };
        }
        KernelError::DivergentBarrier {
            kernel,
            block,
            scope,
            waiting: waiting(state, members(state, scope, first.0), Some(scope)),
            others: say(second),
        }
    }

    #[cold]
    fn incomplete(&self, state: &State, scope: Scope, rank: u32) -> KernelError {
        let members = members(state, scope, rank);
        let ended: Vec<u32> = (0..)
            .zip(&state.threads)
            .filter(|(rank, status)| {
                members.contains(&(*rank as usize)) && matches!(status, Status::Ended)
            })
            .map(|(rank, _)| rank)
            .collect();
        KernelError::DivergentBarrier {
            kernel: self.kernel.to_string(),
            block: self.rank,
            scope,
            waiting: waiting(state, members, Some(scope)),
            others: format!("{} ended without it", ranks(&ended)),
        }
    }
}

/// Ranks that a scope spans.
fn members(state: &State, scope: Scope, rank: u32) -> std::ops::Range<usize> {
    let all = state.threads.len();
    match scope {
        Scope::Block => 0..all,
        Scope::Warp => {
            let first = (rank / WARP * WARP) as usize;
            first..all.min(first + WARP as usize)
        }
    }
}

/// Who waits where, grouped by place; only at barriers of `only`, if given.
fn waiting(state: &State, members: std::ops::Range<usize>, only: Option<Scope>) -> String {
    let mut groups: Vec<(Scope, Arrival, Vec<u32>)> = Vec::new();
    for (rank, status) in (0..).zip(&state.threads) {
        let Status::Waits(scope, waiting) = status else {
            continue;
        };
        let (scope, arrival) = (*scope, *waiting.arrival());
        if !members.contains(&(rank as usize)) || only.is_some_and(|only| only != scope) {
            continue;
        }
        match groups.iter_mut().find(|group| group.0 == scope && group.1.agrees(&arrival)) {
            Some((_, _, ranks)) => ranks.push(rank),
            None => groups.push((scope, arrival, vec![rank])),
        }
    }
    let lines: Vec<String> = groups
        .iter()
        .map(|(scope, arrival, who)| {
            let verb = if who.len() == 1 { "waits" } else { "wait" };
            format!("{} {verb} for the {} {}", ranks(who), scope_name(*scope), arrival.describe())
        })
        .collect();
    lines.join(", ")
}

/// `thread 3`, `threads 0-30, 32`.
fn ranks(ranks: &[u32]) -> String {
    let mut text = String::from(if ranks.len() == 1 { "thread " } else { "threads " });
    let mut rest = ranks;
    while let [first, ..] = *rest {
        let run = (0..).zip(rest).take_while(|(step, rank)| **rank == first + step).count();
        let last = rest[run - 1];
        if rest.len() != ranks.len() {
            text.push_str(", ");
        }
        let _ =
            if last == first { write!(text, "{first}") } else { write!(text, "{first}-{last}") };
        rest = &rest[run..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::ranks;

    #[test]
    fn ranks_are_short() {
        assert_eq!(ranks(&[7]), "thread 7");
        assert_eq!(ranks(&[0, 1, 2, 5, 7, 8]), "threads 0-2, 5, 7-8");
    }
}
