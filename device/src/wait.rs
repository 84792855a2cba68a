//! Waiting: the only loops on the device that are not counted copies.
//!
//! A wait ends when its condition holds, when its deadline passes (ETIMEDOUT), when the launch is
//! stopped (the stop word's error), or when the proxy's heartbeat stands still (ENETDOWN).
//! The stop word and the heartbeat lie across PCIe, and every waiting group watches them, so one reads
//! them for all ([`relay`](crate::relay)).
//!
//! Why it is so: decision 12 of docs/explanation/decisions.md.

use crate::abi::errno::Errno;
use crate::abi::net::Net;
use crate::group::AnyGroup;
use crate::planted::{Bug, planted};
use crate::relay::Relays;
use crate::simt;

/// Turns between two looks at the clock and at what else ends a wait: some 30 us on hardware, longer
/// than a peer that is busy mostly takes to answer. A turn on the emulated GPU may be a sleep, and on a
/// machine with more to do than cores a long one, so it looks in each, and so does a model. Virtual
/// time does not sleep.
const TURNS: u32 = if cfg!(any(target_arch = "nvptx64", feature = "simulation")) { 32 } else { 1 };

/// Turns in which a wait polls as fast as it can: about a millisecond. Who waits longer leaves link,
/// memory and instruction caches to others, and sleeps between its turns: a microsecond or two ...
const EAGER_TURNS: u32 = 1000;
/// ... and from this turn on, some milliseconds later, eight to sixteen, or longer in a large launch.
const LONG_BACK_OFF_TURNS: u32 = 3 * EAGER_TURNS;
const BACK_OFF_NS: u32 = 1_000;
const LONG_BACK_OFF_NS: u32 = 8_000;
/// Of 251 to 1,000 blocks, all together poll as often as 250 do: 1,000 that each poll every eight
/// microseconds make the round trips of another block a fifth longer.
const LONG_BACK_OFF_NS_A_BLOCK: u32 = 32;
/// A sleep may take twice as long, and every wait is to end within 100 us of an abort.
const LONGEST_BACK_OFF_NS: u32 = 32_000;
/// Short and long sleeps between two looks: some 20 us, as for who polls.
const SHORT_SLEEPS: u32 = if TURNS == 1 { 1 } else { 16 };
const LONG_SLEEPS: u32 = if TURNS == 1 { 1 } else { 2 };

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

    /// That many nanoseconds from `begun` on; 0: never.
    #[inline(always)]
    pub(crate) fn since_or_never(begun: u64, ns: u64) -> Self {
        if ns == 0 { Self::NEVER } else { Self(begun.saturating_add(ns)) }
    }

    /// Nanoseconds until then. At least 1, which [`Self::after_or_never`] takes for no time at all.
    #[inline(always)]
    pub(crate) fn left_ns(self) -> u64 {
        self.0.saturating_sub(simt::now_ns()).max(1)
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

/// What ends a wait that began at `since`, beside its condition: its error number; 0: it goes on. Out of
/// line, with words alone: what a wait keeps in registers between its turns stays there.
#[cold]
#[inline(never)]
pub(crate) fn check_end(
    net: Net,
    shard: usize,
    deadline: Deadline,
    watch: Watch,
    since: u64,
) -> u64 {
    let now = simt::now_ns();
    let relays = Relays::read(net, shard, now);
    let stop = relays.stop();
    if stop != 0 && (watch == Watch::Stop || stop == Errno::ENETDOWN.0 as u64) {
        return stop;
    }
    if now >= deadline.0 && !planted(Bug::DeadlineIgnored) {
        return Errno::ETIMEDOUT.0 as u64;
    }
    if relays.heartbeat_stands_still(since) { Errno::ENETDOWN.0 as u64 } else { 0 }
}

/// What stops the launch, as a negative error number; 0: nothing does. For calls that need not wait.
#[inline(always)]
pub(crate) fn stop_of(net: Net) -> i64 {
    -(check_end(net, 0, Deadline::NEVER, Watch::Stop, simt::now_ns()) as i64)
}

/// The same for calls that never wait and may be repeated for ever, such as a look at bytes that stay where they
/// are: one call in 32 looks, by the clock. The word lies across PCIe.
#[inline(always)]
pub(crate) fn stop_now_and_then(net: Net) -> i64 {
    if (simt::now_ns() >> 10).is_multiple_of(32) { stop_of(net) } else { 0 }
}

/// Whether a turn ends with a look at the clock and at what else ends a wait. `sleep`: what it sleeps then,
/// nanoseconds.
#[inline(always)]
fn looks(turns: u32, sleep: u32) -> bool {
    let each = match sleep {
        0 => TURNS,
        BACK_OFF_NS => SHORT_SLEEPS,
        LONG_BACK_OFF_NS => LONG_SLEEPS,
        _ => 1,
    };
    (turns + 1).is_multiple_of(each)
}

/// Whether a wait still polls as fast as it can in a turn.
#[inline(always)]
pub(crate) const fn is_eager(turns: u32) -> bool {
    turns < EAGER_TURNS
}

/// How long a wait sleeps in a turn, nanoseconds.
#[inline(always)]
fn back_off_ns(turns: u32) -> u32 {
    if is_eager(turns) {
        return 0;
    }
    if turns < LONG_BACK_OFF_TURNS {
        return BACK_OFF_NS;
    }
    let all = simt::position().blocks.saturating_mul(LONG_BACK_OFF_NS_A_BLOCK);
    all.clamp(LONG_BACK_OFF_NS, LONGEST_BACK_OFF_NS)
}

/// Ends a turn of a wait that began at `since`: how many turns there were, or the negative number of the
/// error with which it ends.
#[cold]
#[inline(never)]
pub(crate) fn end_turn(
    net: Net,
    shard: usize,
    deadline: Deadline,
    watch: Watch,
    since: u64,
    turns: u32,
) -> i64 {
    let sleep = back_off_ns(turns);
    if sleep > 0 {
        simt::back_off(sleep);
    }
    if looks(turns, sleep) {
        let errno = check_end(net, shard, deadline, watch, since);
        if errno != 0 {
            return -(errno as i64);
        }
    }
    // A wait that has come to the long back-off stays with it.
    i64::from(if turns + 1 == 2 * LONG_BACK_OFF_TURNS { LONG_BACK_OFF_TURNS } else { turns + 1 })
}

/// Turns of a wait, each of which looks at what ends it, until one gives something.
#[inline(always)]
pub(crate) fn turn_by_turn<T>(mut turn: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(value) = turn() {
            return value;
        }
    }
}

/// Waits until `ready` gives something; one thread calls it.
#[inline(always)]
pub(crate) fn wait_until<T>(
    net: Net,
    shard: usize,
    deadline: Deadline,
    watch: Watch,
    ready: impl FnMut() -> Option<T>,
) -> Result<T, Errno> {
    wait_on(net, shard, deadline, watch, simt::now_ns(), 0, ready)
}

/// The same for a wait that began at `since` and has had so many turns.
#[inline(always)]
pub(crate) fn wait_on<T>(
    net: Net,
    shard: usize,
    deadline: Deadline,
    watch: Watch,
    since: u64,
    turns: u32,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<T, Errno> {
    let mut turns = i64::from(turns);
    loop {
        if let Some(value) = ready() {
            simt::progress();
            return Ok(value);
        }
        simt::pause();
        turns = end_turn(net, shard, deadline, watch, since, turns as u32);
        if turns < 0 {
            return Err(Errno(-turns as i32));
        }
    }
}

/// Waits until `ready` says yes, and to all threads alike; all threads of the group call it.
#[inline(always)]
pub(crate) fn group_until(
    net: Net,
    group: AnyGroup,
    deadline: Deadline,
    mut ready: impl FnMut() -> bool,
) -> Result<(), Errno> {
    let since = simt::now_ns();
    loop {
        if ready() {
            simt::progress();
            return Ok(());
        }
        simt::pause();
        // Every look: a turn of a group is long, and all threads must agree on its end.
        let mut end = 0;
        if group.is_leader() {
            end = check_end(net, 0, deadline, Watch::Stop, since);
        }
        let end = group.broadcast(end);
        if end != 0 {
            return Err(Errno(end as i32));
        }
    }
}
