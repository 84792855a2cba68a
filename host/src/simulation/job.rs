//! What launches do that share sockets with one another and with the program.

/// What a launch does.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    /// Serves streams.
    Serve(Terms),
    /// Waits for an event that never comes, until it is stopped.
    Idle,
    /// Owns a socket that another launch uses, uses one, or leaves one to the others.
    Own(Owning),
    /// Listens by itself, accepts so many connections, and ends without closing any socket.
    Listen { port: u16, accepts: u64 },
}

/// How streams are served.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// Pieces after which it ends, and leaves its streams to others; otherwise when all is served.
    pub(crate) pieces: Option<u64>,
    /// Pieces after which a stream is passed on.
    pub(crate) passes_after: u64,
    /// Watches its streams with a poller.
    pub(crate) polls: bool,
    /// The first group's poller watches the listener, too.
    pub(crate) listens: bool,
    /// Streams are removed from the poller before they are passed on; otherwise the next poller takes
    /// them over.
    pub(crate) removes: bool,
    /// What the poller is to report.
    pub(crate) events: u16,
    /// The poller is left to the launch's end.
    pub(crate) leaves_poller: bool,
    /// Has another poller whenever it has no streams, in the slot of the last one if so many attempts
    /// are enough.
    pub(crate) renews: u64,
    /// Serves conversations alone.
    pub(crate) converses: bool,
}

/// What a launch with a socket of its own does, or with that of another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owning {
    pub(crate) role: Role,
    pub(crate) port: u16,
    pub(crate) number: u64,
    pub(crate) total: u64,
    /// So many bytes are sent by who owns it; or it ends, or leaves the conversation, after that.
    pub(crate) at: u64,
    /// The socket is left to the launch's end.
    pub(crate) leaves: bool,
    /// Who uses it sends, too.
    pub(crate) sends: bool,
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Connects, begins a conversation, and leaves it to the others.
    Begins,
    /// Connects, and sends.
    Owns,
    /// Receives by the other's handle.
    Uses,
}
