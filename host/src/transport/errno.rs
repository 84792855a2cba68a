//! The system's error numbers, as kernels and the proxy have them.

use std::io;

use gpunet_device::abi::errno::Errno;

/// That of a call that has failed.
pub(super) fn errno(error: impl Into<io::Error>) -> Errno {
    let error = error.into();
    match error.raw_os_error() {
        Some(number) => Errno(number),
        None if error.kind() == io::ErrorKind::InvalidInput => Errno::EINVAL,
        None => Errno::EIO,
    }
}
