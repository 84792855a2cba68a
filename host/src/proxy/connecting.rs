//! How a socket is connected: begins, finds out how it came out, tries again. It touches the socket that is
//! visited, and takes its rings from the net's pool.

use gpunet_device::SocketAddr;
use gpunet_device::abi::errno::Errno;

use super::entry::Phase;
use super::schedule::News;
use super::stream::StreamPhase;
use super::visit::Visit;
use crate::pool::Account;

/// Between two attempts to connect to a UNIX listener whose queue is full.
const AGAIN_NS: u64 = 1_000_000;

/// See the module.
pub(super) struct Connecting<'v, 'a>(pub(super) &'v mut Visit<'a>);

impl Connecting<'_, '_> {
    /// Begins to connect a socket: rings first, then the call. Whether that is done; EAGAIN stands
    /// for one that must be tried again later.
    pub(super) fn begin(&mut self, address: &SocketAddr) -> Result<Result<bool, Errno>, Errno> {
        let (entry, shared) = (&mut *self.0.entry, &self.0.context.shared);
        // The rings first: a connect that finds none can be tried again.
        let socket = entry.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?;
        let region = socket.region(Some(address), entry.wishes.rings)?;
        entry.channel.allocate(shared, Account::Own, region, entry.wishes.rings)?;
        // The kernel gets them when it is connected: another transport may want others, and those of
        // an attempt that fails may be somebody else's next.
        entry.channel.rings_may_change = true;
        let connected = entry.attach().and_then(|()| match &mut entry.socket {
            Some(socket) => socket.connect(),
            None => Err(Errno::EOPNOTSUPP),
        });
        match connected {
            Ok(_) | Err(Errno::EAGAIN) => Ok(connected),
            Err(errno) => {
                entry.channel.release(shared);
                Err(errno)
            }
        }
    }

    /// Sees whether it is connected.
    pub(super) fn finish(&mut self) {
        let (entry, memory) = (&mut *self.0.entry, self.0.context.memory());
        // One that failed is not asked again, whatever its descriptor says.
        let (None, Some(socket)) = (entry.channel.endings.failure, &mut entry.socket) else {
            return;
        };
        let finished = socket.finish_connect();
        let anew = if finished == Ok(false) { socket.starts_anew() } else { None };
        if socket.descriptor_changed()
            && let Some(stream) = entry.stream()
        {
            stream.off_epoll = true;
            self.0.schedule.off_epoll.push(entry.handle);
        }
        match finished {
            Ok(false) => {
                if let Some(address) = anew {
                    self.anew(address);
                }
                return;
            }
            Ok(true) => {
                self.0.context.counters.connected.add(1);
                let brought = entry.use_brought_rings(memory);
                let held_back = std::mem::take(&mut entry.channel.rings_may_change);
                if held_back || brought {
                    // The kernel has the descriptor of a socket without rings, and loads it once
                    // more when it sees that it is connected.
                    entry.publish(memory);
                }
                entry.start_stream(StreamPhase::Open);
                entry.channel.publish_status(memory);
                self.0.forget_tail();
                self.0.schedule.report(self.0.entry, News::READY);
            }
            Err(errno) => self.0.fail(errno),
        }
        self.0.send();
    }

    /// What the socket tried first did not work out: the next transport.
    fn anew(&mut self, address: SocketAddr) {
        // Nothing was sent or received yet, and the next transport may want others.
        self.0.entry.channel.release(&self.0.context.shared);
        let begun = self.begin(&address);
        // Even where it failed: the rings that its descriptor names are others' by now.
        self.0.entry.publish(self.0.context.memory());
        match begun {
            Ok(begun) => {
                self.0.forget_tail();
                if begun.is_err() {
                    self.again(address);
                }
                self.0.schedule.busy.add(self.0.entry, 1);
            }
            Err(errno) => self.0.fail(errno),
        }
    }

    /// Tries to connect again, later.
    pub(super) fn again(&mut self, address: SocketAddr) {
        let due_ns = self.0.context.now_ns + AGAIN_NS;
        if let Some(stream) = self.0.entry.stream() {
            stream.retry = Some(Box::new((due_ns, address)));
            self.0.schedule.timers.arm(self.0.entry, due_ns);
        }
    }

    /// The time has come to.
    pub(super) fn retry(&mut self, address: SocketAddr) {
        let entry = &mut *self.0.entry;
        let (phase, failure) = (entry.phase(), entry.channel.endings.failure);
        let (Phase::Connecting, None, Some(socket)) = (phase, failure, &mut entry.socket) else {
            return;
        };
        match socket.connect() {
            Err(Errno::EAGAIN) => self.again(address),
            Err(errno) => self.0.fail(errno),
            Ok(_) => {
                self.finish();
                self.0.schedule.busy.add(self.0.entry, 1);
            }
        }
    }
}
