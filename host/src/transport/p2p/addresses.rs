//! The addresses of this machine's interfaces, as the system lists them.

#![allow(unsafe_code, reason = "getifaddrs")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// Whether an interface has that address.
pub(super) fn has(ip: IpAddr) -> bool {
    let mut first = ptr::null_mut();
    // SAFETY: writes a list, which is given back below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return false;
    }
    let mut next: *const libc::ifaddrs = first;
    let mut found = false;
    // SAFETY: an entry of the list, or its end; the list lives until it is given back.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: the entry's address, or null.
        found |= unsafe { address(entry.ifa_addr) } == Some(ip);
        next = entry.ifa_next;
    }
    // SAFETY: the list from above; nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// The IP address in one of the system's structures, if it has one.
///
/// # Safety
/// Null, or an address as large as its family says.
unsafe fn address(at: *const libc::sockaddr) -> Option<IpAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: every address begins with its family.
    match i32::from(unsafe { (*at).sa_family }) {
        libc::AF_INET => {
            // SAFETY: of this family, so it is such a structure.
            let four = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(four.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let six = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(six.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_its_own_and_nobody_that_of_a_book() {
        assert!(has(Ipv4Addr::LOCALHOST.into()));
        assert!(!has(Ipv4Addr::new(192, 0, 2, 1).into()));
        assert!(!has(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()));
    }
}
