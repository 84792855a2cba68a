//! The operating system of a simulation: the simulated network in place of sockets, epoll sets, timers and
//! UNIX sockets. Messages of control channels arrive late and in order, and their queues fill.
//!
//! Everything above it is the product's: what the messages say and how they are encoded, the
//! handshake, the stream and its ends.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::{Domain, SocketAddr};

use super::log;
use super::network::{CONTROL, Endpoint, Network, current};
use crate::transport::SystemSocket;
use crate::transport::system::{Packet, Registration, Registry, System};

/// Messages that wait at one end, as the system's sockets of this kind have them.
const QUEUE: usize = 10;
/// Positions before a multiple of 2^31 at which streams may begin.
const BEFORE: [u64; 4] = [128, 512, 4096, 1 << 14];

/// The network of this OS thread. A scene has one as long as its sockets live.
fn network() -> Result<Rc<Network>, Errno> {
    current().ok_or(Errno::ENETDOWN)
}

/// The network, and the endpoint that a descriptor names.
fn named(descriptor: impl AsFd) -> Result<(Rc<Network>, usize), Errno> {
    let network = network()?;
    let id = network.named(descriptor.as_fd()).ok_or(Errno::EBADF)?;
    Ok((network, id))
}

/// See the module.
pub(super) struct SimulatedSystem;

impl System for SimulatedSystem {
    fn socket(&self, _: Domain) -> Result<Box<dyn SystemSocket>, Errno> {
        let network = network()?;
        let id = network.add(Endpoint::default());
        Ok(Box::new(network.socket(id)?))
    }

    fn ready_set(&self) -> Result<OwnedFd, Errno> {
        let network = network()?;
        let id = network.add(Endpoint::default());
        network.name(id)
    }

    fn add(&self, set: BorrowedFd<'_>, member: BorrowedFd<'_>, key: u64) -> Result<(), Errno> {
        let (network, set) = named(set)?;
        let member = network.named(member).ok_or(Errno::EBADF)?;
        network.join(set, member, key);
        Ok(())
    }

    fn remove(&self, _: BorrowedFd<'_>, member: BorrowedFd<'_>) {
        if let Ok((network, member)) = named(member) {
            network.leave(member);
        }
    }

    fn ready(&self, set: BorrowedFd<'_>, most: usize) -> Result<Vec<u64>, Errno> {
        let (network, set) = named(set)?;
        Ok(network.ready(set, most))
    }

    fn now(&self) -> Duration {
        current().map_or(Duration::ZERO, |network| Duration::from_nanos(network.now()))
    }

    fn timer(&self, time: Duration) -> Result<OwnedFd, Errno> {
        let network = network()?;
        let id = network.timer(time.as_nanos() as u64);
        network.name(id)
    }

    fn is_over(&self, timer: BorrowedFd<'_>) -> bool {
        named(timer).is_ok_and(|(network, id)| network.is_over(id))
    }

    fn registry(&self) -> Result<Box<dyn Registry>, String> {
        Ok(Box::new(Ports))
    }

    /// All of a scene is one process.
    fn peer_pid(&self, _: BorrowedFd<'_>) -> Result<i32, Errno> {
        Ok(std::process::id() as i32)
    }

    fn send(
        &self,
        channel: BorrowedFd<'_>,
        message: &[u8],
        _: Option<BorrowedFd<'_>>,
    ) -> Result<(), Errno> {
        let (network, id) = named(channel)?;
        let sent = network.send_message(id, message);
        log(format!("channel {id} sends {}: {sent:?}", kind(message)));
        sent
    }

    fn receive(&self, channel: BorrowedFd<'_>, into: &mut [u8]) -> Result<Packet, Errno> {
        let (network, id) = named(channel)?;
        let message = network.receive_message(id)?;
        log(format!("channel {id} receives {}", kind(&message)));
        let length = message.len();
        into[..length].copy_from_slice(&message);
        if network.two_gpus {
            name_another_gpu(into);
        }
        Ok(Packet { length, cut: false, descriptor: None })
    }

    fn closes(&self, channel: BorrowedFd<'_>) {
        if let Ok((network, id)) = named(channel) {
            network.forget(channel.as_raw_fd());
            network.close(id);
        }
    }

    /// Often shortly before the units of packets are old, or their tags come again.
    fn first_position(&self) -> u64 {
        current().map_or(0, |network| {
            let before = BEFORE[network.draw(BEFORE.len())];
            match network.draw(4) {
                0 => (1 << 31) - before,
                1 => (1 << 32) - before,
                _ => 0,
            }
        })
    }

    fn is_first_position(&self, _: u64) -> bool {
        true
    }
}

/// Changes the GPU that a Hello or a Welcome names, since a scene has one.
fn name_another_gpu(message: &mut [u8]) {
    let (words, _) = message.as_chunks_mut::<8>();
    let kind = words.get(2).map_or(0, |word| u64::from_le_bytes(*word));
    if let (1 | 2, Some(word)) = (kind, words.get_mut(8)) {
        word[0] ^= 1;
    }
}

/// What the trace calls a message: by the number of its kind, and its first words.
fn kind(message: &[u8]) -> String {
    let (words, _) = message.as_chunks::<8>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    format!("message {} ({:#x}, {:#x})", word(2), word(4), word(5))
}

/// The registry: the network knows listeners by their ports.
struct Ports;

impl Registry for Ports {
    fn listen(
        &self,
        address: &SocketAddr,
        _: bool,
        _: bool,
    ) -> Result<Box<dyn Registration>, Errno> {
        let network = network()?;
        let id = network.add(Endpoint::default());
        network.listen(id, CONTROL | u32::from(address.port()))?;
        Ok(Box::new(Port { id, name: network.name(id)? }))
    }

    fn call(&self, address: &SocketAddr) -> Result<Option<OwnedFd>, Errno> {
        let network = network()?;
        let port = CONTROL | u32::from(address.port());
        if !network.has_listener(port) {
            return Ok(None);
        }
        let id = network.add(Endpoint { is_channel: true, ..Endpoint::default() });
        network.connect(id, port);
        network.name(id).map(Some)
    }
}

/// A listener's port, which is free again when it is dropped.
struct Port {
    id: usize,
    name: OwnedFd,
}

impl Registration for Port {
    fn next(&self) -> Result<Option<OwnedFd>, Errno> {
        let network = network()?;
        network.accept(self.id).map(|id| network.name(id)).transpose()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.name.as_fd()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(network) = current() {
            network.close(self.id);
        }
    }
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
