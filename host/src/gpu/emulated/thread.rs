//! What an emulated GPU thread finds around it: the emulator's half of
//! [`EmulatedThread`].
//!
//! Device code calls it from inside a coroutine. Everything here belongs to one worker, hence to
//! one OS thread.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use corosensei::Yielder;
use gpunet_device::simt::emulated::{EmulatedThread, Place, Site};
use gpunet_device::simt::{Position, Scope, WARP};
use rustix::time::{ClockId, clock_gettime};

use super::super::observer::Observer;
use super::super::{Clock, Dim3, Entry, KernelError};
use super::block::{Arrival, Block, Met};
use super::call::{Arguments, Call};

/// Why a coroutine gave up the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    /// A turn of a wait loop.
    Pause,
    /// A barrier; whoever completes it puts the thread on the list of the next round.
    Barrier,
    /// The launch has failed; the report lies in the [`Round`].
    Failed,
}

/// What the threads of one worker share with it.
pub(super) struct Round {
    /// Threads to run in the next round, by their index in the worker.
    pub(super) next: RefCell<Vec<u32>>,
    /// Why the launch must end.
    pub(super) failure: RefCell<Option<KernelError>>,
    /// A thread took a turn of a wait loop in this round.
    pub(super) paused: Cell<bool>,
    /// A thread started or ended, or a wait ended that others of its group waited for.
    ///
    /// Barriers alone are no progress: a group that polls together meets at them in every turn.
    pub(super) progress: Cell<bool>,
    /// Whoever completes a barrier takes its turn anew, so that a seed decides who goes on first.
    pub(super) seeded: bool,
    /// Replaces the monotonic clock.
    pub(super) clock: Option<Clock>,
    /// Is notified of barriers.
    pub(super) observer: Option<&'static dyn Observer>,
}

/// One thread's surroundings.
pub(super) struct Context {
    pub(super) position: Position,
    pub(super) block: Rc<Block>,
    pub(super) round: Rc<Round>,
    /// Blocks of the grid and threads of a block.
    pub(super) shape: (Dim3, Dim3),
    /// The addresses of its stack.
    pub(super) stack: Range<usize>,
    /// What it runs.
    pub(super) entry: Entry,
    /// It may be unwound.
    pub(super) unwinds: Cell<bool>,
    /// Index in the worker of the block's thread 0.
    pub(super) first: u32,
    /// Set by the coroutine's first instruction.
    pub(super) yielder: Cell<*const Yielder<(), Switch>>,
}

impl Context {
    // In line, here and below: after a switch the CPU mispredicts each return.
    #[inline(always)]
    fn switch(&self, why: Switch) {
        // SAFETY: device code reaches this context only while its coroutine runs (the worker names
        // it current just then), and the yielder lives as long as the coroutine runs.
        unsafe { &*self.yielder.get() }.suspend(why);
    }

    #[inline(always)]
    fn meet(&self, scope: Scope, arrival: &Arrival) {
        // Destructors may call device functions while a failed launch is unwound. They must not
        // switch: a second unwinding out of a destructor would abort the process.
        if std::thread::panicking() {
            return;
        }
        // A kernel has caught the unwinding: it is unwound again.
        if self.block.is_abandoned() {
            self.switch(Switch::Failed);
            return;
        }
        let wake = |rank| self.round.next.borrow_mut().push(self.first + rank);
        let rank = self.position.thread;
        // SAFETY: the thread switches below, and does not resume before the barrier opens; where its launch
        // fails before, the block is abandoned before any of its threads resumes.
        let met = unsafe { self.block.arrive(rank, scope, arrival, wake) };
        if let (Ok(Met::Opens { .. }), Some(observer)) = (&met, self.round.observer) {
            let (first, threads) = (self.first, self.position.threads);
            let all = match scope {
                Scope::Block => first..first + threads,
                Scope::Warp => {
                    let warp = first + rank / WARP * WARP;
                    warp..(warp + WARP).min(first + threads)
                }
            };
            observer.met(all, scope == Scope::Block);
        }
        if let Ok(Met::Opens { polled: true }) = met {
            self.round.progress.set(true);
        }
        match met {
            Ok(Met::Waits) => self.switch(Switch::Barrier),
            Ok(Met::Opens { .. }) if self.round.seeded => {
                self.round.next.borrow_mut().push(self.first + rank);
                self.switch(Switch::Barrier);
            }
            Ok(Met::Opens { .. }) => {}
            Err(report) => {
                self.round.failure.borrow_mut().get_or_insert(report);
                self.switch(Switch::Failed);
            }
        }
    }
}

impl EmulatedThread for Context {
    fn position(&self) -> Position {
        self.position
    }

    fn place(&self) -> Place {
        let (grid, block) = self.shape;
        Place {
            thread: spread(self.position.thread, block),
            block: spread(self.position.block, grid),
            threads: [block.x, block.y, block.z],
            blocks: [grid.x, grid.y, grid.z],
        }
    }

    fn barrier(&self, scope: Scope, site: Site) {
        self.meet(scope, &Arrival::Barrier(site));
    }

    fn exchange(&self, scope: Scope, site: Site, brought: Option<&[u64]>, into: &mut [u64]) {
        // As in `meet`; words of a thread that is unwound must not reach the barrier either.
        if std::thread::panicking() {
            return;
        }
        let rank = self.position.thread;
        if let Some(words) = brought {
            self.block.bring(rank, scope, words);
        }
        self.meet(scope, &Arrival::Barrier(site));
        self.block.take(rank, scope, into);
    }

    fn agree(&self, scope: Scope, call: &'static str, arguments: &[u64], site: Site) {
        let arguments = Arguments::new(arguments);
        // The arguments outlive the barrier: this thread stands still inside.
        self.meet(scope, &Arrival::Call(Call { call, arguments, site }));
    }

    fn pause(&self) {
        if !std::thread::panicking() {
            self.block.pause(self.position.thread);
            self.round.paused.set(true);
            self.switch(Switch::Pause);
        }
    }

    fn progress(&self) {
        self.round.progress.set(true);
    }

    fn now_ns(&self) -> u64 {
        let now = match &self.round.clock {
            Some(clock) => clock(),
            None => monotonic_ns(),
        };
        // While a thread is unwound every deadline has passed: see `meet`.
        if std::thread::panicking() { now.saturating_add(u64::MAX / 2) } else { now }
    }

    fn shared_memory(&self) -> (*mut u8, usize) {
        self.block.shared().of_launch()
    }

    fn shared_variable(&self, key: usize, bytes: usize) -> Result<*mut u8, String> {
        self.block.shared().variable(key, bytes)
    }

    fn scratch(&self) -> *mut u64 {
        self.block.scratch()
    }

    fn lane_words(&self) -> *mut u64 {
        self.block.lane_words(self.position.thread)
    }

    fn is_private(&self, address: *const u8) -> bool {
        self.stack.contains(&address.addr())
    }

    fn forbid_unwinding(&self) {
        self.unwinds.set(false);
    }

    fn unwinds(&self) -> bool {
        self.unwinds.get()
    }

    fn fail(&self, message: String) -> ! {
        let Position { block, thread, .. } = self.position;
        let report = KernelError::Fault {
            kernel: self.block.kernel().to_owned(),
            block: Some(block),
            thread: Some(thread),
            message: message.replace('\n', " "),
        };
        self.round.failure.borrow_mut().get_or_insert(report);
        loop {
            // Nobody resumes it.
            self.switch(Switch::Failed);
        }
    }
}

/// The place of a rank, x fastest.
fn spread(rank: u32, Dim3 { x, y, .. }: Dim3) -> [u32; 3] {
    [rank % x, rank / x % y, rank / x / y]
}

/// The system's monotonic clock: the one `Instant` reads, as a number.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}
