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

/// Claims a read, if the last one is that old; how old it is. A time that lies ahead is as wrong as one
/// that is long ago.
#[inline(always)]
fn claim(claimed_at: Word, now: u64, age: u64) -> Option<u64> {
    let last = claimed_at.load();
    let passed = now.abs_diff(last);
    (passed >= age && claimed_at.replace_on_gpu(last, now, true) == last).then_some(passed)
}

/// The launch's stop word, at most some 20 us old; 0: go on.
#[inline(always)]
pub(crate) fn stop(net: Net, now: u64) -> u64 {
    // A model has no clock; its threads read the word themselves.
    if cfg!(feature = "loom") {
        return net.stop().load_acquire();
    }
    let relay = net.stop_relay();
    let value = relay.get(VALUE);
    // With the launch's number, as far as it is known: an earlier launch in this place may have been
    // stopped. Its word is replaced by the first read of this one.
    let tag = net.epoch() << 32;
    if claim(relay.get(CLAIMED_AT), now, STOP_AGE_NS).is_some() {
        let before = value.load();
        let read = tag | net.stop().load() & 0xFFFF_FFFF;
        if read != before {
            // An exchange: who is late with a 0 must not take back what another has found.
            value.replace_on_gpu(before, read, true);
        }
    }
    let value = value.load();
    if value >> 32 == tag >> 32 { value & 0xFFFF_FFFF } else { 0 }
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
    const fn new(read: u32, changed: u32) -> Self {
        Self((read as u64) << 32 | changed as u64)
    }

    /// Nanoseconds between a tick of the past and now.
    #[inline(always)]
    const fn since(tick: u32, now: u64) -> u64 {
        (Self::tick(now).wrapping_sub(tick) as u64) << Self::TICK
    }
}

/// Whether the heartbeat of a shard's proxy has stood still for the heartbeat timeout, all of it
/// since `since`: the relay may be older than the calling group's wait.
#[inline(always)]
pub(crate) fn heartbeat_stands_still(net: Net, shard: usize, since: u64, now: u64) -> bool {
    let timeout = net.silence_ns();
    let age = BEAT_AGE_NS.min(timeout / BEAT_READS);
    let relay = net.heartbeat_relay(shard);
    if let Some(passed) = claim(relay.get(CLAIMED_AT), now, age) {
        let beat = net.heartbeat(shard).load();
        // Where nobody has looked for long, the observation begins anew.
        let changed = beat != relay.get(VALUE).load() || passed >= timeout / 2;
        let last = relay.get(PULSE).load() as u32;
        let tick = Pulse::tick(now);
        relay.get(VALUE).store(beat);
        relay.get(PULSE).store(Pulse::new(tick, if changed { tick } else { last }).0);
    }
    // Only a read that is new tells of a proxy: one that was just claimed may still be on its way.
    let pulse = Pulse(relay.get(PULSE).load());
    let (read, changed) = ((pulse.0 >> 32) as u32, pulse.0 as u32);
    let is_new = Pulse::since(read, now) <= 2 * age + (1 << Pulse::TICK);
    is_new && Pulse::since(changed, now).min(now.saturating_sub(since)) >= timeout
}
