//! What else a kernel asks its host for: the time, and a line of text.

use crate::abi::errno::Errno;
use crate::abi::handle::Handle;
use crate::abi::message::{MAX_TEXT, Operation, Request};
use crate::abi::net::Net;
use crate::group::Group;
use crate::request::ask;

use super::socket::{any_shard, checked};
use super::{led, number};

/// See [`super::time`].
#[inline(always)]
pub(super) unsafe fn time<G: Group>(net: Net, group: G) -> i64 {
    led(group, || ask_time(net))
}

#[inline(never)]
fn ask_time(net: Net) -> i64 {
    let request = Request::new(Operation::Time, net.launch(), Handle::NONE, [0; 4]);
    number(ask(net, any_shard(net), &request).and_then(checked).map(|reply| reply.number()))
}

/// See [`super::print`].
#[inline(always)]
pub(super) unsafe fn print<G: Group>(net: Net, group: G, text: *const u8, length: usize) -> i64 {
    // SAFETY: the caller's promise.
    led(group, || number(unsafe { ask_to_print(net, text, length) }))
}

/// # Safety
/// `text` is valid for `length` bytes.
#[inline(never)]
unsafe fn ask_to_print(net: Net, text: *const u8, length: usize) -> Result<u64, Errno> {
    let length = length.min(MAX_TEXT);
    let numbers = [length as u64, 0, 0, 0];
    let mut request = Request::new(Operation::Print, net.launch(), Handle::NONE, numbers);
    for at in 0..length {
        // SAFETY: the caller's promise.
        request.put_text_byte(at, unsafe { text.add(at).read() });
    }
    ask(net, any_shard(net), &request).and_then(checked)?;
    Ok(length as u64)
}
