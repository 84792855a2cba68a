//! What else a kernel asks its host for: the time, and a line of text.

use core::ptr::null_mut;

use crate::abi::handle::Handle;
use crate::abi::message::{MAX_TEXT, Operation};
use crate::abi::net::Net;
use crate::group::AnyGroup;
use crate::socket::{FIRST_SHARD, Payload, ask};

use super::led;

/// See [`super::time`].
#[inline(always)]
pub(super) unsafe fn time(net: Net, group: AnyGroup) -> i64 {
    led(group, || ask_time(net))
}

#[inline(never)]
fn ask_time(net: Net) -> i64 {
    let (shard, none) = (FIRST_SHARD, Payload::NONE);
    ask(net, shard, Operation::Time, Handle::NONE, 0, 0, 0, none, null_mut())
}

/// See [`super::print`].
#[inline(always)]
pub(super) unsafe fn print(net: Net, group: AnyGroup, text: *const u8, length: usize) -> i64 {
    // SAFETY: the caller's promise.
    led(group, || unsafe { ask_to_print(net, text, length) })
}

/// # Safety
/// `text` is valid for `length` bytes.
#[inline(never)]
unsafe fn ask_to_print(net: Net, text: *const u8, length: usize) -> i64 {
    let length = length.min(MAX_TEXT);
    // SAFETY: the caller's promise.
    let text = unsafe { Payload::new(text, length) };
    let (shard, bytes) = (FIRST_SHARD, length as u64);
    let asked = ask(net, shard, Operation::Print, Handle::NONE, bytes, 0, 0, text, null_mut());
    if asked < 0 { asked } else { length as i64 }
}
