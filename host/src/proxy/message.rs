//! What reaches a shard from outside its thread: from the net, and from other shards.

use std::os::fd::OwnedFd;
use std::sync::mpsc;

use gpunet_device::Handle;
use gpunet_device::abi::errno::Errno;

use super::entry::Entry;
use super::statistics::SocketState;
use super::watchers::Notice;

/// A message to a shard.
pub(crate) enum Message {
    /// Serve this socket from now on.
    Adopt(Box<Entry>),
    /// Something happened on a socket that a poller of this shard watches.
    Notify {
        /// The poller.
        poller: Handle,
        /// What.
        notice: Notice,
    },
    /// A poller did not deliver its events of a listener's connections: others are to be notified.
    PassOn {
        /// The listener.
        listener: Handle,
        /// The poller.
        poller: Handle,
        /// How many.
        connections: u32,
        /// Whether the poller is gone.
        gone: bool,
    },
    /// See which connections kernels have taken from the accept rings; notified when it is done.
    CommitAccepts(mpsc::Sender<()>),
    /// A launch has ended: close what it left open.
    LaunchEnded {
        /// Which.
        launch: u32,
        /// Whether no other launch of the net runs.
        last: bool,
        /// Signalled when it is done.
        done: mpsc::Sender<()>,
    },
    /// A kernel has faulted: close the listeners of the program that no kernel serves any
    /// more, and what was accepted from them.
    CloseListeners {
        /// Which; none: all.
        which: Option<Vec<Handle>>,
        /// Signalled when it is done.
        done: mpsc::Sender<()>,
    },
    /// Close a socket that no kernel has seen.
    Close(Handle),
    /// Close a socket for the program, whoever uses it.
    CloseForProgram {
        /// Which.
        handle: Handle,
        /// Notified when calls on it fail; dropped where there was none.
        done: mpsc::Sender<()>,
    },
    /// Groups find a socket closed that the host has closed.
    SeenClosed(Handle),
    /// No group is inside a call on it.
    Drained(Handle),
    /// Give a socket back to the program.
    Release {
        /// Which.
        handle: Handle,
        /// Where to.
        to: mpsc::Sender<Result<Released, Errno>>,
    },
    /// Another shard finds no slot or no memory for a socket: let one go that is closed and makes no progress.
    MakeRoom,
    /// Describe every socket.
    Dump(mpsc::Sender<Vec<SocketState>>),
    /// Panic, to show what happens then.
    #[cfg(feature = "fault-injection")]
    Panic,
    /// Do nothing for so long, as a thread does that hangs in a call of the system.
    #[cfg(feature = "fault-injection")]
    Stall(std::time::Duration),
}

/// A socket that a program took back.
#[derive(Debug)]
pub struct Released {
    /// The system's socket, non-blocking.
    pub socket: OwnedFd,
    /// Bytes that had arrived and that no kernel has read.
    pub unread: Vec<u8>,
}
