//! What can go wrong on the host, a type for each operation. Every message is one line that says what to do.

mod gpu;
mod kernel;
mod net;

pub use gpu::{GpuError, LaunchError, LoadError, MemoryError, OpenError, StreamError, StreamLimit};
pub use kernel::{KernelError, WaitError};
pub use net::{DownError, NetError, SocketError};

pub(crate) use kernel::scope_name;

/// Who has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The program that called.
    Caller,
    /// The machine: driver, device, memory.
    System,
    /// The code of a kernel.
    Kernel,
}

/// Whose fault errors are; the caller's, where no pattern says otherwise.
macro_rules! blame {
    ($($error:ty { $($pattern:pat => $blame:expr,)* })*) => { $(
        impl $error {
            /// Who has to change something.
            #[must_use]
            pub fn blame(&self) -> Blame {
                match self { $($pattern => $blame,)* _ => Blame::Caller }
            }
        }
    )* };
}

blame! {
    GpuError {
        Self::Driver { .. } | Self::DriverTooOld { .. } | Self::System { .. } => Blame::System,
        Self::ContextLost { .. } => Blame::Kernel,
    }
    OpenError {
        Self::NoDriver | Self::NoDevice { .. } => Blame::System,
        Self::Gpu(error) => error.blame(),
    }
    LoadError { Self::Gpu(error) => error.blame(), }
    LaunchError {
        Self::Gpu(error) => error.blame(),
        Self::Down(DownError::Faulted) => Blame::Kernel,
        Self::Down(_) => Blame::System,
    }
    MemoryError {
        Self::Refused { .. } | Self::WindowFull { .. } | Self::Foreign(_) => Blame::System,
        Self::Gpu(error) => error.blame(),
    }
    StreamError {
        Self::Failed(_) => Blame::Kernel,
        Self::Launch(error) => error.blame(),
        Self::Load(error) => error.blame(),
        Self::Memory(error) => error.blame(),
    }
    KernelError {
        Self::NoStack { .. } => Blame::System,
        Self::Fault { .. } | Self::DivergentBarrier { .. } | Self::DivergentCall { .. } => Blame::Kernel,
        Self::Deadlock { .. } | Self::ContextLost { .. } => Blame::Kernel,
    }
}

debug_as_sentence! {
    GpuError, OpenError, LoadError, LaunchError, MemoryError, StreamError, StreamLimit,
    NetError, DownError, SocketError, KernelError, WaitError,
}
