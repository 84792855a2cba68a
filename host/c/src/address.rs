//! Addresses of sockets, from text and to text.

use std::ffi::c_char;
use std::net::ToSocketAddrs as _;
use std::path::Path;

use gpunet_device::SocketAddr as gpunet_address;

use crate::status::{Failure, gpunet_status, guard};
use crate::text::{store, store_text, text};

/// An address of a text.
pub(crate) fn parse(text: &str) -> Result<gpunet_address, Failure> {
    if let Some(path) = text.strip_prefix("unix:") {
        let address = gpunet_address::path(Path::new(path)).filter(|_| !path.is_empty());
        return address.ok_or_else(|| {
            Failure::argument(format!("'{text}' is no path of a socket: 1 to 107 bytes"))
        });
    }
    let wrong = || {
        let shapes = "127.0.0.1:80, [::1]:80, a host's name with a port, or unix:/path";
        Failure::argument(format!("'{text}' is no address: {shapes}"))
    };
    let mut found = text.to_socket_addrs().map_err(|_| wrong())?;
    found.next().map(Into::into).ok_or_else(wrong)
}

/// Reads an address: `127.0.0.1:80`, `[::1]:80`, the name of a host with a port, or `unix:/path`. Kernels take
/// gpunet_address by value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_address_parse(
    from: *const c_char,
    address: *mut gpunet_address,
) -> gpunet_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { store(address, parse(text(from, "the text of the address")?)?) }
    })
}

/// Writes an address as text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpunet_address_text(
    address: *const gpunet_address,
    to: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> gpunet_status {
    guard(|| {
        // SAFETY: the caller's promise; any bytes are an address.
        let address = unsafe { address.as_ref() }.ok_or_else(|| Failure::null("the address"))?;
        // SAFETY: the caller's promise.
        unsafe { store_text(&address.to_string(), to, capacity, length) }
    })
}
