//! Answers on their way to a client: staged in shared memory, sent when the stage is full or the
//! requests at hand are answered, kept in a block of the heap while the client does not read.

use gpunet_device::calls::{MSG_DONTWAIT, gsend};
use gpunet_device::{Errno, Group, Handle, On, SharedBuf, buf};

use crate::connection::Record;
use crate::heap::{Block, Heap, MOST};
use crate::memory::Counter;
use crate::shares::Shares;

/// The answers of one connection at one event.
pub(crate) struct Output<G: Group> {
    pub(crate) on: On<G>,
    pub(crate) heap: Heap,
    shares: Shares,
    /// The connection.
    number: u32,
    handle: Handle,
    /// The share of the block in which its input is.
    pub(crate) input: usize,
    stage: SharedBuf,
    staged: usize,
    /// What the client has not taken: bytes `kept_sent..kept_len` of the block, or of the connection's piece.
    pub(crate) kept: Block,
    kept_sent: usize,
    kept_len: usize,
    /// Whether anything is to be kept.
    pub(crate) keeps: bool,
    /// Bytes that went into the send ring.
    pub(crate) sent: u64,
    /// Why nothing more can be sent: the connection is to be closed.
    pub(crate) failed: Option<Errno>,
}

impl<G: Group> Output<G> {
    pub(crate) fn new(on: On<G>, shares: Shares, stage: SharedBuf) -> Self {
        Self {
            on,
            heap: shares.memory.heap(),
            shares,
            number: 0,
            handle: Handle(0),
            input: 0,
            stage,
            staged: 0,
            kept: Block::NONE,
            kept_sent: 0,
            kept_len: 0,
            keeps: true,
            sent: 0,
            failed: None,
        }
    }

    /// Begins with a connection and what is kept of it.
    pub(crate) fn begin(&mut self, number: u32, record: &Record) {
        (self.number, self.handle, self.input) = (number, record.handle, record.input.share());
        (self.staged, self.sent, self.failed) = (0, 0, None);
        (self.kept, self.kept_sent) = (record.output, record.output_sent as usize);
        self.kept_len = record.output_len as usize;
    }

    /// Notes in the connection's record what is kept.
    pub(crate) fn end(&self, record: &mut Record) {
        record.output = self.kept;
        record.output_sent = self.kept_sent as u32;
        record.output_len = self.kept_len as u32;
    }

    #[inline(always)]
    pub(crate) fn is_blocked(&self) -> bool {
        self.kept_len > 0
    }

    /// Where it is kept.
    fn memory(&self) -> SharedBuf {
        let [_, piece] = self.shares.memory.pieces(self.number);
        if self.kept.is_none() { piece } else { self.heap.memory(self.kept) }
    }

    #[inline(never)]
    pub(crate) fn write(&mut self, bytes: SharedBuf) {
        if bytes.len() <= self.stage.len() - self.staged {
            let to = self.stage.slice(self.staged, bytes.len());
            buf::copy(self.on.group(), bytes, to);
            self.staged += bytes.len();
        } else {
            self.write_long(bytes);
        }
    }

    /// Bytes that do not fit into the stage: sent from where they are.
    fn write_long(&mut self, bytes: SharedBuf) {
        self.flush_full();
        self.send_or_keep(bytes);
    }

    /// Writes `length` bytes, at most what the stage holds; each thread works out those that it writes.
    #[inline(always)]
    pub(crate) fn write_with(&mut self, length: usize, byte: impl Fn(usize) -> u8) {
        if length > self.stage.len() - self.staged {
            self.flush_full();
        }
        let (group, to) = (self.on.group(), self.stage.slice(self.staged, length));
        let (rank, size) = (group.rank(), group.size());
        // Most answers are a byte a thread, and then no loop.
        if rank < to.len() {
            to.set(rank, byte(rank));
        }
        if to.len() > size {
            write_rest(to, rank + size, size, &byte);
        }
        self.staged += to.len();
    }

    #[inline(never)]
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        self.write_with(bytes.len(), |at| bytes.get(at).copied().unwrap_or(b' '));
    }

    #[inline(never)]
    pub(crate) fn write_number(&mut self, number: i64) {
        let (negative, magnitude) = (usize::from(number < 0), number.unsigned_abs());
        let mut digits = 1;
        let mut rest = magnitude;
        while rest >= 10 {
            (digits, rest) = (digits + 1, rest / 10);
        }
        let length = digits + negative;
        self.write_with(length, |at| {
            if at < negative {
                return b'-';
            }
            let mut rest = magnitude;
            for _ in at + 1..length {
                rest /= 10;
            }
            b'0' + (rest % 10) as u8
        });
    }

    /// Sends what is staged; what the client does not take is kept.
    #[inline(always)]
    pub(crate) fn flush(&mut self) {
        let staged = self.stage.first(self.staged);
        self.staged = 0;
        if staged.is_empty() {
            return;
        }
        if !self.is_blocked() && self.failed.is_none() {
            // All threads have written their bytes: a send begins with a barrier. Nearly all answers
            // go out as a whole.
            let sent = gsend(self.on.net(), self.on.group(), self.handle, staged, MSG_DONTWAIT);
            if sent == staged.len() as i64 {
                self.sent += sent as u64;
                // All threads have copied before the stage is written again.
                return self.on.group().barrier();
            }
            if sent > 0 {
                self.sent += sent as u64;
                return self.flush_rest(staged.slice(sent as usize, usize::MAX));
            }
        }
        self.flush_rest(staged);
    }

    /// The same where more is to be written than there is room for.
    #[cold]
    #[inline(never)]
    fn flush_full(&mut self) {
        self.flush();
    }

    /// What was not sent at once.
    #[cold]
    #[inline(never)]
    fn flush_rest(&mut self, staged: SharedBuf) {
        // All threads have written their bytes.
        self.on.group().barrier();
        self.send_or_keep(staged);
        // All threads have copied before the stage is written again.
        self.on.group().barrier();
    }

    #[inline(never)]
    fn send_or_keep(&mut self, bytes: SharedBuf) {
        if bytes.is_empty() || self.failed.is_some() {
            return;
        }
        let sent = if self.is_blocked() { 0 } else { self.send(bytes) };
        let rest = bytes.slice(sent, bytes.len());
        if !rest.is_empty() && self.failed.is_none() {
            self.keep(rest);
        }
    }

    /// Sends as much as there is room for.
    #[inline(never)]
    fn send(&mut self, bytes: SharedBuf) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let rest = bytes.slice(done, bytes.len());
            let sent = gsend(self.on.net(), self.on.group(), self.handle, rest, MSG_DONTWAIT);
            match Errno::check(sent) {
                Ok(0) | Err(Errno::EAGAIN) => break,
                Ok(sent) => done += sent as usize,
                Err(errno) => {
                    self.failed = Some(errno);
                    break;
                }
            }
        }
        self.sent += done as u64;
        done
    }

    /// Appends to what is kept.
    #[inline(never)]
    fn keep(&mut self, bytes: SharedBuf) {
        if !self.keeps {
            return;
        }
        let group = self.on.group();
        if self.kept_len + bytes.len() > self.memory().len() {
            let unsent = self.kept_len - self.kept_sent;
            let needed = unsent + bytes.len();
            // Twice as much the second time, so that many short answers are not copied again and again.
            let wanted = if self.kept.is_none() { needed } else { 2 * needed };
            let block = self.shares.allocate(group, wanted.min(MOST).max(needed), self.input);
            if block.is_none() {
                self.failed = Some(Errno::ENOMEM);
                if group.is_leader() {
                    self.shares.memory.count(Counter::Reclaimed, 1);
                }
                return;
            }
            let old = self.memory().slice(self.kept_sent, unsent);
            buf::copy(group, old, self.heap.memory(block));
            group.barrier();
            self.free();
            (self.kept, self.kept_sent, self.kept_len) = (block, 0, unsent);
        }
        buf::copy(group, bytes, self.memory().slice(self.kept_len, bytes.len()));
        group.barrier();
        self.kept_len += bytes.len();
    }

    /// A block of at least this size.
    #[inline(never)]
    pub(crate) fn allocate(&self, bytes: usize) -> Block {
        self.shares.allocate(self.on.group(), bytes, self.input + self.kept.share())
    }

    /// Gives the block back, if there is one. All threads are done with it.
    fn free(&mut self) {
        if self.on.group().is_leader() {
            self.heap.free(self.kept);
        }
        (self.kept, self.kept_sent, self.kept_len) = (Block::NONE, 0, 0);
    }

    /// Sends what is kept, as much as there is room for.
    #[inline(never)]
    pub(crate) fn send_kept(&mut self) {
        let left = self.memory().first(self.kept_len);
        self.kept_sent += self.send(left.slice(self.kept_sent, self.kept_len));
        if self.kept_sent == self.kept_len {
            self.on.group().barrier();
            self.free();
        }
    }
}

/// A thread's bytes of an answer that is longer than the group has threads.
#[inline(never)]
fn write_rest(to: SharedBuf, mut at: usize, size: usize, byte: &impl Fn(usize) -> u8) {
    while at < to.len() {
        to.set(at, byte(at));
        at += size;
    }
}
