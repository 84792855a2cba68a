//! Where the pairings meet: the loopback interface, or a temporary folder.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use gpunet_device::SocketAddr;

use crate::failure::Failure;
use crate::options::Transport;

/// Where servers of the pairings listen; the folder of a UNIX one is removed with it.
pub(crate) enum Loopback {
    /// Port 0: the system chooses one for each server.
    Ip(SocketAddr),
    /// A server's name is its path in there.
    Folder(PathBuf),
}

impl Loopback {
    pub(crate) fn new(transport: Transport) -> Result<Self, Failure> {
        Ok(match transport {
            Transport::Tcp => Self::Ip(SocketAddr::v4([127, 0, 0, 1], 0)),
            Transport::Tcp6 => Self::Ip(SocketAddr::v6(Ipv6Addr::LOCALHOST.octets(), 0, 0, 0)),
            Transport::Unix => {
                let folder =
                    std::env::temp_dir().join(format!("gpunet-echo-{}", std::process::id()));
                std::fs::create_dir(&folder).map_err(|error| {
                    let folder = folder.display();
                    Failure::refused(format!(
                        "cannot make the folder {folder}: {error}; set TMPDIR"
                    ))
                })?;
                Self::Folder(folder)
            }
        })
    }

    pub(crate) fn address(&self, name: &str) -> Result<SocketAddr, Failure> {
        match self {
            Self::Ip(address) => Ok(*address),
            Self::Folder(folder) => SocketAddr::path(&folder.join(name)).ok_or_else(|| {
                Failure::refused(format!("{} is too long a path: set TMPDIR", folder.display()))
            }),
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        if let Self::Folder(folder) = self {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
