//! The messages of control channels: what the proxies at both ends of a p2p stream send each other.
//! All have the same size, and what comes is untrusted.

use gpunet_device::SocketAddr;
use gpunet_device::abi::VERSION as ABI_VERSION;
use gpunet_device::abi::address::ADDRESS_WORDS;

/// Changes with every change of the messages.
const VERSION: u64 = 5;
/// "gnet-p2p", little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"gnet-p2p");
/// Words of a message.
pub(super) const WORDS: usize = 10 + 2 * ADDRESS_WORDS;
pub(super) const BYTES: usize = WORDS * 8;

/// Memory that a side offers: what it will receive in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Which arena of the process, and its size.
    pub(crate) arena: u64,
    pub(crate) arena_bytes: u64,
    /// Where in it the ring lies, and its capacity.
    pub(crate) ring: u64,
    pub(crate) capacity: u32,
    /// Where in it the inbox lies.
    pub(crate) inbox: u64,
    /// Where the stream's counters begin, in both directions: the caller's choice.
    pub(crate) base: u64,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "lives as long as one call, as large as on the wire")]
pub(crate) enum Message {
    /// The caller's first: who it is, on which GPU, its address, and the one that it calls.
    Hello { token: u128, gpu: [u8; 17], send_ring: u32, name: SocketAddr, called: SocketAddr },
    /// The listener's answer. Either says how large it wants the other's ring.
    Welcome { token: u128, gpu: [u8; 17], send_ring: u32 },
    /// The listener's other answer.
    Refused { errno: i32 },
    /// Memory; its descriptor comes along.
    Offer(Offer),
    /// This side sends no more.
    End,
    /// This side is closed, and its kernel no longer touches the other's memory.
    Close,
}

/// Which GPU, as words.
fn identity_words(gpu: [u8; 17]) -> [u64; 3] {
    let mut bytes = [0; 24];
    bytes[..17].copy_from_slice(&gpu);
    let (eights, _) = bytes.as_chunks::<8>();
    [eights[0], eights[1], eights[2]].map(u64::from_le_bytes)
}

impl Message {
    pub(super) fn to_words(self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        if let Self::Hello { token, gpu, send_ring, .. } | Self::Welcome { token, gpu, send_ring } =
            self
        {
            words[3] = u64::from(send_ring);
            words[4..6].copy_from_slice(&[token as u64, (token >> 64) as u64]);
            words[6..9].copy_from_slice(&identity_words(gpu));
        }
        let (kind, content): (u64, &[u64]) = match self {
            Self::Hello { name, called, .. } => {
                words[9] = u64::from(ABI_VERSION);
                let addresses = [name.to_words(), called.to_words()];
                words[10..].copy_from_slice(addresses.as_flattened());
                (1, &[])
            }
            Self::Welcome { .. } => (2, &[]),
            Self::Refused { errno } => (3, &[errno as u32 as u64]),
            Self::Offer(offer) => {
                let Offer { arena, arena_bytes, ring, capacity, inbox, base } = offer;
                (4, &[arena, arena_bytes, ring, u64::from(capacity), inbox, base])
            }
            // 5 and 6 were messages of earlier versions.
            Self::End => (7, &[]),
            Self::Close => (8, &[]),
        };
        words[4..4 + content.len()].copy_from_slice(content);
        [words[0], words[1], words[2]] = [MAGIC, VERSION, kind];
        words
    }

    pub(super) fn from_words(words: &[u64; WORDS]) -> Option<Self> {
        if words[..2] != [MAGIC, VERSION] {
            return None;
        }
        let token = || u128::from(words[4]) | u128::from(words[5]) << 64;
        let ring = || u32::try_from(words[3]).ok();
        let gpu = || {
            let bytes = [words[6], words[7], words[8]].map(u64::to_le_bytes);
            bytes.as_flattened().first_chunk::<17>().copied()
        };
        Some(match words[2] {
            1 => {
                if words[9] != u64::from(ABI_VERSION) {
                    return None;
                }
                let (addresses, _) = words[10..].as_chunks::<ADDRESS_WORDS>();
                let [name, called] = addresses.first_chunk::<2>()?.each_ref();
                let [name, called] = [name, called].map(SocketAddr::from_words);
                Self::Hello { token: token(), gpu: gpu()?, send_ring: ring()?, name, called }
            }
            2 => Self::Welcome { token: token(), gpu: gpu()?, send_ring: ring()? },
            3 => {
                Self::Refused { errno: i32::try_from(words[4]).ok().filter(|number| *number > 0)? }
            }
            4 => Self::Offer(Offer {
                arena: words[4],
                arena_bytes: words[5],
                ring: words[6],
                capacity: u32::try_from(words[7]).ok()?,
                inbox: words[8],
                base: words[9],
            }),
            7 => Self::End,
            8 => Self::Close,
            _ => return None,
        })
    }
}

/// Reads a message and writes it again: the same message.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    let mut words = [0; WORDS];
    for (word, eight) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*eight);
    }
    // Most bytes are of no message: these make it one.
    [words[0], words[1]] = [MAGIC, VERSION];
    words[2] %= 9;
    if words[2] == 1 {
        words[9] = u64::from(ABI_VERSION);
    }
    if let Some(message) = Message::from_words(&words) {
        let again = Message::from_words(&message.to_words());
        assert_eq!(again.map(Message::to_words), Some(message.to_words()));
    }
}
