//! Waiting: the only loops on the device that are not counted copies.
//!
//! A wait ends when its condition holds, when its deadline passes (ETIMEDOUT), when the launch is
//! told to stop (the stop word's error), or when the proxy's heartbeat stands still (ENETDOWN).
//! The stop word and the heartbeat lie across PCIe, so they are looked at rarely.

use crate::abi::errno::Errno;
use crate::abi::net::Net;
use crate::abi::word::Word;
use crate::group::Group;
use crate::planted::{Bug, planted};
use crate::simt;

/// Turns between two looks at the clock and the stop word: some 30 us on hardware. A turn on the
/// emulated GPU may be a sleep, and on a machine with more to do than cores a long one, so it looks
/// in each, and so does a model. Virtual time does not sleep.
const TURNS: u32 = if cfg!(any(target_arch = "nvptx64", feature = "simulation")) { 32 } else { 1 };
/// Time between two looks at the heartbeat, at most ...
const BEAT_NS: u64 = 100_000_000;
/// ... and so many looks in a silence: a dead proxy is noticed not much later than it should be.
const LOOKS: u64 = 16;

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

    /// Nanoseconds until then. At least 1, which [`Self::after_or_never`] takes for no time at all.
    #[inline(always)]
    pub(crate) fn left_ns(self) -> u64 {
        self.0.saturating_sub(simt::now_ns()).max(1)
    }

    /// As a word that is not 0.
    #[inline(always)]
    pub(crate) fn to_word(self) -> u64 {
        self.0
    }

    /// From such a word; none from 0.
    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word))
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

/// What a wait watches, and until when.
#[derive(Clone, Copy)]
struct Limits {
    deadline: u64,
    watch: Watch,
    stop: Word,
    heartbeat: Word,
    silence_ns: u64,
}

/// The heartbeat as a wait has seen it.
#[derive(Clone, Copy, Default)]
struct Pulse {
    beat: u64,
    changed_at: u64,
    looked_at: u64,
}

impl Limits {
    #[inline(always)]
    fn new(net: Net, shard: usize, deadline: Deadline, watch: Watch) -> Self {
        Self {
            deadline: deadline.0,
            watch,
            stop: net.stop(),
            heartbeat: net.heartbeat(shard),
            silence_ns: net.silence_ns(),
        }
    }

    /// The reason to give up, if there is one. By value and out of line: what a wait keeps in
    /// registers between its turns stays there.
    #[cold]
    #[inline(never)]
    fn look(self, mut pulse: Pulse) -> (Pulse, Option<Errno>) {
        let stop = self.stop.load_acquire();
        if stop != 0 {
            let errno = Errno(stop as i32);
            if self.watch == Watch::Stop || errno == Errno::ENETDOWN {
                return (pulse, Some(errno));
            }
        }
        let now = simt::now_ns();
        if now >= self.deadline && !planted(Bug::DeadlineIgnored) {
            return (pulse, Some(Errno::ETIMEDOUT));
        }
        if now.saturating_sub(pulse.looked_at) >= BEAT_NS.min(self.silence_ns / LOOKS) {
            pulse.looked_at = now;
            let beat = self.heartbeat.load();
            if pulse.changed_at == 0 || beat != pulse.beat {
                pulse.beat = beat;
                pulse.changed_at = now;
            } else if now.saturating_sub(pulse.changed_at) >= self.silence_ns {
                return (pulse, Some(Errno::ENETDOWN));
            }
        }
        (pulse, None)
    }
}

/// Waits until `ready` gives something; one thread calls it.
#[inline(always)]
pub(crate) fn wait_until<T>(
    net: Net,
    shard: usize,
    deadline: Deadline,
    watch: Watch,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<T, Errno> {
    if let Some(value) = ready() {
        return Ok(value);
    }
    let limits = Limits::new(net, shard, deadline, watch);
    let mut pulse = Pulse::default();
    let mut turns = 0_u32;
    loop {
        simt::pause();
        if let Some(value) = ready() {
            simt::progress();
            return Ok(value);
        }
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(TURNS) {
            let (seen, end) = limits.look(pulse);
            pulse = seen;
            if let Some(errno) = end {
                return Err(errno);
            }
        }
    }
}

/// Waits until `ready`, which is told how many turns have passed, gives something to all lanes;
/// all lanes of a whole warp call it.
#[inline(always)]
pub(crate) fn warp_until<T>(
    net: Net,
    shard: usize,
    deadline: Deadline,
    watch: Watch,
    mut ready: impl FnMut(u32) -> Option<T>,
) -> Result<T, Errno> {
    let mut pulse = Pulse::default();
    let mut turns = 0_u32;
    loop {
        if let Some(value) = ready(turns) {
            simt::progress();
            return Ok(value);
        }
        simt::pause();
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(TURNS) {
            let mut end = None;
            if simt::lane() == 0 {
                (pulse, end) = Limits::new(net, shard, deadline, watch).look(pulse);
            }
            let end = simt::from_lane(end.map_or(0, |errno| errno.0 as u64), 0);
            if end != 0 {
                return Err(Errno(end as i32));
            }
        }
    }
}

/// Waits until `ready` says yes to any thread; all threads of the group call it.
#[inline(always)]
pub(crate) fn group_until<G: Group>(
    net: Net,
    group: G,
    deadline: Deadline,
    mut ready: impl FnMut() -> bool,
) -> Result<(), Errno> {
    let limits = Limits::new(net, 0, deadline, Watch::Stop);
    let mut pulse = Pulse::default();
    loop {
        if group.any(ready()) {
            simt::progress();
            return Ok(());
        }
        simt::pause();
        // Every look: a turn of a group is long, and all threads must agree on its end.
        let mut end = None;
        if group.is_leader() {
            (pulse, end) = limits.look(pulse);
        }
        let [end] = group.broadcast([end.map_or(0, |errno| errno.0 as u64)]);
        if end != 0 {
            return Err(Errno(end as i32));
        }
    }
}
