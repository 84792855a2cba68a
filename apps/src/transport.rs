//! `--transport` and `--placement`: what can be asked for, and which RDMA devices this machine has.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use clap::ValueEnum;
use gpunet_device::SocketAddr;
use gpunet_host::{Net, Placement, Placements, TransportChoice};
use rsocket_shim::load::Libraries;
use rsocket_shim::verbs::Device;

use crate::failure::Failure;

/// How sockets travel, those of paths as well as those with IP addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SocketTransport {
    /// local between kernels of this machine, else RDMA where both ends have it, else TCP
    #[default]
    Auto,
    /// TCP; for a path the system's UNIX sockets
    Tcp,
    /// RDMA, with rsocket's protocol
    Rdma,
    /// Straight from kernel to kernel, on this machine and of one user
    Local,
}

impl From<SocketTransport> for TransportChoice {
    fn from(transport: SocketTransport) -> Self {
        match transport {
            SocketTransport::Auto => Self::Auto,
            SocketTransport::Tcp => Self::Tcp,
            SocketTransport::Rdma => Self::Rdma,
            SocketTransport::Local => Self::Local,
        }
    }
}

/// Where the rings of RDMA streams shall lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RingPlacement {
    /// GPU memory, registered as a dma-buf
    DmaBuf,
    /// GPU memory, registered with the help of a peer-memory driver
    Peer,
    /// Pinned host memory, which the GPU reaches
    Bounce,
}

impl RingPlacement {
    /// As nets know it.
    #[must_use]
    pub fn placement(self) -> Placement {
        match self {
            Self::DmaBuf => Placement::DmaBuf,
            Self::Peer => Placement::PeerMemory,
            Self::Bounce => Placement::Bounce,
        }
    }

    /// For a net: this one alone, or all where none was asked for.
    #[must_use]
    pub fn of_net(asked: Option<Self>) -> Placements {
        asked.map_or(Placements::ALL, |asked| Placements::only(asked.placement()))
    }
}

/// How a stream went, as it says itself: the options `Transport` and `Placement` of a kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Travelled {
    /// By which transport; never `Auto`.
    pub by: TransportChoice,
    /// Where its rings lay; none without RDMA.
    pub placement: Option<&'static str>,
}

impl Travelled {
    /// By the system's sockets.
    pub const BY_SYSTEM: Self = Self { by: TransportChoice::Tcp, placement: None };

    /// From the values of both options; errors for sockets that know of no choice.
    #[must_use]
    pub fn from_options(transport: i64, placement: i64) -> Self {
        match u64::try_from(transport).ok().and_then(TransportChoice::from_number) {
            Some(by @ TransportChoice::Local) => Self { by, placement: None },
            Some(by @ TransportChoice::Rdma) => {
                let found = Placement::ALL.into_iter().find(|known| *known as i64 == placement);
                Self { by, placement: found.map(Placement::name) }
            }
            Some(TransportChoice::Auto | TransportChoice::Tcp) | None => Self::BY_SYSTEM,
        }
    }

    /// The transport's name in reports, for a stream to that address.
    #[must_use]
    pub fn name(self, to: &SocketAddr) -> &'static str {
        match (self.by, to.to_ip()) {
            (TransportChoice::Local, _) => "local",
            (TransportChoice::Rdma, _) => "rdma",
            (_, Some(ip)) if ip.is_ipv4() => "tcp4",
            (_, Some(_)) => "tcp6",
            (_, None) => "unix",
        }
    }
}

/// The refusal by a device of the placement that was asked for, where that is why sockets of a net
/// failed.
#[must_use]
pub fn refusal(net: &Net, asked: Option<RingPlacement>) -> Option<Failure> {
    let name = asked?.placement().name();
    let (device, why) = net.rdma_adapters().into_iter().find_map(|adapter| {
        let mut refused = adapter.refused.into_iter();
        refused.find(|(refused, _)| *refused == name).map(|(_, why)| (adapter.device, why))
    })?;
    Some(Failure::refused(format!(
        "rings cannot lie there: {name} is refused by {device} ({why}): choose another --placement, \
         or leave it out"
    )))
}

/// Why a net that was to have p2p streams has none, with what to do about it.
#[must_use]
pub fn without_local(why: &str) -> Failure {
    Failure::refused(format!(
        "no p2p streams between kernels here: {why}: mend that, or leave --transport out"
    ))
}

/// Whether this machine has RDMA, where that was asked for.
///
/// # Errors
/// What this machine lacks, in one line.
pub fn require(transport: SocketTransport) -> Result<(), Failure> {
    match transport {
        SocketTransport::Rdma => libraries().map(drop),
        SocketTransport::Auto | SocketTransport::Tcp | SocketTransport::Local => Ok(()),
    }
}

fn libraries() -> Result<&'static Libraries, Failure> {
    Libraries::load().map_err(|missing| Failure::refused(missing.to_string()))
}

/// The address at which both ends on this machine connect by RDMA: the one asked for, or the first
/// of a device.
///
/// # Errors
/// What this machine lacks, in one line.
pub fn rdma_address(asked: Option<IpAddr>) -> Result<IpAddr, Failure> {
    let libraries = libraries()?;
    let address = asked.or_else(|| first_address(Path::new("/sys/class/infiniband")));
    let address = address.ok_or_else(|| {
        Failure::refused(
            "no RDMA: no device has an IPv4 address: give its network interface one with \
             `ip address add`, or name another address with --address",
        )
    })?;
    Device::at(libraries, std::net::SocketAddr::new(address, 0))
        .map_err(|why| Failure::refused(format!("no RDMA at {address}: {why}")))?;
    Ok(address)
}

/// The first IPv4 address among the ports of all devices: RoCE lists them as its GIDs.
fn first_address(devices: &Path) -> Option<IpAddr> {
    let ports = sorted(devices).into_iter().flat_map(|device| sorted(&device.join("ports")));
    let gids = ports.flat_map(|port| sorted(&port.join("gids")));
    gids.filter_map(|gid| address_of(&fs::read_to_string(gid).ok()?)).next()
}

/// `0000:0000:0000:0000:0000:ffff:0a00:0001` is 10.0.0.1; others are no IPv4 address.
fn address_of(gid: &str) -> Option<IpAddr> {
    let address: Ipv6Addr = gid.trim().parse().ok()?;
    address.to_ipv4_mapped().map(IpAddr::V4)
}

fn sorted(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_gids() {
        let address = address_of("0000:0000:0000:0000:0000:ffff:0a00:0001\n").unwrap();
        assert_eq!(address, IpAddr::from([10, 0, 0, 1]));
        for other in ["fe80:0000:0000:0000:0a00:27ff:fe00:0001", "", "0", "ffff"] {
            assert_eq!(address_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_first_device_with_an_address_is_taken() {
        let root = std::env::temp_dir().join(format!("gpunet-gids-{}", std::process::id()));
        assert_eq!(first_address(&root), None);
        let ipv4 = "0000:0000:0000:0000:0000:ffff:0a00:0001\n";
        for (name, gid) in [("a", "fe80:0000:0000:0000:0000:0000:0000:0001\n"), ("b", ipv4)] {
            let gids = root.join(name).join("ports/1/gids");
            fs::create_dir_all(&gids).unwrap();
            fs::write(gids.join("0"), gid).unwrap();
        }
        assert_eq!(first_address(&root), Some(IpAddr::from([10, 0, 0, 1])));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn streams_say_how_they_went() {
        assert_eq!(Travelled::from_options(-92, -92), Travelled::BY_SYSTEM);
        assert_eq!(Travelled::from_options(1, 4), Travelled::BY_SYSTEM);
        assert_eq!(Travelled::from_options(77, 4), Travelled::BY_SYSTEM);
        let bounced = Travelled { by: TransportChoice::Rdma, placement: Some("bounce") };
        assert_eq!(Travelled::from_options(2, 4), bounced);
        let p2p = Travelled { by: TransportChoice::Local, placement: None };
        assert_eq!(Travelled::from_options(3, 4), p2p);
        let path = SocketAddr::path(Path::new("/a")).unwrap();
        let names = [SocketAddr::v4([127, 0, 0, 1], 1), path]
            .map(|to| [p2p.name(&to), bounced.name(&to), Travelled::BY_SYSTEM.name(&to)]);
        assert_eq!(names, [["local", "rdma", "tcp4"], ["local", "rdma", "unix"]]);
    }
}
