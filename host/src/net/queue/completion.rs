//! How operations went: a status word of each, which the program polls and waits for.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpunet_device::Errno;
use gpunet_device::abi::word::Word;
use gpunet_device::kernel::Memory;
use gpunet_device::planted::{Bug, planted};

use crate::error::{MemoryError, StreamLimit, WaitError};
use crate::gpu::{Gpu, HostMemory};
use crate::lock::lock;
use crate::net::Task;
use crate::net::state::LaunchState;

/// Polls of a status in a row before sleeps; small exchanges take some ten microseconds.
const EAGER_POLLS: u32 = 2000;
/// Between two polls later.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// Status words, of a queue or of what runs more than once.
pub(super) struct Statuses {
    memory: HostMemory,
    count: usize,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    free: Vec<u32>,
    /// Nobody asks for them any more, and they may not be done.
    abandoned: Vec<u32>,
}

impl Statuses {
    pub(super) fn new(gpu: &Gpu, count: usize) -> Result<Arc<Self>, MemoryError> {
        let memory = gpu.host_memory(count.max(1) * size_of::<u64>())?;
        let slots = Slots { free: (0..count as u32).rev().collect(), abandoned: Vec::new() };
        Ok(Arc::new(Self { memory, count, slots: Mutex::new(slots) }))
    }

    /// Words for so many operations, all 0.
    pub(super) fn take(self: &Arc<Self>, count: usize) -> Result<StatusSlots, StreamLimit> {
        let mut slots = lock(&self.slots);
        let Slots { free, abandoned } = &mut *slots;
        if free.len() < count {
            abandoned.retain(|slot| {
                let done = self.load(*slot) != 0 || planted(Bug::StatusUsedTooEarly);
                if done {
                    free.push(*slot);
                }
                !done
            });
        }
        let Some(left) = free.len().checked_sub(count) else {
            return Err(StreamLimit::Operations {
                what: "operations of a queue whose outcome is unknown",
                possible: self.count,
                remedy: "wait for some of them",
            });
        };
        let taken = free.split_off(left);
        drop(slots);
        taken.iter().for_each(|slot| self.word(*slot).store(0));
        Ok(StatusSlots { statuses: Arc::clone(self), slots: taken, state: PostState::Unposted })
    }

    #[allow(unsafe_code, reason = "words of memory that kernels write")]
    fn word(&self, slot: u32) -> Word {
        // SAFETY: slots are below the count, and the memory lives as long as `self`.
        unsafe { Word::at(self.memory.as_ptr().cast::<u64>().add(slot as usize)) }
    }

    fn load(&self, slot: u32) -> u64 {
        self.word(slot).load_acquire()
    }
}

/// Status words of some operations, given back when dropped.
pub(super) struct StatusSlots {
    statuses: Arc<Statuses>,
    slots: Vec<u32>,
    pub(super) state: PostState,
}

/// Which kernels may write some status words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PostState {
    /// None.
    Unposted,
    /// One, once.
    Posted,
    /// A graph of the program's, as often as it launches it: nobody else ever gets the words.
    Captured,
}

impl StatusSlots {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// What kernels write to.
    pub(super) fn memory(&self) -> Memory {
        Arc::clone(&self.statuses) as Memory
    }

    /// Where kernels find the word of an operation.
    pub(super) fn address(&self, index: usize) -> *mut u64 {
        let base = self.statuses.memory.device_ptr().cast::<u64>();
        base.wrapping_add(self.slots[index] as usize)
    }

    /// How often an operation has run, and how it went the last time.
    pub(super) fn status(&self, index: usize) -> (u32, Result<(), Errno>) {
        let word = self.statuses.load(self.slots[index]);
        let outcome = match word as u32 as i32 {
            0 => Ok(()),
            errno => Err(Errno(errno)),
        };
        ((word >> 32) as u32, outcome)
    }

    /// Those of all operations.
    pub(super) fn statuses(&self) -> impl Iterator<Item = (u32, Result<(), Errno>)> {
        (0..self.len()).map(|index| self.status(index))
    }

    /// Waits until each has run so often, at most this long.
    pub(super) fn wait(
        &self,
        runs: u32,
        launch: &LaunchState,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        launch.check_process()?;
        let begin = Instant::now();
        let (mut index, mut polls) = (0, 0);
        while index < self.len() {
            let has_run = |index| runs.wrapping_sub(self.status(index).0) as i32 <= 0;
            if has_run(index) {
                index += 1;
                continue;
            }
            polls += 1;
            if polls < EAGER_POLLS && !timeout.is_zero() {
                std::hint::spin_loop();
                continue;
            }
            if let Some(Err(error)) = launch.running.poll()
                && !has_run(index)
            {
                return Err(error.into());
            }
            let spent = begin.elapsed();
            if spent >= timeout {
                return Err(WaitError::StillRunning { operation: Some(index), after: timeout });
            }
            std::thread::sleep(POLL_INTERVAL.min(timeout - spent));
        }
        let failed =
            |index| self.status(index).1.err().map(|errno| WaitError::Operation { index, errno });
        (0..self.len()).find_map(failed).map_or(Ok(()), Err)
    }
}

impl Drop for StatusSlots {
    fn drop(&mut self) {
        if !self.statuses.memory.is_own() {
            return;
        }
        let mut slots = lock(&self.statuses.slots);
        match self.state {
            PostState::Unposted => slots.free.append(&mut self.slots),
            PostState::Posted => slots.abandoned.append(&mut self.slots),
            PostState::Captured => {}
        }
    }
}

/// The operations of a post. Dropping it leaves them to themselves.
#[must_use = "an operation's errors are seen only here"]
pub struct Completions {
    pub(super) slots: StatusSlots,
    pub(super) launch: Arc<LaunchState>,
}

impl Completions {
    /// How many operations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How an operation went; none while it is not done.
    ///
    /// # Panics
    /// Where there is no such operation.
    #[must_use]
    pub fn status(&self, index: usize) -> Option<Result<(), Errno>> {
        let (runs, outcome) = self.slots.status(index);
        (runs > 0).then_some(outcome)
    }

    /// All statuses in the order of the batch.
    #[must_use]
    pub fn statuses(&self) -> Vec<Option<Result<(), Errno>>> {
        (0..self.len()).map(|index| self.status(index)).collect()
    }
}

impl Task for Completions {
    fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.slots.wait(1, &self.launch, timeout)
    }

    fn abort(&self) {
        self.launch.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{EmulatedOptions, GpuChoice};

    /// A graph of the program's writes its words again and again.
    #[test]
    fn words_of_captured_operations_are_nobody_else_s() {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).expect("it opens");
        let statuses = Statuses::new(&gpu, 3).expect("memory");
        let mut captured = statuses.take(1).expect("there are three");
        captured.state = PostState::Captured;
        let word = captured.slots[0];
        statuses.word(word).store_release(1 << 32);
        drop(captured);
        let mut posted = statuses.take(2).expect("there are two");
        assert!(!posted.slots.contains(&word));
        assert!(statuses.take(1).is_err(), "the third may be written at any time");
        posted.state = PostState::Posted;
        let done = posted.slots[0];
        statuses.word(done).store_release(1 << 32);
        drop(posted);
        assert!(statuses.take(2).is_err(), "one is not done");
        assert_eq!(statuses.take(1).expect("one is").slots, [done]);
    }
}
