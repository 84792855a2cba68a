//! A worker: one OS thread that runs some blocks of one launch, turn by turn.
//!
//! A round resumes every thread on the run list once. Threads at a barrier are not on the list:
//! a block of 1024 threads with one polling leader costs one switch a round.

use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use corosensei::stack::Stack;
use corosensei::{Coroutine, CoroutineResult};
use gpunet_device::simt::Position;
use gpunet_device::simt::emulated::{EmulatedThread, set_current};

use super::super::{Entry, KernelError};
use super::block::Block;
use super::panics;
use super::random::SplitMix;
use super::stack::KernelStack;
use super::thread::{Context, Round, Switch};
use super::{Launch, Stop};

/// How long a worker sleeps between rounds in which threads only polled: short enough for
/// exchanges with a proxy on the same machine, long enough for others to get the core.
const SLEEP: Duration = Duration::from_micros(20);
/// The same after [`LONG_IDLE`] sleeps in a row.
const LONG_SLEEP: Duration = Duration::from_micros(50);
/// Sleeps after which a kernel counts as idle.
const LONG_IDLE: u32 = 100;

/// One GPU thread.
#[derive(Default)]
struct Thread {
    context: Option<Rc<Context>>,
    coroutine: Option<Coroutine<(), Switch, (), KernelStack>>,
}

/// See the module.
pub(super) struct Worker {
    launch: Arc<Launch>,
    entry: Entry,
    blocks: Vec<Rc<Block>>,
    threads: Vec<Thread>,
    round: Rc<Round>,
    stacks: Vec<KernelStack>,
    random: Option<SplitMix>,
    turns: u64,
}

impl Worker {
    /// The worker of blocks `first`, `first + step`, and so on.
    pub(super) fn new(launch: Arc<Launch>, entry: Entry, first: u32, step: usize) -> Self {
        let blocks: Vec<Rc<Block>> = (first..launch.blocks)
            .step_by(step)
            .map(|rank| {
                let kernel = launch.kernel.clone();
                Rc::new(Block::new(kernel, rank, launch.threads, launch.shared_bytes))
            })
            .collect();
        let count = blocks.len() * launch.threads as usize;
        let seed = launch.machine.options.seed;
        let round = Round {
            next: RefCell::new(Vec::with_capacity(count)),
            failure: RefCell::new(None),
            paused: Cell::new(false),
            progress: Cell::new(false),
            seeded: seed.is_some(),
            clock: launch.machine.options.clock.clone(),
            observer: launch.machine.options.observer,
        };
        Self {
            launch,
            entry,
            blocks,
            threads: (0..count).map(|_| Thread::default()).collect(),
            round: Rc::new(round),
            stacks: Vec::new(),
            random: seed.map(SplitMix),
            turns: 0,
        }
    }

    /// Runs every thread to its end, or until the launch fails.
    pub(super) fn run(&mut self) -> Result<(), KernelError> {
        let mut list: Vec<u32> = (0..self.count()).collect();
        let mut idle = Idle { limit: self.launch.machine.options.idle_rounds, rounds: 0 };
        while !list.is_empty() {
            by_rank(&mut list);
            let before = self.random;
            if let Some(random) = &mut self.random {
                random.shuffle(&mut list);
            }
            self.round.paused.set(false);
            self.round.progress.set(false);
            if !self.turns(&list)? {
                return Ok(());
            }
            list.clear();
            self.take_ready(&mut list);
            if self.round.progress.get() {
                idle.rounds = 0;
            } else if self.round.paused.get() {
                // How often threads polled depends on the outside world. It must not decide what
                // the seed draws later, or a run could not be repeated.
                self.random = before;
                idle.rest();
            }
        }
        Ok(())
    }

    /// The threads that have become ready to run since the last call.
    pub(super) fn take_ready(&self, into: &mut Vec<u32>) {
        into.append(&mut self.round.next.borrow_mut());
    }

    /// Whether a thread has paused since the last call.
    #[cfg(test)]
    pub(super) fn take_paused(&self) -> bool {
        self.round.paused.replace(false)
    }

    /// How many threads it has in all.
    pub(super) fn count(&self) -> u32 {
        self.threads.len() as u32
    }

    /// One turn of one thread.
    #[cfg(test)]
    pub(super) fn turn(&mut self, index: u32) -> Result<(), KernelError> {
        let turned = panics::guard(|| self.resume(index));
        turned.unwrap_or_else(|message| Err(self.fault(index, message)))
    }

    /// One turn of each of these threads. Returns false if the launch must stop.
    fn turns(&mut self, list: &[u32]) -> Result<bool, KernelError> {
        let at = Cell::new(0);
        // One guard for all of them: it costs as much as a turn.
        let turned = panics::guard(|| {
            for &index in list {
                match self.launch.stop() {
                    Stop::No => {}
                    Stop::Failed => return Ok(false),
                    Stop::Killed => {
                        return Err(KernelError::Killed { kernel: self.launch.kernel.to_string() });
                    }
                }
                at.set(index);
                self.resume(index)?;
            }
            Ok(true)
        });
        turned.unwrap_or_else(|message| Err(self.fault(at.get(), message)))
    }

    /// What a thread's panic ends the launch with.
    fn fault(&self, index: u32, message: String) -> KernelError {
        let (block, thread) = (index / self.launch.threads, index % self.launch.threads);
        KernelError::Fault {
            kernel: self.launch.kernel.to_string(),
            block: self.blocks.get(block as usize).map(|block| block.rank()),
            thread: Some(thread),
            message,
        }
    }

    // In line, since the CPU mispredicts each return after a switch.
    #[inline(always)]
    fn resume(&mut self, index: u32) -> Result<(), KernelError> {
        if self.threads[index as usize].coroutine.is_none() {
            self.round.progress.set(true);
            self.start(index)?;
        }
        self.turns += 1;
        let thread = &mut self.threads[index as usize];
        let (Some(context), Some(coroutine)) = (&thread.context, &mut thread.coroutine) else {
            return Ok(());
        };
        match as_current(context, || coroutine.resume(())) {
            CoroutineResult::Yield(Switch::Pause) => {
                self.round.next.borrow_mut().push(index);
                Ok(())
            }
            CoroutineResult::Yield(Switch::Barrier) => Ok(()),
            CoroutineResult::Yield(Switch::Failed) => self.round.failure.take().map_or(Ok(()), Err),
            CoroutineResult::Return(()) => {
                self.round.progress.set(true);
                let ended = context.block.end(context.position.thread);
                self.stacks.extend(thread.coroutine.take().map(Coroutine::into_stack));
                thread.context = None;
                ended
            }
        }
    }

    /// Gives a thread its stack, at its first turn: threads that never wait share one.
    fn start(&mut self, index: u32) -> Result<(), KernelError> {
        let launch = &self.launch;
        let stack = launch.machine.stacks.take(&mut self.stacks).map_err(|error| {
            KernelError::NoStack { kernel: launch.kernel.to_string(), reason: error.to_string() }
        })?;
        let rank = index % launch.threads;
        let block = self.blocks[(index / launch.threads) as usize].clone();
        let context = Rc::new(Context {
            position: Position {
                thread: rank,
                threads: launch.threads,
                block: block.rank(),
                blocks: launch.blocks,
            },
            block,
            round: self.round.clone(),
            shape: launch.shape,
            stack: stack.limit().get()..stack.base().get(),
            entry: self.entry.clone(),
            unwinds: Cell::new(true),
            first: index - rank,
            yielder: Cell::new(ptr::null()),
        });
        let thread = &mut self.threads[index as usize];
        // The coroutine owns nothing, so that it can be left where it is.
        let at = Rc::as_ptr(&context);
        thread.context = Some(context);
        thread.coroutine = Some(Coroutine::with_stack(stack, move |yielder, ()| {
            // SAFETY: the thread keeps its context for as long as its coroutine lives.
            let context = unsafe { &*at };
            context.yielder.set(yielder);
            (context.entry)();
        }));
        Ok(())
    }
}

impl Drop for Worker {
    /// Unwinds the threads that have not ended, so that what they hold is dropped, and leaves those that
    /// cannot be unwound where they are.
    fn drop(&mut self) {
        self.blocks.iter().for_each(|block| block.abandon());
        for thread in &mut self.threads {
            let Some(mut coroutine) = thread.coroutine.take() else {
                continue;
            };
            if let Some(context) = thread.context.take() {
                if !context.unwinds.get() {
                    // SAFETY: code that cannot be unwound has no objects with destructors on the stack, and
                    // device functions keep none while they wait.
                    unsafe { coroutine.force_reset() };
                }
                while !coroutine.done() {
                    // A panic out of a destructor ends that thread; the launch has its report.
                    let _ = panics::guard(|| as_current(&context, || coroutine.force_unwind()));
                }
            }
            self.stacks.push(coroutine.into_stack());
        }
        self.launch.machine.turns.fetch_add(self.turns, Ordering::Relaxed);
        self.launch.machine.stacks.give_back(std::mem::take(&mut self.stacks));
    }
}

/// Runs `code` with `context` as the thread that device functions find.
#[inline(always)]
fn as_current<R>(context: &Rc<Context>, code: impl FnOnce() -> R) -> R {
    /// Also where a thread panics.
    struct Nobody;
    impl Drop for Nobody {
        fn drop(&mut self) {
            // SAFETY: clears the current thread.
            unsafe { set_current(None) };
        }
    }
    let thread: NonNull<dyn EmulatedThread> = NonNull::from(&**context);
    let nobody = Nobody;
    // SAFETY: `context` outlives this function, which takes the name back before it returns.
    unsafe { set_current(Some(thread)) };
    let result = code();
    drop(nobody);
    result
}

/// Puts a round's threads in the order of their ranks. A barrier leaves them in two runs: the first run must
/// follow the second.
fn by_rank(list: &mut [u32]) {
    let Some(end) = list.windows(2).position(|pair| pair[0] > pair[1]) else { return };
    list.rotate_left(end + 1);
    if !list.is_sorted() {
        list.sort_unstable();
    }
}

/// Lets others have the core when all threads of the worker only poll.
struct Idle {
    limit: u32,
    rounds: u32,
}

impl Idle {
    fn rest(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        match self.rounds.checked_sub(self.limit) {
            None | Some(0) => std::thread::yield_now(),
            Some(sleeps) => std::thread::sleep(if sleeps < LONG_IDLE { SLEEP } else { LONG_SLEEP }),
        }
    }
}
