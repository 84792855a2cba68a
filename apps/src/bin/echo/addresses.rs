//! Which ends are paired, where they connect (the loopback interface, an RDMA device, or a temporary
//! folder), and how they travel, where that was left to this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use gpunet_apps::failure::Failure;
use gpunet_apps::transport::{SocketTransport, rdma_address};
use gpunet_device::SocketAddr;

use crate::end::Processor as On;
use crate::options::Transport;

/// Where servers of the pairings listen; the folder of a UNIX one is removed with it.
pub(crate) struct Addresses {
    asked: Transport,
    kind: Kind,
    /// Why it is TCP, where it could have been RDMA.
    reason: Option<String>,
}

enum Kind {
    /// The system chooses a port for each server.
    Tcp(IpAddr),
    Rdma(IpAddr),
    /// As with TCP; the ports are names for kernels alone.
    Local(IpAddr),
    /// A server's name is its path in there.
    Folder(PathBuf),
}

impl Addresses {
    pub(crate) fn new(asked: Transport, address: Option<IpAddr>) -> Result<Self, Failure> {
        let kind = match asked {
            Transport::Tcp => Kind::Tcp(Ipv4Addr::LOCALHOST.into()),
            Transport::Tcp6 => Kind::Tcp(Ipv6Addr::LOCALHOST.into()),
            Transport::Unix => Kind::Folder(folder()?),
            Transport::Rdma => Kind::Rdma(rdma_address(address)?),
            Transport::Local => Kind::Local(Ipv4Addr::LOCALHOST.into()),
            Transport::Auto => match rdma_address(address) {
                Ok(address) => Kind::Rdma(address),
                Err(missing) => {
                    let kind = Kind::Tcp(address.unwrap_or(Ipv4Addr::LOCALHOST.into()));
                    return Ok(Self { asked, kind, reason: Some(missing.to_string()) });
                }
            },
        };
        Ok(Self { asked, kind, reason: None })
    }

    /// Client and server of each pairing. Those that kernels alone can have come first.
    pub(crate) fn pairings(&self) -> &'static [(On, On)] {
        const ALL: [(On, On); 4] =
            [(On::Gpu, On::Gpu), (On::Gpu, On::Cpu), (On::Cpu, On::Gpu), (On::Cpu, On::Cpu)];
        match self.kind {
            Kind::Local(_) => &ALL[..1],
            _ => &ALL,
        }
    }

    pub(crate) fn address(&self, name: &str) -> Result<SocketAddr, Failure> {
        match &self.kind {
            Kind::Tcp(ip) | Kind::Rdma(ip) | Kind::Local(ip) => {
                Ok(std::net::SocketAddr::new(*ip, 0).into())
            }
            Kind::Folder(folder) => SocketAddr::path(&folder.join(name)).ok_or_else(|| {
                Failure::refused(format!("{} is too long a path: set TMPDIR", folder.display()))
            }),
        }
    }

    /// What both ends of a pairing are to use.
    pub(crate) fn socket_transport(&self, pairing: (On, On)) -> SocketTransport {
        match &self.kind {
            _ if self.asked == Transport::Auto && pairing == (On::Gpu, On::Gpu) => {
                SocketTransport::Auto
            }
            Kind::Local(_) => SocketTransport::Local,
            Kind::Rdma(_) => SocketTransport::Rdma,
            Kind::Tcp(_) | Kind::Folder(_) => SocketTransport::Tcp,
        }
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

fn folder() -> Result<PathBuf, Failure> {
    let folder = std::env::temp_dir().join(format!("gpunet-echo-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(|error| {
        let folder = folder.display();
        Failure::refused(format!("cannot make the folder {folder}: {error}; set TMPDIR"))
    })?;
    Ok(folder)
}

impl Drop for Addresses {
    fn drop(&mut self) {
        if let Kind::Folder(folder) = &self.kind {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
