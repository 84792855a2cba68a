//! Receiving, as far as a group's planning threads do it: take the direction, wait for bytes, see where
//! they are. The leader decides; the other lanes of a whole warp help it to poll for a packet.

#![allow(unsafe_code, reason = "copies a short packet")]

use crate::abi::bits::{P2P_PACKET_BYTES, PACKET_BYTES, Position, Progress, Unit};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::socket::{Direction, Inbox, Socket, enter, group_name, own};
use crate::wait::{self, Deadline, Watch, wait_on};

use super::finish::give_back_receive;
use super::packet::{find, store_bytes, unpack};
use super::{Crew, Plan};

/// Polls of a warp between two looks of its leader at what else may have happened.
const POLLS: u32 = if cfg!(target_arch = "nvptx64") { 16 } else { 1 };
/// So many turns a warp polls counter and units at once, five lines across PCIe: for groups whose peer is
/// about to answer. Later its leader polls the counter alone.
const WIDE_TURNS: u32 = 256;
/// Turns between two looks at whether the proxy of a p2p stream says that it is over: a read across
/// PCIe, where the others stay on the GPU.
const ENDING_TURNS: u32 = 16;

/// How a call receives: bits of a number, which travels in a register.
#[derive(Clone, Copy)]
pub(crate) struct Mode(u32);

impl Mode {
    const WAITS: u32 = 1;
    const CONSUMES: u32 = 2;
    const WHOLE: u32 = 4;

    /// `consumes`: bytes are copied out and consumed, so that a packet need not pass the ring.
    #[inline(always)]
    pub(crate) const fn new(crew: Crew, waits: bool, consumes: bool) -> Self {
        let waits = if waits { Self::WAITS } else { 0 };
        let consumes = if consumes { Self::CONSUMES } else { 0 };
        let whole = if crew.is_warp() { Self::WHOLE } else { 0 };
        Self(waits | consumes | whole)
    }

    #[inline(always)]
    const fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// Whether a warp takes packets out of the inbox by itself.
    #[inline(always)]
    const fn takes_packets(self) -> bool {
        self.0 & (Self::CONSUMES | Self::WHOLE) == Self::CONSUMES | Self::WHOLE
    }
}

/// What all lanes of a polling warp must know: where they stand, and two bits.
#[derive(Clone, Copy)]
struct Stand(u64);

impl Stand {
    /// It is a p2p stream.
    const P2P: u64 = 1 << 62;
    /// The call does not wait.
    const ONCE: u64 = 1 << 61;

    #[inline(always)]
    const fn begin(self) -> u64 {
        Position(self.0).count()
    }
}

/// Takes the receive direction and waits for `least` bytes or more; fewer come only at the end of the
/// stream. All planning threads call it, and the leader's plan counts. A short packet is copied to `to`,
/// which holds `most` bytes, at once. On an error, at the end of the stream and behind a packet that was
/// copied the direction is free, else the group has it. `held`: where the direction stands that the group
/// has already, or 0; `found`: what the lock held when the group tried to get it, or 0. All threads of a
/// whole warp get the plan.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
pub(crate) fn receive(
    net: Net,
    handle: Handle,
    to: *mut u8,
    most: usize,
    least: u32,
    mode: Mode,
    held: Position,
    found: Position,
) -> Plan {
    let crew = Crew::new(mode.has(Mode::WHOLE));
    let mut plan = Plan::wait(0, 0);
    let (mut stand, mut inbox, mut publishes) = (Stand(0), Inbox::NONE, 0);
    let mut position = held;
    if crew.leads() {
        if let Ok(socket) = Socket::named(net, handle) {
            let mut entered = held.0 as i64;
            // One time-out for the wait for the direction and the wait for bytes.
            let mut begun = 0;
            // Counted: once more where the record was to be made, or another group had the direction.
            while entered >= 0 {
                if entered == 0 {
                    position = found;
                    if found.0 == 0 {
                        let lock = socket.lock_word(Direction::Receive);
                        position = Position(lock.set_on_gpu(Position::TAKEN));
                    }
                }
                // Behind the lock: what it says then is of the socket whose lock it is.
                let (fetched, is_socket, in_use) = socket.fetch(Direction::Receive);
                position = socket.checked(Direction::Receive, position);
                let mine = position.has(Position::OWNED) & (fetched.owner == group_name(net));
                let free = !position.has(Position::TAKEN) & (mine | position.has(Position::SHARED));
                let good = is_socket & (in_use | (entered > 0));
                if good & free & !fetched.ring.is_none() & fetched.info.has_bytes() {
                    (inbox, publishes) = (fetched.inbox, fetched.publishes);
                    let waits = mode.has(Mode::WAITS) & !fetched.info.non_blocking();
                    let p2p = if fetched.info.is_p2p() { Stand::P2P } else { 0 };
                    stand.0 = position.count() | p2p | if waits { 0 } else { Stand::ONCE };
                    break;
                }
                begun = if begun == 0 { simt::now_ns() } else { begun };
                entered = enter_slowly(net, handle, mode, position, begun);
                position = Position(entered as u64);
            }
            plan = if entered < 0 { Plan::error(entered) } else { Plan::wait(0, begun) };
        } else {
            plan = Plan::error(Errno::EBADF.negative());
        }
    }
    if mode.takes_packets() {
        stand = Stand(simt::from_lane(stand.0, 0));
        inbox = Inbox::at(simt::from_lane(inbox.address(), 0));
    }
    wait::turn_by_turn(|| {
        // All lanes go by the leader's plan.
        let shared = plan.of_first(crew);
        if !shared.is_wait() {
            return Some(());
        }
        if mode.takes_packets() {
            let (length, head, watched) = poll(inbox, stand, to, most, shared.turns());
            if length != 0 {
                if crew.leads() {
                    let end = Position(position.0 + u64::from(length));
                    // No fence: nobody has read the ring.
                    Socket::at(publishes).store(Progress::new(end.count(), 0).0);
                    give_back_receive(net, handle, watched != 0, end);
                    // It came with the rest, and spares the answer a read.
                    Socket::known(net, handle).remember_head(head);
                    plan = Plan::done(length);
                }
                return Some(());
            }
        }
        if crew.leads() {
            plan = step(net, handle, position, most, least, mode, plan);
        }
        None
    });
    simt::progress();
    plan.of_leader(crew)
}

/// The long way into the direction: where it stands, or a negative error number. One thread calls it.
#[cold]
#[inline(never)]
fn enter_slowly(net: Net, handle: Handle, mode: Mode, found: Position, begun: u64) -> i64 {
    let socket = Socket::known(net, handle);
    let (fetched, is_socket, in_use) = socket.fetch(Direction::Receive);
    let found = socket.checked(Direction::Receive, found);
    let mut position = found;
    let free = !found.has(Position::TAKEN) & (found.count() != 0);
    let usable = !fetched.ring.is_none() & fetched.info.has_bytes();
    if !(is_socket & in_use & free & usable) {
        let waits = mode.has(Mode::WAITS);
        let entered = enter(net, handle, Direction::Receive, found, waits, begun);
        if entered < 0 {
            return entered;
        }
        position = Position(entered as u64);
    }
    let mine = position.has(Position::OWNED) & (socket.owner() == group_name(net));
    match mine | position.has(Position::SHARED) {
        true => position.0 as i64,
        false => own(net, handle, group_name(net), position),
    }
}

/// Polls for a short packet, and copies it out; all lanes of a whole warp call it. Its length, how far
/// the other end has received, and whether the proxies want to know; length 0: there is none, or
/// something else is to be done.
#[inline(always)]
fn poll(inbox: Inbox, stand: Stand, to: *mut u8, most: usize, turns: u32) -> (u32, Progress, u64) {
    let begin = stand.begin();
    let at = 4 * simt::lane();
    let most = most.min(PACKET_BYTES) as u32;
    // Later the leader polls the counter alone.
    let mut left = if turns >= WIDE_TURNS { 0 } else { POLLS };
    if stand.0 & Stand::ONCE != 0 {
        left = 1;
    }
    // Counted: the polls.
    while left > 0 {
        left -= 1;
        // Each of the two is 256 bytes in a row, for a warp.
        let (near, far) = units(inbox);
        let mut watched = 0;
        if stand.0 & Stand::P2P != 0 {
            watched = inbox.watched().load();
        }
        let [tail, head] = inbox.both();
        let (tail, head) = (Progress(tail), Progress(head));
        let length = (tail.count() as u32).wrapping_sub(begin as u32);
        let short = tail.is_packet() & (length.wrapping_sub(1) < most);
        let missing = !short
            | (at < length) & !near.belongs(begin)
            | (at + PACKET_BYTES as u32 / 2 < length) & !far.belongs(begin);
        if !simt::any_lane(missing) {
            // The same in all lanes, whatever a hostile peer writes there meanwhile.
            let length = simt::from_lane(length.into(), 0) as u32;
            // SAFETY: the caller's buffer holds the packet.
            unsafe {
                if at < length {
                    store_bytes(to.add(at as usize), near.bytes(), (length - at) as usize);
                }
                let at = at + PACKET_BYTES as u32 / 2;
                if at < length {
                    store_bytes(to.add(at as usize), far.bytes(), (length - at) as usize);
                }
            }
            // What each lane has copied is there for all.
            simt::whole_warp_barrier();
            return (length, head, watched);
        }
        // Bytes in the ring, an end: for the leader.
        if simt::any_lane((tail.count() != begin) & !short | tail.is_over()) {
            break;
        }
        simt::pause();
    }
    (0, Progress(0), 0)
}

/// The two units of a short packet that a lane looks at.
#[inline(always)]
pub(super) fn units(inbox: Inbox) -> (Unit, Unit) {
    // A model has fewer of them than a warp has lanes.
    if cfg!(feature = "loom") {
        return (inbox.unit(0), inbox.unit(1));
    }
    let lane = simt::lane() as usize;
    (inbox.unit(lane), inbox.unit(lane + PACKET_BYTES / 8))
}

/// The leader's look at what has come; where that is nothing yet, the end of a turn.
#[inline(never)]
fn step(
    net: Net,
    handle: Handle,
    position: Position,
    most: usize,
    least: u32,
    mode: Mode,
    plan: Plan,
) -> Plan {
    let socket = Socket::known(net, handle);
    let (info, inbox) = (socket.info(), socket.inbox());
    let (ring, turns) = (socket.ring(Direction::Receive), plan.turns());
    let (begin, p2p) = (position.count(), info.is_p2p());
    let waits = mode.has(Mode::WAITS) & !info.non_blocking();
    let mut ending = 0;
    if p2p & (!waits | turns.is_multiple_of(ENDING_TURNS)) {
        // Before the counter: what the peer's kernel did before the end is then seen, too.
        ending = socket.proxy_inbox().tail().load_acquire();
    }
    let open = socket.is_open();
    let head = inbox.head().load();
    // Acquire: pairs with the release of whoever stored it: the bytes are in the ring.
    let acquires = !planted(Bug::ReceiveWithoutAcquire);
    let tail = inbox.tail();
    let tail = Progress(if acquires { tail.load_acquire() } else { tail.load() });
    let tail = tail.with_ending_of(Progress(ending));
    // What another group has received may be new to this one.
    let mut available = (tail.count().wrapping_sub(begin) as i64).max(0) as usize;
    let capacity = ring.capacity();
    if available > capacity {
        // Counters of another socket, which has the place by now.
        return give_back(net, handle, position, Errno::EBADF.negative());
    }
    if least as usize > capacity {
        return give_back(net, handle, position, Errno::EMSGSIZE.negative());
    }
    if p2p & tail.is_packet() & (available > P2P_PACKET_BYTES) {
        // No kernel of this library announces one that long.
        return give_back(net, handle, position, Errno::EPROTO.negative());
    }
    if p2p & tail.is_packet() & (available > 0) {
        // Its bytes are in the inbox alone.
        let fits = mode.has(Mode::CONSUMES) & (available <= most);
        let begins = fits && inbox.unit(0).belongs(begin);
        let short = begins & mode.takes_packets() & (available <= PACKET_BYTES);
        if begins & !short {
            return Plan::packet(begin, available as u32);
        }
        let whole = match short {
            true => find(net, handle, tail) != 0,
            false => unpack(net, handle, tail),
        };
        if short & whole & (turns == 0) {
            // It has come since the warp looked: once more, also for a call that does not wait.
            return Plan::wait(1, plan.begun());
        }
        if !whole | short {
            // The warp takes a short one in its next turn, once all of it has come.
            if (short & whole) | (!tail.is_over() & open) {
                // Turns go on, so that one of them looks at the deadline.
                let turns = plan.turns() % WIDE_TURNS;
                return end_turn(
                    net,
                    handle,
                    position,
                    least,
                    Plan::wait(turns, plan.begun()),
                    mode,
                );
            }
            // The rest will not come.
            available = 0;
        }
    }
    if available > 0 {
        // It came with the rest, and spares the answer a read.
        socket.remember_head(Progress(head));
        if (available >= least as usize) | tail.is_over() {
            return Plan::ring(ring, begin, available);
        }
    }
    if tail.is_over() | !open | (least == 0) {
        return give_back(net, handle, position, ending_of(net, handle, tail, open));
    }
    end_turn(net, handle, position, least, plan, mode)
}

/// Why there is nothing to receive any more, as a negative error number; 0: the stream has ended.
#[cold]
#[inline(never)]
fn ending_of(net: Net, handle: Handle, tail: Progress, open: bool) -> i64 {
    if tail.has_failed() {
        let socket = Socket::known(net, handle);
        // The next send must not go by what was known before.
        socket.remember_head(Progress::new(0, Progress::FAILED));
        return socket.failure().negative();
    }
    if tail.is_over() || open { 0 } else { Errno::EBADF.negative() }
}

/// Gives the direction back as it was.
#[cold]
#[inline(never)]
fn give_back(net: Net, handle: Handle, position: Position, errno: i64) -> Plan {
    give_back_receive(net, handle, false, position);
    Plan::error(errno)
}

/// Ends a turn of a wait: see [`wait::end_turn`].
#[cold]
#[inline(never)]
fn end_turn(
    net: Net,
    handle: Handle,
    position: Position,
    least: u32,
    plan: Plan,
    mode: Mode,
) -> Plan {
    let socket = Socket::known(net, handle);
    if !mode.has(Mode::WAITS) | socket.info().non_blocking() {
        return give_back(net, handle, position, Errno::EAGAIN.negative());
    }
    let begun = if plan.begun() == 0 { simt::now_ns() } else { plan.begun() };
    let deadline = Deadline::since_or_never(begun, socket.timeout(Direction::Receive));
    let (shard, watch) = (socket.shard(), Watch::Stop);
    simt::pause();
    let polled = if mode.takes_packets() & (plan.turns() < WIDE_TURNS) { POLLS - 1 } else { 0 };
    let turns = plan.turns() + polled;
    let mut ended = wait::end_turn(net, shard, deadline, watch, begun, turns);
    // Who waits long leaves link and instruction caches to others: one lane polls eight bytes. So it is
    // from the beginning where each turn of a warp costs a switch for each lane.
    let alone = mode.has(Mode::WHOLE) & !simt::polls_by_warp();
    if (ended >= 0) & (alone | (turns >= WIDE_TURNS)) {
        let (inbox, p2p) = (socket.inbox(), socket.info().is_p2p());
        let mut polls = 0_u32;
        let waited = wait_on(net, shard, deadline, watch, begun, turns, || {
            let mut ending = 0;
            if p2p & polls.is_multiple_of(ENDING_TURNS) {
                ending = socket.proxy_inbox().tail().load_acquire();
            }
            polls = polls.wrapping_add(1);
            let tail = Progress(inbox.tail().load_acquire()).with_ending_of(Progress(ending));
            let available = tail.count().wrapping_sub(position.count()) as i64;
            let enough = available >= i64::from(least);
            (enough || tail.is_over() || !socket.is_open()).then_some(0)
        });
        ended = waited.unwrap_or_else(Errno::negative);
    }
    match ended {
        0.. => Plan::wait(ended as u32, begun),
        errno => give_back(net, handle, position, errno),
    }
}
