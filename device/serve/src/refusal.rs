//! How a connection is refused: it is told why, and dropped once it has had time to read that.

use gpunet_device::calls::{MSG_DONTWAIT, SHUT_WR, gclose, grecv, gshutdown};
use gpunet_device::poller::POLLIN;
use gpunet_device::{Errno, Group, Handle, SharedBuf};

use crate::connection::{ENDED, REFUSED, Record, WATCHES_ROOM};
use crate::exchange::{Exchange, Protocol, Refusal};
use crate::heap::Block;
use crate::memory::Counter;
use crate::server::Server;

/// How long a refused client has to end its side. Closed earlier, with bytes of it unread, its system would drop
/// the reason before the client has read it.
const LINGER_NS: u64 = 2_000_000_000;
/// How often bytes of a refused client are dropped at one event.
const DROPS: u32 = 8;

impl<G: Group, P: Protocol<G>> Server<'_, G, P> {
    /// Writes the reason to a client, as far as it goes out at once.
    fn tell(&mut self, number: u32, state: P::State, why: Refusal) -> P::State {
        let (memory, output) = (self.memory, &mut self.output);
        output.keeps = false;
        let input = SharedBuf::EMPTY;
        let mut exchange = Exchange { input, ended: true, number, memory, output, state };
        self.protocol.refused(&mut exchange, why);
        let state = exchange.state;
        self.output.flush();
        self.output.keeps = true;
        state
    }

    /// Refuses a connection whose blocks the group has in its hand, and whose output has begun.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse(
        &mut self,
        number: u32,
        mut record: Record,
        state: P::State,
        why: Refusal,
    ) {
        let (on, group) = (self.on, self.on.group());
        let now = self.common_time();
        if group.is_leader() {
            match why {
                Refusal::TooSlow => self.memory.count(Counter::Late, 1),
                Refusal::NoMemory => self.memory.count(Counter::Reclaimed, 1),
                Refusal::TooLarge | Refusal::TooMany => {}
            }
            self.memory.heap().free(record.input);
        }
        (record.input, record.input_len) = (Block::NONE, 0);
        // What a close gives back of the state is what it is now.
        self.store(number, &record, state);
        if self.output.is_blocked() || self.output.failed.is_some() {
            // In the middle of an answer nothing else can be said.
            return self.close(number, record, true);
        }
        let state = self.tell(number, state, why);
        (record.output, record.output_sent, record.output_len) = (Block::NONE, 0, 0);
        record.flags = record.flags & !WATCHES_ROOM | REFUSED;
        record.since_ns = now;
        self.store(number, &record, state);
        if self.output.failed.is_some() || record.has(ENDED) {
            return self.close(number, record, true);
        }
        gshutdown(on.net(), group, record.handle, SHUT_WR);
        self.put_down(number, &record);
        if self.watch(number, &record, Self::wanted(&record)).is_err() {
            self.close(number, record, true);
        }
    }

    /// The same between two events.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_silent(&mut self, number: u32, mut record: Record, why: Refusal) {
        if !self.take_up(number, &mut record) {
            return self.refuse_lost(number, record);
        }
        let Some(state) = self.memory.state::<P::State>(number).get(0) else { return };
        self.output.begin(number, &record);
        self.refuse(number, record, state, why);
    }

    /// Refuses a connection whose blocks were taken away. One that has lost answers is only closed: nothing else
    /// can be said in the middle of them.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_lost(&mut self, number: u32, record: Record) {
        let Some(state) = self.memory.state::<P::State>(number).get(0) else { return };
        self.output.begin(number, &record);
        self.refuse(number, record, state, Refusal::NoMemory);
    }

    /// Drops what a refused client still sends.
    #[cold]
    #[inline(never)]
    pub(crate) fn drop_rest(&mut self, number: u32, record: Record) {
        let (on, group) = (self.on, self.on.group());
        for _ in 0..DROPS {
            let got = grecv(on.net(), group, record.handle, self.stage, MSG_DONTWAIT);
            if got <= 0 && got != Errno::EAGAIN.negative() {
                return self.close(number, record, true);
            }
            if got < 0 {
                return;
            }
        }
        // More may be there, which no event would report: to watch anew does.
        if self.watch(number, &record, Self::wanted(&record)).is_err() {
            self.close(number, record, true);
        }
    }

    /// Refuses a client for which there is no record.
    #[cold]
    #[inline(never)]
    pub(crate) fn turn_away(&mut self, handle: Handle) {
        let nobody = self.memory.connections;
        if let Some(state) = self.memory.state::<P::State>(nobody).get(0) {
            self.output.begin(nobody, &Record { handle, ..Record::EMPTY });
            self.tell(nobody, state, Refusal::TooMany);
        }
        gclose(self.on.net(), self.on.group(), handle);
    }

    /// Looks after connections that wait: closes those on which nothing moved for long, and refuses those whose
    /// requests are late or whose memory others have taken.
    #[inline(never)]
    pub(crate) fn look_after(&mut self, now: u64) {
        let options = self.options;
        let mut at = self.first;
        self.on_watch = 0;
        while let Some(record) = self.memory.records().get(at as usize) {
            let number = at;
            at = record.after;
            let longer = |since: u64, limit: u64| limit > 0 && now.saturating_sub(since) > limit;
            if longer(record.active_ns, options.idle_timeout_ns) {
                if self.on.group().is_leader() {
                    self.memory.count(Counter::Idle, 1);
                }
                self.close_waiting(number, record, false);
                continue;
            }
            if !record.is_on_watch() {
                continue;
            }
            self.on_watch += 1;
            let refused = record.has(REFUSED);
            let limit = if refused { LINGER_NS } else { options.request_timeout_ns };
            let late = record.since_ns != 0 && longer(record.since_ns, limit);
            if refused && late {
                self.close(number, record, true);
            } else if late {
                self.refuse_late(number, record);
            } else if record.has_blocks() && self.shares.are_taken(self.on.group(), number) {
                self.refuse_silent(number, record, Refusal::NoMemory);
            }
        }
    }

    /// Refuses a connection whose request is late, unless the rest has come and only the server is late.
    #[cold]
    #[inline(never)]
    fn refuse_late(&mut self, number: u32, seen: Record) {
        self.turn(number, seen.generation, POLLIN, false);
        // It may be closed by now, and its record another's.
        self.on.group().barrier();
        let still = |record: &Record| {
            record.generation == seen.generation && record.since_ns == seen.since_ns
        };
        if let Some(record) = self.memory.records().get(number as usize).filter(still) {
            self.refuse_silent(number, record, Refusal::TooSlow);
        }
    }

    /// Takes a connection's blocks into the group's hand. False: they were taken away, and the record has none.
    #[inline(always)]
    pub(crate) fn take_up(&mut self, number: u32, record: &mut Record) -> bool {
        if !record.has_blocks() || self.shares.take_up(self.on.group(), number) {
            return true;
        }
        if !record.input.is_none() {
            (record.input, record.input_len) = (Block::NONE, 0);
        }
        record.output = Block::NONE;
        false
    }

    /// Puts them down.
    #[inline(always)]
    pub(crate) fn put_down(&mut self, number: u32, record: &Record) {
        if self.on.group().is_leader() {
            self.shares.put_down(number, record);
        }
    }

    /// Closes a connection between two events.
    pub(crate) fn close_waiting(&mut self, number: u32, mut record: Record, failed: bool) {
        self.take_up(number, &mut record);
        self.close(number, record, failed);
    }
}
