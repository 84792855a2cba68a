//! Socket options.

use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::option::SocketOption;
use crate::group::Group;
use crate::library;

/// Sets an option.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn gsetsockopt<G: Group>(
    net: Net,
    group: G,
    handle: Handle,
    option: SocketOption,
    value: u64,
) -> i64 {
    group.agree("gsetsockopt", &[handle.0, option as u64, value]);
    // SAFETY: numbers alone.
    unsafe { library::set_option(net, group, handle.0, option as u32, value) }
}

/// Reads an option; its value, or a negative error number.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn ggetsockopt<G: Group>(net: Net, group: G, handle: Handle, option: SocketOption) -> i64 {
    group.agree("ggetsockopt", &[handle.0, option as u64]);
    // SAFETY: numbers alone.
    unsafe { library::get_option(net, group, handle.0, option as u32) }
}
