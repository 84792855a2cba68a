//! Listeners: accepted connections go into the accept ring as handles.

use std::collections::VecDeque;

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;
use gpunet_device::planted::{Bug, planted};

use super::connection::{Connection, Counted, Owner, Phase};
use super::shared::Shared;
use super::statistics::Counters;
use crate::transport::{Direction, RingRegion, Rings};

/// Connections accepted in one turn, so that other sockets get theirs.
const A_TURN: usize = 16;
/// How long a listener rests when something ran out; its peers wait in the system's queue.
const PAUSE_NS: u64 = 2_000_000;

/// What a listener has beside a socket.
#[derive(Default)]
pub(crate) struct Accepting {
    /// How many connections may wait for a kernel.
    backlog: usize,
    /// The handles of those that do; those in the ring may be overwritten by a kernel.
    pending: VecDeque<Handle>,
    /// Accepting pauses until then, since something ran out.
    pause_until_ns: u64,
}

impl Connection {
    /// Makes it a listener.
    pub(crate) fn start_listening(&mut self, backlog: u32) {
        let accepting = Accepting { backlog: backlog as usize, ..Accepting::default() };
        self.accepting = Some(Box::new(accepting));
        self.phase = Phase::Listening;
    }

    /// Whether a listener accepts nothing for the time being.
    pub(crate) fn pauses(&self, now_ns: u64) -> bool {
        self.accepting.as_ref().is_some_and(|accepting| now_ns < accepting.pause_until_ns)
    }

    /// Notes a handle that goes into the accept ring.
    fn note_pending(&mut self, shared: &Shared, handle: Handle) {
        shared.waiting().insert(handle.0);
        self.accepting.get_or_insert_default().pending.push_back(handle);
    }

    /// Forgets the handles that kernels have taken from the accept ring.
    pub(crate) fn forget_taken(&mut self, shared: &Shared) {
        let Some(accepting) = &mut self.accepting else { return };
        let waiting = ((self.receive.ours - self.receive.theirs) / 8) as usize;
        let taken = accepting.pending.len().saturating_sub(waiting);
        if taken > 0 {
            let mut waiting = shared.waiting();
            accepting.pending.drain(..taken).for_each(|handle| {
                waiting.remove(&handle.0);
            });
        }
    }

    /// The handles that no kernel has taken from the accept ring.
    pub(crate) fn take_pending(&mut self, shared: &Shared) -> VecDeque<Handle> {
        self.forget_taken(shared);
        let Some(accepting) = &mut self.accepting else { return VecDeque::new() };
        let mut waiting = shared.waiting();
        for handle in &accepting.pending {
            waiting.remove(&handle.0);
        }
        std::mem::take(&mut accepting.pending)
    }

    /// Whether a listener's accept ring takes no more.
    pub(crate) fn is_full(&self) -> bool {
        let full = |accepting: &Accepting| accepting.pending.len() >= accepting.backlog;
        self.phase == Phase::Listening && self.accepting.as_deref().is_some_and(full)
    }

    /// Accepts what waits, as far as the accept ring, the table and the ring memory allow, and
    /// hands each new connection to `place`, before its handle can be seen.
    pub(crate) fn accept(
        &mut self,
        shared: &Shared,
        counters: &Counters,
        now_ns: u64,
        place: &mut dyn FnMut(Connection),
    ) -> bool {
        if self.phase != Phase::Listening || self.receive_ended || self.pauses(now_ns) {
            return false;
        }
        let mut moved = false;
        for _ in 0..A_TURN {
            self.look_at_head(&shared.memory, counters);
            self.forget_taken(shared);
            if self.receive_ended || self.is_full() {
                break;
            }
            match self.accept_one(shared) {
                Ok(Some(connection)) => {
                    counters.accepted.add(1);
                    let handle = connection.handle;
                    // Before its shard has it, which may close it for a launch.
                    self.note_pending(shared, handle);
                    place(connection);
                    if !planted(Bug::AcceptedHandleLost) || counters.accepted.get() % 3 != 2 {
                        self.push_handle(shared, handle);
                    }
                    moved = true;
                }
                Ok(None) => {
                    self.hot = 0;
                    break;
                }
                Err(errno) => {
                    // The table, ring memory or descriptors have run out, or the system is short
                    // of something: the peer waits in its queue.
                    tracing::debug!(handle = self.handle.0, %errno, "accepting pauses");
                    if let Some(accepting) = &mut self.accepting {
                        accepting.pause_until_ns = now_ns + PAUSE_NS;
                    }
                    break;
                }
            }
        }
        moved
    }

    /// Everything a connection needs is taken before it is accepted, so that none is lost.
    fn accept_one(&mut self, shared: &Shared) -> Result<Option<Connection>, Errno> {
        let Some(listener) = &mut self.socket else { return Ok(None) };
        let handle = shared.pool.take_handle()?;
        let index = shared.index(handle);
        let owner = match self.owner {
            Owner::Launch(launch) => Owner::Launch(launch),
            Owner::Host | Owner::AnyLaunch => Owner::AnyLaunch,
        };
        let mut made = Connection::new(handle, index, owner, self.wishes, None);
        made.counted = shared.policy.limits.take_socket();
        if !made.counted {
            made.give_back(shared);
            return Err(Errno::EACCES);
        }
        listener.wish(self.wishes.receive_ring, self.wishes.send_ring);
        let accepted = listener
            .region(None)
            .and_then(|region| made.take_rings(shared, region))
            .and_then(|()| listener.accept());
        match accepted {
            Ok(Some(socket)) => {
                made.socket = Some(socket);
                if let Err(errno) = made.attach() {
                    // The peer hears of it; others wait behind it.
                    tracing::debug!(%errno, "a connection was not accepted");
                    made.socket = None;
                    made.give_back(shared);
                    return Err(errno);
                }
                made.phase = Phase::Open;
                made.take_own_rings(&shared.memory);
                made.publish(&shared.memory);
                Ok(Some(made))
            }
            Ok(None) => {
                made.give_back(shared);
                Ok(None)
            }
            Err(errno) => {
                made.give_back(shared);
                Err(errno)
            }
        }
    }

    fn push_handle(&mut self, shared: &Shared, handle: Handle) {
        let at = self.receive.ours;
        shared.memory.ring_word(&self.receive.place, at).store(handle.0);
        self.receive.ours += 8;
        self.publish_receive(&shared.memory);
    }

    /// Tells the socket of its rings.
    pub(crate) fn attach(&mut self) -> Result<(), Errno> {
        let rings = Rings { receive: self.receive.place, send: self.send.place };
        self.socket.as_mut().map_or(Ok(()), |socket| socket.attach(&rings))
    }

    /// Takes both rings of a stream.
    pub(crate) fn take_rings(&mut self, shared: &Shared, region: RingRegion) -> Result<(), Errno> {
        if region == RingRegion::Window {
            // They come with the socket.
            return Ok(());
        }
        let (receive, send) = (self.wishes.receive_ring, self.wishes.send_ring);
        let head = shared.memory.receive_head(self.index).load();
        self.receive = shared.ring_in(region, receive, head)?;
        match shared.ring_in(region, send, shared.memory.send_tail(self.index).load()) {
            Ok(ring) => self.send = ring,
            Err(errno) => {
                shared.pool.give_ring(&self.receive.place);
                self.receive = Counted::default();
                return Err(errno);
            }
        }
        Ok(())
    }

    /// Gives rings and place back to the pool; the descriptor closes with the connection.
    pub(crate) fn give_back(&mut self, shared: &Shared) {
        shared.memory.withdraw_card(self.index);
        self.give_rings(shared);
        let limits = &shared.policy.limits;
        limits.land(Direction::Receive, std::mem::take(&mut self.flying_in));
        limits.land(Direction::Send, std::mem::take(&mut self.flying_out));
        if std::mem::take(&mut self.counted) {
            limits.give_socket();
        }
        shared.pool.give_handle(self.handle);
    }

    /// Gives both rings back to the pool.
    pub(crate) fn give_rings(&mut self, shared: &Shared) {
        shared.pool.give_ring(&self.receive.place);
        if !planted(Bug::RingLeaked) {
            shared.pool.give_ring(&self.send.place);
        }
        self.receive = Counted::default();
        self.send = Counted::default();
        self.inboxes = None;
        self.rings_may_change = false;
    }
}
