//! What a stream has beside its rings.

use gpunet_device::SocketAddr;

/// How far a stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StreamPhase {
    /// Its kernel has asked for it.
    #[default]
    Connecting,
    /// It is connected.
    Open,
    /// Closed by its kernel; goes once what is unsent was sent, or at that time.
    Closing { deadline_ns: u64 },
}

/// What a stream has beside its rings.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) phase: StreamPhase,
    /// Bytes received since the kernel last sent any.
    pub(super) one_way: u64,
    /// Not tried before then.
    pub(super) back_off_until_ns: u64,
    /// Busy-polled turns that moved bytes, since epoll has watched it; and whether epoll no longer
    /// does.
    pub(super) moves: u32,
    pub(super) off_epoll: bool,
    /// How far the kernel has read, as last reported to a device.
    pub(super) reported_head: u64,
    /// Bytes that the net's limits count.
    pub(super) flow: Flow,
    /// When it tries to connect again, since its peer's queue was full.
    pub(super) retry: Option<Box<(u64, SocketAddr)>>,
}

/// What the net's limits know of a stream.
#[derive(Default)]
pub(super) struct Flow {
    /// Its bytes that count as in flight, by direction.
    pub(super) flying: [u64; 2],
    /// Whether a direction waits for the net's limits.
    pub(super) queued: [bool; 2],
}

impl Stream {
    pub(super) fn new(phase: StreamPhase) -> Self {
        Self { phase, ..Self::default() }
    }

    /// Whether it was closed.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self.phase, StreamPhase::Closing { .. })
    }
}
