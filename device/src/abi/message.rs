//! Requests and replies: what goes through a request slot.
//!
//! A request is 256 bytes: operation and launch, handle, four numbers, then an address or text. A
//! reply is 128 bytes: result, a number, an address.

use super::address::{ADDRESS_WORDS, SocketAddr};
use super::handle::Handle;

/// Words of a request.
pub const REQUEST_WORDS: usize = 32;
/// Words of a reply.
pub const REPLY_WORDS: usize = 16;
/// Where in a request its payload begins.
pub const PAYLOAD_AT: usize = 6;
/// Where in a reply its address begins.
pub const ADDRESS_AT: usize = 2;
const HEAD: usize = PAYLOAD_AT;
/// Bytes of text that a request can carry.
pub const MAX_TEXT: usize = (REQUEST_WORDS - HEAD) * 8;

/// What a kernel asks the proxy for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Operation {
    /// Make a socket: numbers are domain, type, protocol. The reply's number is its handle.
    Socket = 1,
    /// Bind to the address.
    Bind = 2,
    /// Listen; number 0 is the backlog.
    Listen = 3,
    /// Begin to connect to the address; the status word says how it ends.
    Connect = 4,
    /// Shut down: number 0 is 0 (receive), 1 (send) or 2 (both).
    Shutdown = 5,
    /// Close. What is unsent is sent first.
    Close = 6,
    /// The peer's address.
    PeerName = 7,
    /// The socket's own address.
    SocketName = 8,
    /// Set an option: numbers are option and value.
    SetOption = 9,
    /// Read an option: number 0 is the option. The reply's number is the value.
    GetOption = 10,
    /// The time: the reply's number is nanoseconds since 1970.
    Time = 11,
    /// Print the text; number 0 is its length.
    Print = 12,
    /// Make a poller. The reply's number is its handle.
    Poller = 13,
    /// Watch a socket: the handle is the poller's; numbers are the socket, the events (0: stop
    /// watching) and the token that comes back with them.
    Watch = 14,
    /// Memory for a poller's list of p2p streams: the handle is the poller's. The reply's number is the page of
    /// the window where it begins, plus 1; 0: the net has no such streams.
    WatchList = 15,
}

impl Operation {
    /// The operation with that number.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Socket,
            2 => Self::Bind,
            3 => Self::Listen,
            4 => Self::Connect,
            5 => Self::Shutdown,
            6 => Self::Close,
            7 => Self::PeerName,
            8 => Self::SocketName,
            9 => Self::SetOption,
            10 => Self::GetOption,
            11 => Self::Time,
            12 => Self::Print,
            13 => Self::Poller,
            14 => Self::Watch,
            15 => Self::WatchList,
            _ => return None,
        })
    }
}

/// A request, as words.
#[derive(Clone, Copy, Debug)]
pub struct Request(pub [u64; REQUEST_WORDS]);

impl Request {
    /// A request without payload.
    #[inline(always)]
    pub const fn new(operation: Operation, launch: u32, handle: Handle, numbers: [u64; 4]) -> Self {
        let mut words = [0; REQUEST_WORDS];
        words[0] = operation as u64 | (launch as u64) << 32;
        words[1] = handle.0;
        words[2] = numbers[0];
        words[3] = numbers[1];
        words[4] = numbers[2];
        words[5] = numbers[3];
        Self(words)
    }

    /// The operation's number, as it was written.
    pub const fn operation(&self) -> Option<Operation> {
        Operation::from_number(self.0[0] as u32)
    }

    /// The launch that asks.
    pub const fn launch(&self) -> u32 {
        (self.0[0] >> 32) as u32
    }

    /// The socket it is about.
    pub const fn handle(&self) -> Handle {
        Handle(self.0[1])
    }

    /// One of the four numbers.
    pub const fn number(&self, index: usize) -> u64 {
        self.0[2 + index]
    }

    /// The address in the payload.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from_words(&core::array::from_fn(|index| self.0[HEAD + index]))
    }

    /// Puts an address into the payload.
    #[inline(always)]
    #[must_use]
    pub fn with_address(mut self, address: &SocketAddr) -> Self {
        for (index, word) in address.to_words().into_iter().enumerate() {
            self.0[HEAD + index] = word;
        }
        self
    }

    /// One byte of the text in the payload.
    pub const fn text_byte(&self, at: usize) -> u8 {
        (self.0[HEAD + at / 8] >> (at % 8 * 8)) as u8
    }

    /// Puts a byte of text into the payload, which was zero there.
    #[inline(always)]
    pub const fn set_text_byte(&mut self, at: usize, byte: u8) {
        self.0[HEAD + at / 8] |= (byte as u64) << (at % 8 * 8);
    }
}

/// A reply, as words.
#[derive(Clone, Copy, Debug)]
pub struct Reply(pub [u64; REPLY_WORDS]);

impl Reply {
    /// Result (0 or a negative error number), a number, an address.
    pub fn new(result: i64, number: u64, address: &SocketAddr) -> Self {
        let mut words = [0; REPLY_WORDS];
        words[0] = result as u64;
        words[1] = number;
        words[2..].copy_from_slice(&address.to_words());
        Self(words)
    }

    /// 0 or a negative error number.
    #[inline(always)]
    pub const fn result(&self) -> i64 {
        self.0[0] as i64
    }

    /// The number.
    #[inline(always)]
    pub const fn number(&self) -> u64 {
        self.0[1]
    }

    /// The address.
    #[inline(always)]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from_words(&core::array::from_fn(|index| self.0[2 + index]))
    }
}

const _: () = assert!(2 + ADDRESS_WORDS == REPLY_WORDS && HEAD + ADDRESS_WORDS <= REQUEST_WORDS);
