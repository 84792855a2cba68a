//! Errors as exceptions: the classes of `gpunet._errors`, with the host crate's words.

use gpunet_host::gpu::Blame;
use gpunet_host::{
    DownError, Errno, GpuError, KernelError, LaunchError, LoadError, MemoryError, NetError,
    OpenError, SocketError, StreamError, StreamLimit, WaitError,
};
use pyo3::prelude::*;

/// An exception of that class, with attributes.
pub(crate) fn exception(
    class: &str,
    message: String,
    attributes: &[(&str, Option<i64>, Option<&str>)],
) -> PyErr {
    Python::attach(|py| {
        let made = || -> PyResult<PyErr> {
            let value = py.import("gpunet._errors")?.getattr(class)?.call1((message,))?;
            for (name, number, text) in attributes {
                match (number, text) {
                    (Some(number), _) => value.setattr(*name, number)?,
                    (None, text) => value.setattr(*name, text)?,
                }
            }
            Ok(PyErr::from_value(value))
        };
        made().unwrap_or_else(|error| error)
    })
}

fn blame(blame: Blame) -> &'static str {
    match blame {
        Blame::Caller => "caller",
        Blame::System => "system",
        Blame::Kernel => "kernel",
    }
}

fn errno_of(errno: Errno) -> Option<i64> {
    Some(i64::from(errno.0))
}

/// An error of the host crate that is an exception here.
pub(crate) trait Exception: Sized {
    fn exception(self) -> PyErr;
}

/// The exception for an error.
pub(crate) fn of(error: impl Exception) -> PyErr {
    error.exception()
}

/// The exceptions of errors that say who has to change something: a class, or another error's exception.
macro_rules! classes {
    ($($error:ident { $($pattern:pat => $class:expr,)* })*) => { $(
        impl Exception for $error {
            fn exception(self) -> PyErr {
                let (message, blame) = (self.to_string(), blame(self.blame()));
                let class: Result<&str, PyErr> = match self { $($pattern => $class,)* };
                let blamed = |class| exception(class, message, &[("blame", None, Some(blame))]);
                class.map_or_else(|error| error, blamed)
            }
        }
    )* };
}

classes! {
    GpuError { _ => Ok("GpuError"), }
    OpenError { _ => Ok("GpuError"), }
    MemoryError { _ => Ok("GpuError"), }
    LoadError {
        Self::Gpu(error) => Err(of(error)),
        _ => Ok("ImageError"),
    }
    LaunchError {
        Self::Down(error) => Err(of(error)),
        Self::TooManyLaunches(_) => Ok("NetError"),
        Self::UnknownKernel { .. } => Ok("ImageError"),
        Self::Parameters { .. } => Ok("ArgumentError"),
        _ => Ok("GpuError"),
    }
    StreamError {
        Self::Launch(error) => Err(of(error)),
        Self::Load(error) => Err(of(error)),
        Self::Memory(error) => Err(of(error)),
        Self::Limit(StreamLimit::NoStream) => Ok("SettingError"),
        Self::Limit(StreamLimit::Operations { .. }) => Ok("NetError"),
        Self::Closed(_) | Self::OtherStream => Ok("NetError"),
        _ => Ok("GpuError"),
    }
    KernelError {
        Self::DivergentBarrier { .. } | Self::DivergentCall { .. } => Ok("DivergenceError"),
        Self::Deadlock { .. } => Ok("DivergenceError"),
        _ => Ok("KernelError"),
    }
}

impl Exception for DownError {
    fn exception(self) -> PyErr {
        match self {
            Self::Gpu(error) => of(error),
            _ => exception("NetError", self.to_string(), &[]),
        }
    }
}

impl Exception for NetError {
    fn exception(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Memory(error) => of(error),
            Self::System { source, .. } => {
                let errno = source.raw_os_error().map(i64::from);
                exception("NetError", message, &[("errno", errno, None)])
            }
            Self::Setting(_) => exception("SettingError", message, &[]),
            _ => exception("NetError", message, &[]),
        }
    }
}

impl Exception for SocketError {
    fn exception(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Down(error) => of(error),
            Self::Listen { errno, .. } | Self::Call { errno, .. } => {
                exception("SocketError", message, &[("errno", errno_of(errno), None)])
            }
            Self::Backlog(_) => exception("SettingError", message, &[]),
            _ => exception("NetError", message, &[]),
        }
    }
}

impl Exception for WaitError {
    fn exception(self) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Operation { index, errno } => {
                let (errno, index) = (errno_of(errno), i64::try_from(index).ok());
                let attributes = [("errno", errno, None), ("index", index, None)];
                exception("OperationError", message, &attributes)
            }
            Self::Kernel(error) => of(error),
            _ => exception("StillRunning", message, &[]),
        }
    }
}
