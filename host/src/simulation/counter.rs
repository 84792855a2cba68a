//! Words that only grow.

/// A word that only grows.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    /// The bits that count.
    pub(super) mask: u64,
    /// Those in which two values differ that are not compared: of different p2p streams.
    pub(super) apart: u64,
    /// The word that is 0 while the slot has no socket, and the counter may begin anew.
    pub(super) descriptor: Option<usize>,
}

impl Counter {
    /// Whether it went back, from one value to the other.
    pub(super) fn goes_back(&self, from: u64, to: u64) -> bool {
        (from ^ to) & self.apart == 0 && to & self.mask < from & self.mask
    }
}
