//! Servers that wait for events first: `gpoll` over their streams, and a poller by hand.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::{MSG_DONTWAIT, PollFd, gclose, gpoll, grecv};
use gpunet_device::poller::POLLIN;
use gpunet_device::{
    Errno, Event, Group, Handle, Listener, On, Poller, Shared, SharedBuf, Stream, kernels, simt,
};

use super::Service;
use super::call::{MOST_STREAMS, SLOTS};

/// The token of the listener; that of a stream is its handle, which is never 0.
const NEW_CLIENT: u64 = 0;
/// How often a block accepts anew that found another one accepting.
const ACCEPT_TRIES: u32 = 1000;
/// Events that one wait takes.
const EVENTS: usize = 32;
/// Bytes of shared memory for them.
const EVENT_BYTES: usize = EVENTS * size_of::<Event>();

kernels! {
    /// `gpoll` of a block, then a read and a write on each stream that is ready.
    pub fn way_gpoll(net: Net, work: Service) {
        poll_streams(net.block(), &work);
    }

    /// The same of a thread.
    pub fn way_gpoll_thread(net: Net, work: Service) {
        poll_streams(net.thread(), &work);
    }

    /// A poller of a block: wait, read until EAGAIN, write.
    pub fn way_poller(net: Net, work: Service) {
        let _ = wait_for_events(net.block(), &work);
    }

    /// The same of a warp.
    pub fn way_poller_warp(net: Net, work: Service) {
        let _ = wait_for_events(net.warp(), &work);
    }

    /// The same of a thread.
    pub fn way_poller_thread(net: Net, work: Service) {
        let _ = wait_for_events(net.thread(), &work);
    }
}

/// Serves the connections of one client after the other.
#[inline(always)]
fn poll_streams<G: Group>(on: On<G>, work: &Service) {
    let memory = simt::shared_memory();
    let buffer = memory.slice(SLOTS, usize::MAX);
    let count = (work.streams as usize).clamp(1, MOST_STREAMS);
    let polled = memory.first(SLOTS).cast::<PollFd>().first(count);
    let listener = Listener::borrow(on, work.listener);
    while accept_all(on, &listener, polled).is_ok() {
        // That a client has left is no error.
        let _ = poll(on, polled, buffer);
        for at in 0..polled.len() {
            drop(Stream::from_handle(on, polled.get(at).unwrap_or_default().handle));
        }
        on.group().barrier();
    }
}

#[inline(always)]
fn accept_all<G: Group>(
    on: On<G>,
    listener: &Listener<G>,
    polled: Shared<PollFd>,
) -> Result<(), Errno> {
    let mut at = 0;
    while at < polled.len() {
        match listener.accept() {
            Ok(stream) => {
                let handle = stream.into_handle();
                if on.group().is_leader() {
                    polled.set(at, PollFd { handle, events: POLLIN, ..PollFd::default() });
                }
                at += 1;
            }
            Err(Errno::ECONNABORTED) => {}
            Err(errno) => return Err(errno),
        }
    }
    on.group().barrier();
    Ok(())
}

/// Echoes until a stream ends.
#[inline(always)]
fn poll<G: Group>(on: On<G>, polled: Shared<PollFd>, buffer: SharedBuf) -> Result<(), Errno> {
    loop {
        Errno::check(gpoll(on.net(), on.group(), polled, -1))?;
        for entry in (0..polled.len()).filter_map(|at| polled.get(at)) {
            if entry.revents == 0 {
                continue;
            }
            let stream = Stream::borrow(on, entry.handle);
            match stream.read(buffer)? {
                0 => return Ok(()),
                bytes => stream.write_all(buffer.first(bytes))?,
            }
        }
        // All threads have read the entries before the next poll changes them.
        on.group().barrier();
    }
}

/// Serves any number of connections, each as long as it lasts.
#[inline(always)]
fn wait_for_events<G: Group>(on: On<G>, work: &Service) -> Result<(), Errno> {
    let memory = simt::shared_memory();
    let events = memory.first(EVENT_BYTES).cast::<Event>();
    let buffer = memory.slice(EVENT_BYTES, usize::MAX);
    let listener = Listener::borrow(on, work.listener);
    // The client that an event tells of may be gone again: accept must not wait.
    listener.set(SocketOption::NonBlocking, 1)?;
    let poller = Poller::new(on)?;
    poller.add(work.listener, POLLIN, NEW_CLIENT)?;
    loop {
        let taken = poller.wait(events, 0)?;
        for event in (0..taken).filter_map(|at| events.get(at)) {
            if event.token == NEW_CLIENT {
                if let Ok(client) = accept(&listener) {
                    let client = client.into_handle();
                    poller.add(client, POLLIN, client.0)?;
                }
            } else if !drain(on, Handle(event.token), buffer) {
                gclose(on.net(), on.group(), Handle(event.token));
            }
        }
        // All threads have read the events before the next ones come.
        on.group().barrier();
    }
}

/// Accepts the client of an event. Other blocks accept from the same listener: the client is still there when they are
/// done.
#[inline(always)]
fn accept<G: Group>(listener: &Listener<G>) -> Result<Stream<G>, Errno> {
    // Counted: the tries.
    for _ in 0..ACCEPT_TRIES {
        match listener.accept() {
            Err(Errno::EBUSY) => {}
            accepted => return accepted,
        }
    }
    Err(Errno::EBUSY)
}

/// Sends back what has come, until nothing is left. Whether the stream goes on.
#[inline(always)]
fn drain<G: Group>(on: On<G>, client: Handle, buffer: SharedBuf) -> bool {
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
