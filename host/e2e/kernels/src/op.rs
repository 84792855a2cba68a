//! What a script is made of, as host and kernel share it.

use gpunet_device::calls::PollFd;
use gpunet_device::{Event, Shared, SocketAddr, kernel_arg};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// What an op does. `a`, `b`, `c` and the other fields are those of [`Op`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Code { $($(#[$doc])* $name = $number,)* }

        impl Code {
            /// The code with that number.
            #[inline(always)]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }
    };
}

codes! {
    /// `gsocket`: domain `a`, kind `b`, protocol `c`; the handle goes into the register.
    Socket = 1,
    /// `gbind` to address `a`.
    Bind = 2,
    /// `glisten` with backlog `a`.
    Listen = 3,
    /// `gaccept`; the handle goes into register `a`.
    Accept = 4,
    /// `gconnect` to address `a`.
    Connect = 5,
    /// `Listener::bind` at address `a`; the handle goes into the register.
    ListenerBind = 6,
    /// `Stream::connect_with_rings` to address `a` with rings of `b` bytes; into the register.
    StreamConnect = 7,
    /// `gsend` of `length` bytes of the pattern.
    Send = 8,
    /// `grecv` of at most `length` bytes, which must be the pattern's.
    Recv = 9,
    /// `Stream::write_all`, in pieces of `length`, until `a` bytes of the pattern are sent.
    SendAll = 10,
    /// `grecv`, in pieces of `length`, until `a` bytes of the pattern have come, or the end.
    RecvAll = 11,
    /// `Stream::read_exact` of `length` bytes of the pattern.
    ReadExact = 12,
    /// `Stream::peek` at `a` bytes or more, of which `b` are consumed.
    Peek = 13,
    /// `Stream::reserve` of `a` to `b` bytes, of which `c` are filled and committed.
    Reserve = 14,
    /// Sends back what comes, in pieces of `length`, to the end of the stream.
    Echo = 15,
    /// `gshutdown`, how: `a`.
    Shutdown = 16,
    /// `gclose`.
    Close = 17,
    /// `gsetsockopt`: option `a`, value `b`.
    SetOption = 18,
    /// `ggetsockopt`: option `a`.
    GetOption = 19,
    /// `ggetpeername`: 1 if it is address `a`.
    PeerName = 20,
    /// `ggetsockname`: 1 if it is address `a`.
    SocketName = 21,
    /// `ggetsockname`, kept as address `a`.
    KeepName = 22,
    /// Puts the register, looking for events `b`, into place `a` of the poll set.
    PollSet = 23,
    /// `gpoll` of the first `a` places, for `b` milliseconds.
    Poll = 24,
    /// What the last poll found at place `a`.
    PollResult = 25,
    /// `Poller::new`; with `a` 1 its handle is kept in the register.
    PollerNew = 26,
    /// `Poller::add`: the register, events `a`, token `b`.
    PollerAdd = 27,
    /// `Poller::remove`: the register.
    PollerRemove = 28,
    /// `Poller::wait` for at most `a` events, `b` nanoseconds.
    PollerWait = 29,
    /// Event `a` of the last wait: `token << 16 | events`.
    PollerEvent = 30,
    /// Accepts `b` connections into the registers from `a` on, and adds each to the poller with
    /// events `c` and its register as token.
    PollerAccept = 31,
    /// Echoes on the sockets of the poller, in pieces of `length`, until `a` of them were closed;
    /// each wait takes at most `b` nanoseconds.
    PollerServe = 32,
    /// Drops the poller.
    PollerClose = 33,
    /// `ggettimeofday`.
    Time = 34,
    /// `gprint` of `a` letters.
    Print = 35,
    /// Waits for `a` nanoseconds.
    Sleep = 36,
    /// Waits until flag `a` is `b` or more, at most `c` nanoseconds; its value.
    WaitFlag = 37,
    /// The same, and the value becomes the register's handle.
    ReceiveHandle = 38,
    /// Sets flag `a` to `b`.
    SetFlag = 39,
    /// Sets flag `a` to the register's handle.
    GiveHandle = 40,
    /// Copies register `a` into the register.
    Copy = 41,
    /// Panics (`a` = 0), reads beyond an array (1), or stores to an address that is not there (2).
    Fault = 42,
    /// Breaks the rules of groups, in manner `a`; see `wrong.rs`.
    Diverge = 43,
    /// Holds a peek of the stream (`a` = 0) or a reserved space (1) for `b` nanoseconds.
    Hold = 44,
    /// `gsend` with flags `a` of no bytes.
    SendFlags = 45,
    /// `grecv` with flags `a` of no bytes.
    RecvFlags = 46,
    /// `Stream::peek` at `a` bytes or more, of which `Peek::copy_to` copies `length` from byte `b` on;
    /// `c` are consumed. How many were copied.
    PeekCopy = 47,
    /// `Stream::reserve` of `length` bytes, into which `Reserve::copy_from` copies what is behind byte
    /// `b` of a buffer, and then what is before it; all is committed. How many were copied.
    ReserveCopy = 48,
    /// `Listener::bind_with` at address `a` with backlog `b` and flags `c`: the sum of 1 (reuse_port),
    /// 2 (nonblocking) and 4 (only_v6); the handle goes into the register.
    ListenerBindWith = 49,
    /// `Listener::borrow` and `Listener::accept`; the handle goes into register `a`.
    BorrowAccept = 50,
    /// As `Hold`, for `b` nanoseconds after flag `length` was set, which takes at most `c` nanoseconds. Sets the
    /// flag after that one once it holds it.
    HoldPast = 51,
}

/// What an op returns when received bytes are not the pattern's, or bytes beside the buffer were
/// touched. No error number is as low.
pub const WRONG_BYTES: i64 = -1_000_000;

/// The result of an op that was not reached.
pub const NOT_RUN: i64 = i64::MIN;

/// Where an op's buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Space {
    /// GPU memory.
    Global = 0,
    /// The block's shared memory.
    Shared = 1,
    /// The thread's own memory; sending from any group, receiving by a single thread.
    Local = 2,
}

/// Bytes of a buffer in local memory, its alignment included.
pub const LOCAL_BYTES: usize = 320;

/// Bytes before and behind a buffer that a receive must leave alone.
pub const GUARD: usize = 16;

/// One step of a script.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Op {
    /// A [`Code`].
    pub code: u32,
    /// The register it works on.
    pub register: u32,
    /// First argument.
    pub a: u64,
    /// Second argument.
    pub b: u64,
    /// Third argument.
    pub c: u64,
    /// Bytes of the buffer.
    pub length: u64,
    /// Seed of the pattern.
    pub seed: u64,
    /// A [`Space`].
    pub space: u32,
    /// Where the buffer starts in its space.
    pub offset: u32,
    /// Flags of `gsend` and `grecv`.
    pub flags: u32,
    /// Unused.
    pub reserved: u32,
    /// The script goes on if the result is not less than this ...
    pub least: i64,
    /// ... and not more than this.
    pub most: i64,
}

/// What an op came to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Outcome {
    /// Its result.
    pub result: i64,
    /// How long it took.
    pub elapsed_ns: u64,
}

/// A socket of a script, with how far its streams are.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Register {
    /// The socket's handle.
    pub handle: u64,
    /// Bytes of the pattern sent.
    pub sent: u64,
    /// Bytes of the pattern received.
    pub received: u64,
}

/// A script's ops.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Span {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

kernel_arg! {
    /// Everything that a launch runs: a script for each group, in the order of their ranks.
    pub struct Program {
        /// The ops of all scripts.
        pub ops: Shared<Op>,
        /// Which of them each group runs.
        pub scripts: Shared<Span>,
        /// An outcome for each op.
        pub outcomes: Shared<Outcome>,
        /// Registers of all groups.
        pub registers: Shared<Register>,
        /// Registers of each.
        pub registers_each: u64,
        /// Poll sets of all groups, as large as the registers.
        pub polls: Shared<PollFd>,
        /// Events of all groups, likewise.
        pub events: Shared<Event>,
        /// Addresses.
        pub addresses: Shared<SocketAddr>,
        /// Buffers of all groups.
        pub memory: Shared<u8>,
        /// Bytes of each.
        pub memory_each: u64,
        /// Bytes of shared memory that each group of a block takes.
        pub shared_each: u64,
        /// Flags, for groups, launches and the host to order one another.
        pub flags: Shared<u64>,
        /// Memory that is not there, for scripts that fault.
        pub nowhere: Shared<u8>,
    }
}
