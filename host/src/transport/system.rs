//! What transports have of the operating system, as one trait: [`Linux`](super::linux::Linux) is the
//! product's, a simulation brings its own. A net's transports are made with one of them, and nothing here or
//! below asks which one it is.
//!
//! | seam | of the system | who uses it |
//! | --- | --- | --- |
//! | sockets | TCP and UNIX sockets | unconnected sockets |
//! | ready sets | epoll | listeners, deferred frees, attempts to connect |
//! | clock, timers | the monotonic clock, timerfd | attempts to connect, handshakes, idle arenas |
//! | registry | a folder of UNIX sockets | p2p listeners and callers |
//! | control channels | sequenced packets with descriptors, peer credentials | p2p handshakes and streams |
//!
//! Descriptors name what the calls are about, as they do to the system. A call goes through a vtable; each of
//! them is at least one system call, or stands for one, and none is on the path of a kernel's bytes.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use gpunet_device::abi::errno::Errno;
use gpunet_device::{Domain, SocketAddr};

use super::socket::SystemSocket;

/// What is passed around: an implementation has no state of its own.
pub(crate) type SystemRef = &'static dyn System;

/// See the module. No call waits.
pub(crate) trait System: Send + Sync {
    /// A socket that may connect or listen.
    fn socket(&self, domain: Domain) -> Result<Box<dyn SystemSocket>, Errno>;

    /// A descriptor that is ready when a member of its set is.
    fn ready_set(&self) -> Result<OwnedFd, Errno>;

    /// Adds a member to a set, under a key.
    fn add(&self, set: BorrowedFd<'_>, member: BorrowedFd<'_>, key: u64) -> Result<(), Errno>;

    /// Takes a member out of a set. One that is not in it is as good as taken out.
    fn remove(&self, set: BorrowedFd<'_>, member: BorrowedFd<'_>);

    /// The keys of a set's members that are ready, up to so many.
    fn ready(&self, set: BorrowedFd<'_>, most: usize) -> Result<Vec<u64>, Errno>;

    /// Time since some moment, by a clock that goes on steadily.
    fn now(&self) -> Duration;

    /// A descriptor that is ready after that time.
    fn timer(&self, time: Duration) -> Result<OwnedFd, Errno>;

    /// Whether a timer's time has come.
    fn is_over(&self, timer: BorrowedFd<'_>) -> bool;

    /// How the ends of p2p streams find each other; the reason where they cannot.
    fn registry(&self) -> Result<Box<dyn Registry>, String>;

    /// The process at the other end of a control channel, if the same user runs it, and the system has a
    /// number for it here: one of another PID namespace has none, and could not be distinguished from others.
    fn peer_pid(&self, channel: BorrowedFd<'_>) -> Result<i32, Errno>;

    /// Sends a packet by a control channel, with a descriptor. EAGAIN: too many wait at the other end.
    fn send(
        &self,
        channel: BorrowedFd<'_>,
        bytes: &[u8],
        with: Option<BorrowedFd<'_>>,
    ) -> Result<(), Errno>;

    /// The next packet of a control channel. EAGAIN: none now.
    fn receive(&self, channel: BorrowedFd<'_>, into: &mut [u8]) -> Result<Packet, Errno>;

    /// An end of a control channel is about to be closed.
    fn closes(&self, _channel: BorrowedFd<'_>) {}

    /// How far behind its base a new p2p stream begins.
    fn first_position(&self) -> u64 {
        0
    }

    /// Whether a peer's stream may begin there.
    fn is_first_position(&self, position: u64) -> bool {
        position == 0
    }
}

/// A packet that was received.
pub(crate) struct Packet {
    /// Bytes of it; 0 at the end of the channel.
    pub(crate) length: usize,
    /// There was more of it, of bytes or of descriptors.
    pub(crate) cut: bool,
    /// What came with it.
    pub(crate) descriptor: Option<OwnedFd>,
}

/// Where p2p listeners are registered and found, by their addresses.
pub(crate) trait Registry: Send + Sync {
    /// Takes calls for a listener's address from now on. EADDRINUSE where another does, unless all of them
    /// share it.
    fn listen(
        &self,
        address: &SocketAddr,
        v6_only: bool,
        shared: bool,
    ) -> Result<Box<dyn Registration>, Errno>;

    /// Calls the listener at an address of this machine: an end of a control channel. None: there is none of
    /// this user's. EAGAIN: it has too many calls waiting.
    fn call(&self, address: &SocketAddr) -> Result<Option<OwnedFd>, Errno>;
}

/// A listener's entry in a registry, which goes with it.
pub(crate) trait Registration: Send {
    /// The next call, if one waits: an end of a control channel.
    fn next(&self) -> Result<Option<OwnedFd>, Errno>;

    /// Ready when a call waits.
    fn descriptor(&self) -> BorrowedFd<'_>;
}
