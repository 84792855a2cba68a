//! The options that RDMA sockets have.

use std::net::SocketAddr as IpSocketAddr;
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, SocketAddr};

use super::super::unconnected::Unconnected;
use super::super::{Placement, Placements};

/// How often a peer is probed (keepalive) by default, as TCP does.
const KEEPALIVE_S: u64 = 7200;
/// The longest time between two, in seconds, as TCP has it.
const MOST_IDLE_S: u64 = 32767;

/// What was set on a socket before it connects or listens, and what a stream has from there.
#[derive(Clone, Copy, Debug)]
pub(super) struct RdmaOptions {
    pub(super) domain: Domain,
    /// Where its rings may lie, where that is not the net's wish.
    pub(super) placements: Option<Placements>,
    /// Whether the peer is probed (keepalive), and how often.
    pub(super) keepalive: bool,
    pub(super) keepalive_idle_s: Option<u64>,
    /// Whether a listener at any address of IPv6 takes peers of that family alone.
    pub(super) v6_only: bool,
}

impl RdmaOptions {
    /// What was set on a socket of the system and holds for one by RDMA, too.
    pub(super) fn of(socket: &Unconnected) -> Self {
        Self {
            domain: socket.domain,
            placements: socket.placements,
            keepalive: socket.is_set(SocketOption::KeepAlive),
            keepalive_idle_s: socket.system.option(SocketOption::KeepAliveIdle).ok(),
            v6_only: socket.is_set(SocketOption::V6Only),
        }
    }

    /// How often the peer is probed, if it is.
    pub(super) fn keepalive(&self) -> Option<Duration> {
        self.keepalive.then(|| Duration::from_secs(self.keepalive_idle_s.unwrap_or(KEEPALIVE_S)))
    }

    /// An address of IP, if it is one of the domain.
    pub(super) fn ip(&self, address: &SocketAddr) -> Result<IpSocketAddr, Errno> {
        match address.to_ip() {
            Some(ip) if address.domain() == Some(self.domain) => Ok(ip),
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    /// An address as sockets of the domain have it: at a listener of IPv6, that of a peer of IPv4 is
    /// mapped.
    pub(super) fn name(&self, ip: IpSocketAddr) -> SocketAddr {
        match ip {
            IpSocketAddr::V4(v4) if self.domain == Domain::V6 => {
                IpSocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()).into()
            }
            ip => ip.into(),
        }
    }

    /// Sets one of a stream or of a listener, for what it accepts.
    pub(super) fn set(&mut self, option: SocketOption, value: u64) -> Result<(), Errno> {
        match option {
            // Nothing is ever held back, nor an address kept.
            SocketOption::NoDelay | SocketOption::ReuseAddress if value <= 1 => Ok(()),
            SocketOption::KeepAlive if value <= 1 => {
                self.keepalive = value == 1;
                Ok(())
            }
            SocketOption::KeepAliveIdle if (1..=MOST_IDLE_S).contains(&value) => {
                self.keepalive_idle_s = Some(value);
                Ok(())
            }
            SocketOption::NoDelay
            | SocketOption::ReuseAddress
            | SocketOption::KeepAlive
            | SocketOption::KeepAliveIdle => Err(Errno::EINVAL),
            SocketOption::V6Only if self.domain == Domain::V6 => Err(Errno::EINVAL),
            // How often is tried again, and for how long, is the device's own.
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    /// Reads one; where the rings lie, or may lie, is the caller's to say.
    pub(super) fn get(
        &self,
        option: SocketOption,
        placed: Option<Placement>,
        allowed: Placements,
    ) -> Result<u64, Errno> {
        match option {
            SocketOption::NoDelay | SocketOption::ReuseAddress => Ok(1),
            SocketOption::V6Only if self.domain == Domain::V6 => Ok(self.v6_only.into()),
            SocketOption::KeepAlive => Ok(self.keepalive.into()),
            SocketOption::KeepAliveIdle => Ok(self.keepalive_idle_s.unwrap_or(KEEPALIVE_S)),
            SocketOption::Placement => Ok(match placed {
                Some(placement) => placement as u64,
                None => self.placements.unwrap_or(allowed).number(),
            }),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
}
