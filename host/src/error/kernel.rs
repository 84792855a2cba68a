//! How a kernel ended, and waiting for that.

use std::time::Duration;

use gpunet_device::Errno;
use gpunet_device::simt::Scope;

/// How a kernel ended, when not well.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// An illegal address, a trap, or a panic.
    #[error("kernel '{kernel}' faulted{}: {message}", place(*.block, *.thread))]
    Fault {
        /// The kernel; on CUDA the one that was looked at first, if several ran.
        kernel: String,
        /// Block of the thread, where known.
        block: Option<u32>,
        /// Rank of the thread in its block, where known.
        thread: Option<u32>,
        /// The panic's message and place, or the driver's error.
        message: String,
    },
    /// A barrier that can never be complete, or that threads reach from different places.
    #[error(
        "kernel '{kernel}', block {block}: not all threads of the {} reach one barrier: {waiting}; \
         {others}",
        scope_name(*.scope)
    )]
    DivergentBarrier {
        /// The kernel.
        kernel: String,
        /// The block.
        block: u32,
        /// Whom the barrier spans.
        scope: Scope,
        /// Who waits, and where.
        waiting: String,
        /// Who ended, or waits somewhere else.
        others: String,
    },
    /// Threads of a group made different calls, or gave different arguments, where all must agree.
    #[error(
        "kernel '{kernel}', block {block}: threads of a {} must make the same call with the same \
         arguments: {first}; {second}",
        scope_name(*.scope)
    )]
    DivergentCall {
        /// The kernel.
        kernel: String,
        /// The block.
        block: u32,
        /// Whom the call spans.
        scope: Scope,
        /// Who called what first.
        first: String,
        /// Who called what else.
        second: String,
    },
    /// Every thread of a block that is left waits for another.
    #[error("kernel '{kernel}', block {block}: every thread waits for others: {waiting}")]
    Deadlock {
        /// The kernel.
        kernel: String,
        /// The block.
        block: u32,
        /// Who waits where.
        waiting: String,
    },
    /// Another kernel's fault, or the driver, ended the context while this kernel ran.
    #[error("kernel '{kernel}' was lost with its GPU context: {cause}")]
    ContextLost {
        /// The kernel.
        kernel: String,
        /// What ended the context.
        cause: String,
    },
    /// Ended by [`Running::kill`](crate::gpu::Running::kill), or because its GPU was dropped.
    #[error("kernel '{kernel}' was killed by the host")]
    Killed {
        /// The kernel.
        kernel: String,
    },
    /// The caller's: a forked process asks for a kernel or stream of its parent's.
    #[error(
        "it runs in the process that launched it, from which this one was forked: wait for it there"
    )]
    Forked,
    /// The emulated GPU got no stack for a thread.
    #[error(
        "kernel '{kernel}': no stack for a GPU thread ({reason}): launch fewer threads at once"
    )]
    NoStack {
        /// The kernel.
        kernel: String,
        /// The system's words.
        reason: String,
    },
}

/// How work ended, when not well, or that it has not ended.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The kernel's fault: nothing more runs on its stream.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The peer's, the system's or the deadline's, as the error number says. ECANCELED: an earlier
    /// operation on the socket failed, or the queue or the net was stopped.
    #[error("operation {index} failed: {errno}")]
    Operation {
        /// Which one of the batch or graph, from 0: the first that did.
        index: usize,
        /// How.
        errno: Errno,
    },
    /// It still runs.
    #[error("{} after {after:?}; abort it, or look at the net's dump", what_runs(*.operation))]
    StillRunning {
        /// The first operation that is not done, where it has some.
        operation: Option<usize>,
        /// How long it was waited for.
        after: Duration,
    },
}

fn what_runs(operation: Option<usize>) -> String {
    operation.map_or("the kernel still runs".to_owned(), |index| {
        format!("operation {index} is not done")
    })
}

fn place(block: Option<u32>, thread: Option<u32>) -> String {
    match (block, thread) {
        (Some(block), Some(thread)) => format!(" in block {block}, thread {thread}"),
        _ => String::new(),
    }
}

pub(crate) fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Block => "block",
        Scope::Warp => "warp",
    }
}
