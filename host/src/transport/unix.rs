//! UNIX-domain streams, by path. A listener's path is removed when it closes, as long as it is
//! still the file that it made.

use gpunet_device::Domain;
use gpunet_device::abi::errno::Errno;

use super::SystemSocket;
use super::descriptor::{self, Descriptor};

/// A new UNIX socket.
pub(super) fn make() -> Result<Box<dyn SystemSocket>, Errno> {
    Ok(Box::new(Descriptor::new(descriptor::open(socket2::Domain::UNIX)?, Domain::Unix)))
}
