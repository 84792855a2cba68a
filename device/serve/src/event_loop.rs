//! The loop of a server: events of a poller, a turn for each, time-outs, an orderly end.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::gsetsockopt;
use gpunet_device::poller::{Event, POLLIN, POLLRDHUP};
use gpunet_device::{Errno, Group, Handle, On, Poller, Shared, SharedBuf};

use crate::beside::Beside;
use crate::connection::{ENDED, NOBODY, REFUSED};
use crate::exchange::Protocol;
use crate::memory::{Counter, Memory};
use crate::output::Output;
use crate::server::{Options, Server};
use crate::shares::{MOST_CONNECTIONS, PIECE, Shares};

/// The token of the listener; those of connections are a generation and a number.
const LISTENER: u64 = u64::MAX;
/// Events taken at a time.
const EVENTS: usize = 32;
/// Waits between two looks at the time while there is much to do.
const WAITS_PER_TIME: u32 = 16;
/// Connections that a tick accepts at most: clients that come without end must not keep a group.
const ACCEPTS_PER_TICK: u32 = 64;
/// The least shared memory that [`serve`] works with: events, a word, and a stage for input and output each.
pub const LEAST_STAGING: usize = EVENTS * size_of::<Event>() + WORD + 2 * PIECE;
/// Bytes of that word, so that the stages are aligned.
const WORD: usize = 16;

/// Serves connections of `listener` with `protocol` until the program writes the stop word
/// ([`STOP_OFFSET`](crate::STOP_OFFSET)) or stops the kernel. All threads of the group call it;
/// any number of groups may serve one listener. `staging` is shared memory of the group, of at least
/// [`LEAST_STAGING`] bytes: half of it takes input, half of it output.
///
/// # Errors
/// EINVAL for too little memory or too many connections (2^24); else what ended the wait for events, such as ECANCELED.
pub fn serve<G: Group, P: Protocol<G>>(
    on: On<G>,
    listener: Handle,
    memory: Memory,
    options: Options,
    staging: SharedBuf,
    protocol: &mut P,
) -> Result<(), Errno> {
    let needed = memory.least();
    let state_fits = size_of::<P::State>() <= memory.state_bytes as usize;
    let fits = memory.connections < MOST_CONNECTIONS && memory.region.len() >= needed;
    if staging.len() < LEAST_STAGING || !fits || !state_fits {
        return Err(Errno::EINVAL);
    }
    let events = staging.first(EVENTS * size_of::<Event>()).cast::<Event>();
    let shares = Shares::new(memory, staging.slice(EVENTS * size_of::<Event>(), WORD).cast());
    let stages = staging.slice(EVENTS * size_of::<Event>() + WORD, usize::MAX);
    let half = (stages.len() / 2) & !15;
    // An event is one connection that may be gone again: accept must not wait.
    Errno::check(gsetsockopt(on.net(), on.group(), listener, SocketOption::NonBlocking, 1))?;
    let poller = Poller::new(on)?;
    poller.add(listener, POLLIN, LISTENER)?;
    let mut server = Server {
        on,
        poller,
        memory,
        shares,
        options,
        stage: stages.first(half),
        output: Output::new(on, shares, stages.slice(half, half)),
        protocol,
        first: NOBODY,
        on_watch: 0,
        refusal: None,
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
                if self.options.idle_timeout_ns > 0 || self.on_watch > 0 {
                    self.look_after(now);
                }
                // Connections whose event came while another group was accepting.
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
        let stale = self.beside.take_stale();
        for index in 0..taken {
            let Some(event) = events.get(index) else { break };
            let (what, last) = (event.events as u16, index + 1 == taken);
            match event.token {
                LISTENER => _ = self.accept(listener)?,
                token if index == 0 && token == stale && what == POLLIN => {}
                token => self.turn(token as u32, (token >> 32) as u32, what, last),
            }
        }
        Ok(taken)
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
            if record.has(REFUSED) {
                self.close(number, record, true);
                continue;
            }
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
            let now = self.common_time();
            if now.wrapping_sub(begin) > self.options.drain_ns {
                break;
            }
            self.look_after(now);
            self.wait(listener, events)?;
        }
        while let Some(record) = self.memory.records().get(self.first as usize) {
            self.close_waiting(self.first, record, true);
        }
        Ok(())
    }
}
