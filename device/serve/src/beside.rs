//! When a connection is received from without an event of the poller.

/// Nobody's token.
const NO_TOKEN: u64 = u64::MAX - 1;
/// The most turns without a try after one that found nothing.
const MOST_TURNS: u32 = 63;

/// When connections are looked at without an event of theirs.
///
/// A client without a pipeline sends its next request as soon as it has its answer, and is answered sooner
/// by who waits for it than by who waits for all. Where clients take their time, or others have events in
/// between, such tries find nothing; then they become rare.
pub(crate) struct Beside {
    /// Turns until the next try.
    pause: u32,
    /// The pause behind the last try; 0: it was a success.
    last: u32,
    /// The connection whose event, if it is the poller's next, is stale: its bytes were received.
    pub(crate) stale: u64,
}

impl Beside {
    pub(crate) const NEW: Self = Self { pause: 0, last: 0, stale: NO_TOKEN };

    /// The token of the connection whose next event is stale; it is asked for once.
    #[inline(always)]
    pub(crate) const fn take_stale(&mut self) -> u64 {
        core::mem::replace(&mut self.stale, NO_TOKEN)
    }

    /// Whether a turn may try.
    #[inline(always)]
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        due
    }

    /// Counts a try.
    #[inline(always)]
    pub(crate) fn count(&mut self, success: bool) {
        self.last = if success { 0 } else { (2 * self.last + 1).min(MOST_TURNS) };
        self.pause = self.last;
    }
}
