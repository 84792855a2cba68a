//! A group's part of a server: its connections, in a list, and how they are accepted, watched and closed.

use gpunet_device::calls::{gaccept, gclose};
use gpunet_device::poller::{POLLIN, POLLOUT, POLLRDHUP};
use gpunet_device::{Errno, Group, Handle, On, Poller, SharedBuf, kernel_arg, simt};

use crate::beside::Beside;
use crate::connection::{NOBODY, OPEN, Record, WATCHES_ROOM};
use crate::exchange::Protocol;
use crate::exchange::Refusal;
use crate::memory::{Counter, Memory};
use crate::output::Output;
use crate::shares::Shares;

/// How often a group tries to accept while others do.
const ACCEPT_TRIES: u32 = 1000;

kernel_arg! {
    /// How a server treats its connections.
    pub struct Options {
        /// A connection on which nothing moved for so long is closed; 0: never.
        pub idle_timeout_ns: u64,
        /// A connection is refused if a request takes longer from its first byte to its last; 0: never.
        pub request_timeout_ns: u64,
        /// How long the end may take once the program asks for it: clients get what they asked for
        /// before.
        pub drain_ns: u64,
        /// How often the stop word, idle connections and [`Protocol::tick`] are looked at.
        pub tick_ns: u64,
        /// The largest request in bytes; a connection with a larger one is refused.
        pub most_request: u64,
    }
}

impl Options {
    /// No idle time-out, 30 seconds for a request, two seconds to end, requests up to the largest block of the
    /// heap.
    pub const DEFAULT: Self = Self {
        idle_timeout_ns: 0,
        request_timeout_ns: 30_000_000_000,
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
    pub(crate) shares: Shares,
    pub(crate) options: Options,
    pub(crate) stage: SharedBuf,
    pub(crate) output: Output<G>,
    pub(crate) protocol: &'p mut P,
    /// The first of its connections.
    pub(crate) first: u32,
    /// Connections of its own that may have to be looked after, or more.
    pub(crate) on_watch: u32,
    /// Why the connection that is being served must be refused.
    pub(crate) refusal: Option<Refusal>,
    /// When connections are looked at without an event.
    pub(crate) beside: Beside,
    /// What was counted since the last tick: requests, bytes received, bytes sent, receives
    /// without an event.
    pub(crate) counts: [u64; 4],
}

impl<G: Group, P: Protocol<G>> Server<'_, G, P> {
    /// The same time in all threads.
    #[inline(never)]
    pub(crate) fn common_time(&self) -> u64 {
        let [now] = self.on.group().broadcast([simt::now_ns()]);
        now
    }

    /// Accepts a connection, if there is one. Whether there was.
    #[inline(never)]
    pub(crate) fn accept(&mut self, listener: Handle) -> Result<bool, Errno> {
        let (on, memory, group) = (self.on, self.memory, self.on.group());
        let mut tries = 0;
        let handle = loop {
            match Errno::check(gaccept(on.net(), group, listener)) {
                Ok(handle) => break Handle(handle),
                // Another group accepts, which takes it a few microseconds. There is no
                // second event of a connection: what is not accepted now is left to the next tick.
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
            self.turn_away(handle);
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

    /// Stores a connection's record and state. All threads have read what is stored.
    pub(crate) fn store(&mut self, number: u32, record: &Record, state: P::State) {
        if self.on.group().is_leader() {
            self.memory.records().set(number as usize, *record);
            self.memory.state::<P::State>(number).set(0, state);
        }
        self.on_watch += u32::from(record.is_on_watch());
        self.on.group().barrier();
    }

    /// Has the poller watch a connection, which reports anew what the connection is ready for.
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

    /// Closes a connection whose blocks the group has in its hand; what is in its send ring is still sent.
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
            self.shares.put_down(number, &Record::EMPTY);
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
}
