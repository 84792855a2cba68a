//! Waiting: the only loops on the device that are not counted copies.
//!
//! A wait ends when its condition holds, when its deadline passes (ETIMEDOUT), when the launch is
//! told to stop (the stop word's error), or when the proxy's heartbeat stands still (ENETDOWN).
//! The stop word and the heartbeat lie across PCIe, so they are looked at rarely.

use crate::abi::errno::Errno;
use crate::abi::net::Net;
use crate::group::Group;
use crate::simt;

/// Turns between two looks at the clock and the stop word: some 30 us on hardware.
const TURNS: u32 = 32;
/// Time between two looks at the heartbeat.
const BEAT_NS: u64 = 100_000_000;

/// When a wait gives up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(u64);

impl Deadline {
    /// Never, unless the launch is stopped or the proxy dies.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// That many nanoseconds from now; 0: never.
    #[inline(always)]
    pub(crate) fn after_or_never(ns: u64) -> Self {
        if ns == 0 { Self::NEVER } else { Self(simt::now_ns().saturating_add(ns)) }
    }

    /// That many nanoseconds from now.
    #[inline(always)]
    pub(crate) fn after(ns: u64) -> Self {
        Self(simt::now_ns().saturating_add(ns))
    }
}

/// What is watched besides the condition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// The stop word and the heartbeat.
    Stop,
    /// The heartbeat, and a stop word that says the proxy is gone: for exchanges with the proxy,
    /// which it answers at once and which a stopping kernel still needs to close its sockets.
    Proxy,
}

/// The state of a wait between two turns.
struct Patience {
    deadline: u64,
    watch: Watch,
    turns: u32,
    beat: u64,
    beat_at: u64,
    looked_at: u64,
}

impl Patience {
    #[inline(always)]
    fn new(deadline: Deadline, watch: Watch) -> Self {
        Self { deadline: deadline.0, watch, turns: 0, beat: 0, beat_at: 0, looked_at: 0 }
    }

    /// One more turn; the reason to give up, if there is one.
    #[inline(always)]
    fn turn(&mut self, net: &Net, shard: usize) -> Option<Errno> {
        self.turns = self.turns.wrapping_add(1);
        if !self.turns.is_multiple_of(TURNS) { None } else { self.look(net, shard) }
    }

    #[inline(never)]
    fn look(&mut self, net: &Net, shard: usize) -> Option<Errno> {
        let stop = net.stop().load_acquire();
        if stop != 0 {
            let errno = Errno(stop as i32);
            if self.watch == Watch::Stop || errno == Errno::ENETDOWN {
                return Some(errno);
            }
        }
        let now = simt::now_ns();
        if now >= self.deadline {
            return Some(Errno::ETIMEDOUT);
        }
        if now - self.looked_at >= BEAT_NS {
            self.looked_at = now;
            let beat = net.heartbeat(shard).load();
            if self.beat_at == 0 || beat != self.beat {
                self.beat = beat;
                self.beat_at = now;
            } else if now - self.beat_at >= net.silence_ns() {
                return Some(Errno::ENETDOWN);
            }
        }
        None
    }
}

/// Waits until `ready` gives something; one thread calls it.
#[inline(always)]
pub(crate) fn wait_until<T>(
    net: &Net,
    shard: usize,
    deadline: Deadline,
    watch: Watch,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<T, Errno> {
    if let Some(value) = ready() {
        return Ok(value);
    }
    let mut patience = Patience::new(deadline, watch);
    loop {
        simt::pause();
        if let Some(value) = ready() {
            simt::progress();
            return Ok(value);
        }
        if let Some(errno) = patience.turn(net, shard) {
            return Err(errno);
        }
    }
}

/// Waits until `ready` says yes to any thread; all threads of the group call it.
#[inline(always)]
pub(crate) fn group_until<G: Group>(
    net: &Net,
    group: G,
    deadline: Deadline,
    mut ready: impl FnMut() -> bool,
) -> Result<(), Errno> {
    let mut patience = Patience::new(deadline, Watch::Stop);
    loop {
        if group.any(ready()) {
            simt::progress();
            return Ok(());
        }
        simt::pause();
        // Every look: a turn of a group is long, and all threads must agree on its end.
        let end = if group.is_leader() { patience.look(net, 0) } else { None };
        let [end] = group.broadcast([end.map_or(0, |errno| errno.0 as u64)]);
        if end != 0 {
            return Err(Errno(end as i32));
        }
    }
}
