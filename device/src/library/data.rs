//! Sending and receiving: the planning threads of a group say what is to be done, all its threads do it.

use crate::abi::bits::Position;
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::abi::ring::Span;
use crate::calls::{MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL};
use crate::channel::fast;
use crate::channel::job::{self, Job, LINE, LONGEST};
use crate::channel::{self, Finish, Mode, Plan, Step, packet_in, packet_out};
use crate::group::{AnyGroup, GroupKind};
use crate::simt;
use crate::socket::{Direction, Socket};
use crate::wait::{Deadline, group_until};

use super::{RECEIVE_ALL, SEND_ALL, planned};

/// How long the units of a packet may be on their way that was announced: a dead peer's never come.
const PACKET_NS: u64 = 100_000_000;

/// Nothing was tried yet.
const SLOW: [u64; 2] = Plan::slow(Position(0)).words();

/// Has the first warp of a group plan a call where that is whole; all threads get what it came to.
#[inline(always)]
fn in_first_warp(group: AnyGroup, plan: impl FnOnce() -> Job) -> Job {
    let threads = simt::block_threads();
    let (able, many) = match group.kind() {
        GroupKind::Thread => (false, false),
        GroupKind::Warp => (group.has_whole_warp(), false),
        GroupKind::Block => (threads.is_multiple_of(simt::WARP), threads != simt::WARP),
    };
    let mut job = Job::NONE;
    if !able {
        return job;
    }
    // What other threads did with the buffer comes before.
    if many {
        simt::whole_block_barrier();
    } else {
        simt::whole_warp_barrier();
    }
    let thread = simt::position().thread;
    if !many | (thread < simt::WARP) {
        job = plan();
    }
    if many {
        let scratch = simt::block_scratch().cast::<Job>();
        if thread == 0 {
            // SAFETY: there is room, and between these barriers only this thread touches it.
            unsafe { scratch.write(job) };
        }
        simt::whole_block_barrier();
        // SAFETY: nobody writes before the next barrier.
        job = unsafe { Job::read(scratch) };
    }
    job
}

/// See [`super::send`].
#[inline(always)]
pub(super) unsafe fn send(
    net: Net,
    group: AnyGroup,
    handle: u64,
    from: *const u8,
    length: usize,
    flags: u32,
) -> i64 {
    let handle = Handle(handle);
    let mut job = Job::NONE;
    if length > 0 && flags & !SEND_ALL == 0 {
        job = in_first_warp(group, || fast::send(net, handle, from, length));
        if let Some(bytes) = Plan::bytes_done(job.plan()) {
            return if flags & SEND_ALL != 0 { 0 } else { bytes.into() };
        }
    }
    let [a, b, c, d, e, f] = job.to_words();
    send_more(net, group, handle, from, length, flags, a, b, c, d, e, f)
}

/// The rest of a call that begins with a job. Words: a job would travel through memory.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "as above")]
fn send_more(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    from: *const u8,
    length: usize,
    flags: u32,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
) -> i64 {
    let job = Job::from_words([a, b, c, d, e, f]);
    let sent = job::finish_send(net, group, handle, &job, from, length);
    let result = match sent {
        Some(bytes) => {
            if flags & SEND_ALL != 0 {
                0
            } else {
                bytes.into()
            }
        }
        None => {
            let [first, second] = job.plan();
            send_rest(net, group, handle, from, length, flags, first, second)
        }
    };
    // The compiler takes lanes that come back from a function for a whole warp.
    simt::leave(group.scope());
    result
}

/// The rest of a call that begins with a plan.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
fn send_rest(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    from: *const u8,
    length: usize,
    flags: u32,
    first: u64,
    second: u64,
) -> i64 {
    let mut words = [first, second];
    if flags & !(MSG_DONTWAIT | SEND_ALL) != 0 {
        return Errno::EINVAL.negative();
    }
    let wait = flags & MSG_DONTWAIT == 0;
    let (rank, size) = (group.rank() as u32, group.size() as u32);
    let mut sent = 0;
    // Counted: each turn sends a byte or more, or is the last.
    let stopped = loop {
        let rest = from.wrapping_add(sent);
        let left = length - sent;
        if Plan::is_slow(words) {
            let (held, found) = job::held(words);
            words = planned(group, |crew| {
                let least = u32::from(left > 0);
                channel::send(net, handle, crew, rest, left, least, wait, held, found)
            });
        }
        let moved = match Plan::step(words) {
            Ok(Step::Done(bytes)) => bytes,
            Ok(Step::Sent(bytes)) => {
                if rank == 0 {
                    channel::finish(net, handle, bytes, Finish::Packet);
                }
                bytes
            }
            Ok(Step::Packet(span)) => {
                send_packet(net, handle, rank, size, rest, span.length() as u32);
                group.barrier();
                if rank + 1 == size {
                    channel::finish(net, handle, span.length(), Finish::Packet);
                }
                span.length()
            }
            Ok(Step::Ring(ring, span)) => {
                let span = span.at_most(left);
                // SAFETY: the caller's buffer holds so many bytes.
                unsafe { channel::copy::copy_in(rank, size, rest, ring, span) };
                group.barrier();
                // The last thread, in larger groups of another warp than the leader: the group's next
                // call begins while this one's counter is still on its way.
                let last = span.length() == left;
                if rank == if last { size - 1 } else { 0 } {
                    channel::finish(net, handle, span.length(), Finish::Filled);
                }
                span.length()
            }
            Ok(Step::End) => break if left > 0 { Errno::EPIPE.negative() } else { 0 },
            Err(errno) => break errno.negative(),
        };
        sent += moved;
        if sent == length {
            break 0;
        }
        words = SLOW;
    };
    match flags & SEND_ALL != 0 {
        true => stopped,
        // As sockets say it: the error only if nothing was sent; the next call will meet it.
        false if stopped != 0 && sent == 0 => stopped,
        false => sent as i64,
    }
}

/// A thread's part of sending a packet.
#[inline(never)]
fn send_packet(net: Net, handle: Handle, rank: u32, size: u32, from: *const u8, length: u32) {
    let socket = Socket::known(net, handle);
    let (units, tail) = (socket.units(), socket.publishes(Direction::Send).address());
    let position = socket.position(Direction::Send).count();
    let ring = socket.ring(Direction::Send);
    // SAFETY: the caller's buffer holds the message, and the group has the direction.
    unsafe { packet_out(rank, size, units, tail, ring, position, from, length) };
}

/// See [`super::receive`].
#[inline(always)]
pub(super) unsafe fn receive(
    net: Net,
    group: AnyGroup,
    handle: u64,
    to: *mut u8,
    length: usize,
    flags: u32,
) -> i64 {
    let handle = Handle(handle);
    let mut job = Job::NONE;
    if length > 0 && flags & !RECEIVE_ALL == 0 {
        job = in_first_warp(group, || fast::receive(net, handle, to, length));
        if let Some(bytes) = Plan::bytes_done(job.plan())
            && (flags == 0 || bytes as usize == length)
        {
            return bytes.into();
        }
    }
    let [a, b, c, d, e, f] = job.to_words();
    receive_more(net, group, handle, to, length, flags, a, b, c, d, e, f)
}

/// The rest of a call that begins with a job. Words: a job would travel through memory.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "as above")]
fn receive_more(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    to: *mut u8,
    length: usize,
    flags: u32,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
) -> i64 {
    let mut job = Job::from_words([a, b, c, d, e, f]);
    let received = job::finish_receive(net, group, handle, &mut job, to, length);
    let [first, second] = received.map_or(job.plan(), |bytes| Plan::done(bytes).words());
    let result = match received {
        Some(bytes) if flags == 0 || bytes as usize == length => bytes.into(),
        _ => receive_rest(net, group, handle, to, length, flags, first, second),
    };
    // The compiler takes lanes that come back from a function for a whole warp.
    simt::leave(group.scope());
    result
}

/// The rest of a call that begins with a plan.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
fn receive_rest(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    to: *mut u8,
    length: usize,
    flags: u32,
    first: u64,
    second: u64,
) -> i64 {
    let mut words = [first, second];
    if flags & !(MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL | RECEIVE_ALL) != 0 {
        return Errno::EINVAL.negative();
    }
    let (rank, size) = (group.rank() as u32, group.size() as u32);
    let (peeks, waits) = (flags & MSG_PEEK != 0, flags & MSG_DONTWAIT == 0);
    let all = flags & (MSG_WAITALL | RECEIVE_ALL) != 0;
    let mut got = 0;
    // Counted: each turn receives a byte or more, or is the last.
    loop {
        let left = length - got;
        let rest = to.wrapping_add(got);
        if Plan::is_slow(words) {
            let (held, found) = job::held(words);
            words = planned(group, |crew| {
                let mode = Mode::new(crew, flags & MSG_DONTWAIT == 0, !peeks);
                let least = u32::from(left > 0);
                channel::receive(net, handle, rest, left, least, mode, held, found)
            });
        }
        let moved = match Plan::step(words) {
            Ok(Step::Done(bytes) | Step::Sent(bytes)) => Ok(bytes),
            Ok(Step::Packet(span)) => receive_packet(net, group, handle, span, rest, waits),
            Ok(Step::Ring(ring, span)) => {
                let span = piece(span.at_most(left), left);
                // SAFETY: the caller's buffer holds so many bytes.
                unsafe { channel::copy::copy_out(rank, size, ring, span, rest) };
                // What other threads copied is there for all.
                group.barrier();
                if group.is_leader() {
                    let used = if peeks { 0 } else { span.length() };
                    channel::finish(net, handle, used, Finish::Copied);
                }
                Ok(span.length())
            }
            Ok(Step::End) => return got as i64,
            Err(errno) => Err(errno),
        };
        match moved {
            Ok(bytes) => got += bytes,
            // As sockets say it: the error only if nothing was received; the next call will meet it.
            Err(_) if got > 0 && flags & RECEIVE_ALL == 0 => return got as i64,
            Err(errno) => return errno.negative(),
        }
        if !all || peeks || got == length {
            return got as i64;
        }
        words = SLOW;
    }
}

/// What of a part of the ring is copied at once. One that is long and does not fill the buffer ends where
/// a line of the ring ends: the next one then begins there, and its copy moves 16 bytes at a time. What a
/// peer sends comes in odd pieces, and the copy of one that begins anywhere takes longer.
#[inline(always)]
fn piece(span: Span, most: usize) -> Span {
    let length = span.length();
    let beyond = (span.low() as usize + length) % LINE;
    if length >= LONGEST && length < most { span.at_most(length - beyond) } else { span }
}

/// All threads copy a packet out; the direction is free then.
#[inline(always)]
fn receive_packet(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    span: Span,
    to: *mut u8,
    waits: bool,
) -> Result<usize, Errno> {
    let inbox = Socket::known(net, handle).inbox();
    let (rank, size) = (group.rank() as u32, group.size() as u32);
    let length = span.length() as u32;
    // SAFETY: the caller's buffer holds the packet, and the group has the direction.
    let copy = || unsafe { packet_in(rank, size, inbox, span.low(), to, length) };
    let mut copied = Ok(());
    // Also a barrier: what other threads copied is there for all.
    if group.any(!copy()) {
        // Units of a packet that was announced are on their way, unless its sender is gone or hostile.
        let ns = if waits { PACKET_NS } else { 0 };
        copied = group_until(net, group, Deadline::after(ns), || !group.any(!copy()));
        group.barrier();
    }
    if group.is_leader() {
        let used = if copied.is_ok() { span.length() } else { 0 };
        channel::finish(net, handle, used, Finish::Copied);
    }
    // A peer that announces what it does not send has failed.
    match copied {
        Ok(()) => Ok(span.length()),
        Err(Errno::ETIMEDOUT) if !waits => Err(Errno::EAGAIN),
        Err(Errno::ETIMEDOUT) => Err(Errno::ECONNRESET),
        Err(errno) => Err(errno),
    }
}

/// See [`super::copy`].
#[inline(always)]
pub(super) unsafe fn copy(
    _net: Net,
    group: AnyGroup,
    from: *const u8,
    to: *mut u8,
    length: usize,
) -> i64 {
    let (rank, size) = (group.rank() as u32, group.size() as u32);
    // Pieces whose length fits 32 bits.
    const MOST: usize = 1 << 30;
    let mut at = 0;
    // Counted: the pieces.
    while at < length {
        let piece = (length - at).min(MOST);
        // SAFETY: inside both buffers, by the caller's promise.
        unsafe { channel::copy::to_ring(rank, size, from.add(at), to.add(at), piece as u32) };
        at += piece;
    }
    0
}
