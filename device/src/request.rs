//! Request slots: how a kernel asks the proxy for something and gets its answer.
//!
//! Claim a slot (a lock in GPU memory), fill it, publish its sequence number, wait for the
//! reply's, read the reply, release. The proxy answers at once; nothing blocks in a slot. One
//! thread calls this, for its group.

use crate::abi::errno::Errno;
use crate::abi::message::{Reply, Request};
use crate::abi::net::Net;
use crate::planted::{Bug, planted};
use crate::simt;
use crate::wait::{Deadline, Watch, wait_until};

/// Nobody uses the slot.
const FREE: u64 = 0;
/// Somebody does.
const CLAIMED: u64 = 1;
/// Somebody did, and gave up before the reply came; free once it has come.
const ABANDONED: u64 = 2;

/// Words of a slot's record in GPU memory.
const LOCK: usize = 0;
const SEQUENCE: usize = 1;

/// How long a reply, or a free slot, may take. A proxy answers in microseconds; one that is
/// stopped in a debugger shows in the heartbeat first.
const REPLY_NS: u64 = 60_000_000_000;

/// Asks the shard's proxy and waits for its reply.
#[inline(never)]
pub(crate) fn ask(net: Net, shard: usize, request: &Request) -> Result<Reply, Errno> {
    if !net.is_understood() {
        return Err(Errno::ENODEV);
    }
    let deadline = Deadline::after(REPLY_NS);
    let slot = wait_until(net, shard, deadline, Watch::Proxy, claimer(net, shard))?;
    let local = net.slot_local(slot);
    let sequence = local.get(SEQUENCE).load() + 1;
    local.get(SEQUENCE).store(sequence);
    net.request(slot).write(&request.0);
    // Release: the proxy that sees the number sees the request.
    net.request_sequence(slot).store_release(sequence);
    if planted(Bug::SlotFreedEarly) {
        local.get(LOCK).store_release(FREE);
    }
    let answered = wait_until(net, shard, deadline, Watch::Proxy, || {
        // Acquire: who sees the number sees the reply.
        (net.reply_sequence(slot).load_acquire() == sequence).then_some(())
    });
    let reply = answered.map(|()| Reply(net.reply(slot).read()));
    // Release: the next claimer finds the sequence number, and this reply was read before.
    if !planted(Bug::SlotFreedEarly) {
        local.get(LOCK).store_release(if reply.is_ok() { FREE } else { ABANDONED });
    }
    // A proxy that does not answer is gone, whatever the clock says.
    reply.map_err(|_| Errno::ENETDOWN)
}

/// Tries one slot of the shard a turn, beginning where other blocks probably do not.
#[inline(always)]
fn claimer(net: Net, shard: usize) -> impl FnMut() -> Option<usize> {
    let slots = net.layout().slots as usize;
    let position = simt::position();
    let mut next = position.block as usize * 7 + position.thread as usize;
    move || {
        let slot = shard * slots + next % slots;
        next = next.wrapping_add(1);
        let local = net.slot_local(slot);
        let lock = local.get(LOCK);
        let free = match lock.load_acquire() {
            FREE => lock.compare_exchange(FREE, CLAIMED),
            ABANDONED => {
                net.reply_sequence(slot).load_acquire() == local.get(SEQUENCE).load()
                    && lock.compare_exchange(ABANDONED, CLAIMED)
            }
            _ => false,
        };
        free.then_some(slot)
    }
}
