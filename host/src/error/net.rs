//! Nets and their sockets.

use gpu_usermap::AccessError;
use gpunet_device::{Domain, Errno, SocketAddr};

use super::{GpuError, MemoryError};
use crate::memory::ControlMemoryRefused;

/// Why a net cannot be made.
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
    /// The system's: memory that cannot be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The system's.
    #[error("{call}: {source}")]
    System {
        /// What was tried.
        call: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Why a net is of no more use.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DownError {
    /// Ours: a proxy thread has panicked.
    #[error("the net is down: one of its proxy threads panicked; make a new net")]
    Panicked,
    /// The system's: the GPU memory with the net's control block was taken away, as when a device is reset.
    #[error("the net is down: its control memory on the GPU is lost ({0}); make a new net")]
    ControlMemoryLost(AccessError),
    /// The kernel's: an earlier launch faulted and may have left locks taken.
    #[error("an earlier kernel of this net faulted; make a new net")]
    Faulted,
    /// The GPU's context is lost, or it is that of the process from which this one was forked.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// Why the program cannot make, hand over, close, take back or describe sockets of a net.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
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
    /// The caller's: no listener has such a backlog.
    #[error("a listener cannot have a backlog of {0}: 1 to 4096")]
    Backlog(u32),
    /// A socket's: what the call on it came to.
    #[error("{call}: {errno}")]
    Call {
        /// What was tried.
        call: &'static str,
        /// How it failed.
        errno: Errno,
    },
    /// The caller's: sockets are taken back only when no kernel runs on the net and no queue is open.
    #[error("a kernel runs on this net, or a queue is open: wait for it, or drop it, first")]
    Busy,
    /// Ours: no answer in time.
    #[error("{call}: no answer within {seconds} s")]
    NoAnswer {
        /// What was asked.
        call: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The net is of no more use.
    #[error(transparent)]
    Down(#[from] DownError),
}

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
