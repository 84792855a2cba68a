//! By which transports a peer may be reached, in the order in which they are tried.

use std::collections::VecDeque;

use gpunet_device::SocketAddr;

use super::{Available, TransportChoice};

/// A transport to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    P2p,
    /// `known`: the peer has taken it lately, so that the rings may lie where the system's sockets
    /// could not use them.
    Rdma {
        known: bool,
    },
    System,
}

/// The candidates for a connection to a peer.
pub(super) fn candidates(
    available: &Available,
    choice: TransportChoice,
    peer: &SocketAddr,
) -> VecDeque<Candidate> {
    let rdma = peer.to_ip().and_then(|ip| Some((ip, available.rdma.as_ref()?)));
    match (choice, rdma) {
        (TransportChoice::Local, _) => [Candidate::P2p].into(),
        (TransportChoice::Rdma, Some(_)) => [Candidate::Rdma { known: true }].into(),
        (TransportChoice::Tcp | TransportChoice::Rdma, _) => [Candidate::System].into(),
        (TransportChoice::Auto, rdma) => {
            let mut all = VecDeque::new();
            if available.p2p.is_some() {
                all.push_back(Candidate::P2p);
            }
            if let Some((ip, rdma)) = rdma {
                match available.peers.takes_rdma(ip) {
                    Some(true) => all.push_back(Candidate::Rdma { known: true }),
                    None if rdma.reaches(ip) => all.push_back(Candidate::Rdma { known: false }),
                    _ => {}
                }
            }
            all.push_back(Candidate::System);
            all
        }
    }
}
