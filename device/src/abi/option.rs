//! Socket options, and where each is kept.

/// An option of `gsetsockopt` and `ggetsockopt`. The value is one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SocketOption {
    /// Calls that would wait return EAGAIN instead (0 or 1). Kept on the GPU.
    NonBlocking = 1,
    /// How long accept and receive may wait, in nanoseconds; 0: no limit. Kept on the GPU.
    ReceiveTimeout = 2,
    /// How long connect and send may wait, in nanoseconds; 0: no limit. A long send may wait as
    /// often as the ring is full: the time counts from the last progress. Kept on the GPU.
    SendTimeout = 3,
    /// Capacity of the receive ring; before connect or listen (accepted sockets inherit it).
    /// Rounded up to a power of two. Kept by the proxy, as are those that follow.
    ReceiveRing = 4,
    /// Capacity of the send ring; likewise.
    SendRing = 5,
    /// TCP_NODELAY (0 or 1; 1 by default).
    NoDelay = 6,
    /// SO_KEEPALIVE (0 or 1).
    KeepAlive = 7,
    /// TCP_KEEPIDLE, seconds.
    KeepAliveIdle = 8,
    /// TCP_KEEPINTVL, seconds.
    KeepAliveInterval = 9,
    /// TCP_KEEPCNT.
    KeepAliveCount = 10,
    /// TCP_USER_TIMEOUT, milliseconds.
    UserTimeout = 11,
    /// SO_REUSEADDR (0 or 1; 1 for TCP by default).
    ReuseAddress = 12,
    /// SO_REUSEPORT (0 or 1).
    ReusePort = 13,
    /// IPV6_V6ONLY (0 or 1).
    V6Only = 14,
    /// TCP_QUICKACK (0 or 1).
    QuickAck = 15,
    /// The socket outlives the kernel that made it, for the host to take (0 or 1).
    Detached = 16,
    /// The last asynchronous error, as a positive number; reading only.
    Error = 17,
    /// SO_SNDBUF of the system's own socket, bytes.
    SystemSendBuffer = 18,
    /// SO_RCVBUF of the system's own socket, bytes.
    SystemReceiveBuffer = 19,
    /// How a socket with IP addresses travels, before connect or listen: 0 as it comes best, 1 TCP,
    /// 2 RDMA. Read later, what it became. On a net without RDMA there is no choice.
    Transport = 20,
    /// Where the rings of an RDMA stream may lie, before connect or listen: the sum of 1 (GPU memory
    /// as a dma-buf), 2 (GPU memory by a peer-memory driver) and 4 (host memory). Read later, where
    /// they do.
    Placement = 21,
}

impl SocketOption {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::NonBlocking,
        Self::ReceiveTimeout,
        Self::SendTimeout,
        Self::ReceiveRing,
        Self::SendRing,
        Self::NoDelay,
        Self::KeepAlive,
        Self::KeepAliveIdle,
        Self::KeepAliveInterval,
        Self::KeepAliveCount,
        Self::UserTimeout,
        Self::ReuseAddress,
        Self::ReusePort,
        Self::V6Only,
        Self::QuickAck,
        Self::Detached,
        Self::Error,
        Self::SystemSendBuffer,
        Self::SystemReceiveBuffer,
        Self::Transport,
        Self::Placement,
    ];

    /// The option with that number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|option| *option as u32 == number)
    }
}
