//! The system's error numbers, as kernels and the proxy have them.

use gpunet_device::abi::errno::Errno;

/// That of a call that has failed.
pub(super) fn errno(errno: rustix::io::Errno) -> Errno {
    Errno(errno.raw_os_error())
}
