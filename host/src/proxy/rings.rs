//! The rings of a socket, which come from the net's pool and go back to it, as its slot does.

use gpunet_device::abi::errno::Errno;
use gpunet_device::planted::{Bug, planted};

use super::counted::Counted;
use super::entry::Entry;
use super::shared::Shared;
use crate::pool::Account;
use crate::transport::{Direction, RingRegion};

impl Entry {
    /// Takes both rings of a stream.
    pub(crate) fn allocate_rings(
        &mut self,
        shared: &Shared,
        account: Account,
        region: RingRegion,
    ) -> Result<(), Errno> {
        if region == RingRegion::Window {
            // They come with the socket.
            return Ok(());
        }
        let (receive, send) = (self.wishes.receive_ring, self.wishes.send_ring);
        let index = self.channel.index;
        let head = shared.memory.receive_head(index).load();
        self.channel.receive = shared.ring_in(account, region, receive, head)?;
        match shared.ring_in(account, region, send, shared.memory.send_tail(index).load()) {
            Ok(ring) => self.channel.send = ring,
            Err(errno) => {
                shared.pool.free_ring(&self.channel.receive.location);
                self.channel.receive = Counted::default();
                return Err(errno);
            }
        }
        Ok(())
    }

    /// Gives slot, rings and what limits count back: the one place where that happens. The system's
    /// socket closes with the entry.
    pub(crate) fn give_back(&mut self, shared: &Shared) {
        (shared.on_free)(self.handle);
        shared.memory.withdraw_descriptor(self.channel.index);
        self.give_rings(shared);
        let limits = &shared.policy.limits;
        if let Some(stream) = self.stream_mut() {
            let (received, sent) = stream.flow.land_all();
            limits.land(Direction::Receive, received);
            limits.land(Direction::Send, sent);
        }
        if std::mem::take(&mut self.counted) {
            limits.release_socket();
        }
        shared.pool.free_handle(self.handle);
    }

    /// Gives both rings back to the pool.
    pub(crate) fn give_rings(&mut self, shared: &Shared) {
        shared.pool.free_ring(&self.channel.receive.location);
        if !planted(Bug::RingLeaked) {
            shared.pool.free_ring(&self.channel.send.location);
        }
        self.channel.receive = Counted::default();
        self.channel.send = Counted::default();
        self.channel.inboxes = None;
        self.channel.rings_may_change = false;
    }
}
