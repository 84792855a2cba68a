//! Host words that every waiting group watches, read by one group for all: the launch's stop word
//! and the heartbeats of the proxy threads.
//!
//! Loads of one host word by many warps queue up behind one another, about a microsecond each, and
//! every fence at system scope on the GPU waits behind them: with 128 blocks that waited, one that
//! worked took 135 us for an exchange of 3 us. So each of these words has a relay, a line in GPU
//! memory with its value and the time when it was last read. A waiting group reads the relay. One
//! that finds it old claims the next read by compare-and-exchange of the time, reads the host word
//! and stores what it found for the others. One thread calls this, for its group.
//!
//! Nothing else is published by a relay, so its accesses need no order: a value that comes a moment
//! late is read by the next look.

use crate::abi::net::Net;

/// Age at which a stop word is read again.
const STOP_AGE_NS: u64 = 20_000;
/// Age at which a heartbeat is read again, at most ...
const BEAT_AGE_NS: u64 = 100_000_000;
/// ... and so many reads in a heartbeat timeout: a dead proxy is noticed not much later than it
/// should be.
const BEAT_READS: u64 = 16;

/// Words of a relay.
const READ_AT: usize = 0;
const VALUE: usize = 1;
/// Of a heartbeat's: when a read last found another value than the one before.
const CHANGED_AT: usize = 2;

/// The launch's stop word, at most some 20 us old; 0: go on.
#[inline(always)]
pub(crate) fn stop(net: Net, now: u64) -> u64 {
    // A model has no clock; its threads read the word themselves.
    if cfg!(feature = "loom") {
        return net.stop().load_acquire();
    }
    let relay = net.stop_relay();
    let read_at = relay.get(READ_AT).load();
    if now.saturating_sub(read_at) >= STOP_AGE_NS
        && relay.get(READ_AT).replace_on_gpu(read_at, now, true) == read_at
    {
        let stop = net.stop().load();
        // 0 is not passed on: who is late with it must not take back what another has found.
        if stop != 0 {
            relay.get(VALUE).store(stop);
        }
    }
    relay.get(VALUE).load()
}

/// Whether the heartbeat of a shard's proxy has stood still for the heartbeat timeout, all of it
/// since `since`: the relay may be older than the calling group's wait.
#[inline(always)]
pub(crate) fn heartbeat_stands_still(net: Net, shard: usize, since: u64, now: u64) -> bool {
    let timeout = net.silence_ns();
    let relay = net.heartbeat_relay(shard);
    let read_at = relay.get(READ_AT).load();
    if now.saturating_sub(read_at) >= BEAT_AGE_NS.min(timeout / BEAT_READS)
        && relay.get(READ_AT).replace_on_gpu(read_at, now, true) == read_at
    {
        let beat = net.heartbeat(shard).load();
        if beat != relay.get(VALUE).load() {
            relay.get(VALUE).store(beat);
            relay.get(CHANGED_AT).store(now);
        }
    }
    // Reads come often in a timeout, so one that is late with its result is followed by others.
    let changed_at = relay.get(CHANGED_AT).load();
    now.saturating_sub(changed_at.max(since)) >= timeout
}
