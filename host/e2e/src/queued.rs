//! What tests of stream-ordered operations share: a connection, a queue, a peer that says nothing.

use gpunet_device::Handle;
use gpunet_device::abi::option::SocketOption;
use gpunet_host::{Net, StreamQueue};

use crate::job::Job;
use crate::limits::deadline;
use crate::memory::flags;
use crate::peer;
use crate::script::Script;

/// A connection that a kernel has made, by the transport of this run, and that outlives it.
#[must_use]
pub fn connected(net: &Net, to: gpunet_device::SocketAddr) -> Handle {
    let (flags, mut script) = (flags(), Script::new());
    script.stream(0, to).set(0, SocketOption::Detached, 1).give_handle(0, 0);
    let started = Job::blocks(32).script(&script).flags(&flags).start(net);
    let handle = Handle(started.until(&flags, 0));
    started.finish();
    handle
}

/// A queue on a stream of its own, whose operations have all the time that a test has.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn queue(net: &Net) -> StreamQueue {
    let stream = net.gpu().stream().expect("a stream");
    net.queue(&stream).expect("a queue").timeout(deadline())
}

/// A peer that never says anything.
#[must_use]
pub fn silent_peer() -> peer::Peer<()> {
    peer::Peer::serve(|stream| {
        std::thread::spawn(move || {
            std::thread::sleep(deadline());
            drop(stream);
        });
    })
}
