//! Errors as exceptions: the classes of `gpunet._errors`, with the host crate's words.

use gpunet_host::gpu::Blame;
use gpunet_host::{Errno, GpuError, KernelError, NetError, WaitError};
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

/// Of a GPU, an image or a launch's shape.
pub(crate) fn gpu(error: GpuError) -> PyErr {
    let class = match &error {
        GpuError::UnknownImage { .. }
        | GpuError::WrongImage { .. }
        | GpuError::WrongArchitecture { .. }
        | GpuError::CAbiMismatch { .. }
        | GpuError::AbiMismatch { .. }
        | GpuError::MissingSymbols { .. }
        | GpuError::NoKernels { .. }
        | GpuError::NoPtx { .. }
        | GpuError::ModuleRefused { .. }
        | GpuError::ModuleConflict { .. }
        | GpuError::UnknownKernel { .. }
        | GpuError::ImageOfOtherGpu { .. }
        | GpuError::LoadWhileRunning { .. } => "ImageError",
        GpuError::Parameters { .. } => "ArgumentError",
        _ => "GpuError",
    };
    exception(class, error.to_string(), &[("blame", None, Some(blame(error.blame())))])
}

fn errno_of(errno: Errno) -> Option<i64> {
    Some(i64::from(errno.0))
}

/// Of a net.
pub(crate) fn net(error: NetError) -> PyErr {
    let message = error.to_string();
    match error {
        NetError::Gpu(error) => gpu(error),
        NetError::Listen { errno, .. } | NetError::Socket { errno, .. } => {
            exception("SocketError", message, &[("errno", errno_of(errno), None)])
        }
        NetError::System { source, .. } => {
            let errno = source.raw_os_error().map(i64::from);
            exception("NetError", message, &[("errno", errno, None)])
        }
        NetError::Setting(_) => exception("SettingError", message, &[]),
        _ => exception("NetError", message, &[]),
    }
}

/// How a kernel ended.
pub(crate) fn kernel(error: &KernelError) -> PyErr {
    let class = match error {
        KernelError::DivergentBarrier { .. }
        | KernelError::DivergentCall { .. }
        | KernelError::Deadlock { .. } => "DivergenceError",
        _ => "KernelError",
    };
    exception(class, error.to_string(), &[("blame", None, Some(blame(error.blame())))])
}

/// How work ended, or did not.
pub(crate) fn wait(error: WaitError) -> PyErr {
    let message = error.to_string();
    match error {
        WaitError::Operation { index, errno } => {
            let (errno, index) = (errno_of(errno), i64::try_from(index).ok());
            exception("OperationError", message, &[("errno", errno, None), ("index", index, None)])
        }
        WaitError::Kernel(error) => kernel(&error),
        _ => exception("StillRunning", message, &[]),
    }
}
