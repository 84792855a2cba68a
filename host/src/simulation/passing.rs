//! Streams that launches pass to one another, and to the program.

use std::sync::atomic::Ordering;

use gpunet_device::abi::errno::Errno;
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Group, Handle, On, SharedBuf, Stream, calls};

use super::group_calls::close;
use super::open_streams::{Entry, OpenStreams};
use super::plan::Plan;
use super::{inside_call, was_notified};

/// Takes a stream that waits for somebody.
pub(super) fn receive_stream<G: Group>(
    on: On<G>,
    queue: &OpenStreams,
    wanted: impl Fn(&Entry) -> bool,
) -> Option<Entry> {
    let words =
        if on.group().is_leader() { Entry::to_words(queue.receive(wanted)) } else { [0; 5] };
    let entry = Entry::from_words(on.group().broadcast(words));
    if entry.is_some() {
        was_notified();
    }
    entry
}

/// Leaves a stream to others.
pub(super) fn send_stream<G: Group>(on: On<G>, queue: &OpenStreams, entry: Entry) {
    on.group().barrier();
    if on.group().is_leader() {
        queue.send(entry);
    }
}

/// Has a stream outlive the launch.
pub(super) fn detach<G: Group>(on: On<G>, plan: &Plan, entry: &mut Entry) -> Result<(), Errno> {
    if entry.detached {
        return Ok(());
    }
    let (net, group) = (on.net(), on.group());
    let set = || calls::gsetsockopt(net, group, entry.handle, SocketOption::Detached, 1);
    Errno::check(plan.timed(on, "detach", set))?;
    entry.detached = true;
    Ok(())
}

/// Sends all of it.
pub(super) fn send_all<G: Group>(
    on: On<G>,
    plan: &Plan,
    handle: Handle,
    bytes: SharedBuf,
) -> Result<(), Errno> {
    let stream = Stream::from_handle(on, handle);
    let write = || plan.timed(on, "write", || stream.write_all(bytes));
    let sent = inside_call(handle, on.group().is_leader(), write);
    let _ = stream.into_handle();
    sent
}

/// A stream has ended: this end does, too.
pub(super) fn finish<G: Group>(
    on: On<G>,
    plan: &Plan,
    queue: &OpenStreams,
    entry: Entry,
) -> Result<(), Errno> {
    let stream = Stream::from_handle(on, entry.handle);
    let shut = plan.timed(on, "shutdown", || stream.shutdown(1));
    close(on, plan, stream);
    if on.group().is_leader() {
        queue.finish();
        queue.conversations.fetch_sub(u64::from(entry.converses), Ordering::Relaxed);
    }
    shut
}
