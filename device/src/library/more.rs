//! The rest of a call that sends or receives, where the fast path has not done it: with a plan that the
//! group has already, or one that its leader makes, turn by turn.

use crate::abi::call::{MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL};
use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::net::Net;
use crate::channel::job::{self, Job};
use crate::channel::{self, Finish, Mode, Plan, Step};
use crate::group::AnyGroup;
use crate::simt;
use crate::socket::Direction;

use super::planned;

/// The rest of a send that goes on with a plan.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
pub(super) fn send_more(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    from: *const u8,
    length: usize,
    flags: u32,
    first: u64,
    second: u64,
) -> i64 {
    let (mut sent, mut plan) = (0, [first, second]);
    let known = flags & !MSG_DONTWAIT == 0;
    let wait = flags & MSG_DONTWAIT == 0;
    // Counted: each turn sends a byte or more, or is the last.
    let stopped = loop {
        if !known {
            break Errno::EINVAL.negative();
        }
        let (rest, left) = (from.wrapping_add(sent), length - sent);
        if let Some(found) = Plan::found(plan) {
            plan = planned(group, || {
                channel::send(net, handle, left, u32::from(left > 0), wait, found)
            });
        }
        sent += match Plan::step(plan) {
            Ok(Step::Packet | Step::Ring(..)) => {
                let job = Job::planned(net, handle, Direction::Send, plan);
                job::send(net, group, handle, &job, rest, left)
            }
            Ok(Step::Done(bytes)) => bytes,
            Ok(Step::Sent(bytes)) => {
                if group.is_leader() {
                    channel::finish(net, handle, bytes, Finish::Packet);
                }
                bytes
            }
            Ok(Step::End) => break if left > 0 { Errno::EPIPE.negative() } else { 0 },
            Err(errno) => break errno.negative(),
        };
        // A kernel calls again for the rest, and meets what ends it there.
        if wait | (sent == length) {
            break 0;
        }
        plan = Plan::NONE.words();
    };
    // The compiler takes lanes that come back from a function for a whole warp.
    simt::leave(group.scope());
    // As sockets say it: the error only if nothing was sent; the next call will meet it.
    if stopped != 0 && sent == 0 { stopped } else { sent as i64 }
}

/// The rest of a receive that goes on with a plan.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "words, as they travel in registers")]
pub(super) fn receive_more(
    net: Net,
    group: AnyGroup,
    handle: Handle,
    to: *mut u8,
    length: usize,
    flags: u32,
    first: u64,
    second: u64,
) -> i64 {
    let (mut got, mut plan) = (0, [first, second]);
    let known = flags & !(MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL) == 0;
    let (peeks, waits) = (flags & MSG_PEEK != 0, flags & MSG_DONTWAIT == 0);
    let all = !peeks & (flags & MSG_WAITALL != 0);
    // Counted: each turn receives a byte or more, or is the last.
    let stopped = loop {
        if !known {
            break Err(Errno::EINVAL);
        }
        let (rest, left) = (to.wrapping_add(got), length - got);
        if let Some(found) = Plan::found(plan) {
            plan = planned(group, || {
                let mode = Mode::new(waits, !peeks);
                channel::receive(net, handle, left, u32::from(left > 0), mode, found)
            });
        }
        let received = match Plan::step(plan) {
            Ok(Step::Packet | Step::Ring(..)) => {
                let job = Job::planned(net, handle, Direction::Receive, plan);
                job::receive(net, group, handle, &job, rest, left, waits, !peeks)
            }
            Ok(Step::Done(bytes) | Step::Sent(bytes)) => Ok(bytes),
            Ok(Step::End) => break Ok(()),
            Err(errno) => Err(errno),
        };
        match received {
            Ok(bytes) => got += bytes,
            Err(errno) => break Err(errno),
        }
        if !all | (got == length) {
            break Ok(());
        }
        plan = Plan::NONE.words();
    };
    // The compiler takes lanes that come back from a function for a whole warp.
    simt::leave(group.scope());
    match stopped {
        // As sockets say it: the error only if nothing was received; the next call will meet it.
        Err(errno) if got == 0 => errno.negative(),
        _ => got as i64,
    }
}
