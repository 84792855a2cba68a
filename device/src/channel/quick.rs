//! What a group's leader does first: it takes the direction and plans at once, where nothing is in the way. For
//! threads, slices, blocks with a part of a warp and calls with flags; whole warps have [`fast`](super::fast) for
//! their own. One function each, without calls: the words of the record are on their way all at once.

use crate::abi::bits::{P2P_PACKET_BYTES, PACKET_BYTES, Position, Progress};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::simt;
use crate::socket::{Direction, Socket, group_name};

use super::Plan;
use super::fast::{POLLS, give_back_empty, is_free, plan_of};

/// As [`receive`](super::receive()), or what the lock held, for the slow path.
#[inline(never)]
pub(super) fn receive(net: Net, handle: Handle, least: u32, waits: bool) -> Plan {
    let Ok(socket) = Socket::named(net, handle) else { return Plan::NONE };
    // All on their way before the first is looked at.
    let found = socket.lock_word(Direction::Receive).set_on_gpu(Position::TAKEN);
    let (info, inbox, ring) = (socket.info(), socket.inbox(), socket.ring(Direction::Receive));
    let (owner, unpacked) = (socket.owner(), socket.unpacked().load());
    let usable = socket.is_usable(Direction::Receive);
    let position = Position(found);
    let owned = position.has(Position::OWNED) & (owner == group_name(net));
    let free = !position.has(Position::TAKEN | Position::CHECK);
    if !(free & usable & (owned | position.has(Position::SHARED))) {
        return Plan::slow(position);
    }
    let (p2p, waits) = (info.is_p2p(), waits & !info.non_blocking());
    let (begin, capacity) = (position.count(), u64::from(ring.capacity_u32()));
    let by_ring = !p2p | position.has(Position::BY_RING);
    let mut ending = Progress(0);
    if p2p & !waits {
        // Whether the proxy has seen the stream end. The word crosses PCIe meanwhile.
        ending = Progress(socket.proxy_inbox().tail().load());
    }
    let mut left = if waits { POLLS } else { 1 };
    // Counted: the polls.
    while left > 0 {
        left -= 1;
        let [tail, head] = if by_ring { inbox.both() } else { inbox.both_relaxed() };
        let tail = Progress(tail);
        let available = tail.count().wrapping_sub(begin);
        if tail.is_over() | (available > capacity) {
            break;
        }
        if available >= u64::from(least.max(1)) {
            let packet = p2p & tail.is_packet() & (unpacked != tail.count());
            if packet & (available > P2P_PACKET_BYTES as u64) {
                break;
            }
            // It came with the rest, and spares the answer a read.
            socket.remember_head(Progress(head));
            if packet {
                return Plan::packet(begin, available as u32);
            }
            if !by_ring {
                // This load acquires, and pairs with the release of the store that announced the bytes: they are
                // in the ring.
                inbox.both();
            }
            return Plan::ring(ring, begin, available as usize);
        }
        if !waits {
            let over = ending.is_over() | (p2p & Progress(head).has_failed());
            if over | (available > 0) {
                break;
            }
            give_back_empty(socket, position, socket.empty_looks());
            return Plan::error(Errno::EAGAIN.negative());
        }
        simt::pause();
    }
    Plan::slow(position)
}

/// As [`send`](super::send()), or what the lock held, for the slow path.
#[inline(never)]
pub(super) fn send(net: Net, handle: Handle, length: usize, least: u32) -> Plan {
    let Ok(socket) = Socket::named(net, handle) else { return Plan::NONE };
    // All on their way before the first is looked at.
    let found = socket.lock_word(Direction::Send).set_on_gpu(Position::TAKEN);
    let (info, ring, seen) = (socket.info(), socket.ring(Direction::Send), socket.head_seen());
    let usable = socket.is_usable(Direction::Send);
    let position = Position(found);
    if !(is_free(position) & usable) {
        return Plan::slow(position);
    }
    plan_of(info, ring, seen, position, length, PACKET_BYTES, least)
}
