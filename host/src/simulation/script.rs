//! What both ends of a p2p stream do: the script of an exchange.

use super::grouping::Grouping;

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sends {
    /// By one call.
    Whole,
    /// By three.
    Parts,
    /// By a slice of the ring.
    Slice,
    /// By calls that do not wait, with a wait for POLLOUT between them.
    Polled,
}

/// How a message is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receives {
    /// By calls with room for all of it.
    Whole,
    /// With room for a part of it.
    Parts,
    /// By a peek that takes nothing, then as a whole.
    Peeked,
    /// By a slice of the ring.
    Slice,
    /// After `gpoll` has said that there is something: then a call that does not wait finds it.
    Polled,
    /// By calls that do not wait; a poller reports when there is more.
    Watched,
}

/// A turn of an exchange: so many messages one after the other, and as many back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) length: usize,
    pub(crate) messages: usize,
    pub(crate) sends: [Sends; 2],
    pub(crate) receives: [Receives; 2],
    /// Bytes that both ends skip afterwards, as if they had gone by the ring.
    pub(crate) skips: u64,
}

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The caller ends its sending, and receives the other end's.
    Shutdown,
    /// The caller closes.
    Close,
    /// The caller sends a last message and closes, which the other end gets all the same.
    SendAndClose,
    /// The end that answers closes behind its last message.
    Answered,
}

/// What both ends of each stream do.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) rounds: Vec<Round>,
    pub(crate) ending: Ending,
    /// Whether the end that calls, and the one that answers, watches with a poller.
    pub(crate) watches: [bool; 2],
    /// Who makes calls together, in the launch that answers and in the one that calls.
    pub(crate) groupings: [Grouping; 2],
    /// Bytes that the buffers of both hold.
    pub(crate) most: usize,
}

impl Script {
    /// Of the message that nobody answers.
    pub(super) fn last_length(&self) -> usize {
        self.rounds.first().map_or(1, |round| round.length).min(self.most)
    }
}
