//! What the proxy publishes to the GPU of a socket: its descriptor (fixed when made) and its live words.

/// Words of a descriptor.
pub const DESCRIPTOR_WORDS: usize = 8;

/// What a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Made, and neither connected nor listening.
    Fresh = 1,
    /// A byte stream: both rings hold bytes.
    Stream = 2,
    /// A listener: the receive ring holds 8-byte handles of accepted streams.
    Listener = 3,
    /// A poller: the receive ring holds 16-byte events.
    Poller = 4,
}

impl Kind {
    /// The kind with that number.
    #[inline(always)]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Fresh),
            2 => Some(Self::Stream),
            3 => Some(Self::Listener),
            4 => Some(Self::Poller),
            _ => None,
        }
    }
}

/// Where a ring lies and where its counters start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingLocation {
    /// Region (0: pinned host memory, 1: GPU memory, 2: the window of p2p streams).
    pub region: u8,
    /// First byte in the region.
    pub offset: u64,
    /// Capacity, a power of two; 0: no ring.
    pub capacity: u32,
    /// Both counters' first value. Counters only grow, also over the sockets that have a slot
    /// one after the other. Those of a p2p stream begin where its caller chose; on its descriptor the
    /// highest bits hold the number that reports of the direction to the proxy carry.
    pub base: u64,
}

/// The inboxes of a p2p stream, as pages of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inboxes {
    /// Where the peer's kernel writes the stream's progress.
    pub own: u32,
    /// Where this side's kernel does. Less than 2^31, as pages of a window are.
    pub peer: u32,
    /// Whether the peer's kernel runs on the same GPU, so that ordering at GPU scope holds for both.
    pub one_gpu: bool,
}

/// A socket's descriptor. Word 0 is written last, with release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketDescriptor {
    /// Generation of the slot; 0: free.
    pub generation: u32,
    /// What the socket is.
    pub kind: Kind,
    /// How many descriptors the socket had before, modulo 16: so no two that follow one
    /// another have the same word 0.
    pub change: u8,
    /// The receive ring.
    pub receive: RingLocation,
    /// The send ring.
    pub send: RingLocation,
    /// How long calls may wait unless the socket's options say otherwise, nanoseconds; 0: no limit.
    pub timeout_ns: u64,
    /// Of a p2p stream, whose bytes and counters go from kernel to kernel.
    pub inboxes: Option<Inboxes>,
}

impl SocketDescriptor {
    /// As words; word 0 carries generation, change and kind.
    pub fn to_words(&self) -> [u64; DESCRIPTOR_WORDS] {
        let location = |p: &RingLocation| u64::from(p.region) << 56 | p.offset;
        [
            Self::changing(self.generation) | u64::from(self.change & 15) << 4 | self.kind as u64,
            location(&self.receive),
            location(&self.send),
            u64::from(self.receive.capacity) | u64::from(self.send.capacity) << 32,
            self.receive.base,
            self.send.base,
            self.timeout_ns,
            // From 1 on: 0 stands for none.
            self.inboxes.map_or(0, |pages| {
                let (own, peer) = (u64::from(pages.own) + 1, u64::from(pages.peer) + 1);
                own | peer << 32 | u64::from(pages.one_gpu) << Self::ONE_GPU_BIT
            }),
        ]
    }

    /// From words; none for a kind that does not exist.
    #[inline(always)]
    pub fn from_words(words: &[u64; DESCRIPTOR_WORDS]) -> Option<Self> {
        let location = |word: u64, capacity: u32, base: u64| RingLocation {
            region: (word >> 56) as u8,
            offset: word & (u64::MAX >> 8),
            capacity,
            base,
        };
        Some(Self {
            generation: (words[0] >> 8) as u32,
            kind: Kind::from_number(words[0] as u8 & 15)?,
            change: words[0] as u8 >> 4,
            receive: location(words[1], words[3] as u32, words[4]),
            send: location(words[2], (words[3] >> 32) as u32, words[5]),
            timeout_ns: words[6],
            inboxes: {
                let one_gpu = words[7] >> Self::ONE_GPU_BIT != 0;
                let peer = (words[7] >> 32) as u32 & (u32::MAX >> 1);
                match ((words[7] as u32).checked_sub(1), peer.checked_sub(1)) {
                    (Some(own), Some(peer)) => Some(Inboxes { own, peer, one_gpu }),
                    _ => None,
                }
            },
        })
    }

    /// The bit of the last word that says whether both ends of a p2p stream are on one GPU.
    const ONE_GPU_BIT: u32 = 63;

    /// The word with the capacities of both rings.
    pub const CAPACITIES: usize = 3;

    /// Whether a stream has rings by now, from word 0 and the word with the capacities alone. One whose words
    /// change, which is of no kind, may have.
    #[inline(always)]
    pub const fn may_have_rings(first: u64, capacities: u64) -> bool {
        match Kind::from_number(first as u8 & 15) {
            Some(Kind::Stream) => capacities >> 32 != 0,
            kind => kind.is_none(),
        }
    }

    /// Word 0 while the other words change: of no kind.
    #[inline(always)]
    pub const fn changing(generation: u32) -> u64 {
        (generation as u64) << 8
    }
}

/// A socket's status word: state in the upper half, error number in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u64);

impl Status {
    /// Not connected, or nothing to say.
    pub const IDLE: u64 = 0;
    /// A connect is under way.
    pub const CONNECTING: u64 = 1;
    /// Connected.
    pub const CONNECTED: u64 = 2;
    /// A connect, or the connection, failed with the error in the lower half.
    pub const FAILED: u64 = 3;

    /// Puts state and error together.
    #[inline(always)]
    pub const fn new(state: u64, errno: i32) -> Self {
        Self(state << 32 | errno as u32 as u64)
    }

    /// The state.
    #[inline(always)]
    pub const fn state(self) -> u64 {
        self.0 >> 32
    }

    /// The error number, 0 for none.
    #[inline(always)]
    pub const fn errno(self) -> i32 {
        self.0 as u32 as i32
    }
}
