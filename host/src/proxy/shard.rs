//! A shard: the sockets of one proxy thread, as a state machine.
//!
//! It is told of the outside through [`Shard::ready`] and its inbox, and takes [`Shard::turn`]s;
//! it neither waits nor reads a clock. Only its own thread touches it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::message::Request;
use gpunet_device::calls::{POLLERR, POLLHUP, POLLIN, POLLOUT};
use gpunet_device::planted::{Bug, planted};
use gpunet_device::{Handle, SocketAddr};

use super::connection::{Connection, Owner, Phase, Turn};
use super::message::Message;
use super::shared::{Readiness, Shared};
use super::statistics::Counters;
use crate::transport::Direction;

/// Turns in which a busy socket is tried without asking epoll first, when few are busy.
pub(super) const HOT_TURNS: u32 = if cfg!(feature = "simulation") { 8 } else { 256 };
/// So many are few.
const FEW_HOT: usize = 4;

/// A socket that has received so many bytes while its kernel sent none receives a stream ...
pub(super) const STREAM_BYTES: u64 = if cfg!(feature = "simulation") { 64 } else { 1 << 20 };
/// ... and rests so long when nothing is there: each attempt takes the system's lock away from the
/// sender, and what comes meanwhile is received in one go.
pub(super) const STREAM_REST_NS: u64 = 20_000;

/// Between two attempts to connect to a UNIX listener whose queue is full.
const AGAIN_NS: u64 = 1_000_000;

/// Between two looks at what closed streams have left behind.
const TIDY_NS: u64 = 20_000_000;

/// The sockets of one proxy thread.
pub(crate) struct Shard {
    pub(crate) id: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<Counters>,
    inbox: Receiver<Message>,
    pub(super) places: Vec<Option<Box<Connection>>>,
    /// The GPU's send tails, as last seen.
    tails: Vec<u64>,
    /// Request numbers, as last seen.
    sequences: Vec<u64>,
    /// Places from here on were never used.
    pub(super) used: usize,
    // A socket that goes stays in these lists until the next turn looks at them and does not find
    // it: many go at once, and need not be searched for one by one.
    /// Sockets to try without asking epoll.
    pub(super) hot: Vec<Handle>,
    /// Sockets whose receive ring was full.
    pub(super) full: Vec<Handle>,
    /// Sockets that are closing.
    pub(super) closing: Vec<Handle>,
    /// Pollers that owe events to their kernels, each once.
    pub(super) pollers: Vec<Handle>,
    /// Listeners that pause.
    pub(super) paused: Vec<Handle>,
    /// Directions of sockets that wait for the net's limits, in their order; and whether some of
    /// these sockets are gone.
    pub(super) throttled: VecDeque<(Handle, Direction)>,
    pub(super) throttled_gone: bool,
    /// The first of them waits for time to bring it something.
    pub(super) waits_for_time: bool,
    pub(super) settle_at_ns: u64,
    /// Places that epoll is to watch again.
    pub(super) unwatched: Vec<u32>,
    /// Sockets whose peer's queue was full, and when they try again.
    again: Vec<(Handle, SocketAddr)>,
    again_at_ns: u64,
    /// Direct streams that a poller has just begun to watch, and when they are looked at again.
    pub(super) once_more: Vec<(Handle, u64)>,
    tidy_at_ns: u64,
    /// The time, as last told.
    pub(super) now_ns: u64,
    beat: u64,
}

impl Shard {
    pub(crate) fn new(
        id: usize,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
        inbox: Receiver<Message>,
    ) -> Self {
        let layout = *shared.memory.layout();
        let (places, slots) = (layout.places as usize, layout.slots as usize);
        Self {
            id,
            shared,
            counters,
            inbox,
            places: (0..places).map(|_| None).collect(),
            tails: vec![0; places],
            sequences: vec![0; slots],
            used: 0,
            hot: Vec::new(),
            full: Vec::new(),
            closing: Vec::new(),
            pollers: Vec::new(),
            paused: Vec::new(),
            throttled: VecDeque::new(),
            throttled_gone: false,
            waits_for_time: false,
            settle_at_ns: 0,
            unwatched: Vec::new(),
            again: Vec::new(),
            again_at_ns: 0,
            once_more: Vec::new(),
            tidy_at_ns: 0,
            now_ns: 0,
            beat: 0,
        }
    }

    /// Whether sockets are being tried without asking epoll.
    pub(crate) fn is_hot(&self) -> bool {
        !self.hot.is_empty()
    }

    /// Whether any socket is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.iter().all(Option::is_none)
    }

    /// One round over everything that may have work. Whether there was any.
    pub(crate) fn turn(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        self.now_ns = now_ns;
        self.beat();
        self.counters.turns.add(1);
        let mut worked = self.answer_requests(now_ns, io);
        worked |= self.retry_throttled(now_ns);
        worked |= self.look_at_tails();
        worked |= self.try_hot(now_ns, io);
        worked |= self.retry_full();
        worked |= self.resume_paused(now_ns, io);
        worked |= self.try_again(now_ns);
        worked |= self.look_once_more(now_ns);
        worked |= self.write_events();
        worked |= self.finish_closing(now_ns, io);
        self.watch_again(io);
        self.tidy(now_ns);
        // The heartbeat, if nothing else, may still be in the processor, and the thread may sleep.
        self.shared.memory.flush();
        worked
    }

    /// One thread clears up after all.
    fn tidy(&mut self, now_ns: u64) {
        if self.id == 0 && now_ns >= self.tidy_at_ns {
            self.tidy_at_ns = now_ns + TIDY_NS;
            self.shared.transports.tidy();
        }
    }

    /// Shows that the thread lives: once a turn, and between the parts of one that may be long.
    pub(super) fn beat(&mut self) {
        self.beat += 1;
        self.shared.memory.beat(self.id, self.beat);
    }

    /// Takes what came in. Called by the thread in each round, and before requests are answered.
    pub(crate) fn take_messages(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        self.now_ns = now_ns;
        let mut any = false;
        while let Ok(message) = self.inbox.try_recv() {
            any = true;
            self.beat();
            self.take_message(message, now_ns, io);
        }
        any
    }

    fn take_message(&mut self, message: Message, now_ns: u64, io: &mut dyn Readiness) {
        match message {
            Message::Adopt(connection) => self.adopt(*connection, io),
            Message::Notify { poller, socket, token, events } => {
                self.notify(poller, socket, token, events);
            }
            Message::Settle(done) => {
                self.settle_listeners();
                let _ = done.send(());
            }
            Message::LaunchEnded { launch, last, done } => {
                self.close_for_launch(launch, last, now_ns);
                // Who has waited for the kernel finds its places free.
                self.finish_closing(now_ns, io);
                // Whoever asked may have stopped waiting.
                let _ = done.send(());
            }
            Message::Close(handle) => {
                self.close(handle, now_ns);
            }
            Message::Release { handle, to } => {
                let released = self.release(handle, io);
                if matches!(released, Err(errno) if errno != Errno::EAGAIN)
                    && self.has_failed(handle)
                {
                    // Nobody could close it but a kernel.
                    self.close(handle, now_ns);
                    self.finish(handle, now_ns, io);
                }
                let _ = to.send(released);
            }
            Message::Dump(to) => {
                let (memory, counters) = (&self.shared.memory, &self.counters);
                let states = self.places.iter_mut().flatten().map(|connection| {
                    connection.look_at_head(memory, counters);
                    connection.describe()
                });
                let _ = to.send(states.collect());
            }
            #[cfg(feature = "fault-injection")]
            Message::Panic => panic!("a panic was asked for"),
            #[cfg(feature = "fault-injection")]
            Message::Stall(time) => std::thread::sleep(time),
        }
    }

    /// The descriptor of a socket has something to say.
    pub(crate) fn ready(&mut self, key: u64) {
        let Some(connection) = self.find(Handle(key)) else { return };
        if connection.phase == Phase::Connecting {
            self.try_connected(Handle(key));
        }
        let Some(connection) = self.find(Handle(key)) else { return };
        let was_cold = connection.hot == 0;
        connection.hot = HOT_TURNS;
        if was_cold {
            self.hot.push(Handle(key));
        }
        // Writable, perhaps: what waits can go.
        self.pump_send(Handle(key).place() as usize);
    }

    /// Whatever the GPU's send tail is now belongs to an earlier socket.
    pub(crate) fn forget_tail(&mut self, handle: Handle) {
        if let Some(connection) = self.find(handle) {
            let stale = connection.send.stale_word();
            self.tails[handle.place() as usize] = stale;
        }
    }

    /// Sends what waits.
    pub(crate) fn send_now(&mut self, handle: Handle) {
        self.pump_send(handle.place() as usize);
    }

    /// The connection that a handle names.
    pub(crate) fn find(&mut self, handle: Handle) -> Option<&mut Connection> {
        let found = self.places.get_mut(handle.place() as usize)?.as_deref_mut()?;
        (found.handle == handle).then_some(found)
    }

    /// Whether a handle names a connection.
    pub(super) fn has(&self, handle: Handle) -> bool {
        let place = self.places.get(handle.place() as usize);
        place.and_then(Option::as_deref).is_some_and(|connection| connection.handle == handle)
    }

    fn has_failed(&mut self, handle: Handle) -> bool {
        self.find(handle).is_some_and(|connection| connection.failure.is_some())
    }

    /// Takes a connection into its place, published already, and starts to serve it.
    pub(crate) fn adopt(&mut self, connection: Connection, io: &mut dyn Readiness) {
        let place = connection.handle.place() as usize;
        self.used = self.used.max(place + 1);
        // What the GPU wrote before this socket had the place is not news.
        self.tails[place] = if connection.send.place.capacity == 0 {
            self.shared.memory.send_tail(connection.index).load()
        } else {
            connection.send.stale_word()
        };
        let (handle, phase) = (connection.handle, connection.phase);
        let connection = self.places[place].insert(Box::new(connection));
        if self.shared.policy.limits.slow() {
            connection.cap = 0;
        }
        if phase != Phase::Fresh {
            self.watch_descriptor(handle, io);
        }
        if self.is_left_over(handle) {
            // Its launch has ended, and this shard may have cleared up after it already.
            self.close(handle, self.now_ns);
        }
    }

    /// Whether a socket belongs to a launch that does not run: a kernel may ask for one and end
    /// without waiting for it. Connections that wait in an accept ring belong to none.
    fn is_left_over(&mut self, handle: Handle) -> bool {
        let shared = Arc::clone(&self.shared);
        let Some(connection) = self.find(handle) else { return false };
        let runs = match connection.owner {
            Owner::Host => true,
            Owner::AnyLaunch => shared.launches.any_runs(),
            Owner::Launch(launch) => shared.launches.runs(launch),
        };
        if runs {
            return false;
        }
        let waits = shared.waiting().contains(&handle.0);
        if waits {
            connection.owner = Owner::AnyLaunch;
        }
        !waits
    }

    /// Has the descriptor reported from now on, and tries it at once.
    pub(crate) fn watch_descriptor(&mut self, handle: Handle, io: &mut dyn Readiness) {
        let Some(connection) = self.find(handle) else { return };
        let added = match connection.socket.as_ref().and_then(|socket| socket.descriptor()) {
            Some(descriptor) => io.add(descriptor, handle.0),
            None => Ok(()),
        };
        match added {
            Ok(()) => self.heat(handle),
            Err(errno) => {
                let (shared, counters) = (Arc::clone(&self.shared), Arc::clone(&self.counters));
                if let Some(connection) = self.find(handle) {
                    connection.fail(errno, &shared.memory, &counters);
                }
                self.tell_of_receiving(handle.place() as usize);
            }
        }
    }

    fn answer_requests(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        let slots = self.sequences.len();
        let mut asked = Vec::new();
        self.shared.memory.changed_requests(self.id * slots, &mut self.sequences, &mut asked);
        if asked.is_empty() {
            return false;
        }
        // The GPU may know of sockets that other shards have just handed over.
        self.take_messages(now_ns, io);
        for (slot, sequence) in asked {
            let global = self.id * slots + slot;
            let request = Request(self.shared.memory.request(global).read());
            let reply = self.answer(&request, now_ns, io);
            self.counters.requests.add(1);
            if reply.result() < 0 {
                self.counters.refused_requests.add(1);
            }
            let memory = &self.shared.memory;
            memory.reply(global).write(&reply.0);
            // Release: who sees the number sees the reply.
            memory.reply_sequence(global).store_release(sequence);
        }
        true
    }

    fn look_at_tails(&mut self) -> bool {
        let first = self.id * self.places.len();
        let used = self.used;
        let mut changed = Vec::new();
        self.shared.memory.changed_tails(first, &mut self.tails[..used], &mut changed);
        let mut worked = false;
        for (place, word) in changed {
            let Some(connection) = &mut self.places[place] else { continue };
            let before = (connection.send.ours, connection.send_ended);
            if !connection.take_tail(word, &self.shared.memory, &self.counters) {
                // Seen as changed in the next turn, too. No work: it may never be whole.
                self.tails[place] = !word;
                continue;
            }
            worked = true;
            if (connection.send.ours, connection.send_ended) != before {
                self.tell_of_sending(place);
            }
            let direct = self.places[place].as_ref().is_some_and(|it| it.is_direct());
            // What the other end has said of bytes that this kernel had not told of makes sense now.
            if direct && self.receive_at(place) == Turn::Moved {
                self.tell_of_receiving(place);
            }
            self.pump_send(place);
        }
        worked
    }

    /// Sends until nothing moves; a socket whose peer is slow is heard of through epoll.
    pub(super) fn pump_send(&mut self, place: usize) {
        if self.shared.policy.limits.slow() {
            self.send_at(place);
            return self.receive_as_heard(place);
        }
        let Some(connection) = &mut self.places[place] else { return };
        let mut moved = false;
        while connection.pump_send(&self.shared.memory, &self.counters) == Turn::Moved {
            moved = true;
        }
        if connection.unsent() > 0 {
            self.unwatched.push(place as u32);
        }
        if moved {
            self.tell_of_sending(place);
        }
        self.receive_as_heard(place);
    }

    /// It may have heard of bytes that came while it was sending, where they move by themselves.
    pub(super) fn receive_as_heard(&mut self, place: usize) {
        let Some(connection) = &self.places[place] else { return };
        if connection.places_bytes() {
            self.heat(connection.handle);
        }
    }

    /// Has epoll watch those again that are no longer tried in every turn, or wait to send.
    fn watch_again(&mut self, io: &mut dyn Readiness) {
        while let Some(place) = self.unwatched.pop() {
            if let Some(connection) = &mut self.places[place as usize]
                && connection.off_epoll
                && !planted(Bug::NotWatchedAgain)
            {
                connection.off_epoll = false;
                connection.moves = 0;
                let handle = connection.handle;
                self.watch_descriptor(handle, io);
            }
        }
    }

    /// The thread is about to sleep: whatever comes is to wake it.
    pub(crate) fn watch_before_sleep(&mut self, io: &mut dyn Readiness) {
        self.unwatched.extend(self.hot.iter().map(|handle| handle.place()));
        self.watch_again(io);
    }

    fn try_hot(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        let mut worked = false;
        let few = self.hot.len() <= FEW_HOT;
        let mut at = 0;
        while let Some(&handle) = self.hot.get(at) {
            if !self.has(handle) {
                self.hot.swap_remove(at);
                continue;
            }
            let place = handle.place() as usize;
            let turn = self.try_place(place, now_ns, io);
            worked |= turn == Turn::Moved;
            let Some(connection) = &mut self.places[place] else { continue };
            match turn {
                Turn::Moved => connection.hot = HOT_TURNS,
                Turn::Full => connection.hot = 0,
                // The last attempt found nothing, so whatever comes is a new edge.
                Turn::Idle if !few => connection.hot = 0,
                Turn::Idle => connection.hot = connection.hot.saturating_sub(1),
                Turn::Rests if planted(Bug::RestTakenForIdle) => {
                    connection.hot = connection.hot.saturating_sub(1);
                }
                // There may have been an edge since the last attempt.
                Turn::Rests => {}
                // The queue brings it back.
                Turn::Throttled => connection.hot = 0,
            }
            if turn == Turn::Moved && few {
                connection.leave_epoll(io);
            }
            if connection.hot == 0 {
                self.hot.swap_remove(at);
                let direct = connection.is_direct();
                if turn == Turn::Full {
                    self.wait_for_room(place);
                }
                // One whose ring is full is tried again in every turn.
                if turn != Turn::Full || direct {
                    self.unwatched.push(place as u32);
                }
            } else {
                at += 1;
            }
        }
        worked
    }

    /// Receives, accepts, or finishes to connect: whatever the socket is there for.
    fn try_place(&mut self, place: usize, now_ns: u64, io: &mut dyn Readiness) -> Turn {
        let Some(connection) = &mut self.places[place] else { return Turn::Idle };
        match connection.phase {
            Phase::Listening => self.try_accept(place, now_ns, io),
            Phase::Connecting => {
                let handle = connection.handle;
                self.try_connected(handle);
                let open = self.find(handle).is_some_and(|it| it.phase == Phase::Open);
                // What the peer has said first may have been heard of, and makes no edge any more.
                if open { Turn::Moved } else { Turn::Idle }
            }
            Phase::Open => {
                if now_ns < connection.rests_until_ns {
                    return Turn::Rests;
                }
                let turn = self.receive_at(place);
                let Some(connection) = &mut self.places[place] else { return Turn::Idle };
                if turn == Turn::Idle && connection.one_way >= STREAM_BYTES {
                    connection.rests_until_ns = now_ns + STREAM_REST_NS;
                }
                if turn == Turn::Moved {
                    self.tell_of_receiving(place);
                }
                turn
            }
            _ => Turn::Idle,
        }
    }

    fn try_accept(&mut self, place: usize, now_ns: u64, io: &mut dyn Readiness) -> Turn {
        let shared = Arc::clone(&self.shared);
        let counters = Arc::clone(&self.counters);
        let Some(mut listener) = self.places[place].take() else { return Turn::Idle };
        let moved = listener.accept(&shared, &counters, now_ns, &mut |connection| {
            self.place(connection, io);
        });
        let waits = listener.pauses(now_ns) || listener.is_full();
        if waits && !std::mem::replace(&mut listener.waits_for_room, true) {
            self.paused.push(listener.handle);
        }
        self.places[place] = Some(listener);
        if moved {
            self.tell_watcher(place, POLLIN);
        }
        if moved && !waits { Turn::Moved } else { Turn::Idle }
    }

    /// Hands a new connection to its shard, this one or another.
    pub(crate) fn place(&mut self, connection: Connection, io: &mut dyn Readiness) {
        let shard = connection.handle.shard() as usize;
        if shard == self.id {
            self.adopt(connection, io);
        } else {
            self.shared.tell(shard, Message::Adopt(Box::new(connection)));
        }
    }

    /// Listeners that had to pause are tried again: no edge will come for what waits already.
    fn resume_paused(&mut self, now_ns: u64, io: &mut dyn Readiness) -> bool {
        if self.paused.is_empty() {
            return false;
        }
        let mut worked = false;
        for handle in std::mem::take(&mut self.paused) {
            let Some(listener) = self.find(handle) else { continue };
            if listener.pauses(now_ns) {
                self.paused.push(handle);
                continue;
            }
            listener.waits_for_room = false;
            worked |= self.try_accept(handle.place() as usize, now_ns, io) == Turn::Moved;
            if self.find(handle).is_some_and(|listener| !listener.waits_for_room) {
                self.heat(handle);
            }
        }
        worked
    }

    /// Tries a socket in the next turn without asking epoll.
    pub(super) fn heat(&mut self, handle: Handle) {
        if let Some(connection) = self.find(handle)
            && connection.hot == 0
        {
            connection.hot = 1;
            self.hot.push(handle);
        }
    }

    fn try_connected(&mut self, handle: Handle) {
        let shared = Arc::clone(&self.shared);
        let counters = Arc::clone(&self.counters);
        let Some(connection) = self.find(handle) else { return };
        // One that failed is not asked again, whatever its descriptor says.
        let (None, Some(socket)) = (connection.failure, &mut connection.socket) else { return };
        let finished = socket.finish_connect();
        let anew = if finished == Ok(false) { socket.starts_anew() } else { None };
        if socket.has_moved() {
            connection.off_epoll = true;
            self.unwatched.push(handle.place());
        }
        let Some(connection) = self.find(handle) else { return };
        match finished {
            Ok(false) => {
                if let Some(address) = anew {
                    self.connect_anew(handle, address);
                }
                return;
            }
            Ok(true) => {
                counters.connected.add(1);
                connection.take_own_rings(&shared.memory);
                if std::mem::take(&mut connection.rings_may_change) || connection.is_direct() {
                    // The kernel has the card of a socket without rings, and looks at it once more
                    // when it is told that it is connected.
                    connection.publish(&shared.memory);
                }
                connection.phase = Phase::Open;
                connection.publish_status(&shared.memory);
                let watched = connection.watch.is_some();
                self.forget_tail(handle);
                if watched {
                    self.watch_direct(handle);
                }
            }
            Err(errno) => connection.fail(errno, &shared.memory, &counters),
        }
        let place = handle.place() as usize;
        let ready = self.places[place].as_ref().map_or(0, |connection| connection.readiness());
        self.tell_watcher(place, ready);
        self.pump_send(place);
    }

    /// What a socket tried first did not work out: the next way.
    fn connect_anew(&mut self, handle: Handle, address: SocketAddr) {
        let (shared, counters) = (Arc::clone(&self.shared), Arc::clone(&self.counters));
        if let Some(connection) = self.find(handle) {
            // Nothing was sent or received yet, and the next way may want others.
            connection.give_rings(&shared);
        }
        let begun = self.begin_connect(handle, &address);
        let Some(connection) = self.find(handle) else { return };
        match begun {
            Ok(begun) => {
                connection.publish(&shared.memory);
                self.forget_tail(handle);
                if begun.is_err() {
                    self.connect_again(handle, address);
                }
                self.heat(handle);
            }
            Err(errno) => {
                // The rings that its card names are others' by now.
                connection.publish(&shared.memory);
                connection.fail(errno, &shared.memory, &counters);
                let ready = connection.readiness();
                self.tell_watcher(handle.place() as usize, ready);
            }
        }
    }

    /// Tries to connect again, later.
    pub(crate) fn connect_again(&mut self, handle: Handle, address: SocketAddr) {
        self.again.push((handle, address));
    }

    fn try_again(&mut self, now_ns: u64) -> bool {
        if self.again.is_empty() || now_ns < self.again_at_ns {
            return false;
        }
        self.again_at_ns = now_ns + AGAIN_NS;
        let (shared, counters) = (Arc::clone(&self.shared), Arc::clone(&self.counters));
        let mut worked = false;
        for (handle, address) in std::mem::take(&mut self.again) {
            let Some(connection) = self.find(handle) else { continue };
            let (Phase::Connecting, Some(socket)) = (connection.phase, &mut connection.socket)
            else {
                continue;
            };
            match socket.connect(&address) {
                Err(Errno::EAGAIN) => {
                    self.again.push((handle, address));
                    continue;
                }
                Err(errno) => {
                    connection.fail(errno, &shared.memory, &counters);
                    let ready = connection.readiness();
                    self.tell_watcher(handle.place() as usize, ready);
                }
                Ok(_) => {
                    self.try_connected(handle);
                    self.heat(handle);
                }
            }
            worked = true;
        }
        worked
    }

    /// A socket's receive ring is full. Its descriptor may say so often, but it waits once.
    pub(super) fn wait_for_room(&mut self, place: usize) {
        if let Some(connection) = &mut self.places[place]
            && !std::mem::replace(&mut connection.waits_for_room, true)
        {
            self.full.push(connection.handle);
        }
    }

    fn retry_full(&mut self) -> bool {
        let mut worked = false;
        let mut at = 0;
        while let Some(&handle) = self.full.get(at) {
            let place = handle.place() as usize;
            let turn = match self.has(handle) {
                true if self.is_still(place) => Turn::Full,
                true => self.receive_at(place),
                false => Turn::Idle,
            };
            if turn == Turn::Full {
                at += 1;
                continue;
            }
            self.full.swap_remove(at);
            let Some(connection) = self.find(handle) else { continue };
            connection.waits_for_room = false;
            if turn == Turn::Moved {
                worked = true;
                self.tell_of_receiving(place);
            }
            self.heat(handle);
        }
        worked
    }

    /// Tells the poller that watches a socket what happened on it.
    pub(crate) fn tell_watcher(&mut self, place: usize, happened: u16) {
        let Some(connection) = &self.places[place] else { return };
        let Some(watch) = connection.watch else { return };
        let events = watch.select(happened);
        if events != 0 {
            self.notify(watch.poller, connection.handle, watch.token, events);
        }
    }

    /// Tells the poller that bytes came to a socket, or that no more will.
    pub(super) fn tell_of_receiving(&mut self, place: usize) {
        let ready = self.places[place].as_ref().map_or(0, |connection| connection.readiness());
        self.tell_watcher(place, ready & !POLLOUT);
    }

    /// Tells the poller that a socket's bytes went, or that no more will.
    pub(super) fn tell_of_sending(&mut self, place: usize) {
        let ready = self.places[place].as_ref().map_or(0, |connection| connection.readiness());
        self.tell_watcher(place, POLLOUT | ready & (POLLERR | POLLHUP));
    }

    /// Brings an event to a poller, here or in another shard. Events 0: the socket is gone.
    pub(crate) fn notify(&mut self, poller: Handle, socket: Handle, token: u64, events: u16) {
        let shard = poller.shard() as usize;
        if shard != self.id {
            self.shared.tell(shard, Message::Notify { poller, socket, token, events });
        } else if let Some(Some(found)) = self.places.get_mut(poller.place() as usize)
            && found.handle == poller
        {
            found.notify(&self.shared.memory, socket, token, events);
            if found.joins_list() {
                self.pollers.push(poller);
            }
        }
    }

    fn write_events(&mut self) -> bool {
        let mut worked = false;
        self.pollers.retain(|handle| match &mut self.places[handle.place() as usize] {
            Some(poller) if poller.handle == *handle => {
                worked |= poller.write_events(&self.shared.memory, &self.counters);
                poller.stays_listed()
            }
            _ => false,
        });
        worked
    }
}
