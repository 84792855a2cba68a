//! Why nobody can listen or connect at an address, and what to do about it.

use std::io;

use gpunet_apps::failure::Failure;
use gpunet_apps::transport::SocketTransport;
use gpunet_device::SocketAddr;
use gpunet_sockets::plain;
use rustix::io::Errno;

/// What RDMA says of an address that none of its devices has.
const NO_DEVICE: Errno = Errno::NODEV;

/// Why nobody can listen there, with what to do about it.
pub(crate) fn cannot_listen(address: &SocketAddr, error: &io::Error) -> Failure {
    let unix = address.to_ip().is_none();
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse if unix => {
            "the path exists: if no server uses it, remove it, or choose another"
        }
        io::ErrorKind::AddrInUse => "choose another port, or 0 for a free one",
        io::ErrorKind::PermissionDenied if unix => "choose a folder that you may write to",
        io::ErrorKind::PermissionDenied => "ports below 1024 are for root: choose a higher one",
        io::ErrorKind::AddrNotAvailable => "it is no address of this machine: choose one that is",
        _ if Errno::from_io_error(error) == Some(NO_DEVICE) => {
            "no RDMA device has this address: choose one that has, or leave --transport out"
        }
        io::ErrorKind::NotFound => "the folder does not exist: make it, or choose another",
        _ => "choose another address",
    };
    Failure::refused(format!("cannot listen at {address}: {}; {remedy}", plain(error)))
}

/// Why nobody can connect there, with what to do about it.
pub(crate) fn cannot_connect(
    address: &SocketAddr,
    transport: SocketTransport,
    error: &io::Error,
) -> Failure {
    let local = transport == SocketTransport::Local;
    let remedy = match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound if local => {
            "start a server in a kernel there, as the same user: \
             echo server --on gpu --transport local --listen ADDR"
        }
        io::ErrorKind::TimedOut if local => {
            "its server does not answer: start that again, or leave --transport out"
        }
        io::ErrorKind::CrossesDevices => {
            "the GPUs cannot reach each other's memory: give both ends the same --gpu, or leave \
             --transport out"
        }
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            "start a server there: echo server --on cpu --listen ADDR"
        }
        _ if Errno::from_io_error(error) == Some(NO_DEVICE) => {
            "no RDMA device is on the way there: choose another address, or leave --transport out"
        }
        io::ErrorKind::PermissionDenied => "ask its owner for access",
        io::ErrorKind::TimedOut => "check that the address is reachable, or raise --timeout",
        _ => "check the address",
    };
    Failure::refused(format!("cannot connect to {address}: {}; {remedy}", plain(error)))
}
