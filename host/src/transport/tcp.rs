//! TCP over IPv4 and IPv6. Nagle's algorithm is off unless a kernel asks for it: a GPU waits for
//! answers, not for packets to fill.

use gpunet_device::Domain;
use gpunet_device::abi::errno::Errno;

use super::SystemSocket;
use super::descriptor::{self, Descriptor};

/// A new TCP socket.
pub(super) fn make(domain: Domain) -> Result<Box<dyn SystemSocket>, Errno> {
    let kind = if domain == Domain::V6 { socket2::Domain::IPV6 } else { socket2::Domain::IPV4 };
    let socket = descriptor::open(kind)?;
    descriptor::prepare_tcp(&socket)?;
    // As the standard library does for listeners: a server can be started again at once.
    socket.set_reuse_address(true).map_err(|error| descriptor::errno(&error))?;
    Ok(Box::new(Descriptor::new(socket, domain)))
}
