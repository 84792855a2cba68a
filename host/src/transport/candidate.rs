//! By which transports a peer may be reached, in the order in which they are tried.

use std::collections::VecDeque;
use std::sync::Arc;

use gpunet_device::SocketAddr;

use super::provider::Provider;
use super::{Available, TransportChoice};

/// A transport to be tried: a provider's, or the system's socket.
pub(super) type Candidate = Option<Arc<dyn Provider>>;

/// The candidates for a connection to a peer.
pub(super) fn candidates(
    available: &Available,
    choice: TransportChoice,
    peer: &SocketAddr,
) -> VecDeque<Candidate> {
    let auto = choice == TransportChoice::Auto;
    let served = peer.domain().into_iter().flat_map(|domain| available.providers(choice, domain));
    let reached = served.filter(|provider| !auto || provider.reaches(peer));
    let mut all: VecDeque<_> = reached.cloned().map(Some).collect();
    // A path that was to be reached by RDMA is the system's.
    let others = matches!(choice, TransportChoice::Tcp | TransportChoice::Rdma) && all.is_empty();
    if others || auto {
        all.push_back(None);
    }
    all
}
