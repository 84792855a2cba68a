//! The names of transports, for programs and for people.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{Placement, TransportChoice};

/// By which a stream travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// TCP, by the system's sockets.
    Tcp,
    /// UNIX sockets of the system.
    Unix,
    /// RDMA; where its rings lie, once that is known.
    Rdma(Option<Placement>),
    /// From kernel to kernel, in GPU memory.
    P2p,
}

impl Transport {
    /// The choice that leads to it.
    #[must_use]
    pub fn choice(self) -> TransportChoice {
        match self {
            Self::Tcp | Self::Unix => TransportChoice::Tcp,
            Self::Rdma(_) => TransportChoice::Rdma,
            Self::P2p => TransportChoice::Local,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp => f.write_str("tcp"),
            Self::Unix => f.write_str("unix"),
            Self::Rdma(None) => f.write_str("rdma"),
            Self::Rdma(Some(placement)) => write!(f, "rdma ({placement})"),
            Self::P2p => f.write_str("p2p"),
        }
    }
}

/// Those of a socket: one of a stream, of a listener all by which peers may come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransportNames(Vec<Transport>);

impl TransportNames {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Transport] {
        &self.0
    }
}

impl FromIterator<Transport> for TransportNames {
    fn from_iter<I: IntoIterator<Item = Transport>>(transports: I) -> Self {
        Self(transports.into_iter().collect())
    }
}

impl fmt::Display for TransportNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((last, before)) = self.0.split_last() else { return f.write_str("none") };
        for (at, transport) in before.iter().enumerate() {
            write!(f, "{}{transport}", if at > 0 { ", " } else { "" })?;
        }
        write!(f, "{}{last}", if before.is_empty() { "" } else { " and " })
    }
}

impl Serialize for TransportNames {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_for_people() {
        let names = |all: &[Transport]| all.iter().copied().collect::<TransportNames>().to_string();
        assert_eq!(names(&[]), "none");
        assert_eq!(names(&[Transport::Tcp]), "tcp");
        assert_eq!(names(&[Transport::P2p, Transport::Unix]), "p2p and unix");
        let placed = Transport::Rdma(Some(Placement::DmaBuf));
        assert_eq!(names(&[Transport::P2p, placed, Transport::Tcp]), "p2p, rdma (dma-buf) and tcp");
    }
}
