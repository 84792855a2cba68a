//! Socket options: those that the GPU keeps itself, and those that the proxy does.

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::Operation;
use crate::abi::net::Net;
use crate::abi::option::SocketOption;
use crate::group::Group;
use crate::local::{Side, Socket};

use super::{ask_about, led};

/// Sets an option.
#[inline(always)]
pub fn gsetsockopt<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    option: SocketOption,
    value: u64,
) -> i64 {
    led(group, "gsetsockopt", &[handle.0, option as u64, value], || {
        let socket = Socket::open(net, handle)?;
        match option {
            SocketOption::NonBlocking if value > 1 => return Err(Errno::EINVAL),
            SocketOption::NonBlocking => socket.set_non_blocking(value == 1),
            SocketOption::ReceiveTimeout => socket.set_timeout(Side::Receive, value),
            SocketOption::SendTimeout => socket.set_timeout(Side::Send, value),
            _ => {
                ask_about(net, handle, Operation::SetOption, [option as u64, value, 0, 0])?;
            }
        }
        Ok(0)
    })
}

/// Reads an option; its value, or a negative error number.
#[inline(always)]
pub fn ggetsockopt<G: Group>(net: Net, group: G, handle: Handle, option: SocketOption) -> i64 {
    led(group, "ggetsockopt", &[handle.0, option as u64], || {
        let socket = Socket::open(net, handle)?;
        Ok(match option {
            SocketOption::NonBlocking => u64::from(socket.non_blocking()),
            SocketOption::ReceiveTimeout => socket.timeout(Side::Receive),
            SocketOption::SendTimeout => socket.timeout(Side::Send),
            SocketOption::Error => socket.status().errno() as u64,
            _ => ask_about(net, handle, Operation::GetOption, [option as u64, 0, 0, 0])?.number(),
        })
    })
}
