//! What proxies have in place of epoll: the edges of the simulated network.

use std::os::fd::BorrowedFd;
use std::rc::Rc;

use gpunet_device::abi::errno::Errno;

use super::network::Network;
use crate::proxy::rounds::Outside;
use crate::proxy::shard::Shard;
use crate::proxy::shared::Readiness;

/// See the module. Each proxy thread has one.
pub(crate) struct SimulatedEpoll {
    pub(crate) shard: usize,
    pub(crate) network: Rc<Network>,
}

impl SimulatedEpoll {
    fn keys(&self) -> Vec<u64> {
        let now = self.network.now();
        let mut keys = Vec::new();
        let endpoints = &mut *self.network.endpoints.borrow_mut();
        for at in 0..endpoints.len() {
            // A set reports its members, by the key of the set.
            let reporter = endpoints[at].set.unwrap_or(at);
            let Some((shard, key)) = endpoints[reporter].watched else { continue };
            let edges = &mut endpoints[at].edges;
            let before = edges.len();
            if shard == self.shard {
                edges.retain(|at| *at > now);
                if edges.len() != before && !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        keys
    }

    /// Whether something would end a sleep.
    pub(crate) fn is_ready(&self) -> bool {
        let now = self.network.now();
        let endpoints = self.network.endpoints.borrow();
        endpoints.iter().any(|endpoint| {
            let reporter = endpoint.set.map_or(endpoint, |set| &endpoints[set]);
            reporter.watched.is_some_and(|(shard, _)| shard == self.shard)
                && endpoint.edges.iter().any(|at| *at <= now)
        })
    }

    /// Every socket counts as ready once more: as after a thread that lost its place.
    pub(crate) fn repeat_edges(&self) {
        let now = self.network.now();
        for endpoint in self.network.endpoints.borrow_mut().iter_mut() {
            if endpoint.watched.is_some_and(|(shard, _)| shard == self.shard) {
                endpoint.edges.push(now);
            }
        }
    }
}

impl Readiness for SimulatedEpoll {
    fn add(&mut self, descriptor: BorrowedFd<'_>, key: u64) -> Result<(), Errno> {
        let id = self.network.named(descriptor).ok_or(Errno::EBADF)?;
        let now = self.network.now();
        self.network.with(id, |endpoint| {
            endpoint.watched = Some((self.shard, key));
            // The set that it was in is gone, with whoever waited there for it to be connected.
            endpoint.set = None;
            // What happened before is reported at once.
            endpoint.edges.push(now);
        });
        Ok(())
    }

    fn remove(&mut self, descriptor: BorrowedFd<'_>) {
        if let Some(id) = self.network.named(descriptor) {
            self.network.with(id, |endpoint| {
                endpoint.watched = None;
                endpoint.edges.retain(|at| *at > self.network.now());
            });
        }
    }
}

impl Outside for SimulatedEpoll {
    fn poll(&mut self, shard: &mut Shard) -> bool {
        let keys = self.keys();
        for key in &keys {
            shard.ready(*key);
        }
        !keys.is_empty()
    }
}
