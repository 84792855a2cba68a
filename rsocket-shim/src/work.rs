//! What the protocol asks a queue pair to do, and what it reports when that is done.
//!
//! Plain values, so that the protocol runs over verbs and over a fake alike.

/// A piece of registered local memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins, as the device knows it.
    pub address: u64,
    /// The local key of its region.
    pub key: u32,
    /// Bytes.
    pub length: u32,
}

/// A piece of registered memory of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Where it begins, as the peer's device knows it.
    pub address: u64,
    /// The remote key of its region.
    pub key: u32,
    /// Bytes.
    pub length: u32,
}

/// An RDMA write. Completions of one queue pair come in the order of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// What is written: no piece, one, or two where a ring wraps. Unused pieces have no length.
    pub pieces: [Piece; 2],
    /// Up to 16 bytes of the protocol's own (a grant), sent instead of the pieces, copied when the
    /// work is posted: they need no registered memory.
    pub own: Option<[u8; 16]>,
    /// Where to; the length is that of what is written.
    pub target: Target,
    /// With immediate data, in the host's order, which takes one of the peer's posted receives;
    /// without, the peer's program notices nothing.
    pub immediate: Option<u32>,
}

/// What a queue pair says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The oldest write that was not reported yet is done, or failed.
    Written(Result<(), Fault>),
    /// A receive is done: the peer's immediate data, in the host's order; or it failed.
    Received(Result<u32, Fault>),
}

/// Why work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The queue pair is in error, and gives back what was posted.
    Flushed,
    /// The peer did not answer.
    Unanswered,
    /// The peer posted no receives for too long.
    NotReady,
    /// The peer's memory or keys do not allow it.
    Refused,
    /// Anything else, with the number that verbs have for it.
    Other(u32),
}
