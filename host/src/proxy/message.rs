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
    Notify { poller: Handle, notice: Notice },
    /// A poller did not deliver its events of that many of a listener's connections: others must be notified.
    /// `gone`: the poller no longer exists.
    PassOn { listener: Handle, poller: Handle, connections: u32, gone: bool },
    /// See which connections kernels have taken from the accept rings; notified when it is done.
    CommitAccepts(mpsc::Sender<()>),
    /// A launch has ended: close what it left open, and notify when that is done. `last`: no other launch of
    /// the net runs.
    LaunchEnded { launch: u32, last: bool, done: mpsc::Sender<()> },
    /// A kernel has faulted: close these listeners of the program (none: all of them), which no kernel serves
    /// any more, and what was accepted from them; notified when it is done.
    CloseListeners { which: Option<Vec<Handle>>, done: mpsc::Sender<()> },
    /// Close a socket that no kernel has seen.
    Close(Handle),
    /// Close a socket for the program, whoever uses it. `done` is notified when calls on it fail, and dropped
    /// where there was none.
    CloseForProgram { handle: Handle, done: mpsc::Sender<()> },
    /// Groups find a socket closed that the host has closed.
    SeenClosed(Handle),
    /// No group is inside a call on it.
    Drained(Handle),
    /// Give a socket back to the program.
    Release { handle: Handle, to: mpsc::Sender<Result<Released, Errno>> },
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
