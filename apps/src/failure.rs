//! Why the program cannot go on: one line for people, and the exit status that goes with it.

use std::fmt;
use std::io;

use gpunet_device::Errno;
use gpunet_host::{
    LaunchError, LoadError, MemoryError, NetError, OpenError, SocketError, StreamError, WaitError,
};
use gpunet_terminal::output::{NotWritten, one_line};

/// What went wrong, by what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It cannot be done as asked; nothing was measured.
    Refused(String),
    /// Bytes were lost or wrong, or a connection broke, while measuring.
    Lost(String),
    /// The user interrupted.
    Interrupted,
}

impl Failure {
    /// It cannot be done as asked.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }

    /// Something went wrong on the way.
    pub fn lost(why: impl Into<String>) -> Self {
        Self::Lost(why.into())
    }

    /// From a call on a CPU socket.
    #[must_use]
    pub fn of_socket(doing: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::Lost(format!("{doing}: nothing moved for --timeout")),
            _ => Self::Lost(format!("{doing}: {error}")),
        }
    }

    /// From what a kernel reported for a block.
    #[must_use]
    pub fn of_kernel(doing: &str, errno: Errno) -> Self {
        Self::Lost(match errno {
            Errno::EIO => format!("{doing}: bytes came back wrong"),
            Errno::ETIMEDOUT => format!("{doing}: nothing moved for --timeout"),
            _ => format!("{doing}: {errno}"),
        })
    }

    /// What the program ends with.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Lost(_) => 1,
            Self::Interrupted => 130,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) | Self::Lost(why) => f.write_str(&one_line(why)),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<NotWritten> for Failure {
    fn from(error: NotWritten) -> Self {
        Self::Refused(error.to_string())
    }
}

/// What the host refuses before anything has run.
macro_rules! refused {
    ($($error:ty),*) => { $(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Refused(error.to_string())
            }
        }
    )* };
}
refused!(OpenError, LoadError, LaunchError, MemoryError, NetError, SocketError, StreamError);

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        Self::Lost(error.to_string())
    }
}
