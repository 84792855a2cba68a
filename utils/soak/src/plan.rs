//! What a round does, drawn from its seed: who calls whom, how much, and how each connection ends.

use std::time::Duration;

use gpunet_e2e_kernels::soak::{ANSWERER_ENDS, CALLER_ENDS, ECHO, GONE, HALF_CLOSE, Terms};
use gpunet_host::GpuKind;
use gpunet_support::pattern::Draw;
use gpunet_support::testing::hang_limit;

use crate::end::{Break, Manner};

/// How long a call of a kernel may wait on a connection on which nobody falls silent. (Beside six
/// programs that compute, on two cores, some rounds of a tenth of a second take ten.)
pub(crate) fn timeout() -> Duration {
    hang_limit(Duration::from_secs(3))
}

/// How much longer than it may a call can take before it counts as hung: what a loaded machine
/// with few cores may keep a thread from running.
pub(crate) fn margin() -> Duration {
    hang_limit(Duration::from_millis(200))
}

/// Calls that a connection takes at most, more or less. Who waits for a group that answers waits
/// for all that the group has to do before, and must not time out for that alone.
const CALLS: u64 = 300;
/// Groups of a launch, at most.
const GROUPS: u64 = 16;
/// Bytes of shared memory for a group: terms and the largest misalignment fit the smallest.
const SHARED_EACH: [u32; 4] = [96, 512, 4112, 8208];
/// More than a UNIX socket and the largest ring take from a kernel whose peer does not read.
const UNREAD_LEAST: u64 = 1 << 20;
/// Turns of a connection that goes on until its peer is killed.
const ENDLESS: u64 = 1 << 40;

/// How much a machine is asked to do at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Most connections of a round.
    pub(crate) connections: u64,
    /// Bytes of a connection, more or less.
    pub(crate) bytes: u64,
    /// Most threads of a block.
    pub(crate) threads: u64,
}

impl Load {
    /// An emulated GPU shares few cores with its peers; a real one has room.
    pub(crate) fn for_gpu(kind: GpuKind) -> Self {
        match kind {
            GpuKind::Emulated => Self { connections: 8, bytes: 128 << 10, threads: 64 },
            _ => Self { connections: 48, bytes: 2 << 20, threads: 256 },
        }
    }
}

/// Who is at the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// The program calls, kernels answer.
    ProgramCalls,
    /// Kernels call, the program answers.
    KernelsCall,
    /// Kernels call and kernels answer.
    Kernels,
}

/// Over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    V4,
    V6,
    Unix,
}

/// Which threads are a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Block,
    Warp,
    Thread,
}

/// How a launch is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) who: Who,
    /// Groups.
    pub(crate) groups: u64,
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Bytes of shared memory for each group.
    pub(crate) shared_each: u32,
    /// Whether bytes are read and written in the rings themselves.
    pub(crate) in_rings: bool,
}

/// What is done to a round in its midst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upset {
    /// The launches are aborted.
    Abort(Duration),
    /// The net is dropped.
    DropNet(Duration),
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It ends as its terms have it; all bytes must arrive.
    Orderly,
    /// The same, but the calling kernel leaves its socket open when it ends.
    Left,
    /// The program's end breaks off once it has sent so many bytes (received, before it stops reading).
    Broken(Break, u64),
    /// The program's end is a process of its own, which is killed after so long.
    Killed(Duration),
}

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) terms: Terms,
    pub(crate) fate: Fate,
    /// Capacity of the rings that a calling kernel asks for.
    pub(crate) ring: u64,
    /// For the self-check: a byte that the program leaves out.
    pub(crate) omits: Option<u64>,
}

impl Exchange {
    /// A few short messages, and a good end.
    fn shorten(&mut self, turns: u64) {
        self.fate = Fate::Orderly;
        self.terms.turns = turns;
        self.terms.most_up = 5000;
        self.terms.most_down = 5000;
        self.terms.ending = CALLER_ENDS;
    }

    /// What the program's end does beside its terms.
    pub(crate) fn manner(&self) -> Manner {
        let breaks = match self.fate {
            Fate::Broken(how, after) => Some((how, after)),
            _ => None,
        };
        Manner { breaks, omits: self.omits }
    }

    /// Bytes that go up, and down, if all goes well.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let terms = &self.terms;
        let turns = || 0..terms.turns;
        let (up, down) = match terms.ending {
            GONE => (terms.tail(), 0),
            HALF_CLOSE => (0, terms.tail()),
            ECHO => (terms.tail(), terms.tail()),
            _ => (0, 0),
        };
        let up = up + turns().map(|turn| terms.up(turn)).sum::<u64>();
        (up, down + turns().map(|turn| terms.down(turn)).sum::<u64>())
    }

    /// Has the program read nothing more while the kernel sends more than a UNIX socket takes.
    /// (A TCP socket would take megabytes.)
    fn stop_reading(&mut self, draw: &mut Draw, pairing: Pairing) {
        let terms = &mut self.terms;
        let most = match pairing {
            Pairing::ProgramCalls => &mut terms.most_down,
            Pairing::KernelsCall => &mut terms.most_up,
            Pairing::Kernels => return,
        };
        *most = 4 * UNREAD_LEAST;
        terms.turns = 1;
        while (pairing == Pairing::ProgramCalls && terms.down(0) < UNREAD_LEAST)
            || (pairing == Pairing::KernelsCall && terms.up(0) < UNREAD_LEAST)
        {
            terms.seed = draw.next() >> 32;
        }
        terms.timeout_ns = nanoseconds(milliseconds(draw, 20, 300));
        self.fate = Fate::Broken(Break::NotReading, draw.between(0, 5000));
    }

    /// In a word or two, as it is counted.
    pub(crate) fn ending(&self, upset: Option<Upset>) -> &'static str {
        match (upset, self.fate) {
            (Some(Upset::Abort(_)), _) => "launch aborted",
            (Some(Upset::DropNet(_)), _) => "net dropped",
            (_, Fate::Left) => "left by kernel",
            (_, Fate::Broken(Break::Reset, _)) => "reset",
            (_, Fate::Broken(Break::Vanish, _)) => "vanished",
            (_, Fate::Broken(Break::Silence, _)) => "receive timed out",
            (_, Fate::Broken(Break::NotReading, _)) => "send timed out",
            (_, Fate::Killed(_)) => "killed",
            (_, Fate::Orderly) => match self.terms.ending {
                ANSWERER_ENDS => "server ended",
                HALF_CLOSE => "half-closed",
                GONE => "sent and closed",
                ECHO => "echoed",
                _ => "client ended",
            },
        }
    }
}

/// A round.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) number: u64,
    pub(crate) pairing: Pairing,
    pub(crate) transport: Transport,
    pub(crate) answering: Layout,
    pub(crate) calling: Layout,
    pub(crate) exchanges: Vec<Exchange>,
    /// Connections that the program makes at once.
    pub(crate) at_once: usize,
    pub(crate) upset: Option<Upset>,
    /// For the self-check: how long the first receive of each connection takes.
    pub(crate) stall: Duration,
}

impl Plan {
    /// Round `number` of a soak with that seed.
    pub(crate) fn draw(seed: u64, number: u64, load: Load, v6: bool) -> Self {
        let draw = &mut Draw::new(seed, number);
        let pairing = draw.pick([Pairing::ProgramCalls, Pairing::KernelsCall, Pairing::Kernels]);
        let transport = match draw.between(0, 5) {
            0 if v6 => Transport::V6,
            1 | 2 => Transport::Unix,
            _ => Transport::V4,
        };
        let upset = match draw.between(0, 11) {
            0 | 1 => Some(Upset::Abort(milliseconds(draw, 0, 40))),
            2 => Some(Upset::DropNet(milliseconds(draw, 0, 40))),
            _ => None,
        };
        let connections = draw.between(1, load.connections);
        let (answering, calling) =
            (layout(draw, load, connections), layout(draw, load, connections));
        let smallest = u64::from(match pairing {
            Pairing::ProgramCalls => answering.shared_each,
            Pairing::KernelsCall => calling.shared_each,
            Pairing::Kernels => answering.shared_each.min(calling.shared_each),
        });
        let load = Load { bytes: load.bytes.min(smallest / 2 * CALLS), ..load };
        let mut exchanges = Vec::new();
        for index in 0..connections {
            let mut exchange = exchange(draw, index, pairing, upset, load);
            if transport == Transport::Unix && smallest >= 4096 && draw.once_in(8) {
                exchange.stop_reading(draw, pairing);
            }
            exchanges.push(exchange);
        }
        Self {
            number,
            pairing,
            transport,
            answering,
            calling,
            exchanges,
            at_once: draw.between(1, load.connections.min(12)) as usize,
            upset,
            stall: Duration::ZERO,
        }
    }

    /// The first round: as many threads at once as a round may have, a short message each way. What the
    /// process keeps for each thread, the emulated GPU's stacks above all, is there after it.
    pub(crate) fn widest(seed: u64, load: Load) -> Self {
        let mut plan = Self::draw(seed, 0, load, false);
        let groups = load.connections.min(GROUPS);
        let [.., shared_each] = SHARED_EACH;
        let threads = load.threads as u32;
        let layout = Layout { who: Who::Block, groups, threads, shared_each, in_rings: false };
        (plan.pairing, plan.transport, plan.upset) = (Pairing::Kernels, Transport::V4, None);
        (plan.answering, plan.calling) = (layout, layout);
        let draw = &mut Draw::new(seed, 0);
        let exchange = |index| exchange(draw, index, Pairing::Kernels, None, load);
        plan.exchanges = (0..load.connections).map(exchange).collect();
        plan.exchanges.iter_mut().for_each(|exchange| exchange.shorten(1));
        plan
    }

    /// One good connection, for the self-check to spoil.
    pub(crate) fn plain(seed: u64, number: u64, load: Load) -> Self {
        let mut plan = Self::draw(seed, number, load, false);
        plan.pairing = Pairing::ProgramCalls;
        plan.upset = None;
        plan.exchanges.truncate(1);
        for exchange in &mut plan.exchanges {
            exchange.shorten(3);
            exchange.terms.timeout_ns = nanoseconds(Duration::from_millis(300));
        }
        plan
    }

    /// In a line, for reports.
    pub(crate) fn describe(&self) -> String {
        let upset = match self.upset {
            None => String::new(),
            Some(Upset::Abort(after)) => format!(", aborted after {after:?}"),
            Some(Upset::DropNet(after)) => format!(", net dropped after {after:?}"),
        };
        format!(
            "round {} ({:?} over {:?}, {} connections{upset})",
            self.number,
            self.pairing,
            self.transport,
            self.exchanges.len(),
        )
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

fn milliseconds(draw: &mut Draw, least: u64, most: u64) -> Duration {
    Duration::from_millis(draw.between(least, most))
}

/// A length: single bytes, packets, odd ones, around the size of a ring, several of
/// them.
fn length(draw: &mut Draw, most: u64) -> u64 {
    let drawn = match draw.between(0, 6) {
        0 => 1,
        1 => draw.between(2, 64),
        2 => draw.between(65, 1500),
        3 => draw.between(4090, 4100),
        4 => draw.between(1, 16 << 10),
        5 => draw.between(16 << 10, 70 << 10),
        _ => draw.between(1, most),
    };
    drawn.min(most)
}

fn layout(draw: &mut Draw, load: Load, connections: u64) -> Layout {
    let who = draw.pick([Who::Block, Who::Block, Who::Warp, Who::Thread]);
    let threads = match who {
        Who::Block => draw.pick([1, 7, 32, 33, load.threads]) as u32,
        Who::Warp => draw.pick([32, 64]),
        Who::Thread => draw.pick([1, 4]),
    };
    let shared_each = draw.pick(SHARED_EACH);
    let groups = draw.between(1, connections.min(GROUPS));
    Layout { who, groups, threads, shared_each, in_rings: draw.once_in(3) }
}

fn exchange(
    draw: &mut Draw,
    index: u64,
    pairing: Pairing,
    upset: Option<Upset>,
    load: Load,
) -> Exchange {
    let (most_up, most_down) = match draw.between(0, 3) {
        0 => (length(draw, load.bytes), 0),
        1 => (0, length(draw, load.bytes)),
        _ => (length(draw, load.bytes), length(draw, load.bytes)),
    };
    let turns = draw.between(1, (load.bytes / (most_up + most_down).max(1)).clamp(1, 40));
    let mut terms = Terms {
        index,
        seed: draw.next() >> 32,
        turns,
        most_up,
        most_down,
        most_tail: length(draw, load.bytes),
        ending: draw.pick([CALLER_ENDS, ANSWERER_ENDS, HALF_CLOSE, GONE]),
        timeout_ns: nanoseconds(timeout()),
    };
    let fate = if pairing == Pairing::Kernels || draw.once_in(2) {
        Fate::Orderly
    } else {
        match draw.between(0, 4) {
            0 => Fate::Killed(milliseconds(draw, 2, 150)),
            1 if pairing == Pairing::KernelsCall && upset.is_none() => Fate::Left,
            kind => {
                // Which end is the program's, and sends what breaks off.
                if pairing == Pairing::KernelsCall {
                    terms.most_down = terms.most_down.max(1);
                } else {
                    terms.most_up = terms.most_up.max(1);
                }
                let how = match kind {
                    1 | 2 => Break::Reset,
                    3 => Break::Vanish,
                    _ => Break::Silence,
                };
                if how == Break::Silence && terms.ending == HALF_CLOSE {
                    // Who falls silent waits for the other to give up, and could not see that
                    // from the end of one side.
                    terms.ending = CALLER_ENDS;
                }
                Fate::Broken(how, 0)
            }
        }
    };
    let ring = 4096 << draw.between(0, 4);
    let mut exchange = Exchange { terms, fate, ring, omits: None };
    match &mut exchange.fate {
        Fate::Killed(_) => {
            exchange.terms.turns = ENDLESS;
            exchange.terms.most_up = exchange.terms.most_up.max(1);
            exchange.terms.most_down = exchange.terms.most_down.max(1);
        }
        Fate::Broken(how, _) => {
            let how = *how;
            let (up, down) = exchange.totals();
            let sends = if pairing == Pairing::KernelsCall { down } else { up };
            exchange.fate = Fate::Broken(how, draw.between(0, sends - 1));
            if how == Break::Silence {
                exchange.terms.timeout_ns = nanoseconds(milliseconds(draw, 20, 300));
            }
        }
        _ => {}
    }
    if exchange.fate == Fate::Left {
        exchange.terms.ending = GONE;
    }
    if exchange.fate == Fate::Orderly && pairing == Pairing::ProgramCalls && draw.once_in(4) {
        exchange.terms.ending = ECHO;
    }
    exchange
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_repeatable_and_hold_every_ending() {
        let load = Load::for_gpu(GpuKind::Emulated);
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..400 {
            let plan = Plan::draw(1, number, load, true);
            let again = Plan::draw(1, number, load, true);
            assert_eq!(format!("{plan:?}").len(), format!("{again:?}").len());
            for (exchange, twin) in plan.exchanges.iter().zip(&again.exchanges) {
                assert_eq!(exchange.terms.to_words(), twin.terms.to_words());
                seen.insert(exchange.ending(plan.upset));
                if let Fate::Broken(how, after) = exchange.fate
                    && how != Break::NotReading
                {
                    let (up, down) = exchange.totals();
                    let sends = if plan.pairing == Pairing::KernelsCall { down } else { up };
                    assert!(after < sends, "it breaks off before all is sent");
                }
                if plan.pairing == Pairing::Kernels {
                    assert_eq!(exchange.fate, Fate::Orderly);
                }
            }
        }
        let names: Vec<_> = seen.into_iter().collect();
        assert_eq!(names.len(), 13, "{names:?}");
    }

    #[test]
    fn no_round_has_more_threads_than_the_first() {
        let threads = |layout: &Layout| match layout.who {
            Who::Block => layout.groups * u64::from(layout.threads),
            Who::Warp => layout.groups.next_multiple_of(2) * 32,
            Who::Thread => layout.groups.next_multiple_of(u64::from(layout.threads)),
        };
        let load = Load::for_gpu(GpuKind::Emulated);
        let first = Plan::widest(1, load);
        assert!(first.exchanges.iter().all(|exchange| exchange.fate == Fate::Orderly));
        for number in 0..400 {
            let plan = Plan::draw(1, number, load, true);
            assert!(threads(&plan.answering) <= threads(&first.answering), "{plan:?}");
            assert!(threads(&plan.calling) <= threads(&first.calling), "{plan:?}");
        }
    }
}
