//! What the p2p streams of a net have in common.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;

use super::super::system::{Registry, SystemRef};
use super::arena::Arenas;
use super::channel::ControlChannel;
use super::deferred::{DeferredFree, DeferredFrees};
use super::inbox::Inbox;
use super::process::Process;
use crate::gpu::Gpu;
use crate::lock::lock;
use crate::seldom::Seldom;

/// See the module.
pub(crate) struct P2p {
    pub(super) system: SystemRef,
    pub(super) gpu: Gpu,
    pub(super) arenas: Arenas,
    pub(super) registry: Box<dyn Registry>,
    /// Limits log lines about calls that failed: any process may call.
    pub(super) refusals: Seldom,
    /// Inboxes whose streams are closed here and not yet at the other end.
    pub(super) deferred: Mutex<DeferredFrees>,
}

impl P2p {
    /// The reason where this machine has none.
    pub(crate) fn new(system: SystemRef, gpu: &Gpu, budget: u64) -> Result<Self, String> {
        gpu.arenas_work().map_err(|error| error.to_string())?;
        let registry = system.registry()?;
        let arenas = Arenas::new(system, gpu.clone(), budget);
        let deferred = Mutex::new(DeferredFrees::new(system));
        let refusals = Seldom::default();
        Ok(Self { system, gpu: gpu.clone(), arenas, registry, refusals, deferred })
    }

    /// The control channel of a socket that was called or has called.
    pub(super) fn channel(&self, socket: OwnedFd) -> ControlChannel {
        ControlChannel::new(self.system, socket)
    }

    /// Calls the listener at an address; see [`Registry::call`].
    pub(super) fn call(&self, address: &SocketAddr) -> Result<Option<ControlChannel>, Errno> {
        Ok(self.registry.call(address)?.map(|socket| self.channel(socket)))
    }

    pub(super) fn inbox(&self, peer: Process, ring: u32, base: u64) -> Result<Inbox, Errno> {
        self.free_complete();
        match self.arenas.inbox(peer, ring, base) {
            // Arenas of other peers may be unused by now.
            Err(Errno::ENOBUFS) => {
                self.arenas.tidy();
                self.arenas.inbox(peer, ring, base)
            }
            made => made,
        }
    }

    /// Keeps an inbox until the other end no longer writes there.
    pub(super) fn defer_free(&self, free: DeferredFree) {
        lock(&self.deferred).add(free);
        self.free_complete();
    }

    /// Frees the inboxes of streams that are closed at both ends by now.
    pub(super) fn free_complete(&self) {
        let complete = lock(&self.deferred).collect();
        // Not under the lock.
        drop(complete);
    }
}
