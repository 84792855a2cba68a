//! Socket addresses as C has them.

use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};

/// An address for a call to read, or room for one that it writes.
pub(crate) struct SystemAddress {
    storage: sockaddr_storage,
    length: socklen_t,
}

impl SystemAddress {
    /// Room for any address.
    pub(crate) fn empty() -> Self {
        // SAFETY: zeros are an address of no family.
        let storage = unsafe { mem::zeroed() };
        Self { storage, length: size_of::<sockaddr_storage>() as socklen_t }
    }

    pub(crate) fn as_ptr(&self) -> *const sockaddr {
        (&raw const self.storage).cast()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut sockaddr {
        (&raw mut self.storage).cast()
    }

    pub(crate) fn length(&self) -> socklen_t {
        self.length
    }

    pub(crate) fn length_mut(&mut self) -> *mut socklen_t {
        &raw mut self.length
    }

    /// The address, where it is one of IP.
    pub(crate) fn to_ip(&self) -> Option<SocketAddr> {
        from_system(&self.storage)
    }
}

impl From<SocketAddr> for SystemAddress {
    fn from(address: SocketAddr) -> Self {
        let mut system = Self::empty();
        match address {
            SocketAddr::V4(v4) => {
                // SAFETY: the storage is large enough for every address, and aligned for it.
                let to = unsafe { &mut *system.as_mut_ptr().cast::<sockaddr_in>() };
                to.sin_family = libc::AF_INET as libc::sa_family_t;
                to.sin_port = v4.port().to_be();
                to.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                system.length = size_of::<sockaddr_in>() as socklen_t;
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above.
                let to = unsafe { &mut *system.as_mut_ptr().cast::<sockaddr_in6>() };
                to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                to.sin6_port = v6.port().to_be();
                to.sin6_flowinfo = v6.flowinfo();
                to.sin6_addr.s6_addr = v6.ip().octets();
                to.sin6_scope_id = v6.scope_id();
                system.length = size_of::<sockaddr_in6>() as socklen_t;
            }
        }
        system
    }
}

/// The address in a storage, where it is one of IP.
pub(crate) fn from_system(storage: &sockaddr_storage) -> Option<SocketAddr> {
    let from = &raw const *storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the storage is large enough for every address and aligned for it, and any
            // bytes are one of IPv4.
            let v4 = unsafe { *from.cast::<sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for IPv6.
            let v6 = unsafe { *from.cast::<sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_there_and_back() {
        let link_local = SocketAddrV6::new("fe80::1".parse().unwrap(), 7471, 5, 3);
        for address in
            ["10.0.0.1:7471".parse().unwrap(), "[fd00::1]:80".parse().unwrap(), link_local.into()]
        {
            assert_eq!(SystemAddress::from(address).to_ip(), Some(address));
        }
    }

    #[test]
    fn ports_and_addresses_are_in_network_order() {
        let system = SystemAddress::from("1.2.3.4:258".parse::<SocketAddr>().unwrap());
        // SAFETY: a storage of zeros with an address in it is initialised throughout.
        let bytes: [u8; 8] = unsafe { *system.as_ptr().cast() };
        assert_eq!(bytes[2..], [1, 2, 1, 2, 3, 4]);
    }

    #[test]
    fn other_families_are_no_address() {
        assert_eq!(SystemAddress::empty().to_ip(), None);
    }
}
