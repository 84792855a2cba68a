//! What happens on a connection: how many bytes come when, and how it ends. Kernels and programs follow it.

use gpunet_device::kernel_arg;

/// Bytes of [`Terms`] on the wire.
pub const TERMS_BYTES: usize = 72;
/// The first word of terms.
const MAGIC: u64 = 0x6b61_6f73_7465_6e67;

/// The caller ends its side and waits for the other's end; the answerer closes at the caller's.
pub const CALLER_ENDS: u64 = 0;
/// The other way round: the answerer ends its side first.
pub const ANSWERER_ENDS: u64 = 1;
/// The caller ends its side, the answerer then sends the tail and closes.
pub const HALF_CLOSE: u64 = 2;
/// The caller sends the tail and closes at once, without waiting for anything.
pub const GONE: u64 = 3;
/// The caller, a program, sends the tail and ends its side; all the while the answerer sends back
/// what comes. Then the answerer closes.
pub const ECHO: u64 = 4;
/// No connection: the group that gets these terms has done its job.
pub const QUIT: u64 = 5;

kernel_arg! {
    /// What both ends of a connection know.
    #[derive(Debug)]
    pub struct Terms {
        /// Where its outcomes go.
        pub index: u64,
        /// Seed of all its bytes and lengths; 32 bits.
        pub seed: u64,
        /// Turns.
        pub turns: u64,
        /// Most bytes that the caller sends in a turn; 0: it sends none.
        pub most_up: u64,
        /// Most bytes that the answerer sends in a turn; likewise.
        pub most_down: u64,
        /// Most bytes that are sent once the turns are over, if the ending has any; likewise.
        pub most_tail: u64,
        /// One of [`CALLER_ENDS`] and its siblings.
        pub ending: u64,
        /// How long one call of a kernel may wait, nanoseconds.
        pub timeout_ns: u64,
    }
}

/// A length from 1 to `most`, or 0 where that is 0.
#[inline(always)]
pub(super) const fn drawn(seed: u64, number: u64, most: u64) -> u64 {
    if most == 0 {
        return 0;
    }
    let mixed = (seed << 20 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    1 + (mixed >> 24) % most
}

impl Terms {
    /// Bytes that the caller sends in a turn.
    #[inline(always)]
    pub const fn up(&self, turn: u64) -> u64 {
        drawn(self.seed, 3 * turn, self.most_up)
    }

    /// Bytes that the answerer sends in a turn.
    #[inline(always)]
    pub const fn down(&self, turn: u64) -> u64 {
        drawn(self.seed, 3 * turn + 1, self.most_down)
    }

    /// Bytes that are sent once the turns are over.
    #[inline(always)]
    pub const fn tail(&self) -> u64 {
        drawn(self.seed, 2, self.most_tail)
    }

    /// Seed of what the caller sends.
    #[inline(always)]
    pub const fn up_seed(&self) -> u64 {
        self.seed
    }

    /// Seed of what the answerer sends.
    #[inline(always)]
    pub const fn down_seed(&self) -> u64 {
        self.seed ^ 0x5A5A_5A5A
    }

    /// As they go over the wire, little endian.
    #[inline(always)]
    pub const fn to_words(&self) -> [u64; TERMS_BYTES / 8] {
        let Self { index, seed, turns, most_up, most_down, most_tail, ending, timeout_ns } = *self;
        [MAGIC, index, seed, turns, most_up, most_down, most_tail, ending, timeout_ns]
    }

    /// From the wire; none when they are no terms.
    #[inline(always)]
    pub const fn from_words(words: [u64; TERMS_BYTES / 8]) -> Option<Self> {
        let [magic, index, seed, turns, most_up, most_down, most_tail, ending, timeout_ns] = words;
        if magic != MAGIC {
            return None;
        }
        Some(Self { index, seed, turns, most_up, most_down, most_tail, ending, timeout_ns })
    }
}
