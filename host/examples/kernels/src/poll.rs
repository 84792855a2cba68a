//! A poller by hand: one block, many clients, and no server loop.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::{MSG_DONTWAIT, gclose, grecv};
use gpunet_device::poller::POLLIN;
use gpunet_device::{Errno, Event, Handle, Listener, On, Poller, SharedBuf, Stream, kernels, simt};

/// The token of the listener; that of a stream is its handle, which is never 0.
const NEW_CLIENT: u64 = 0;
/// Events that one wait takes.
const EVENTS: usize = 32;
/// A wait without an event for so long ends the kernel.
const TIMEOUT_NS: u64 = 10_000_000_000;

kernels! {
    /// Sends back what comes, to so many clients, and ends with the last of them.
    pub fn poll_server(net: Net, listener: Handle, clients: u32) {
        let _ = serve(net.block(), listener, clients);
    }
}

fn serve(on: On, handle: Handle, clients: u32) -> Result<(), Errno> {
    let memory = simt::shared_memory();
    let events = memory.first(EVENTS * size_of::<Event>()).cast::<Event>();
    let buffer = memory.slice(EVENTS * size_of::<Event>(), usize::MAX);
    let listener = Listener::borrow(on, handle);
    // The client that an event tells of may be gone again: accept must not wait.
    listener.set(SocketOption::NonBlocking, 1)?;
    let poller = Poller::new(on)?;
    poller.add(handle, POLLIN, NEW_CLIENT)?;
    let mut left = clients;
    while left > 0 {
        let taken = poller.wait(events, TIMEOUT_NS)?;
        for event in (0..taken).filter_map(|at| events.get(at)) {
            if event.token == NEW_CLIENT {
                if let Ok(client) = listener.accept() {
                    // The poller keeps it from now on, by its handle.
                    let client = client.into_handle();
                    poller.add(client, POLLIN, client.0)?;
                }
            } else if !echo(on, Handle(event.token), buffer) {
                gclose(on.net(), on.group(), Handle(event.token));
                left -= 1;
            }
        }
        // All have read the events before the next ones come.
        simt::block_barrier();
    }
    Ok(())
}

/// Sends back what has come, until nothing is left. Whether the stream goes on.
fn echo(on: On, client: Handle, buffer: SharedBuf) -> bool {
    let stream = Stream::borrow(on, client);
    loop {
        match Errno::check(grecv(on.net(), on.group(), client, buffer, MSG_DONTWAIT)) {
            Ok(bytes @ 1..) if stream.write_all(buffer.first(bytes as usize)).is_ok() => {}
            Err(Errno::EAGAIN) => return true,
            // It has ended, or has failed.
            _ => return false,
        }
    }
}
