//! The control channels of p2p streams on the simulated network, in place of the system's UNIX
//! sockets, epoll sets and timers: messages that arrive late and in order, and queues that fill.
//!
//! Everything above it is the product's: what the messages say and how they are encoded, the
//! handshake, the stream and its ends. The seams are where a descriptor is used.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use gpunet_device::abi::errno::Errno;

use super::log;
use super::network::{CONTROL, Endpoint, Network, current};

/// Messages that wait at one end, as the system's sockets of this kind have them.
const QUEUE: usize = 10;
/// Positions before a multiple of 2^31 at which streams may begin.
const BEFORE: [u64; 4] = [128, 512, 4096, 1 << 14];

/// The network and the endpoint that a descriptor names, where it is one of the simulation's.
fn named(descriptor: impl AsFd) -> Option<(Rc<Network>, usize)> {
    let network = current()?;
    let id = network.named(descriptor.as_fd())?;
    Some((network, id))
}

/// Whether control channels are the simulation's on this OS thread.
pub(crate) fn is_simulated() -> bool {
    current().is_some()
}

/// Sends a message.
pub(crate) fn send(channel: BorrowedFd<'_>, message: &[u8]) -> Option<Result<(), Errno>> {
    let (network, id) = named(channel)?;
    let sent = network.send_message(id, message);
    log(format!("channel {id} sends {}: {sent:?}", kind(message)));
    Some(sent)
}

/// What the trace calls a message: by the number of its kind, and its first words.
fn kind(message: &[u8]) -> String {
    let (words, _) = message.as_chunks::<8>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    format!("message {} ({:#x}, {:#x})", word(2), word(4), word(5))
}

/// Receives a message: its length, 0 at the end of the channel.
pub(crate) fn receive(channel: BorrowedFd<'_>, into: &mut [u8]) -> Option<Result<usize, Errno>> {
    let (network, id) = named(channel)?;
    Some(network.receive_message(id).map(|message| {
        log(format!("channel {id} receives {}", kind(&message)));
        into[..message.len()].copy_from_slice(&message);
        message.len()
    }))
}

/// Closes an end of a channel.
pub(crate) fn close(channel: BorrowedFd<'_>) {
    if let Some((network, id)) = named(channel) {
        network.forget(channel.as_raw_fd());
        network.close(id);
    }
}

/// A listener's port, which is free again when it is dropped.
pub(crate) struct Entry(usize);

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(network) = current() {
            network.close(self.0);
        }
    }
}

/// Takes calls at a port; what waits there is accepted with [`accept`].
pub(crate) fn listen(port: u16) -> Option<Result<(OwnedFd, Entry), Errno>> {
    let network = current()?;
    let id = network.add(Endpoint::default());
    let listens = network.listen(id, CONTROL | u32::from(port));
    Some(listens.and_then(|()| Ok((network.name(id)?, Entry(id)))))
}

/// Calls the listener at a port; none where nobody listens.
pub(crate) fn call(port: u16) -> Option<Result<Option<OwnedFd>, Errno>> {
    let network = current()?;
    let port = CONTROL | u32::from(port);
    if !network.has_listener(port) {
        return Some(Ok(None));
    }
    let id = network.add(Endpoint { is_channel: true, ..Endpoint::default() });
    network.connect(id, port);
    Some(network.name(id).map(Some))
}

/// The next call of a listener.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> Option<Result<Option<OwnedFd>, Errno>> {
    let (network, id) = named(listener)?;
    Some(network.accept(id).map(|id| network.name(id)).transpose())
}

/// A descriptor that is ready when one of a set's members is.
pub(crate) fn set() -> Option<Result<OwnedFd, Errno>> {
    let network = current()?;
    let id = network.add(Endpoint::default());
    Some(network.name(id))
}

/// Adds a member to a set.
pub(crate) fn join(
    set: BorrowedFd<'_>,
    member: BorrowedFd<'_>,
    key: u64,
) -> Option<Result<(), Errno>> {
    let (network, set) = named(set)?;
    let Some(member) = network.named(member) else { return Some(Err(Errno::EBADF)) };
    network.join(set, member, key);
    Some(Ok(()))
}

/// The keys of a set's members that are ready, up to so many.
pub(crate) fn ready(set: BorrowedFd<'_>, most: usize) -> Option<Vec<u64>> {
    let (network, set) = named(set)?;
    Some(network.ready(set, most))
}

/// Takes a member out of its set.
pub(crate) fn leave(member: BorrowedFd<'_>) -> Option<()> {
    let (network, member) = named(member)?;
    network.leave(member);
    Some(())
}

/// A timer that is ready after that time.
pub(crate) fn timer(time: Duration) -> Option<Result<OwnedFd, Errno>> {
    let network = current()?;
    let id = network.timer(time.as_nanos() as u64);
    Some(network.name(id))
}

/// Whether a timer's time has come.
pub(crate) fn is_over(timer: BorrowedFd<'_>) -> Option<bool> {
    let (network, id) = named(timer)?;
    Some(network.is_over(id))
}

/// How far behind its base a stream begins: often shortly before the units of packets are old, or their
/// tags come again.
pub(crate) fn first_position() -> u64 {
    current().map_or(0, |network| {
        let before = BEFORE[network.draw(BEFORE.len())];
        match network.draw(4) {
            0 => (1 << 31) - before,
            1 => (1 << 32) - before,
            _ => 0,
        }
    })
}

impl Network {
    fn send_message(&self, id: usize, message: &[u8]) -> Result<(), Errno> {
        let now = self.now();
        let (peer, gone) =
            self.with(id, |end| (end.peer, end.reset_at.is_some_and(|at| at <= now)));
        let Some(peer) = peer else { return Err(Errno::ENOTCONN) };
        if gone || self.with(peer, |peer| peer.closed) {
            return Err(Errno::EPIPE);
        }
        let full = self.with(peer, |peer| peer.arriving.len() >= QUEUE);
        if full {
            self.with(id, |end| end.wants_room = true);
            return Err(Errno::EAGAIN);
        }
        self.deliver(id, message);
        Ok(())
    }

    /// The next message that has come; EAGAIN for none, an empty one at the end.
    fn receive_message(&self, id: usize) -> Result<Vec<u8>, Errno> {
        let now = self.now();
        let has_come = |at: Option<u64>| at.is_some_and(|at| at <= now);
        let (message, peer) = self.with(id, |end| {
            let first = end.arriving.front().map(|(at, _)| *at);
            let message = if has_come(first) { end.arriving.pop_front() } else { None };
            (message, end.peer)
        });
        let Some((_, message)) = message else {
            return self.with(id, |end| match () {
                () if has_come(end.reset_at) => Err(Errno::ECONNRESET),
                () if end.arriving.is_empty() && has_come(end.end_at) => Ok(Vec::new()),
                () => Err(Errno::EAGAIN),
            });
        };
        if let Some(peer) = peer
            && self.with(peer, |peer| std::mem::take(&mut peer.wants_room))
        {
            self.edge(peer, self.later());
        }
        self.progressed();
        Ok(message)
    }

    /// Breaks all control channels, as when the process at one end dies.
    pub(crate) fn break_channels(&self) {
        let channels: Vec<usize> = {
            let endpoints = self.endpoints.borrow();
            (0..endpoints.len())
                .filter(|id| endpoints[*id].is_channel && endpoints[*id].peer.is_some())
                .collect()
        };
        let at = self.later();
        for id in channels {
            self.with(id, |end| {
                end.reset_at.get_or_insert(at);
                end.edges.push(at);
            });
        }
        self.progressed();
    }
}
