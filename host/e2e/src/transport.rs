//! How the suites run: the transport of kernels and of their peers, where they connect, and where the
//! words lie that kernels poll.
//!
//! | variable | values |
//! | --- | --- |
//! | `GPUNET_TRANSPORT` | `tcp` unless set; `rdma`: kernels by RDMA, and their peers; `local`: from kernel to kernel |
//! | `GPUNET_PEERS` | peers by RDMA: our `own` streams unless set, or `stock` rsocket, which stands few connections at once |
//! | `GPUNET_ADDRESS`, `GPUNET_ADDRESS6` | where they connect; with RDMA, addresses of its device |
//! | `GPUNET_PLACEMENT` | `bounce` or `peer`: where the rings of RDMA streams lie; any unless set |
//! | `GPUNET_CONTROL_MEMORY` | `host` or `gpu`: where the words lie that kernels poll; as it comes unless set |
//! | `GPUNET_LINK` | the network interface below the RDMA device, where tests may set it down and up |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::OnceLock;

use gpunet_device::SocketAddr;
use gpunet_host::{ControlMemory, NetBuilder, Placement, Placements, TransportChoice};

/// The settings of this process.
struct Settings {
    transport: TransportChoice,
    own_peers: bool,
    address: Ipv4Addr,
    address6: Ipv6Addr,
    placements: Option<Placements>,
    control_memory: ControlMemory,
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    match text.parse() {
        Ok(value) => Some(value),
        Err(_) => panic!("{name} cannot be `{text}`"),
    }
}

fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        transport: match setting::<String>("GPUNET_TRANSPORT").as_deref() {
            None | Some("tcp") => TransportChoice::Tcp,
            Some("rdma") => TransportChoice::Rdma,
            Some("local") => TransportChoice::Local,
            Some(other) => panic!("GPUNET_TRANSPORT cannot be `{other}`"),
        },
        own_peers: match setting::<String>("GPUNET_PEERS").as_deref() {
            None | Some("own") => true,
            Some("stock") => false,
            Some(other) => panic!("GPUNET_PEERS cannot be `{other}`"),
        },
        address: setting("GPUNET_ADDRESS").unwrap_or(Ipv4Addr::LOCALHOST),
        address6: setting("GPUNET_ADDRESS6").unwrap_or(Ipv6Addr::LOCALHOST),
        placements: match setting::<String>("GPUNET_PLACEMENT").as_deref() {
            None => None,
            Some("bounce") => Some(Placements::only(Placement::Bounce)),
            Some("peer") => Some(Placements::only(Placement::PeerMemory)),
            Some(other) => panic!("GPUNET_PLACEMENT cannot be `{other}`"),
        },
        control_memory: match setting::<String>("GPUNET_CONTROL_MEMORY").as_deref() {
            None => ControlMemory::Auto,
            Some("host") => ControlMemory::Host,
            Some("gpu") => ControlMemory::Gpu,
            Some(other) => panic!("GPUNET_CONTROL_MEMORY cannot be `{other}`"),
        },
    })
}

/// Whether the suites go by RDMA.
#[must_use]
pub fn is_rdma() -> bool {
    settings().transport == TransportChoice::Rdma
}

/// Whether they go straight from kernel to kernel.
#[must_use]
pub fn is_local() -> bool {
    settings().transport == TransportChoice::Local
}

/// Whether peers by RDMA use our own streams, and not stock rsocket.
#[must_use]
pub fn has_own_peers() -> bool {
    settings().own_peers
}

/// Our address from which a peer is reached.
pub(crate) fn home(peer: std::net::SocketAddr) -> std::net::SocketAddr {
    let home = match peer {
        std::net::SocketAddr::V4(_) => IpAddr::V4(settings().address),
        std::net::SocketAddr::V6(_) => IpAddr::V6(settings().address6),
    };
    std::net::SocketAddr::new(home, 0)
}

/// Whether the rings of RDMA streams lie in GPU memory.
#[must_use]
pub fn has_gpu_rings() -> bool {
    is_rdma() && settings().placements.is_none_or(|allowed| allowed.allow(Placement::PeerMemory))
}

/// The interface below the RDMA device, where it may be set down.
#[must_use]
pub fn link() -> Option<String> {
    setting("GPUNET_LINK")
}

/// Any port where kernels and peers connect.
#[must_use]
pub fn any_port() -> SocketAddr {
    std::net::SocketAddr::new(IpAddr::V4(settings().address), 0).into()
}

/// The same with IPv6.
#[must_use]
pub fn any_port_v6() -> SocketAddr {
    std::net::SocketAddr::new(IpAddr::V6(settings().address6), 0).into()
}

/// Has a net go this way.
pub(crate) fn of_net(builder: NetBuilder) -> NetBuilder {
    let settings = settings();
    let builder = builder.control_memory(settings.control_memory).transport(settings.transport);
    match settings.placements {
        Some(placements) => builder.placements(placements),
        None => builder,
    }
}
