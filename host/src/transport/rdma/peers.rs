//! Which peers were found to take RDMA, and which not: only connections that may go either way ask.

use std::collections::HashMap;
use std::net::SocketAddr as IpSocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpunet_device::SocketAddr;

use crate::lock::lock;

/// How long it is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Peers that are remembered.
const MOST_PEERS: usize = 4096;

/// See the module.
#[derive(Default)]
pub(super) struct Peers(Mutex<HashMap<IpSocketAddr, (bool, Instant)>>);

impl Peers {
    pub(super) fn takes_rdma(&self, peer: IpSocketAddr) -> Option<bool> {
        let peers = lock(&self.0);
        let (takes, noted) = peers.get(&peer)?;
        (noted.elapsed() < REMEMBERED).then_some(*takes)
    }

    pub(super) fn note(&self, peer: &SocketAddr, takes: bool) {
        let Some(peer) = peer.to_ip() else { return };
        let mut peers = lock(&self.0);
        if peers.len() >= MOST_PEERS {
            peers.clear();
        }
        peers.insert(peer, (takes, Instant::now()));
    }
}
