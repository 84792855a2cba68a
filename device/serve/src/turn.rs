//! What happens at an event of a connection: send what waits, receive, answer, keep the rest.

use gpunet_device::calls::{MSG_DONTWAIT, grecv};
use gpunet_device::poller::{Beside as Found, POLLERR, POLLHUP, POLLRDHUP};
use gpunet_device::{Errno, Group, SharedBuf, buf};

use crate::connection::{CLOSING, ENDED, OPEN, REFUSED, Record, WAITS, WATCHES_ROOM};
use crate::exchange::{Exchange, Protocol, Refusal, Step};
use crate::heap::{Block, MOST};
use crate::memory::Counter;
use crate::server::Server;
use crate::shares::PIECE;

/// A receive that gives fewer bytes than this, and than there is room for, has emptied the ring.
const WHOLE: usize = 16 << 10;
/// What a request may have reserved before it has come: a client that only announces much
/// gets no more.
const AHEAD: usize = 64 << 10;
/// How often a connection is received from at one event; then others have their turn.
const ROUNDS: u32 = 8;

/// How often a connection is looked at beside the poller, at one event: then the time is looked at again.
const ROUNDS_BESIDE: u32 = 64;

/// What a round of a connection brought.
struct Round {
    /// Whether the receive ring was empty.
    drained: bool,
    received: u64,
    requests: u64,
}

impl Round {
    const NONE: Self = Self { drained: true, received: 0, requests: 0 };
}

impl<G: Group, P: Protocol<G>> Server<'_, G, P> {
    /// Serves a connection to which `events` happened, unless they are of an older one. `last`: no other
    /// event is at hand.
    #[inline(never)]
    pub(crate) fn turn(&mut self, number: u32, generation: u32, events: u16, last: bool) {
        // Both on their way before the first is looked at.
        let record = self.memory.records().get(number as usize);
        let state = self.memory.state::<P::State>(number).get(0);
        let (Some(mut record), Some(mut state)) = (record, state) else { return };
        if record.generation != generation || !record.has(OPEN) {
            return;
        }
        if record.has(REFUSED) {
            return self.drop_rest(number, record);
        }
        if self.options.idle_timeout_ns > 0 {
            record.active_ns = self.common_time();
        }
        if !self.take_up(number, &mut record) {
            return self.refuse_lost(number, record);
        }
        self.output.begin(number, &record);
        if self.output.is_blocked() {
            self.output.send_kept();
        }
        let (mut received, mut requests, mut drained) = (0, 0, false);
        let (mut rounds, mut beside, mut found_none) = (0, 0, false);
        // One event reports the last bytes and the end behind them: a short read is not all.
        let ends = events & (POLLRDHUP | POLLHUP | POLLERR) != 0;
        let may_wait = last && !ends && self.beside.is_due();
        while !self.is_over(&record) && !self.output.is_blocked() {
            let looks = drained;
            if looks {
                if !may_wait || record.input_len > 0 || beside == ROUNDS_BESIDE {
                    break;
                }
                beside += 1;
            } else if rounds == ROUNDS {
                break;
            } else {
                rounds += 1;
            }
            let round = self.round(number, &mut record, &mut state, looks);
            received += round.received;
            requests += round.requests;
            drained = round.drained && !record.has(WAITS) && !(ends && round.received > 0);
            found_none = looks && round.received == 0;
            if found_none {
                break;
            }
        }
        self.output.end(&mut record);
        let found = u64::from(beside - u32::from(found_none));
        let more = [requests, received, self.output.sent, found];
        self.counts = core::array::from_fn(|at| self.counts[at] + more[at]);
        match self.refusal.take() {
            Some(why) => self.refuse(number, record, state, why),
            None => self.leave(number, record, state, drained),
        }
    }

    /// Whether the connection is to be closed now.
    fn is_over(&self, record: &Record) -> bool {
        let over = record.has(CLOSING) && !self.output.is_blocked();
        self.output.failed.is_some() || self.refusal.is_some() || over
    }

    /// Ends a turn: closes the connection, or stores its record and has it watched for what it needs.
    #[inline(never)]
    fn leave(&mut self, number: u32, mut record: Record, state: P::State, drained: bool) {
        let blocked = self.output.is_blocked();
        let change = blocked != record.has(WATCHES_ROOM);
        record.flags = record.flags & !WATCHES_ROOM | if blocked { WATCHES_ROOM } else { 0 };
        // All threads have read what is stored: each call of the library is a barrier.
        self.store(number, &record, state);
        if change && blocked && self.on.group().is_leader() {
            self.memory.count(Counter::Blocked, 1);
        }
        if self.is_over(&record) {
            return self.close(number, record, self.output.failed.is_some());
        }
        // Where something is left to receive, no event would report it: to watch anew does.
        let watch = change || !blocked && !drained;
        if watch && self.watch(number, &record, Self::wanted(&record)).is_err() {
            return self.close(number, record, true);
        }
        self.put_down(number, &record);
    }

    /// Receives once and answers what is complete. `looks`: no event has reported bytes; they are waited for
    /// as long as nothing else is to be done.
    #[inline(always)]
    fn round(
        &mut self,
        number: u32,
        record: &mut Record,
        state: &mut P::State,
        looks: bool,
    ) -> Round {
        let (mut buffer, mut have) = (self.stage, 0);
        if record.input_len > 0 {
            (buffer, have) = self.input(number, record);
        }
        let mut round = Round::NONE;
        let room = buffer.slice(have, usize::MAX);
        if room.is_empty() {
            round.drained = false;
        } else if !record.has(ENDED | WAITS) {
            let (on, handle) = (self.on, record.handle);
            let got = match looks {
                true => self.look(number, record, room),
                false => grecv(on.net(), on.group(), handle, room, MSG_DONTWAIT),
            };
            match Errno::check(got) {
                Ok(0) => record.flags |= ENDED,
                Ok(got) => {
                    have += got as usize;
                    round.received = got;
                    // Of much that is there a receive gives a part, whatever there is room for.
                    round.drained = (got as usize) < room.len().min(WHOLE);
                }
                Err(Errno::EAGAIN) => {}
                Err(errno) => self.output.failed = Some(errno),
            }
        }
        record.flags &= !WAITS;
        let (mut used, mut needed) = (0, 0);
        if have > 0 {
            (used, needed) = self.answer(number, record, state, buffer.first(have), &mut round);
            self.output.flush();
        }
        if record.has(ENDED) && !record.has(WAITS) && !self.output.is_blocked() {
            record.flags |= CLOSING;
        }
        let goes_on = !record.has(CLOSING) && self.output.failed.is_none();
        if goes_on && (have > used || record.input_len > 0) {
            self.keep_input(number, record, buffer, used, have, needed);
        }
        round
    }

    /// Waits for bytes of a connection while the poller has nothing else, and receives them; as
    /// [`grecv`], EAGAIN where none come.
    #[inline(always)]
    fn look(&mut self, number: u32, record: &Record, room: SharedBuf) -> i64 {
        let token = Self::token(number, record);
        let found = self.poller.receive_beside(record.handle, token, room);
        if found == Ok(Found::NothingNew) {
            self.beside.stale = token;
        }
        match found {
            Ok(Found::Received(got)) => {
                self.beside.count(true);
                got as i64
            }
            Ok(Found::Nothing | Found::NothingNew) => {
                self.beside.count(false);
                Errno::EAGAIN.negative()
            }
            Err(errno) => errno.negative(),
        }
    }

    /// Has the protocol answer complete requests. How many bytes they had, and how many the next one is
    /// known to need.
    #[inline(never)]
    fn answer(
        &mut self,
        number: u32,
        record: &mut Record,
        state: &mut P::State,
        input: SharedBuf,
        round: &mut Round,
    ) -> (usize, usize) {
        let memory = self.memory;
        let (mut used, mut needed) = (0, 0);
        let ended = record.has(ENDED);
        let output = &mut self.output;
        let mut exchange = Exchange { input, ended, number, memory, output, state: *state };
        while used < input.len() {
            exchange.input = input.slice(used, usize::MAX);
            match self.protocol.answer(&mut exchange) {
                Step::Consumed(bytes) => {
                    used += bytes.clamp(1, input.len() - used);
                    round.requests += 1;
                }
                Step::More(bytes) => {
                    needed = bytes;
                    break;
                }
                Step::Again => {
                    record.flags |= WAITS;
                    break;
                }
                Step::Close => {
                    record.flags |= CLOSING;
                    break;
                }
            }
            if exchange.output.is_blocked() || exchange.output.failed.is_some() {
                break;
            }
        }
        *state = exchange.state;
        (used, needed)
    }

    /// Where the connection's input is to be received, and how much of a request is there already.
    #[inline(never)]
    fn input(&mut self, number: u32, record: &mut Record) -> (SharedBuf, usize) {
        let have = record.input_len as usize;
        let [piece, _] = self.memory.pieces(number);
        let kept =
            if record.input.is_none() { piece } else { self.memory.heap().memory(record.input) };
        // Short ones return to shared memory, where parsing is fast; a block that was made for a long
        // request goes on to be filled.
        if kept.len() > self.stage.len() || have > self.stage.len() / 2 && !record.input.is_none() {
            return (kept, have);
        }
        let group = self.on.group();
        buf::copy(group, kept.first(have), self.stage);
        group.barrier();
        self.free_input(record);
        (self.stage, have)
    }

    /// Gives an incomplete request's memory back. All threads are done with it.
    fn free_input(&mut self, record: &mut Record) {
        if self.on.group().is_leader() {
            self.memory.heap().free(record.input);
        }
        (record.input, record.input_len) = (Block::NONE, 0);
        self.output.input = 0;
    }

    /// Keeps what was not consumed until more of it comes.
    #[inline(never)]
    fn keep_input(
        &mut self,
        number: u32,
        record: &mut Record,
        buffer: SharedBuf,
        used: usize,
        have: usize,
        needed: usize,
    ) {
        let (group, heap) = (self.on.group(), self.memory.heap());
        let left = have - used;
        let waits = record.has(WAITS) || self.output.is_blocked();
        if left == 0 || waits {
            record.since_ns = 0;
        } else if used > 0 || record.since_ns == 0 {
            record.since_ns = self.common_time();
        }
        if left == 0 {
            group.barrier();
            return self.free_input(record);
        }
        let most = (self.options.most_request as usize).min(MOST);
        // A block that has room for more of the request stays.
        if !record.input.is_none() && used == 0 && have < buffer.len() {
            record.input_len = have as u32;
            return;
        }
        if needed > most || !waits && left >= most {
            self.refusal = Some(Refusal::TooLarge);
            return;
        }
        let [mut memory, _] = self.memory.pieces(number);
        let mut block = Block::NONE;
        if left >= PIECE {
            let known = if needed > 0 { needed } else { left * 2 };
            let wanted = known.min((left * 4).max(AHEAD)).min(most).max(left + 1);
            let wanted = if waits { left } else { wanted };
            let others = self.output.kept.share();
            block = self.shares.allocate(group, wanted, others);
            if block.is_none() && wanted > left + PIECE {
                // What there is, without what may come.
                block = self.shares.allocate(group, left + PIECE, others);
            }
            if block.is_none() {
                self.refusal = Some(Refusal::NoMemory);
                return;
            }
            memory = heap.memory(block);
        }
        buf::copy(group, buffer.slice(used, left), memory);
        group.barrier();
        self.free_input(record);
        (record.input, record.input_len) = (block, left as u32);
        self.output.input = block.share();
    }
}
