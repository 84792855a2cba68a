//! A net's settings, as its proxy needs them.

/// Connections that wait on a listener of the program, unless it says otherwise.
pub(crate) const BACKLOG: u32 = 512;
/// And on any listener, at most.
pub(crate) const MAX_BACKLOG: u32 = 4096;

/// Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) receive_ring: u32,
    pub(crate) send_ring: u32,
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
}
