//! Socket options: those that the GPU keeps itself, and those that the proxy does.

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::Operation;
use crate::abi::net::Net;
use crate::abi::option::SocketOption;
use crate::group::AnyGroup;
use crate::socket::{Direction, Socket};

use super::socket::ask_about;
use super::{led, number};

// Those that the GPU keeps itself.
const NON_BLOCKING: u32 = SocketOption::NonBlocking as u32;
const RECEIVE_TIMEOUT: u32 = SocketOption::ReceiveTimeout as u32;
const SEND_TIMEOUT: u32 = SocketOption::SendTimeout as u32;
const ERROR: u32 = SocketOption::Error as u32;

/// See [`super::set_option`].
#[inline(always)]
pub(super) unsafe fn set_option(
    net: Net,
    group: AnyGroup,
    handle: u64,
    option: u32,
    value: u64,
) -> i64 {
    led(group, || number(set(net, Handle(handle), option, value)))
}

#[inline(never)]
fn set(net: Net, handle: Handle, option: u32, value: u64) -> Result<u64, Errno> {
    let socket = Socket::open(net, handle)?;
    match option {
        NON_BLOCKING if value > 1 => return Err(Errno::EINVAL),
        NON_BLOCKING => socket.set_non_blocking(value == 1),
        RECEIVE_TIMEOUT => socket.set_timeout(Direction::Receive, value),
        SEND_TIMEOUT => socket.set_timeout(Direction::Send, value),
        _ => {
            Errno::check(ask_about(net, handle, Operation::SetOption, option.into(), value))?;
        }
    }
    Ok(0)
}

/// See [`super::get_option`].
#[inline(always)]
pub(super) unsafe fn get_option(net: Net, group: AnyGroup, handle: u64, option: u32) -> i64 {
    led(group, || number(get(net, Handle(handle), option)))
}

#[inline(never)]
fn get(net: Net, handle: Handle, option: u32) -> Result<u64, Errno> {
    let socket = Socket::open(net, handle)?;
    Ok(match option {
        NON_BLOCKING => u64::from(socket.info().non_blocking()),
        RECEIVE_TIMEOUT => socket.timeout(Direction::Receive),
        SEND_TIMEOUT => socket.timeout(Direction::Send),
        ERROR => socket.status().errno() as u64,
        _ => return Errno::check(ask_about(net, handle, Operation::GetOption, option.into(), 0)),
    })
}
