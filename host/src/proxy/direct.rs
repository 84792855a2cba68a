//! Direct streams as a shard has them: bytes and counters go from kernel to kernel, so there is
//! nothing to move. What is left: how the other end goes, and, where a poller watches, how far
//! both kernels are.

use std::sync::Arc;

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;

use super::connection::{Connection, Counted, Phase, Turn};
use super::shard::Shard;
use super::statistics::Counters;
use crate::memory::Memory;
use crate::transport::{Direction, News};

/// When the other end is looked at once more after a poller began to watch: what its kernel did
/// before it heard of that has long reached memory by then.
const ONCE_MORE_NS: u64 = 5_000_000;

impl Connection {
    /// Whether it is a direct stream.
    pub(crate) fn is_direct(&self) -> bool {
        self.inboxes.is_some()
    }

    /// Takes the rings that a direct stream has brought; nothing for any other socket.
    pub(crate) fn take_own_rings(&mut self, memory: &Memory) {
        let direct = self.socket.as_mut().and_then(|socket| socket.direct());
        let Some((rings, inboxes)) = direct.and_then(|direct| direct.rings()) else { return };
        let head = memory.receive_head(self.index).load();
        let tail = memory.send_tail(self.index).load();
        self.receive = Counted::direct(rings.receive, head);
        self.send = Counted::direct(rings.send, tail);
        self.inboxes = Some(inboxes);
    }

    /// Hears what the other end has to say, and tells it how far this side is.
    pub(super) fn hear_direct(&mut self, memory: &Memory, counters: &Counters) -> Turn {
        self.look_at_head(memory, counters);
        let (tail, head) = (self.send.theirs, self.receive.theirs);
        let Some(direct) = self.socket.as_mut().and_then(|socket| socket.direct()) else {
            return Turn::Idle;
        };
        let heard = direct.hear();
        direct.tell(tail, head);
        let watched = direct.is_watched();
        match heard {
            Ok(news) if self.take_news(news, memory) || news.more => Turn::Moved,
            // Its kernel's next head is news for the other end.
            Ok(_) if watched => Turn::Full,
            Ok(_) => Turn::Idle,
            Err(errno) => {
                self.fail(errno, memory, counters);
                Turn::Moved
            }
        }
    }

    /// Whether one that tells a poller at the other end has nothing new for it. What its descriptor
    /// has to say is left to epoll: here it is asked in every turn.
    fn is_still(&mut self, memory: &Memory, counters: &Counters) -> bool {
        if !self.is_direct() {
            return false;
        }
        let before = self.receive.theirs;
        self.look_at_head(memory, counters);
        let (tail, head) = (self.send.theirs, self.receive.theirs);
        let open = self.phase == Phase::Open && self.failure.is_none();
        match self.socket.as_mut().and_then(|socket| socket.direct()) {
            Some(direct) if open && head == before => {
                // What was not heard the last time.
                direct.tell(tail, head);
                direct.is_watched()
            }
            _ => false,
        }
    }

    /// Notes how far the other end is. Whether anything is new.
    fn take_news(&mut self, news: News, memory: &Memory) -> bool {
        let before = (self.receive.ours, self.send.ours, self.receive_ended, self.send_ended);
        let capacity = u64::from(self.receive.place.capacity);
        let (head, tail) = (self.receive.theirs, self.send.theirs);
        // What the other end says of itself is not trusted to make sense.
        self.receive.ours = self.receive.ours.max(news.sent.min(head + capacity));
        self.send.ours = self.send.ours.max(news.received.min(tail));
        if news.closed && !self.send_ended {
            // Before the end of what is received: who has seen that sends no more.
            self.send_ended = true;
            self.publish_send(memory);
        }
        if news.ended && !self.receive_ended {
            self.receive_ended = true;
            self.publish_receive(memory);
        }
        before != (self.receive.ours, self.send.ours, self.receive_ended, self.send_ended)
    }

    /// Ends sending if the kernel has: what it sent is at the other end already.
    pub(super) fn end_direct(&mut self, memory: &Memory) -> Turn {
        let (tail, head) = (self.send.theirs, self.receive.theirs);
        let finish = self.finish_send && !self.send_ended;
        let Some(socket) = &mut self.socket else { return Turn::Idle };
        if let Some(direct) = socket.direct() {
            direct.tell(tail, head);
        }
        if !finish {
            return Turn::Idle;
        }
        // Who is gone need not be told.
        let _ = socket.shutdown(Direction::Send);
        self.send_ended = true;
        self.publish_send(memory);
        Turn::Moved
    }
}

impl Shard {
    /// Whether the socket there is a direct stream that has nothing new to tell.
    pub(super) fn is_still(&mut self, place: usize) -> bool {
        let (memory, counters) = (&self.shared.memory, &self.counters);
        self.places[place].as_mut().is_some_and(|it| it.is_still(memory, counters))
    }

    /// A poller watches a socket from now on: where that is a direct stream, the other end is to
    /// tell how far it is.
    pub(super) fn watch_direct(&mut self, handle: Handle) {
        let shared = Arc::clone(&self.shared);
        let counters = Arc::clone(&self.counters);
        let due = self.now_ns + ONCE_MORE_NS;
        let Some(connection) = self.find(handle) else { return };
        let Some(direct) = connection.socket.as_mut().and_then(|socket| socket.direct()) else {
            return;
        };
        direct.watch();
        connection.take_last_tail(&shared.memory, &counters);
        connection.hear_direct(&shared.memory, &counters);
        self.once_more.push((handle, due));
    }

    /// Looks once more at those whose watching has just begun.
    pub(super) fn look_once_more(&mut self, now_ns: u64) -> bool {
        if self.once_more.first().is_none_or(|(_, due)| now_ns < *due) {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        let counters = Arc::clone(&self.counters);
        let due = self.once_more.iter().take_while(|(_, due)| now_ns >= *due).count();
        for (handle, _) in self.once_more.drain(..due).collect::<Vec<_>>() {
            let Some(connection) = self.find(handle) else { continue };
            let direct = connection.socket.as_mut().and_then(|socket| socket.direct());
            if let Some(direct) = direct {
                direct.look();
                connection.hear_direct(&shared.memory, &counters);
                let place = handle.place() as usize;
                self.tell_of_receiving(place);
                self.tell_of_sending(place);
            }
        }
        true
    }

    /// Begins to connect a socket: rings first, then the call. Whether that is done; EAGAIN stands
    /// for one that is to be tried again later.
    pub(super) fn begin_connect(
        &mut self,
        handle: Handle,
        address: &gpunet_device::SocketAddr,
    ) -> Result<Result<bool, Errno>, Errno> {
        let shared = Arc::clone(&self.shared);
        let connection = self.find(handle).ok_or(Errno::EBADF)?;
        let wishes = connection.wishes;
        // The rings first: a connect that finds none can be tried again.
        let socket = connection.socket.as_mut().ok_or(Errno::EOPNOTSUPP)?;
        socket.wish(wishes.receive_ring, wishes.send_ring);
        let region = socket.region(Some(address))?;
        connection.take_rings(&shared, region)?;
        // The kernel gets them when it is connected: another transport may want others, and those of
        // an attempt that fails may be somebody else's next.
        connection.rings_may_change = true;
        let connected = connection.attach().and_then(|()| match &mut connection.socket {
            Some(socket) => socket.connect(address),
            None => Err(Errno::EOPNOTSUPP),
        });
        match connected {
            Ok(_) | Err(Errno::EAGAIN) => Ok(connected),
            Err(errno) => {
                connection.give_rings(&shared);
                Err(errno)
            }
        }
    }
}
