//! Batches: operations that are put together now and posted later, as often as wanted.

use std::ops::{Bound, Range, RangeBounds};
use std::time::Duration;

use gpunet_device::Handle;
use gpunet_device::buf::Plain;
use gpunet_device::kernel::Memory;
use gpunet_device::op::{Condition, Op, OpKind, OpWords, Width};

use crate::error::{LaunchError, StreamError, StreamLimit};
use crate::gpu::{Buffer, Gpu, Located, Word, Words};

/// Operations of one batch, at most.
pub const MAX_BATCH: usize = 255;

/// One operation, without the words that each post has of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Transfer { kind: OpKind, socket: Handle, address: *mut u8, bytes: u64 },
    Wait { address: *mut u8, width: Width, condition: Condition, value: u64 },
    Write { address: *mut u8, width: Width, value: u64 },
}

// SAFETY: the addresses are the GPU's; nothing here follows them.
#[allow(unsafe_code, reason = "addresses of the GPU's memory")]
unsafe impl Send for Step {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "addresses of the GPU's memory")]
unsafe impl Sync for Step {}

/// Operations in their order: sends, receives, waits for words and writes of words.
///
/// A batch keeps the memory that it names, and so does each post of it until it is done.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Batch {
    pub(super) steps: Vec<Step>,
    pub(super) kept: Vec<Memory>,
    timeout: Option<Duration>,
}

impl Batch {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long each operation may take, from when the stream comes to it; without it as the queue has it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How many operations it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Sends elements of a buffer.
    ///
    /// # Errors
    /// Elements that the buffer does not have; a full batch.
    pub fn send<T: Plain>(
        &mut self,
        socket: Handle,
        buffer: &Buffer<T>,
        range: impl RangeBounds<usize>,
    ) -> Result<&mut Self, StreamError> {
        let range = within(&range, buffer.len());
        self.transfer(OpKind::Send, socket, buffer.locate_range(range)?)
    }

    /// Fills elements of a buffer with what is received.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn receive<T: Plain>(
        &mut self,
        socket: Handle,
        buffer: &Buffer<T>,
        range: impl RangeBounds<usize>,
    ) -> Result<&mut Self, StreamError> {
        let range = within(&range, buffer.len());
        self.transfer(OpKind::Receive, socket, buffer.locate_range(range)?)
    }

    /// Sends bytes of GPU memory that the program has from elsewhere: a tensor's, say.
    ///
    /// # Safety
    /// `address` leads to so many bytes that kernels on this GPU can read, until the operation is done.
    ///
    /// # Errors
    /// A full batch.
    #[allow(unsafe_code, reason = "a promise of the caller's")]
    pub unsafe fn send_raw(
        &mut self,
        socket: Handle,
        address: *const u8,
        bytes: usize,
    ) -> Result<&mut Self, StreamError> {
        let address = address.cast_mut();
        self.transfer(OpKind::Send, socket, Located { memory: None, address, bytes })
    }

    /// Fills such memory with what is received.
    ///
    /// # Safety
    /// As [`send_raw`](Self::send_raw), for writes, by nobody else meanwhile.
    ///
    /// # Errors
    /// A full batch.
    #[allow(unsafe_code, reason = "a promise of the caller's")]
    pub unsafe fn receive_raw(
        &mut self,
        socket: Handle,
        address: *mut u8,
        bytes: usize,
    ) -> Result<&mut Self, StreamError> {
        self.transfer(OpKind::Receive, socket, Located { memory: None, address, bytes })
    }

    /// Waits until a word is what the condition and the value say.
    ///
    /// # Errors
    /// A word that is not there; a full batch.
    pub fn wait<W: Words>(
        &mut self,
        words: &W,
        index: usize,
        condition: Condition,
        value: W::Word,
    ) -> Result<&mut Self, StreamError> {
        let Located { memory, address, .. } = words.locate(index)?;
        let (width, value) = (<W::Word as Word>::WIDTH, value.number());
        self.push(Step::Wait { address, width, condition, value }, memory)
    }

    /// Writes a word.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn write<W: Words>(
        &mut self,
        words: &W,
        index: usize,
        value: W::Word,
    ) -> Result<&mut Self, StreamError> {
        let Located { memory, address, .. } = words.locate(index)?;
        let (width, value) = (<W::Word as Word>::WIDTH, value.number());
        self.push(Step::Write { address, width, value }, memory)
    }

    fn transfer(
        &mut self,
        kind: OpKind,
        socket: Handle,
        located: Located,
    ) -> Result<&mut Self, StreamError> {
        let Located { memory, address, bytes } = located;
        self.push(Step::Transfer { kind, socket, address, bytes: bytes as u64 }, memory)
    }

    fn push(&mut self, step: Step, memory: Option<Memory>) -> Result<&mut Self, StreamError> {
        if self.steps.len() == MAX_BATCH {
            return Err(StreamLimit::Operations {
                what: "operations of a batch",
                possible: MAX_BATCH,
                remedy: "post it, and put the others into the next one",
            }
            .into());
        }
        self.steps.push(step);
        self.kept.extend(memory);
        Ok(self)
    }

    /// Whether all buffers are memory of that GPU.
    pub(super) fn check(&self, gpu: &Gpu) -> Result<(), LaunchError> {
        gpu.check_reach(&self.kept)
    }

    /// Bytes of the longest transfer.
    pub(super) fn longest(&self) -> u64 {
        let bytes = |step: &Step| match step {
            Step::Transfer { bytes, .. } => *bytes,
            _ => 0,
        };
        self.steps.iter().map(bytes).max().unwrap_or(0)
    }

    /// The operations, with the words that `words` gives each.
    pub(super) fn ops(
        &self,
        timeout: Duration,
        mut words: impl FnMut(usize, Option<(Handle, OpKind)>) -> OpWords,
    ) -> Vec<Op> {
        // 0 would be no limit.
        let timeout = self.timeout.unwrap_or(timeout).as_nanos().clamp(1, u64::MAX.into()) as u64;
        let op = |(index, step): (usize, &Step)| {
            let transfer = match step {
                Step::Transfer { kind, socket, .. } => Some((*socket, *kind)),
                _ => None,
            };
            let words = words(index, transfer);
            // SAFETY: the batch keeps what it names, the queue the words, and callers what is raw.
            #[allow(unsafe_code, reason = "names memory that is kept")]
            unsafe {
                match *step {
                    Step::Transfer { kind, socket, address, bytes } => {
                        Op::transfer(kind, socket, address, bytes, timeout, words)
                    }
                    Step::Wait { address, width, condition, value } => {
                        Op::wait(address, width, condition, value, timeout, words)
                    }
                    Step::Write { address, width, value } => {
                        Op::write(address, width, value, words)
                    }
                }
            }
        };
        self.steps.iter().enumerate().map(op).collect()
    }
}

/// Elements that a range names, of so many; what is beyond the end is refused later.
fn within(range: &impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => len,
    };
    start..end
}
