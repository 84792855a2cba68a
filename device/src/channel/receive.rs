//! Receiving where something is in the way of the [fast path](super::fast): the record is to be made,
//! another group has the direction, or bytes take their time. A group's leader calls this alone; all its
//! threads then carry out the plan.

use crate::abi::bits::{P2P_PACKET_BYTES, Position, Progress};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::socket::{Direction, Socket, acquire};
use crate::wait::{self, Deadline, Watch};

use super::finish::give_back_receive;
use super::packet::find;
use super::{Plan, quick};

/// Turns between two looks at whether the proxy of a p2p stream says that it is over: a read across
/// PCIe, where the others stay on the GPU.
const ENDING_TURNS: u32 = 16;

/// Takes the receive direction and waits for `least` bytes or more; fewer come only at the end of the
/// stream. On an error and at the end of the stream the direction is free, else the group has it. `found`: what
/// the lock held when the group set it to be taken, or 0.
#[inline(never)]
pub(crate) fn receive(net: Net, handle: Handle, least: u32, waits: bool, found: Position) -> Plan {
    if Socket::named(net, handle).is_err() {
        return Plan::error(Errno::EBADF.negative());
    }
    let mut found = found;
    if found.0 == 0 {
        let plan = quick::receive(net, handle, least, waits);
        match Plan::found(plan.words()) {
            Some(slow) => found = slow,
            None => return plan,
        }
    }
    // One time-out for the wait for the direction and the wait for bytes.
    let begun = simt::now_ns();
    let acquired = acquire(net, handle, Direction::Receive, found, waits, begun);
    if acquired < 0 {
        return Plan::error(acquired);
    }
    plan(net, handle, Position(acquired as u64), least, waits, begun)
}

/// The same for a group that has the direction, which stands at `position`, of a call that began at `begun`. Its
/// steps are functions: what one keeps is not on the stack while another waits.
#[inline(never)]
fn plan(net: Net, handle: Handle, position: Position, least: u32, waits: bool, begun: u64) -> Plan {
    let (tail, head) = await_bytes(net, handle, position.count(), least, waits, begun);
    let mut errno = tail as i64;
    if errno < 0 {
        if errno == Errno::EAGAIN.negative() {
            // A kernel that asks again and again must see that it was stopped.
            let stopped = wait::stop_of(net);
            errno = if stopped < 0 { stopped } else { errno };
        }
        return give_back(net, handle, position, errno);
    }
    let plan = check(net, handle, position, least, Progress(tail), Progress(head));
    simt::progress();
    plan
}

/// The wait for bytes behind `begin`: tail and head when they have come or will not come any more, or a negative
/// error number. Not as an array, which would travel through memory. `turns`: how often what had come was not
/// all of a packet.
#[inline(never)]
fn await_bytes(
    net: Net,
    handle: Handle,
    begin: u64,
    least: u32,
    waits: bool,
    begun: u64,
) -> (u64, u64) {
    let socket = Socket::known(net, handle);
    let (info, inbox) = (socket.info(), socket.inbox());
    let p2p = info.is_p2p();
    let waits = waits & !info.non_blocking();
    let deadline = Deadline::since_or_never(begun, socket.timeout(Direction::Receive));
    let failed = |errno: i64| (errno as u64, 0);
    let mut turns = 0;
    wait::turn_by_turn(|| {
        let mut ending = 0;
        if p2p & (!waits | (turns as u32).is_multiple_of(ENDING_TURNS)) {
            // Before the counter: what the peer's kernel did before the end is then seen, too.
            ending = socket.proxy_inbox().tail().load_acquire();
        }
        let open = socket.is_open();
        // Acquire: pairs with the release of whoever stored it: the bytes are in the ring.
        let counters = || match planted(Bug::ReceiveWithoutAcquire) {
            false => inbox.both(),
            true => [inbox.tail().load(), inbox.head().load()],
        };
        // Who has waited long looks without one, and once more with it when something has come: an acquire
        // invalidates the cache of all blocks on the multiprocessor.
        let eager = wait::is_eager(turns as u32);
        let mut both = if eager { counters() } else { inbox.both_relaxed() };
        let has_come = |tail: Progress| {
            let available = tail.count().wrapping_sub(begin) as i64;
            (available >= i64::from(least)) | tail.is_over() | !open
        };
        // The host marks the head of a failed p2p stream before it writes the status: a receive that follows a
        // poll finds the failure here, where the proxy's tail may still be seen without it.
        let of = |[tail, head]: [u64; 2]| {
            let failed = if p2p & Progress(head).has_failed() { head } else { 0 };
            Progress(tail).with_ending_of(Progress(ending | failed))
        };
        if !eager & has_come(of(both)) {
            both = counters();
        }
        let tail = of(both);
        if has_come(tail) {
            // Whatever a peer has written there, it is no error number.
            return Some((tail.0 & i64::MAX as u64, both[1]));
        }
        if !waits {
            return Some(failed(Errno::EAGAIN.negative()));
        }
        simt::pause();
        turns = wait::end_turn(net, socket.shard(), deadline, Watch::Stop, begun, turns as u32);
        (turns < 0).then(|| failed(turns))
    })
}

/// What is to be done where bytes have come or the stream is over.
#[inline(never)]
fn check(
    net: Net,
    handle: Handle,
    position: Position,
    least: u32,
    tail: Progress,
    head: Progress,
) -> Plan {
    let socket = Socket::known(net, handle);
    let (begin, ring) = (position.count(), socket.ring(Direction::Receive));
    // What another group has received may be new to this one.
    let mut available = (tail.count().wrapping_sub(begin) as i64).max(0) as usize;
    let capacity = ring.capacity();
    if available > capacity {
        // Counters of another socket, which has the slot by now.
        return give_back(net, handle, position, Errno::EBADF.negative());
    }
    if least as usize > capacity {
        return give_back(net, handle, position, Errno::EMSGSIZE.negative());
    }
    if socket.info().is_p2p() & tail.is_packet() & (available > 0) {
        // Its bytes are in the inbox alone.
        if available > P2P_PACKET_BYTES {
            // No kernel of this library announces one that long.
            return give_back(net, handle, position, Errno::EPROTO.negative());
        }
        if socket.unpacked().load() == tail.count() {
            // What a receive left of it is in the ring, by this side's kernel.
            simt::acquire_fence();
        } else if tail.has_failed() && find(net, handle, tail) == 0 {
            // Its sender has died, and the rest may never come. The packet counts if all of it is here now.
            available = 0;
        } else {
            // Its units are on their way.
            socket.remember_head(head);
            return Plan::packet(begin_of_packet(socket, begin, tail), available as u32);
        }
    }
    if available > 0 {
        // It came with the rest, and spares the answer a read.
        socket.remember_head(head);
        if (available >= least as usize) | tail.is_over() {
            return Plan::ring(ring, begin, available);
        }
    }
    give_back(net, handle, position, ending_of(net, handle, least, tail))
}

/// Where a packet begins: where the reader stands. Unit 0 does not say it, which may still be the last packet's.
#[inline(always)]
fn begin_of_packet(socket: Socket, begin: u64, tail: Progress) -> u64 {
    if planted(Bug::PacketFoundByTag) {
        let length = (tail.count() as u32).wrapping_sub(socket.inbox().unit(0).tag());
        return tail.count().wrapping_sub(length.into());
    }
    begin
}

/// Why there is nothing to receive any more, as a negative error number; 0: the stream has ended.
#[cold]
#[inline(never)]
fn ending_of(net: Net, handle: Handle, least: u32, tail: Progress) -> i64 {
    let socket = Socket::known(net, handle);
    if tail.has_failed() {
        // The next send must not go by what was known before.
        socket.remember_head(Progress::new(0, Progress::FAILED));
        return socket.failure().negative();
    }
    // Who asked for bytes of a stream that goes on was called because it is closed.
    let open = (least == 0) & socket.is_open();
    if tail.is_over() | open { 0 } else { Errno::EBADF.negative() }
}

/// Gives the direction back as it was.
#[cold]
#[inline(never)]
fn give_back(net: Net, handle: Handle, position: Position, errno: i64) -> Plan {
    give_back_receive(net, handle, position);
    Plan::error(errno)
}
