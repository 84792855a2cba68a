//! Stream-ordered operations on the device: what one is, and how a block, a warp or a thread carries it out.
//!
//! The host makes them: a send from GPU memory, a receive into it, a wait for a word, a write of one. Its
//! kernel `operations` runs batches of them in the order of a CUDA stream; a kernel of the program runs
//! those that were prepared for it ([`PreparedOps`]). An operation ends by its deadline at the latest, and
//! says how in its status word, which the host reads. After one that failed, later ones in the same
//! direction of that socket fail at once with ECANCELED: a stream of bytes with a hole in it is of no use.
//!
//! | word | writer | reader | memory | ordering |
//! | --- | --- | --- | --- | --- |
//! | status: runs (bits 32 to 63), errno (0 to 31) | leader of who runs the operation | host, by polling | host | release behind a barrier, system scope; acquire: the bytes of a receive are there |
//! | latch, one for each direction of a socket: generation (32 to 63), errno (0 to 31) | as above, where it failed | leader of who runs the next one | GPU | relaxed: kernels of one stream follow one another |
//! | runs | leader of who runs the operation | the same | GPU | relaxed |

#![allow(unsafe_code, reason = "reaches the memory that the host has named")]

mod condition;

use core::ptr;
use core::sync::atomic::Ordering;

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::option::SocketOption;
use crate::abi::word::Word;
use crate::group::{Group, Thread};
use crate::kernel::KernelArg;
use crate::library;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::sync::{AtomicRef, System};

pub use condition::{Condition, Width};
pub(crate) use condition::{how, word_holds};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpKind {
    /// Sends bytes of GPU memory.
    Send = 0,
    /// Fills GPU memory with received bytes.
    Receive = 1,
    /// Waits for a word.
    Wait = 2,
    /// Writes a word.
    Write = 3,
}

/// One operation, as the host writes it. 64 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Op {
    kind: u8,
    condition: u8,
    width: u8,
    reserved: [u8; 5],
    /// The socket's handle; the value of a word.
    argument: u64,
    /// Where the bytes or the word are.
    address: *mut u8,
    length: u64,
    timeout_ns: u64,
    latch: *mut u64,
    status: *mut u64,
    /// Null: it runs once.
    runs: *mut u64,
}

const _: () = assert!(size_of::<Op>() == 64);

// SAFETY: the addresses lead to memory that the host keeps for as long as kernels may run it, and every
// word there is reached atomically.
unsafe impl Send for Op {}
// SAFETY: as above.
unsafe impl Sync for Op {}

/// Where an operation says how it went, and what it goes by.
#[derive(Clone, Copy, Debug)]
pub struct OpWords {
    /// In host memory.
    pub status: *mut u64,
    /// In GPU memory, of the socket's direction; null for words, and for handles of no socket.
    pub latch: *mut u64,
    /// In GPU memory, for one that runs more than once; else null.
    pub runs: *mut u64,
}

impl Op {
    const NONE: Self = Self {
        kind: OpKind::Write as u8,
        condition: 0,
        width: 0,
        reserved: [0; 5],
        argument: 0,
        address: ptr::null_mut(),
        length: 0,
        timeout_ns: 0,
        latch: ptr::null_mut(),
        status: ptr::null_mut(),
        runs: ptr::null_mut(),
    };

    /// A send or a receive of `length` bytes at `address`, within `timeout_ns`, or with 0 in any time.
    ///
    /// # Safety
    /// The bytes and the words stay valid, at these addresses of the GPU, as long as a kernel may run it.
    pub const unsafe fn transfer(
        kind: OpKind,
        socket: Handle,
        address: *mut u8,
        length: u64,
        timeout_ns: u64,
        words: OpWords,
    ) -> Self {
        let OpWords { status, latch, runs } = words;
        let kind = kind as u8;
        Self {
            kind,
            argument: socket.0,
            address,
            length,
            timeout_ns,
            latch,
            status,
            runs,
            ..Self::NONE
        }
    }

    /// A wait for the word at `address`.
    ///
    /// # Safety
    /// As [`transfer`](Self::transfer); the word is aligned to its width.
    pub const unsafe fn wait(
        address: *mut u8,
        width: Width,
        condition: Condition,
        value: u64,
        timeout_ns: u64,
        words: OpWords,
    ) -> Self {
        let OpWords { status, runs, .. } = words;
        let (kind, width, condition) = (OpKind::Wait as u8, width as u8, condition as u8);
        Self {
            kind,
            width,
            condition,
            argument: value,
            address,
            timeout_ns,
            status,
            runs,
            ..Self::NONE
        }
    }

    /// A write of the word at `address`.
    ///
    /// # Safety
    /// As [`wait`](Self::wait).
    pub const unsafe fn write(address: *mut u8, width: Width, value: u64, words: OpWords) -> Self {
        let OpWords { status, runs, .. } = words;
        let (kind, width) = (OpKind::Write as u8, width as u8);
        Self { kind, width, argument: value, address, status, runs, ..Self::NONE }
    }

    /// The socket of a transfer.
    #[cfg(not(target_arch = "nvptx64"))]
    fn socket(&self) -> Option<Handle> {
        let transfers = self.kind <= OpKind::Receive as u8;
        transfers.then_some(Handle(self.argument))
    }

    /// Carries it out: 0, or the negative number of the error that its status has, too.
    #[inline(always)]
    fn run<G: Group>(self, net: Net, group: G) -> i64 {
        if planted(Bug::StatusBeforeBytes) && group.is_leader() {
            self.report(0);
        }
        let result = if self.kind <= OpKind::Receive as u8 {
            self.transfer_bytes(net, group)
        } else if self.kind == OpKind::Wait as u8 {
            let how = how(self.condition, self.width);
            // SAFETY: `wait` promises the word.
            unsafe {
                library::wait_word(net, group, self.address, how, self.argument, self.timeout_ns)
            }
        } else {
            // What threads did before is visible to who sees the word.
            group.barrier();
            if group.is_leader() {
                self.write_word();
            }
            0
        };
        // All threads have received their part before the status says so.
        group.barrier();
        if group.is_leader() {
            self.report(result);
        }
        result
    }

    #[inline(always)]
    fn transfer_bytes<G: Group>(&self, net: Net, group: G) -> i64 {
        let begun = simt::now_ns();
        // The leader's alone. Negative: there is nothing to restore.
        let mut own_limit = -1;
        let [earlier] = group.leader_only(|| {
            let failed = self.latched();
            if !failed && self.timeout_ns != 0 {
                own_limit = self.own_limit(net);
                self.limit(net, self.timeout_ns);
            }
            [u64::from(failed)]
        });
        if earlier != 0 {
            return Errno::ECANCELED.negative();
        }
        let result = self.move_bytes(net, group, begun);
        // Kernels that use the socket afterwards have the timeout that they had.
        if self.timeout_ns != 0 {
            let [_] = group.leader_only(|| {
                if own_limit >= 0 {
                    self.limit(net, own_limit as u64);
                }
                [0]
            });
        }
        result
    }

    /// Moves all bytes, or up to the first error.
    #[inline(always)]
    fn move_bytes<G: Group>(&self, net: Net, group: G, begun: u64) -> i64 {
        let handle = Handle(self.argument);
        let (length, mut moved) = (self.length as usize, 0);
        // Counted: each turn moves a byte or more, or is the last.
        loop {
            let left = length - moved;
            // SAFETY: `transfer` promises the bytes.
            let more = unsafe {
                let at = self.address.add(moved);
                match self.kind == OpKind::Send as u8 {
                    true => library::send_piece(net, group, handle.0, at, left, 0),
                    false => library::receive(net, group, handle.0, at, left, 0),
                }
            };
            if more < 0 {
                return more;
            }
            moved += more as usize;
            if moved >= length {
                return 0;
            }
            if more == 0 {
                // The peer has ended the stream before all of it was there.
                return Errno::EPIPE.negative();
            }
            if self.timeout_ns != 0 && !planted(Bug::DeadlineOfFirstPiece) {
                let [late] = group.leader_only(|| {
                    let spent = simt::now_ns().saturating_sub(begun);
                    let left_ns = self.timeout_ns.saturating_sub(spent);
                    if left_ns != 0 {
                        self.limit(net, left_ns);
                    }
                    [u64::from(left_ns == 0)]
                });
                if late != 0 {
                    return Errno::ETIMEDOUT.negative();
                }
            }
        }
    }

    /// The option that ends waits in this direction.
    #[inline(always)]
    const fn limit_option(&self) -> u32 {
        match self.kind == OpKind::Send as u8 {
            true => SocketOption::SendTimeout as u32,
            false => SocketOption::ReceiveTimeout as u32,
        }
    }

    /// Has the next wait on the socket end by then. One thread calls it.
    #[inline(always)]
    fn limit(&self, net: Net, ns: u64) {
        // SAFETY: numbers alone. A socket that is gone says so to the call that follows.
        let _ = unsafe { library::set_option(net, Thread, self.argument, self.limit_option(), ns) };
    }

    /// When waits end that are none of an operation's; negative where there is no socket. One thread calls
    /// it.
    #[inline(always)]
    fn own_limit(&self, net: Net) -> i64 {
        // SAFETY: numbers alone.
        unsafe { library::get_option(net, Thread, self.argument, self.limit_option()) }
    }

    /// Whether an earlier operation of this socket's direction has failed.
    #[inline(always)]
    fn latched(&self) -> bool {
        if self.latch.is_null() || planted(Bug::LatchIgnored) {
            return false;
        }
        // SAFETY: `transfer` promises the word.
        let latch = unsafe { Word::at(self.latch) }.load();
        latch as u32 != 0 && (latch >> 32) as u32 == Handle(self.argument).generation()
    }

    /// Has later operations of this socket's direction fail. One thread calls it.
    #[inline(always)]
    fn note_failure(&self, errno: u64) {
        // SAFETY: `transfer` promises the word.
        let latch = unsafe { Word::at(self.latch) };
        let generation = Handle(self.argument).generation();
        let newer = ((latch.load() >> 32) as u32).wrapping_sub(generation) as i32 > 0;
        // A handle of no socket gets EBADF every time. The socket that has the place now, or had it
        // after this one, keeps its mark.
        if errno != Errno::EBADF.0 as u64 && !newer {
            latch.store(u64::from(generation) << 32 | errno);
        }
    }

    fn write_word(&self) {
        // SAFETY: `write` promises the word.
        unsafe {
            if self.width == Width::Bits32 as u8 {
                let word = AtomicRef::<u32, System>::from_ptr(self.address.cast());
                word.store(self.argument as u32, Ordering::Release);
            } else {
                let word = AtomicRef::<u64, System>::from_ptr(self.address.cast());
                word.store(self.argument, Ordering::Release);
            }
        }
    }

    /// Says how it went. One thread calls it, behind a barrier of the group.
    fn report(&self, result: i64) {
        let errno = if result < 0 { -result as u64 } else { 0 };
        if errno != 0 && !self.latch.is_null() {
            self.note_failure(errno);
        }
        let mut run = 1;
        if !self.runs.is_null() {
            // SAFETY: the makers promise the word. One kernel at a time runs the operation.
            let runs = unsafe { Word::at(self.runs) };
            run = runs.load().wrapping_add(1);
            if !planted(Bug::RunsNotCounted) {
                runs.store(run);
            }
        }
        if errno != 0 && planted(Bug::FailureNotWritten) {
            return;
        }
        // SAFETY: the makers promise the word. Release: who sees it sees the bytes.
        unsafe { Word::at(self.status) }.store_release(run << 32 | errno);
    }
}

/// Operations that one launch of the host's kernel carries in its arguments.
pub const OPS_OF_LAUNCH: usize = 7;

/// Some operations, as an argument of a kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OpBatch {
    count: u64,
    ops: [Op; OPS_OF_LAUNCH],
}

// SAFETY: repr(C) of numbers and addresses of the GPU.
unsafe impl KernelArg for OpBatch {
    #[cfg(not(target_arch = "nvptx64"))]
    fn sockets(&self, each: &mut dyn FnMut(Handle)) {
        self.ops.iter().take(self.count as usize).filter_map(Op::socket).for_each(each);
    }
}

impl OpBatch {
    /// As many of the operations as one launch takes.
    pub fn new(from: &[Op]) -> Self {
        let mut ops = [Op::NONE; OPS_OF_LAUNCH];
        let mut count = 0;
        for (to, op) in ops.iter_mut().zip(from) {
            *to = *op;
            count += 1;
        }
        Self { count, ops }
    }

    /// Carries them out, one after the other. Errors stand in their statuses.
    #[inline(always)]
    pub fn run<G: Group>(&self, net: Net, group: G) {
        let mut at = 0;
        // Counted: by the operations.
        while at < self.count {
            // An index would have the compiler copy all of them onto the stack first.
            let [a, b, c, d, e, f, g] = &self.ops;
            let op = match at {
                0 => *a,
                1 => *b,
                2 => *c,
                3 => *d,
                4 => *e,
                5 => *f,
                _ => *g,
            };
            op.run(net, group);
            at += 1;
        }
    }
}

/// Operations that the host has prepared in GPU memory, for kernels to run: an argument of theirs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PreparedOps {
    ops: *const Op,
    count: u64,
}

// SAFETY: the host keeps the operations, which do not change, for all kernels that are given them.
unsafe impl Send for PreparedOps {}
// SAFETY: as above.
unsafe impl Sync for PreparedOps {}
// SAFETY: an address of the GPU and a number.
unsafe impl KernelArg for PreparedOps {}

impl PreparedOps {
    /// For the host crate.
    ///
    /// # Safety
    /// `ops` leads to so many operations in memory that kernels reach, and that outlives those that are
    /// given the value; they do not change.
    pub const unsafe fn new(ops: *const Op, count: usize) -> Self {
        Self { ops, count: count as u64 }
    }

    /// How many there are.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Triggers an operation and waits for it; all threads of the group call it. 0, or a negative error
    /// number: EINVAL where there is no such operation. One group at a time runs each of them.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn run<G: Group>(self, net: Net, group: G, index: usize) -> i64 {
        group.agree("PreparedOps::run", &[self.ops as u64, index as u64]);
        if index >= self.len() {
            return Errno::EINVAL.negative();
        }
        // SAFETY: `new` promises as many.
        let op = unsafe { self.ops.add(index).read() };
        op.run(net, group)
    }
}
