//! The two directions of a socket.

/// A direction of a socket, with the words that belong to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Receiving, accepting, taking events.
    Receive,
    /// Sending.
    Send,
}
