//! What can go wrong with a net, and whose fault it is.

use gpu_usermap::AccessError;
use gpunet_device::{Domain, Errno, SocketAddr};

use crate::gpu::{GpuError, KernelError};
use crate::memory::ControlMemoryRefused;

/// An error of a net.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The caller's: a setting that makes no sense.
    #[error("a net cannot be made so: {0}")]
    Setting(&'static str),
    /// The system's: the net was to use RDMA, and there is none.
    #[error(transparent)]
    Rdma(#[from] rsocket_shim::load::LoadError),
    /// The system's: the net was to have p2p streams, and they cannot be had.
    #[error("no p2p streams between kernels here: {0}")]
    Local(String),
    /// The system's: the net was to have its control memory on the GPU, and cannot.
    #[error(transparent)]
    ControlMemory(#[from] ControlMemoryRefused),
    /// The system's: the GPU memory with the net's control block was taken away, as when a device is reset.
    #[error("the net is down: its control memory on the GPU is lost ({0}); make a new net")]
    ControlMemoryLost(#[from] AccessError),
    /// The GPU's, or the launch's shape.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The system's.
    #[error("{call}: {source}")]
    System {
        /// What was tried.
        call: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The address's: nobody can listen there, or not so.
    #[error("cannot listen at {address}: {call}: {errno}{}", listen_remedy(*.errno, .address))]
    Listen {
        /// Where.
        address: Box<SocketAddr>,
        /// What was tried.
        call: &'static str,
        /// How it failed.
        errno: Errno,
    },
    /// A socket's: what the call on it came to.
    #[error("{call}: {errno}")]
    Socket {
        /// What was tried.
        call: &'static str,
        /// How it failed.
        errno: Errno,
    },
    /// The caller's: sockets are taken back only when no kernel runs on the net and no queue is open.
    #[error("a kernel runs on this net, or a queue is open: wait for it, or drop it, first")]
    Busy,
    /// Ours: a proxy thread has panicked.
    #[error("the net is down: one of its proxy threads panicked; make a new net")]
    Down,
    /// The kernel's: an earlier launch faulted and may have left locks taken.
    #[error("an earlier kernel of this net faulted; make a new net")]
    Faulted,
    /// The caller's: too many launches at once.
    #[error("{0} launches run on this net already")]
    TooManyLaunches(u32),
    /// The caller's: too many operations at once.
    #[error("{what}: at most {possible}; {remedy}")]
    TooManyOperations {
        /// Of which there are too many.
        what: &'static str,
        /// How many there may be.
        possible: usize,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The caller's: a lease that is closed, or whose net is gone.
    #[error("the lease is closed, or its net is gone: take a new one")]
    LeaseClosed,
    /// The caller's: a stream that a lease was not taken for.
    #[error("the stream is none of this lease's: take a lease with it")]
    OtherStream,
    /// The caller's: the net of a queue is gone.
    #[error("the net of this queue is gone")]
    Gone,
    /// Nobody answered in time.
    #[error("{call}: no answer within {seconds} s")]
    NoAnswer {
        /// What was asked.
        call: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
}

debug_as_sentence!(NetError, WaitError);

/// What to do about it, where that is known.
fn listen_remedy(errno: Errno, address: &SocketAddr) -> &'static str {
    match errno {
        Errno::EADDRINUSE if address.domain() == Some(Domain::Unix) => {
            "; the path exists: if no server uses it, remove it, or choose another"
        }
        Errno::EADDRINUSE => {
            "; another socket has that port: choose another one, or have both share it \
             (ListenOptions::reuse_port)"
        }
        Errno::EACCES if (1..1024).contains(&address.port()) => {
            "; ports below 1024 are for privileged programs"
        }
        _ => "",
    }
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
        after: std::time::Duration,
    },
}

fn what_runs(operation: Option<usize>) -> String {
    operation.map_or("the kernel still runs".to_owned(), |index| {
        format!("operation {index} is not done")
    })
}
