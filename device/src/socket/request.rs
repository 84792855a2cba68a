//! Request slots: how a kernel asks the proxy for something and gets its answer.
//!
//! Claim a slot (a lock in GPU memory), fill it, publish its sequence number, wait for the
//! reply's, read the reply, release. The proxy answers at once; nothing blocks in a slot. One
//! thread calls this, for its group.

#![allow(unsafe_code, reason = "reads callers' addresses and text, and stores an address for them")]

use crate::abi::address::ADDRESS_WORDS;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::{ADDRESS_AT, MAX_TEXT, Operation, PAYLOAD_AT};
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

/// What goes with a request, as it lies in memory: an address or text.
#[derive(Clone, Copy)]
pub(crate) struct Payload {
    from: *const u8,
    bytes: u32,
}

impl Payload {
    /// Nothing.
    pub(crate) const NONE: Self = Self { from: core::ptr::null(), bytes: 0 };

    /// So many bytes, as far as a request holds them.
    ///
    /// # Safety
    /// Valid to read until the request is answered.
    #[inline(always)]
    pub(crate) unsafe fn new(from: *const u8, bytes: usize) -> Self {
        Self { from, bytes: bytes.min(MAX_TEXT) as u32 }
    }
}

/// The shard that requests without a socket go to: its thread polls for as long as kernels run, where one without
/// sockets sleeps.
pub(crate) const FIRST_SHARD: usize = 0;

/// Asks the shard's proxy and waits for its reply: its number, or a negative error number. An address
/// that comes with it is stored at `name`, unless that is null.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
pub(crate) fn ask(
    net: Net,
    shard: usize,
    operation: Operation,
    handle: Handle,
    first: u64,
    second: u64,
    third: u64,
    payload: Payload,
    name: *mut u64,
) -> i64 {
    if !net.is_understood() {
        return Errno::ENODEV.negative();
    }
    let slot = claim(net, shard);
    if slot < 0 {
        return slot;
    }
    let slot = slot as usize;
    let record = net.slot_record(slot);
    let sequence = record.get(SEQUENCE).load() + 1;
    record.get(SEQUENCE).store(sequence);
    let request = net.request(slot);
    request.get(0).store(operation as u64 | u64::from(net.launch()) << 32);
    request.get(1).store(handle.0);
    request.get(2).store(first);
    request.get(3).store(second);
    request.get(4).store(third);
    let (mut at, mut word) = (0, 0);
    // Counted: the bytes of the payload.
    while at < payload.bytes {
        // SAFETY: `Payload::new`'s promise.
        let byte = u64::from(unsafe { payload.from.add(at as usize).read() });
        word |= byte << (8 * (at % 8));
        at += 1;
        if at % 8 == 0 || at == payload.bytes {
            request.get(PAYLOAD_AT + (at as usize - 1) / 8).store(word);
            word = 0;
        }
    }
    // Release: the proxy that sees the number sees the request.
    net.request_sequence(slot).store_release(sequence);
    if planted(Bug::SlotFreedEarly) {
        record.get(LOCK).store_release(FREE);
    }
    let deadline = Deadline::after(REPLY_NS);
    let answered = wait_until(net, shard, deadline, Watch::Proxy, || {
        // Acquire: who sees the number sees the reply.
        (net.reply_sequence(slot).load_acquire() == sequence).then_some(())
    });
    // A proxy that does not answer is gone, whatever the clock says.
    let mut result = Errno::ENETDOWN.negative();
    if answered.is_ok() {
        let reply = net.reply(slot);
        result = reply.get(0).load() as i64;
        if result >= 0 {
            result = reply.get(1).load() as i64;
        }
        let mut at = 0;
        // Counted: the words of an address.
        while at < ADDRESS_WORDS && !name.is_null() {
            // SAFETY: the caller's promise: room for an address.
            unsafe { name.add(at).write(reply.get(ADDRESS_AT + at).load()) };
            at += 1;
        }
    }
    // Release: the next claimer finds the sequence number, and this reply was read before.
    if !planted(Bug::SlotFreedEarly) {
        record.get(LOCK).store_release(if answered.is_ok() { FREE } else { ABANDONED });
    }
    result
}

/// Claims a slot of the shard, one a turn, beginning where other blocks probably do not; a negative
/// error number where none gets free.
#[inline(never)]
fn claim(net: Net, shard: usize) -> i64 {
    let slots = net.layout().request_slots;
    let position = simt::position();
    let mut next = (position.block * 7 + position.thread) % slots;
    let claimed = wait_until(net, shard, Deadline::after(REPLY_NS), Watch::Proxy, || {
        let slot = shard * slots as usize + next as usize;
        next = if next + 1 == slots { 0 } else { next + 1 };
        let record = net.slot_record(slot);
        let lock = record.get(LOCK);
        let seen = lock.load_acquire();
        let free = match seen {
            FREE => true,
            ABANDONED => net.reply_sequence(slot).load_acquire() == record.get(SEQUENCE).load(),
            _ => false,
        };
        (free && lock.compare_exchange(seen, CLAIMED)).then_some(slot as i64)
    });
    claimed.unwrap_or_else(Errno::negative)
}
