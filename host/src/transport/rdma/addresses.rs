//! Our own addresses on the way to a peer. Those of a link alone (fe80::/10) mean nothing without their
//! scope, which says on which.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use rsocket_shim::stream::StreamError;

/// Where the system lists the addresses of IPv6, with the interfaces that have them.
const LISTED: &str = "/proc/net/if_inet6";

/// The address from which the system would send to a peer; any port.
pub(super) fn source_of(peer: SocketAddr) -> Result<SocketAddr, StreamError> {
    let any = match peer {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    // Connecting a datagram socket sends nothing: the system looks for the route, and says from
    // where.
    let asked = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(peer)?;
        socket.local_addr()
    });
    let mut source = asked.map_err(|error| StreamError::System {
        call: "looking for the route",
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    })?;
    source.set_port(0);
    Ok(source)
}

/// An address of ours as it may be meant: a link's own that has lost its scope is on any link that has
/// it.
pub(super) fn with_scope(local: SocketAddr) -> Vec<SocketAddr> {
    match local {
        SocketAddr::V6(v6) if v6.scope_id() == 0 && v6.ip().is_unicast_link_local() => {
            // Where the system says nothing, nothing is found.
            scopes_of(v6, &std::fs::read_to_string(LISTED).unwrap_or_default())
        }
        _ => vec![local],
    }
}

/// The address on each interface that a listing has it on: its digits, the interface, and more.
fn scopes_of(local: SocketAddrV6, listing: &str) -> Vec<SocketAddr> {
    let with_scope = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let ip = Ipv6Addr::from(u128::from_str_radix(words.next()?, 16).ok()?);
        let scope = u32::from_str_radix(words.next()?, 16).ok()?;
        let here = SocketAddrV6::new(ip, local.port(), local.flowinfo(), scope);
        (ip == *local.ip()).then_some(SocketAddr::V6(here))
    };
    listing.lines().filter_map(with_scope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_links_own_address_gets_its_scope_back() {
        let listing = "00000000000000000000000000000001 01 80 10 80       lo\n\
                       fe800000000000005054000000000001 0a 40 20 80     eth0\n\
                       nonsense\n\
                       fe800000000000005054000000000001 1f 40 20 80  eth0.10\n\
                       fe800000000000005054000000000002 03 40 20 80     eth1\n";
        let local = SocketAddrV6::new("fe80::5054:0:0:1".parse().unwrap(), 7471, 0, 0);
        let found = scopes_of(local, listing).into_iter().map(|address| match address {
            SocketAddr::V6(v6) => (*v6.ip() == *local.ip(), v6.port(), v6.scope_id()),
            SocketAddr::V4(_) => (false, 0, 0),
        });
        assert_eq!(found.collect::<Vec<_>>(), [(true, 7471, 10), (true, 7471, 31)]);
        assert_eq!(scopes_of(local, ""), []);
    }

    #[test]
    fn other_addresses_are_what_they_are() {
        for address in ["10.0.0.1:5", "[fd00::1]:6"].map(|text| text.parse().unwrap()) {
            assert_eq!(with_scope(address), [address]);
        }
        let scoped = SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 1, 0, 3));
        assert_eq!(with_scope(scoped), [scoped]);
    }

    #[test]
    fn a_source_has_no_port() {
        let source = source_of("127.0.0.1:9".parse().unwrap());
        assert_eq!(source, Ok("127.0.0.1:0".parse().unwrap()));
    }
}
