//! A net's settings, as its proxy needs them.

/// Connections that wait on a listener of the program, unless it says otherwise.
pub(crate) const BACKLOG: u32 = 512;
/// And on any listener, at most.
pub(crate) const MAX_BACKLOG: u32 = 4096;

/// Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Capacity of each of a connection's rings.
    pub(crate) ring: u32,
    /// Connections that a listener may have and that no kernel has accepted.
    pub(crate) unaccepted: u32,
    /// Slots that are for kernels' own sockets.
    pub(crate) reserved: u32,
    pub(crate) timeout_ns: u64,
    pub(crate) heartbeat_timeout_ns: u64,
    pub(crate) linger_ns: u64,
    pub(crate) shutdown_ns: u64,
    pub(crate) spin_ns: u64,
    pub(crate) idle_sleep_ns: u64,
    pub(crate) longest_sleep_ns: u64,
    pub(crate) pacing: Pacing,
}

/// After how much a proxy thread does something else for a socket. A simulation, whose scenes
/// are short, has less of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacing {
    /// Turns in which a busy socket is tried without asking epoll first, when few are busy.
    pub(crate) busy_turns: u32,
    /// Turns that moved bytes after which a socket is busy enough to do without epoll.
    pub(crate) often: u32,
    /// A socket that has received so many bytes while its kernel sent none receives a stream.
    pub(crate) stream_bytes: u64,
    /// Bytes that a socket may move in each direction in a turn: its budget, so that one with large rings
    /// does not hold up the others of its thread.
    pub(crate) budget_bytes: u64,
    /// For so long all looks find a socket closed, and no lock of it taken, before it is free.
    pub(crate) grace_ns: u64,
}

impl Pacing {
    /// What nets have.
    pub(crate) const USUAL: Self = Self {
        busy_turns: 256,
        often: 16,
        stream_bytes: 1 << 20,
        budget_bytes: 512 << 10,
        grace_ns: 100_000_000,
    };

    /// Bytes in a turn after which those that go on with more wait for the next one.
    pub(crate) fn turn_bytes(&self) -> u64 {
        4 * self.budget_bytes
    }
}
