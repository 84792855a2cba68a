//! How a shard connects sockets: begins, finds out how it came out, tries again.

use gpunet_device::abi::errno::Errno;
use gpunet_device::{Handle, SocketAddr};

use super::entry::Phase;
use super::shard::Shard;
use super::stream::StreamPhase;
use crate::pool::Account;

/// Between two attempts to connect to a UNIX listener whose queue is full.
const AGAIN_NS: u64 = 1_000_000;

impl Shard {
    /// Begins to connect a socket: rings first, then the call. Whether that is done; EAGAIN stands
    /// for one that is to be tried again later.
    pub(super) fn begin_connect(
        &mut self,
        handle: Handle,
        address: &SocketAddr,
    ) -> Result<Result<bool, Errno>, Errno> {
        let shared = &self.context.shared;
        let entry = self.table.find(handle).ok_or(Errno::EBADF)?;
        let wishes = entry.wishes;
        // The rings first: a connect that finds none can be tried again.
        let socket = entry.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?;
        socket.wish(wishes.receive_ring, wishes.send_ring);
        let region = socket.region(Some(address))?;
        entry.allocate_rings(shared, Account::Own, region)?;
        // The kernel gets them when it is connected: another transport may want others, and those of
        // an attempt that fails may be somebody else's next.
        entry.channel.rings_may_change = true;
        let connected = entry.attach().and_then(|()| match &mut entry.socket {
            Some(socket) => socket.connect(address),
            None => Err(Errno::EOPNOTSUPP),
        });
        match connected {
            Ok(_) | Err(Errno::EAGAIN) => Ok(connected),
            Err(errno) => {
                entry.give_rings(shared);
                Err(errno)
            }
        }
    }

    /// Sees whether a connecting socket is connected.
    pub(super) fn try_connected(&mut self, handle: Handle) {
        let Some(entry) = self.table.find(handle) else { return };
        // One that failed is not asked again, whatever its descriptor says.
        let (None, Some(socket)) = (entry.channel.failure, &mut entry.socket) else { return };
        let finished = socket.finish_connect();
        let anew = if finished == Ok(false) { socket.starts_anew() } else { None };
        if socket.descriptor_changed()
            && let Some(stream) = entry.stream_mut()
        {
            stream.off_epoll = true;
            self.schedule.off_epoll.push(handle);
        }
        let memory = self.context.memory();
        match finished {
            Ok(false) => {
                if let Some(address) = anew {
                    self.connect_anew(handle, address);
                }
                return;
            }
            Ok(true) => {
                self.context.counters.connected.add(1);
                entry.use_own_rings(memory);
                if std::mem::take(&mut entry.channel.rings_may_change) || entry.channel.is_p2p() {
                    // The kernel has the descriptor of a socket without rings, and loads it once
                    // more when it sees that it is connected.
                    entry.publish(memory);
                }
                if let Some(stream) = entry.stream_mut() {
                    stream.phase = StreamPhase::Open;
                }
                entry.publish_status(memory);
                let watched = !entry.watchers.is_empty();
                self.forget_tail(handle);
                if watched {
                    self.watch_p2p(handle);
                }
            }
            Err(errno) => entry.fail(errno, &self.context),
        }
        let slot = handle.slot() as usize;
        let ready = self.table.get(slot).map_or(0, |entry| entry.readiness());
        self.notify_watchers(slot, ready);
        self.pump_send(slot);
    }

    /// What a socket tried first did not work out: the next transport.
    fn connect_anew(&mut self, handle: Handle, address: SocketAddr) {
        if let Some(entry) = self.table.find(handle) {
            // Nothing was sent or received yet, and the next transport may want others.
            entry.give_rings(&self.context.shared);
        }
        let begun = self.begin_connect(handle, &address);
        let Some(entry) = self.table.find(handle) else { return };
        // Even where it failed: the rings that its descriptor names are others' by now.
        entry.publish(self.context.memory());
        match begun {
            Ok(begun) => {
                self.forget_tail(handle);
                if begun.is_err() {
                    self.connect_again(handle, address);
                }
                self.poll_busily(handle);
            }
            Err(errno) => {
                entry.fail(errno, &self.context);
                let ready = entry.readiness();
                self.notify_watchers(handle.slot() as usize, ready);
            }
        }
    }

    /// Tries to connect again, later.
    pub(super) fn connect_again(&mut self, handle: Handle, address: SocketAddr) {
        let due_ns = self.context.now_ns + AGAIN_NS;
        let Some(entry) = self.table.find(handle) else { return };
        if let Some(stream) = entry.stream_mut() {
            stream.retry = Some(Box::new((due_ns, address)));
            self.schedule.arm(entry, due_ns);
        }
    }

    /// The time has come to.
    pub(super) fn retry_connect(&mut self, handle: Handle, address: SocketAddr) {
        let Some(entry) = self.table.find(handle) else { return };
        let (Phase::Connecting, None, Some(socket)) =
            (entry.phase(), entry.channel.failure, &mut entry.socket)
        else {
            return;
        };
        match socket.connect(&address) {
            Err(Errno::EAGAIN) => self.connect_again(handle, address),
            Err(errno) => {
                entry.fail(errno, &self.context);
                let ready = entry.readiness();
                self.notify_watchers(handle.slot() as usize, ready);
            }
            Ok(_) => {
                self.try_connected(handle);
                self.poll_busily(handle);
            }
        }
    }
}
