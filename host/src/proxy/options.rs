//! Options of sockets, as kernels set and read them.

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::planted::{Bug, planted};

use super::entry::{Entry, Owner, Phase};
use crate::pool::{LARGEST_RING, ring_capacity};
use crate::transport::Socket as _;

/// Sets an option.
pub(super) fn set(entry: &mut Entry, option: u64, value: u64) -> Result<(), Errno> {
    let option = option_of(option)?;
    let ring = || match u32::try_from(value) {
        Ok(bytes @ 1..=LARGEST_RING) => Ok(bytes),
        _ => Err(Errno::EINVAL),
    };
    let early = matches!(entry.phase(), Phase::Fresh | Phase::Listening);
    match option {
        SocketOption::ReceiveRing | SocketOption::SendRing if !early => Err(Errno::EISCONN),
        SocketOption::ReceiveRing => ring().map(|bytes| entry.wishes.rings.receive = bytes),
        SocketOption::SendRing => ring().map(|bytes| entry.wishes.rings.send = bytes),
        SocketOption::Detached if value > 1 => Err(Errno::EINVAL),
        SocketOption::Detached => {
            let detached = value == 1 && !planted(Bug::DetachedForgotten);
            entry.owner = if detached { Owner::Host } else { Owner::AnyLaunch };
            Ok(())
        }
        _ => entry.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?.set_option(option, value),
    }
}

/// Reads an option.
pub(super) fn get(entry: &Entry, option: u64) -> Result<u64, Errno> {
    let (rings, channel) = (entry.wishes.rings, &entry.channel);
    let capacity =
        |has: u32, wish: u32| u64::from(if has == 0 { ring_capacity(wish) } else { has });
    Ok(match option_of(option)? {
        SocketOption::ReceiveRing if entry.is_open() => {
            capacity(channel.receive.location.capacity, rings.receive)
        }
        SocketOption::ReceiveRing => capacity(0, rings.receive),
        SocketOption::SendRing => capacity(channel.send.location.capacity, rings.send),
        SocketOption::Detached => u64::from(entry.owner == Owner::Host),
        option => entry.socket.as_ref().ok_or(Errno::EOPNOTSUPP)?.option(option)?,
    })
}

fn option_of(number: u64) -> Result<SocketOption, Errno> {
    u32::try_from(number).ok().and_then(SocketOption::from_number).ok_or(Errno::ENOPROTOOPT)
}
