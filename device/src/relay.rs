//! Host words that every waiting group watches, read by one group for all: the launch's stop word
//! and the heartbeats of the proxy threads.
//!
//! Loads of one host word by many warps queue up behind one another, about a microsecond each, and
//! every fence at system scope on the GPU waits behind them: with 128 blocks that waited, one that
//! worked took 135 us for an exchange of 3 us. So each of these words has a relay, a line in GPU
//! memory with its value and the time when it was last read. A waiting group reads the relay. One
//! that finds it old claims the next read by an exchange of the time, reads the host word and stores
//! what it found for the others. One thread calls this, for its group.
//!
//! Nothing else is published by a relay, so its accesses need no order: a value that comes a moment
//! late is read by the next look. What must be seen together stands in one word.
//!
//! Why it is so: decision 12 of docs/explanation/decisions.md.

use crate::abi::net::Net;
use crate::abi::word::Word;

/// Age at which a stop word is read again.
const STOP_AGE_NS: u64 = 20_000;
/// Age at which a heartbeat is read again, at most ...
const BEAT_AGE_NS: u64 = 100_000_000;
/// ... and so many reads in a heartbeat timeout: a dead proxy is noticed not much later than it
/// should be.
const BEAT_READS: u64 = 16;

/// Words of a relay: when the host word was last claimed to be read, and what it was.
const CLAIMED_AT: usize = 0;
const VALUE: usize = 1;
/// Of a heartbeat's: see [`Pulse`].
const PULSE: usize = 2;

/// What the relays of a launch and of a shard say, read at once.
#[derive(Clone, Copy)]
pub(crate) struct Relays {
    net: Net,
    shard: usize,
    now: u64,
    timeout: u64,
    stop_claimed_at: u64,
    stop: u64,
    beat_claimed_at: u64,
    pulse: Pulse,
}

impl Relays {
    /// Reads them.
    #[inline(always)]
    pub(crate) fn read(net: Net, shard: usize, now: u64) -> Self {
        // All on their way before the first is looked at: a look is one trip to GPU memory, in which a
        // group does not see what it waits for.
        let (stop, beat) = (net.stop_relay(), net.heartbeat_relay(shard));
        Self {
            net,
            shard,
            now,
            timeout: net.heartbeat_timeout_ns(),
            stop_claimed_at: stop.get(CLAIMED_AT).load(),
            stop: stop.get(VALUE).load(),
            beat_claimed_at: beat.get(CLAIMED_AT).load(),
            pulse: Pulse(beat.get(PULSE).load()),
        }
    }

    /// The launch's stop word, at most some 20 us old; 0: go on.
    #[inline(always)]
    pub(crate) fn stop(&self) -> u64 {
        // A model has no clock; its threads read the word themselves.
        if cfg!(feature = "loom") {
            return self.net.stop().load_acquire();
        }
        let mut value = self.stop;
        if self.now.abs_diff(self.stop_claimed_at) >= STOP_AGE_NS {
            value = pass_stop_on(self.net, self.stop_claimed_at, self.now);
        }
        // Of an earlier launch in this slot, which may have been stopped.
        if value >> 32 == self.net.epoch() { value & 0xFFFF_FFFF } else { 0 }
    }

    /// Whether the heartbeat of the shard's proxy has stood still for the heartbeat timeout, all of it
    /// since `since`: the relay may be older than the calling group's wait.
    #[inline(always)]
    pub(crate) fn heartbeat_stands_still(&self, since: u64) -> bool {
        let age = BEAT_AGE_NS.min(self.timeout / BEAT_READS);
        let mut pulse = self.pulse;
        if self.now.abs_diff(self.beat_claimed_at) >= age {
            pulse = pass_beat_on(self.net, self.shard, self.beat_claimed_at, self.now);
        }
        // Only a read that is new says something of a proxy: one that was just claimed may still be on its way.
        let is_new = Pulse::since(pulse.read_at(), self.now) <= 2 * age + (1 << Pulse::TICK);
        let unchanged = Pulse::since(pulse.changed_at(), self.now);
        is_new && unchanged.min(self.now.saturating_sub(since)) >= self.timeout
    }
}

/// Claims a read whose last one was at `last`. Who does not get it leaves it to who did.
#[inline(always)]
fn claim(claimed_at: Word, last: u64, now: u64) -> bool {
    claimed_at.replace_on_gpu(last, now, true) == last
}

/// Reads the stop word for all, if nobody else does; the relay's value. With the launch's number, as
/// far as it is known, so that it cannot be taken for an earlier launch's.
#[inline(always)]
fn pass_stop_on(net: Net, last: u64, now: u64) -> u64 {
    let relay = net.stop_relay();
    let value = relay.get(VALUE);
    if claim(relay.get(CLAIMED_AT), last, now) {
        let before = value.load();
        let read = net.epoch() << 32 | net.stop().load() & 0xFFFF_FFFF;
        if read != before {
            // An exchange: who is late with a 0 must not take back what another has found.
            value.replace_on_gpu(before, read, true);
        }
    }
    value.load()
}

/// Reads the heartbeat for all, if nobody else does; the relay's pulse.
#[inline(always)]
fn pass_beat_on(net: Net, shard: usize, last: u64, now: u64) -> Pulse {
    let relay = net.heartbeat_relay(shard);
    if claim(relay.get(CLAIMED_AT), last, now) {
        let beat = net.heartbeat(shard).load();
        // Where nobody has looked for long, or the time was wrong, the observation begins anew.
        let anew = now.abs_diff(last) >= net.heartbeat_timeout_ns() / 2;
        let changed = beat != relay.get(VALUE).load() || anew;
        let before = Pulse(relay.get(PULSE).load()).changed_at();
        let tick = Pulse::tick(now);
        relay.get(VALUE).store(beat);
        relay.get(PULSE).store(Pulse::new(tick, if changed { tick } else { before }).0);
    }
    Pulse(relay.get(PULSE).load())
}

/// When a heartbeat was last read (upper half), and when a read last found it changed, in ticks of 2^16
/// nanoseconds, which go round in 78 hours. In one word, so that both are of the same read.
#[derive(Clone, Copy)]
struct Pulse(u64);

impl Pulse {
    const TICK: u32 = 16;

    #[inline(always)]
    const fn tick(ns: u64) -> u32 {
        (ns >> Self::TICK) as u32
    }

    #[inline(always)]
    const fn new(read_at: u32, changed_at: u32) -> Self {
        Self((read_at as u64) << 32 | changed_at as u64)
    }

    #[inline(always)]
    const fn read_at(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    const fn changed_at(self) -> u32 {
        self.0 as u32
    }

    /// Nanoseconds between a tick of the past and now.
    #[inline(always)]
    const fn since(tick: u32, now: u64) -> u64 {
        (Self::tick(now).wrapping_sub(tick) as u64) << Self::TICK
    }
}
