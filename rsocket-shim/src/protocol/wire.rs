//! What goes over the wire besides data: private data, immediate data, target entries. Bytes in,
//! values out; nothing here has state.

use crate::work::Target;

/// Bytes of private data, without the header that an AF_IB request has before it.
pub const PRIVATE_DATA_BYTES: usize = 40;
/// Bytes of an entry of a target list.
pub(super) const ENTRY_BYTES: u32 = 16;
/// Entries of a target list.
pub(super) const ENTRIES: usize = 2;
/// Most bytes that one message can announce.
const MESSAGE_BYTES: u32 = (1 << OPERATION_SHIFT) - 1;

const VERSION: u8 = 1;
/// Of the flags: the sender of the private data wants entries in big-endian order. The next bit
/// says that it takes part in direct writes to mapped memory, which we do not.
const BIG_ENDIAN: u8 = 1;

const OPERATION_SHIFT: u32 = 29;
const SGL: u32 = 4;
const CONTROL: u32 = 7;
/// Operations that say nothing we need: the peer's internal one, and maps of direct writes.
const UNHEEDED: [u32; 2] = [2, 6];
const DISCONNECT: u32 = 0;
const SHUTDOWN: u32 = 2;

/// In which order somebody wants to find the numbers of its target entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Lowest byte first.
    Little,
    /// Highest byte first.
    Big,
}

impl ByteOrder {
    /// This machine's.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

/// What both sides send one another when they connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    /// In which order its target entries are to be written.
    pub(super) order: ByteOrder,
    /// How many messages with data it takes before it has said more.
    pub(super) credits: u16,
    /// Where its target list is. The length is that of the list, in bytes.
    pub(super) list: Target,
    /// Where the first data goes.
    pub(super) buffer: Target,
}

/// Why private data is refused. All of these are the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Too short to be rsocket's.
    #[error("the peer sent {0} bytes of private data, not 40: it does not use rsocket")]
    Short(usize),
    /// Another version.
    #[error("the peer uses version {0} of rsocket: only version 1 is known")]
    Version(u8),
    /// A list that is not of two entries.
    #[error("the peer's target list has {0} entries: rsocket's has 2")]
    Entries(u32),
    /// It takes no messages.
    #[error("the peer takes no messages: give it a receive queue")]
    NoCredits,
    /// It takes no bytes.
    #[error("the peer has no room for data: give it a receive buffer")]
    NoBuffer,
}

impl Handshake {
    /// As private data.
    pub(super) fn encode(&self) -> [u8; PRIVATE_DATA_BYTES] {
        let mut bytes = [0; PRIVATE_DATA_BYTES];
        bytes[0] = VERSION;
        bytes[1] = if self.order == ByteOrder::Big { BIG_ENDIAN } else { 0 };
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        let list = Target { length: self.list.length / ENTRY_BYTES, ..self.list };
        bytes[8..24].copy_from_slice(&encode_entry(list, ByteOrder::Big));
        bytes[24..].copy_from_slice(&encode_entry(self.buffer, ByteOrder::Big));
        bytes
    }

    /// From private data, which may be padded: the connection manager does not say how much of it
    /// was given.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Refused> {
        let data: &[u8; PRIVATE_DATA_BYTES] =
            bytes.first_chunk().ok_or(Refused::Short(bytes.len()))?;
        if data[0] != VERSION {
            return Err(Refused::Version(data[0]));
        }
        let order = if data[1] & BIG_ENDIAN == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let credits = u16::from_be_bytes([data[2], data[3]]);
        let list = decode_entry(array(&data[8..24]), ByteOrder::Big);
        let buffer = decode_entry(array(&data[24..]), ByteOrder::Big);
        if list.length != ENTRIES as u32 {
            return Err(Refused::Entries(list.length));
        }
        if credits == 0 {
            return Err(Refused::NoCredits);
        }
        if buffer.length == 0 {
            return Err(Refused::NoBuffer);
        }
        let list = Target { length: list.length * ENTRY_BYTES, ..list };
        Ok(Self { order, credits, list, buffer })
    }
}

/// What immediate data says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// So many bytes were written where the receiver had allowed it.
    Data(u32),
    /// Up to which message, counted from the first, the peer may send; and that its target list
    /// may have changed.
    Limit(u16),
    /// The sender will send no more data.
    Shutdown,
    /// The sender is leaving.
    Disconnect,
}

impl Message {
    /// As immediate data, in the host's order. Data has at most [`MESSAGE_BYTES`].
    pub(super) fn encode(self) -> u32 {
        match self {
            Self::Data(bytes) => bytes & MESSAGE_BYTES,
            Self::Limit(limit) => SGL << OPERATION_SHIFT | u32::from(limit),
            Self::Shutdown => CONTROL << OPERATION_SHIFT | SHUTDOWN,
            Self::Disconnect => CONTROL << OPERATION_SHIFT | DISCONNECT,
        }
    }

    /// From immediate data, in the host's order; none where it says nothing that we need. Reserved
    /// operations are data.
    pub(super) fn decode(immediate: u32) -> Option<Self> {
        let value = immediate & MESSAGE_BYTES;
        match (immediate >> OPERATION_SHIFT, value) {
            // The peer may count further than 16 bits: the limit is what remains of it.
            (SGL, _) => Some(Self::Limit(value as u16)),
            (CONTROL, DISCONNECT) => Some(Self::Disconnect),
            (CONTROL, SHUTDOWN) => Some(Self::Shutdown),
            (CONTROL, _) => None,
            (operation, _) if UNHEEDED.contains(&operation) => None,
            _ => Some(Self::Data(value)),
        }
    }
}

/// A target entry, in the order of whom it is written to.
pub(super) fn encode_entry(target: Target, order: ByteOrder) -> [u8; ENTRY_BYTES as usize] {
    let mut bytes = [0; ENTRY_BYTES as usize];
    let (address, key, length) = match order {
        ByteOrder::Little => {
            (target.address.to_le_bytes(), target.key.to_le_bytes(), target.length.to_le_bytes())
        }
        ByteOrder::Big => {
            (target.address.to_be_bytes(), target.key.to_be_bytes(), target.length.to_be_bytes())
        }
    };
    bytes[..8].copy_from_slice(&address);
    bytes[8..12].copy_from_slice(&key);
    bytes[12..].copy_from_slice(&length);
    bytes
}

/// The target that an entry names.
pub(super) fn decode_entry(bytes: [u8; ENTRY_BYTES as usize], order: ByteOrder) -> Target {
    let (address, key, length) = (array(&bytes[..8]), array(&bytes[8..12]), array(&bytes[12..]));
    match order {
        ByteOrder::Little => Target {
            address: u64::from_le_bytes(address),
            key: u32::from_le_bytes(key),
            length: u32::from_le_bytes(length),
        },
        ByteOrder::Big => Target {
            address: u64::from_be_bytes(address),
            key: u32::from_be_bytes(key),
            length: u32::from_be_bytes(length),
        },
    }
}

/// The first bytes of a slice that is known to have them.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}
