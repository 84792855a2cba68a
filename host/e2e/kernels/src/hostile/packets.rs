//! Peers of p2p streams that write what no library writes, and kernels that receive from them: packets that
//! are announced under two lengths at once, of which a receiver gets what is the peer's, never what its
//! buffer held before; and a spoiled count of what was received, for which no group waits long.

#![allow(unsafe_code, reason = "names words of the peer's inbox by their address")]

use gpunet_device::abi::bits::{Progress, Tagged, Unit};
use gpunet_device::abi::layout::HEAD_AT;
use gpunet_device::abi::word::Word;
use gpunet_device::calls::grecv;
use gpunet_device::{
    Block, Errno, Group as _, Handle, Listener, Net, Shared, SocketAddr, Stream, Warp, kernel_arg,
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

kernel_arg! {
    /// What the peer does that spoils the count of what was received.
    pub struct SpoiledCount {
        /// As above.
        pub records: Shared<u64>,
        /// Where the receiver listens.
        pub address: SocketAddr,
        /// How long it does so.
        pub spoils_ns: u64,
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
/// In it: nanoseconds that the second of two groups took to receive.
pub const TOOK_NS: usize = 3;
/// Words of that report.
pub const RECEIVER_REPORT: usize = 4;

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

    /// The peer that spoils the count; one thread.
    pub fn spoil_count(net: Net, work: SpoiledCount) {
        spoil(net, &work);
    }

    /// Its receiver: two warps, one after the other, for a byte each.
    pub fn receive_by_two_warps(net: Net, listener: Handle, report: Shared<u64>) {
        let listener = Listener::borrow(net.block(), listener);
        if let Ok(stream) = listener.accept() {
            receive_in_turn(net, stream.into_handle(), report);
        }
    }
}

/// A byte for each warp of the block, and how long the last one waited for it.
fn receive_in_turn(net: Net, stream: Handle, report: Shared<u64>) {
    let warps = Block.size() / Warp.size();
    for turn in 0..warps {
        if Block.rank() / Warp.size() == turn {
            let begun = simt::now_ns();
            let got = grecv(net, Warp, stream, simt::shared_memory().slice(turn, 1), 0);
            if Warp.is_leader() {
                match Errno::check(got) {
                    Ok(bytes) => report.set(RECEIVED, report.get(RECEIVED).unwrap_or(0) + bytes),
                    Err(errno) => report.set(ERROR, errno.0 as u64),
                }
                report.set(TOOK_NS, simt::now_ns() - begun);
            }
        }
        Block.barrier();
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

/// A p2p stream of a peer, as the words that it shares with the receiver.
struct Link {
    /// What the receiver says of how much it has received.
    head: Word,
    /// What the peer says of how much it has sent.
    tail: Word,
    /// Address of the receiver's packet area.
    units: u64,
    /// Bytes that were sent and received.
    begin: u64,
}

impl Link {
    /// Connects, and sends a byte as others do, which is received until then.
    fn new(net: Net, records: Shared<u64>, address: &SocketAddr, until: u64) -> Option<Self> {
        let stream = Stream::connect(net.block(), address).ok()?;
        stream.write_all([SENT].as_slice()).ok()?;
        let handle = stream.into_handle();
        let layout = net.layout();
        let slots = layout.socket_slots as usize;
        let record = layout.record(handle.shard() as usize * slots + handle.slot() as usize);
        let address =
            |at: usize| word(records, record + at).map(|word| Tagged(word.load()).value());
        let (inbox, tail) = (address(INBOX)?, at(address(TAIL)?));
        let head = at(inbox + 8 * HEAD_AT as u64);
        let begin = Progress(tail.load()).count();
        let link = Self { head, tail, units: address(UNITS)?, begin };
        while link.taken() != begin {
            if simt::now_ns() > until {
                return None;
            }
            simt::pause();
        }
        Some(link)
    }

    /// Bytes that were received.
    fn taken(&self) -> u64 {
        Progress(self.head.load()).count()
    }

    /// Writes a packet of so many bytes, but not that it is there.
    fn fill(&self, bytes: u64) {
        for unit in 0..bytes.div_ceil(4) {
            let filled = Unit::new(u32::from_ne_bytes([SENT; 4]), self.begin);
            at(self.units + 8 * unit).store(filled.0);
        }
    }

    /// Says that there is a packet of so many bytes.
    fn announce(&self, bytes: u64) {
        self.tail.store(Progress::new(self.begin + bytes, Progress::PACKET).0);
    }
}

/// A packet again and again, under two lengths; how many were received.
fn announce(net: Net, work: &TwoLengths) -> Option<u64> {
    let until = simt::now_ns() + work.limit_ns;
    let mut link = Link::new(net, work.records, &work.address, until)?;
    let mut rounds = 0;
    while rounds < work.rounds && simt::now_ns() < until {
        link.fill(work.long);
        while link.taken() == link.begin && simt::now_ns() < until {
            for length in [work.short, work.long] {
                link.announce(length);
                simt::pause();
            }
        }
        link.begin = link.taken();
        rounds += 1;
    }
    link.tail.store(Progress::new(link.begin, Progress::ENDED).0);
    Some(rounds)
}

/// A byte as a packet, and meanwhile a count of what was received that is never right.
fn spoil(net: Net, work: &SpoiledCount) -> Option<()> {
    let until = simt::now_ns() + work.spoils_ns;
    let link = Link::new(net, work.records, &work.address, until)?;
    link.fill(1);
    link.head.store(Progress::new(link.begin + 77, 0).0);
    link.announce(1);
    while simt::now_ns() < until {
        link.head.store(Progress::new(link.begin + 77, 0).0);
        simt::pause();
    }
    Some(())
}

/// The word at an address of the record.
fn at(address: u64) -> Word {
    // SAFETY: the record has the address of such a word; the receiver's inbox outlives this kernel, whose
    // stream is open.
    unsafe { Word::at(core::ptr::with_exposed_provenance_mut(address as usize)) }
}
