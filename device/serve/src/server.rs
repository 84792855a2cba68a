//! The loop of a server: events of a poller, a turn for each, time-outs, an orderly end.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::{gaccept, gclose, gsetsockopt};
use gpunet_device::poller::{Event, POLLIN, POLLOUT, POLLRDHUP};
use gpunet_device::{Errno, Group, Handle, On, Poller, Shared, SharedBuf, kernel_arg, simt};

use crate::connection::{ENDED, NOBODY, OPEN, Record, WATCHES_ROOM};
use crate::exchange::Protocol;
use crate::memory::{Counter, Memory};
use crate::output::Output;
use crate::turn::Beside;

/// The token of the listener; those of connections are a generation and a number.
const LISTENER: u64 = u64::MAX;
/// Nobody's token.
pub(crate) const NO_TOKEN: u64 = u64::MAX - 1;
/// Events taken at a time.
const EVENTS: usize = 32;
/// Waits between two looks at the time while there is much to do.
const WAITS_PER_TIME: u32 = 16;
/// Connections that a tick accepts at most: clients that come without end must not keep a group.
const ACCEPTS_PER_TICK: u32 = 64;
/// How often a group tries to accept while others do.
const ACCEPT_TRIES: u32 = 1000;
/// The least shared memory that [`serve`] works with: events, and a stage for input and output each.
pub const LEAST_STAGING: usize = EVENTS * size_of::<Event>() + 2 * 512;

kernel_arg! {
    /// How a server treats its connections.
    pub struct Options {
        /// A connection on which nothing moved for so long is closed; 0: never.
        pub idle_timeout_ns: u64,
        /// How long the end may take once the program asks for it: clients get what they asked for
        /// before.
        pub drain_ns: u64,
        /// How often the stop word, idle connections and [`Protocol::tick`] are looked at.
        pub tick_ns: u64,
        /// The largest request in bytes; a connection with a larger one is closed.
        pub most_request: u64,
    }
}

impl Options {
    /// No idle time-out, two seconds to end, requests up to the largest block of the heap.
    pub const DEFAULT: Self = Self {
        idle_timeout_ns: 0,
        drain_ns: 2_000_000_000,
        tick_ns: 50_000_000,
        most_request: crate::heap::MOST as u64,
    };
}

/// A group's part of a server.
pub(crate) struct Server<'p, G: Group, P: Protocol<G>> {
    pub(crate) on: On<G>,
    pub(crate) poller: Poller<G>,
    pub(crate) memory: Memory,
    pub(crate) options: Options,
    pub(crate) stage: SharedBuf,
    pub(crate) output: Output<G>,
    pub(crate) protocol: &'p mut P,
    /// The first of its connections.
    first: u32,
    /// When connections are looked at without an event.
    pub(crate) beside: Beside,
    /// What was counted since the last tick: requests, bytes received, bytes sent, receives
    /// without an event.
    pub(crate) counts: [u64; 4],
}

/// Serves connections of `listener` with `protocol` until the program writes the stop word
/// ([`STOP_OFFSET`](crate::STOP_OFFSET)) or stops the kernel. All threads of the group call it;
/// any number of groups may serve one listener. `staging` is shared memory of the group, of at least
/// [`LEAST_STAGING`] bytes: half of it takes input, half of it output.
///
/// # Errors
/// EINVAL for too little memory; else what ended the wait for events, such as ECANCELED.
pub fn serve<G: Group, P: Protocol<G>>(
    on: On<G>,
    listener: Handle,
    memory: Memory,
    options: Options,
    staging: SharedBuf,
    protocol: &mut P,
) -> Result<(), Errno> {
    let needed = Memory::bytes::<P::State>(memory.connections, 0);
    let state_fits = size_of::<P::State>() <= memory.state_bytes as usize;
    if staging.len() < LEAST_STAGING || memory.region.len() < needed || !state_fits {
        return Err(Errno::EINVAL);
    }
    let events = staging.first(EVENTS * size_of::<Event>()).cast::<Event>();
    let stages = staging.slice(EVENTS * size_of::<Event>(), usize::MAX);
    let half = (stages.len() / 2) & !15;
    // An event is one connection that may be gone again: accept must not wait.
    Errno::check(gsetsockopt(on.net(), on.group(), listener, SocketOption::NonBlocking, 1))?;
    let poller = Poller::new(on)?;
    poller.add(listener, POLLIN, LISTENER)?;
    let mut server = Server {
        on,
        poller,
        memory,
        options,
        stage: stages.first(half),
        output: Output::new(on, memory.heap(), stages.slice(half, half)),
        protocol,
        first: NOBODY,
        beside: Beside::NEW,
        counts: [0; 4],
    };
    let ended = server.run(listener, events);
    server.publish_counts();
    ended
}

impl<G: Group, P: Protocol<G>> Server<'_, G, P> {
    #[inline(never)]
    fn run(&mut self, listener: Handle, events: Shared<Event>) -> Result<(), Errno> {
        let mut ticked = self.common_time();
        let mut waits = 0_u32;
        loop {
            let taken = self.wait(listener, events)?;
            waits = waits.wrapping_add(1);
            // The time is the leader's, and costs a broadcast.
            if taken > 0 && !waits.is_multiple_of(WAITS_PER_TIME) {
                continue;
            }
            let now = self.common_time();
            if now.wrapping_sub(ticked) >= self.options.tick_ns {
                ticked = now;
                self.publish_counts();
                // One thread reads the word for all: they must not disagree.
                if self.on.group().any(self.on.group().is_leader() && self.memory.stopping()) {
                    return self.drain(listener, events, now);
                }
                if self.options.idle_timeout_ns > 0 {
                    self.close_idle(now);
                }
                // What an event told of while another group kept this one from it.
                for _ in 0..ACCEPTS_PER_TICK {
                    if !self.accept(listener)? {
                        break;
                    }
                }
                self.protocol.tick(self.on, self.memory);
            }
        }
    }

    /// Adds what was counted to the common counters.
    #[inline(never)]
    fn publish_counts(&mut self) {
        if self.on.group().is_leader() {
            let [requests, received, sent, without] = self.counts;
            self.memory.count(Counter::Requests, requests);
            self.memory.count(Counter::BytesIn, received);
            self.memory.count(Counter::BytesOut, sent);
            self.memory.count(Counter::WithoutEvent, without);
        }
        self.counts = [0; 4];
    }

    /// Waits for events and serves them; how many they were.
    fn wait(&mut self, listener: Handle, events: Shared<Event>) -> Result<usize, Errno> {
        let taken = match self.poller.wait(events, self.options.tick_ns) {
            Ok(taken) => taken,
            Err(Errno::ETIMEDOUT | Errno::EAGAIN) => 0,
            Err(errno) => return Err(errno),
        };
        let told = core::mem::replace(&mut self.beside.told, NO_TOKEN);
        for index in 0..taken {
            let Some(event) = events.get(index) else { break };
            let (what, last) = (event.events as u16, index + 1 == taken);
            match event.token {
                LISTENER => _ = self.accept(listener)?,
                token if index == 0 && token == told && what == POLLIN => {}
                token => self.turn(token as u32, (token >> 32) as u32, what, last),
            }
        }
        Ok(taken)
    }

    /// The same time in all threads.
    #[inline(never)]
    pub(crate) fn common_time(&self) -> u64 {
        let [now] = self.on.group().broadcast([simt::now_ns()]);
        now
    }

    /// Accepts a connection, if there is one. Whether there was.
    #[inline(never)]
    fn accept(&mut self, listener: Handle) -> Result<bool, Errno> {
        let (on, memory, group) = (self.on, self.memory, self.on.group());
        let mut tries = 0;
        let handle = loop {
            match Errno::check(gaccept(on.net(), group, listener)) {
                Ok(handle) => break Handle(handle),
                // Another group accepts, which takes it a few microseconds. Nobody tells of a
                // connection twice: what is not had now is left to the next tick.
                Err(Errno::EBUSY) if tries < ACCEPT_TRIES => tries += 1,
                // The listener as such is over, or this kernel.
                Err(
                    errno @ (Errno::EBADF | Errno::EINVAL | Errno::ECANCELED | Errno::ENETDOWN),
                ) => return Err(errno),
                // The client is gone again.
                Err(_) => return Ok(false),
            }
        };
        let now = self.common_time();
        let mut taken = NOBODY;
        if group.is_leader() {
            let record = memory.take_record();
            memory.count(record.map_or(Counter::Refused, |_| Counter::Accepted), 1);
            taken = record.unwrap_or(NOBODY);
        }
        let [number] = group.broadcast([u64::from(taken)]);
        let number = number as u32;
        let Some(old) = memory.records().get(number as usize).filter(|_| number != NOBODY) else {
            gclose(on.net(), group, handle);
            return Ok(true);
        };
        let record = Record {
            handle,
            active_ns: now,
            flags: OPEN,
            before: NOBODY,
            after: self.first,
            generation: old.generation,
            ..Record::EMPTY
        };
        // All threads have read the old record.
        group.barrier();
        if group.is_leader() {
            self.update(self.first, |next| next.before = number);
            memory.records().set(number as usize, record);
            memory.clear_state(number);
        }
        self.first = number;
        group.barrier();
        if self.watch(number, &record, Self::wanted(&record)).is_err() {
            self.close(number, record, true);
        }
        Ok(true)
    }

    /// Changes a record. For one thread.
    #[inline(always)]
    fn update(&self, number: u32, change: impl FnOnce(&mut Record)) {
        let records = self.memory.records();
        if let Some(mut record) = records.get(number as usize) {
            change(&mut record);
            records.set(number as usize, record);
        }
    }

    /// Has the poller watch a connection; it tells anew what the connection is ready for.
    #[inline(never)]
    pub(crate) fn watch(&self, number: u32, record: &Record, what: u16) -> Result<(), Errno> {
        self.poller.add(record.handle, what, Self::token(number, record))
    }

    /// What the poller calls a connection.
    #[inline(always)]
    pub(crate) const fn token(number: u32, record: &Record) -> u64 {
        (record.generation as u64) << 32 | number as u64
    }

    /// What the poller is to watch a connection for.
    pub(crate) const fn wanted(record: &Record) -> u16 {
        if record.has(WATCHES_ROOM) { POLLOUT } else { POLLIN | POLLRDHUP }
    }

    /// Closes a connection; what is in its send ring is still sent.
    #[inline(never)]
    pub(crate) fn close(&mut self, number: u32, record: Record, failed: bool) {
        let (on, memory, group) = (self.on, self.memory, self.on.group());
        gclose(on.net(), group, record.handle);
        if let Some(state) = memory.state::<P::State>(number).get(0) {
            self.protocol.closed(on, memory, state);
        }
        if record.before == NOBODY {
            self.first = record.after;
        }
        group.barrier();
        if group.is_leader() {
            memory.heap().free(record.input);
            memory.heap().free(record.output);
            self.update(record.before, |before| before.after = record.after);
            self.update(record.after, |after| after.before = record.before);
            memory.count(Counter::Closed, 1);
            if failed {
                memory.count(Counter::Failed, 1);
            }
            let generation = record.generation.wrapping_add(1);
            memory.give_record(number, Record { generation, ..Record::EMPTY });
        }
        group.barrier();
    }

    /// Closes connections on which nothing moved for long.
    #[inline(never)]
    fn close_idle(&mut self, now: u64) {
        let mut at = self.first;
        while let Some(record) = self.memory.records().get(at as usize) {
            let number = at;
            at = record.after;
            if now.saturating_sub(record.active_ns) > self.options.idle_timeout_ns {
                if self.on.group().is_leader() {
                    self.memory.count(Counter::Idle, 1);
                }
                self.close(number, record, false);
            }
        }
    }

    /// The orderly end: no new connections, answers to what has come, time to send them.
    #[inline(never)]
    fn drain(&mut self, listener: Handle, events: Shared<Event>, begin: u64) -> Result<(), Errno> {
        // A listener that is closed already watches nothing.
        let _ = self.poller.remove(listener);
        let mut at = self.first;
        while let Some(record) = self.memory.records().get(at as usize) {
            let number = at;
            at = record.after;
            self.turn(number, record.generation, POLLRDHUP, false);
            // It may be closed by now, and its record another's.
            self.on.group().barrier();
            let open = self.memory.records().get(number as usize);
            if let Some(mut open) = open.filter(|open| open.generation == record.generation) {
                // What has come is answered; nothing more is received.
                open.flags |= ENDED;
                self.on.group().barrier();
                if self.on.group().is_leader() {
                    self.memory.records().set(number as usize, open);
                }
                self.on.group().barrier();
                self.turn(number, open.generation, POLLRDHUP, false);
            }
        }
        while self.first != NOBODY {
            if self.common_time().wrapping_sub(begin) > self.options.drain_ns {
                break;
            }
            self.wait(listener, events)?;
        }
        while let Some(record) = self.memory.records().get(self.first as usize) {
            self.close(self.first, record, true);
        }
        Ok(())
    }
}
