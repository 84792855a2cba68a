//! Waiting for a word that somebody writes: the host, another kernel, a stream.

#![allow(unsafe_code, reason = "reads a word whose address the caller has")]

use crate::abi::net::Net;
use crate::group::AnyGroup;
use crate::op::word_holds;
use crate::wait::{Deadline, Watch, wait_until};

use super::{led, number};

/// See [`super::wait_word`].
#[inline(always)]
pub(super) unsafe fn wait_word(
    net: Net,
    group: AnyGroup,
    address: *mut u8,
    how: u32,
    value: u64,
    timeout_ns: u64,
) -> i64 {
    // SAFETY: the caller's promise.
    led(group, || unsafe { wait(net, address, how, value, timeout_ns) })
}

/// # Safety
/// `address` is a word of the width in `how`, aligned.
#[inline(never)]
unsafe fn wait(net: Net, address: *mut u8, how: u32, value: u64, timeout_ns: u64) -> i64 {
    let deadline = Deadline::after_or_never(timeout_ns);
    // SAFETY: the caller's promise.
    let holds = || unsafe { word_holds(address, how, value) }.then_some(0);
    number(wait_until(net, 0, deadline, Watch::Stop, holds))
}
