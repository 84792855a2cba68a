//! A peer that announces one packet of a p2p stream under two lengths at once, and a kernel that receives
//! from it. Whatever the receiver gets then is the peer's, never what its buffer held before.

#![allow(unsafe_code, reason = "names words of the peer's inbox by their address")]

use gpunet_device::abi::bits::{Progress, Tagged, Unit};
use gpunet_device::abi::layout::HEAD_AT;
use gpunet_device::abi::word::Word;
use gpunet_device::{
    Block, Errno, Group as _, Handle, Listener, Net, Shared, SocketAddr, Stream, kernel_arg,
    kernels, simt,
};

use super::word;

kernel_arg! {
    /// What the peer does.
    pub struct TwoLengths {
        /// Words of its net in GPU memory: the socket's record says where the receiver's inbox is.
        pub records: Shared<u64>,
        /// Where the receiver listens.
        pub address: SocketAddr,
        /// Bytes of the packet, one way ...
        pub short: u64,
        /// ... and the other.
        pub long: u64,
        /// Packets.
        pub rounds: u64,
        /// When it ends, however many there were.
        pub limit_ns: u64,
        /// Packets that were received.
        pub report: Shared<u64>,
    }
}

/// What the peer sends.
pub const SENT: u8 = 0x11;
/// What stands in the receiver's buffer.
pub const KEPT: u8 = 0xEE;
/// In the receiver's report: bytes received.
pub const RECEIVED: usize = 0;
/// In it: bytes that nobody sent.
pub const UNSENT: usize = 1;
/// In it: the error number that ended it.
pub const ERROR: usize = 2;
/// Words of that report.
pub const RECEIVER_REPORT: usize = 3;

/// Words of a record, as `record.rs` of the device crate has them.
const INBOX: usize = 9;
const TAIL: usize = 11;
const UNITS: usize = 12;

kernels! {
    /// The peer; one thread.
    pub fn announce_two_lengths(net: Net, work: TwoLengths) {
        if let Some(rounds) = announce(net, &work) {
            work.report.set(0, rounds);
        }
    }

    /// The receiver; its buffer is the block's shared memory.
    pub fn receive_two_lengths(net: Net, listener: Handle, report: Shared<u64>) {
        let listener = Listener::borrow(net.block(), listener);
        let result = listener.accept().and_then(|stream| receive(&stream, report));
        if let (true, Err(errno)) = (Block.is_leader(), result) {
            report.set(ERROR, errno.0 as u64);
        }
    }
}

/// Receives until the stream ends, and counts what nobody sent.
fn receive(stream: &Stream, report: Shared<u64>) -> Result<(), Errno> {
    let buffer = simt::shared_memory();
    let (rank, size) = (Block.rank(), Block.size());
    loop {
        for at in (rank..buffer.len()).step_by(size) {
            buffer.set(at, KEPT);
        }
        let got = stream.read(buffer)?;
        if got == 0 {
            return Ok(());
        }
        if Block.is_leader() {
            let unsent = (0..got).filter(|at| buffer.get(*at) == Some(KEPT)).count();
            let add = |at: usize, more: usize| {
                report.set(at, report.get(at).unwrap_or(0) + more as u64);
            };
            add(RECEIVED, got);
            add(UNSENT, unsent);
        }
        Block.barrier();
    }
}

/// Connects, sends a byte as others do, and then goes its own way.
fn announce(net: Net, work: &TwoLengths) -> Option<u64> {
    let stream = Stream::connect(net.block(), &work.address).ok()?;
    stream.write_all([SENT].as_slice()).ok()?;
    let handle = stream.into_handle();
    let layout = net.layout();
    let socket = handle.shard() as usize * layout.socket_slots as usize + handle.slot() as usize;
    let address = |at: usize| {
        word(work.records, layout.record(socket) + at).map(|word| Tagged(word.load()).value())
    };
    let (inbox, tail, units) = (address(INBOX)?, address(TAIL)?, address(UNITS)?);
    let taken = || Progress(at(inbox + 8 * HEAD_AT as u64).load()).count();
    let until = simt::now_ns() + work.limit_ns;
    let (mut begin, mut rounds) = (Progress(at(tail).load()).count(), 0);
    while taken() != begin {
        if simt::now_ns() > until {
            return None;
        }
        simt::pause();
    }
    while rounds < work.rounds && simt::now_ns() < until {
        for unit in 0..work.long.div_ceil(4) {
            at(units + 8 * unit).store(Unit::new(u32::from_ne_bytes([SENT; 4]), begin).0);
        }
        while taken() == begin && simt::now_ns() < until {
            for length in [work.short, work.long] {
                at(tail).store(Progress::new(begin + length, Progress::PACKET).0);
                simt::pause();
            }
        }
        begin = taken();
        rounds += 1;
    }
    at(tail).store(Progress::new(begin, Progress::ENDED).0);
    Some(rounds)
}

/// The word at an address of the record.
fn at(address: u64) -> Word {
    // SAFETY: the record has the address of such a word; the receiver's inbox outlives this kernel, whose
    // stream is open.
    unsafe { Word::at(core::ptr::with_exposed_provenance_mut(address as usize)) }
}
