//! Floors: the best exchanges known between two blocks of one GPU, and between a block and a thread of the CPU
//! that polls. No sockets: both ends know length and order, and keep all state in registers.
//!
//! A message begins and ends in memory of each end's own: shared memory, or, where that has no room for it, GPU
//! memory (the kernels named `far`). It travels in one of two ways:
//!
//! - **By packets**, of 16 bytes: eight of the message, and eight with the number of the round, by which the
//!   receiver knows that the packet is there. No fence, no flag, and twice the bytes. It relies on 16-byte
//!   accesses being whole, as they are on NVIDIA GPUs and across PCIe.
//! - **By a flag**: the bytes, a barrier, and a release store of the number by one thread, which the receiver
//!   polls with acquire.
//!
//! Numbers go on from launch to launch, so that no memory has to be cleared in between. A number that does not
//! come in time ends the work with ETIMEDOUT. Every byte that comes back is checked, outside the measured time.

#![allow(unsafe_code, reason = "reads and writes wires without a check of each access")]

mod access;

use gpunet_device::{Block, Errno, Group, Net, Shared, SharedBuf, kernel_arg, kernels, simt};
use gpunet_support::pattern;

use crate::client::{Clock, SEED, hand_over, kept_samples};
use access::{Far, Near, Own};

/// Words from the flag of one direction to that of the other: far apart, as those of two streams are.
pub const FLAGS_APART: usize = 512;
/// Polls of one number before its writer is given up: some ten seconds.
const POLLS: u32 = 1 << 23;
/// 16-byte loads in flight of a thread that polls packets of another block.
const NEAR_PACKETS: usize = 4;
/// The same across PCIe, where each takes longer.
const PINNED_PACKETS: usize = 8;

kernel_arg! {
    /// What the ends of an exchange do.
    pub struct Exchange {
        /// Bytes of a message.
        pub bytes: u64,
        /// Round trips.
        pub rounds: u64,
        /// The number before that of the first round: larger than all of earlier launches.
        pub base: u64,
    }
}

kernel_arg! {
    /// What lies between the two ends. The first half of each is for messages to the second end, the second half
    /// for those to the first.
    pub struct Wires {
        /// Packets: twice the bytes of a message in each half. Nothing else is ever written here.
        pub packets: SharedBuf,
        /// Messages that a flag tells of, rounded up to 16 bytes.
        pub lines: SharedBuf,
        /// The flags, [`FLAGS_APART`].
        pub flags: Shared<u64>,
    }
}

kernels! {
    /// Two blocks exchange messages by packets; the first one measures.
    pub fn floor_packets(
        net: Net,
        work: Exchange,
        wires: Wires,
        samples: Shared<u64>,
        report: Shared<u64>,
    ) {
        two_blocks::<Packets<NEAR_PACKETS>, Near>(net, &work, wires, SharedBuf::EMPTY, (samples, report));
    }

    /// Two blocks exchange messages by a flag; the first one measures.
    pub fn floor_flags(
        net: Net,
        work: Exchange,
        wires: Wires,
        samples: Shared<u64>,
        report: Shared<u64>,
    ) {
        two_blocks::<Flag<false>, Near>(net, &work, wires, SharedBuf::EMPTY, (samples, report));
    }

    /// The same with messages of the blocks' own in GPU memory: three of them.
    pub fn floor_flags_far(
        net: Net,
        work: Exchange,
        wires: Wires,
        own: SharedBuf,
        samples: Shared<u64>,
        report: Shared<u64>,
    ) {
        two_blocks::<Flag<false>, Far>(net, &work, wires, own, (samples, report));
    }

    /// Answers the CPU: packets in, packets out.
    pub fn pinned_packets(net: Net, work: Exchange, wires: Wires) {
        let _ = net;
        let wires = wires.toward_second();
        answer::<Packets<PINNED_PACKETS>, Packets<PINNED_PACKETS>, Near>(
            &work, wires, simt::shared_memory());
    }

    /// Answers the CPU: a flag in, packets out.
    pub fn pinned_flag_in(net: Net, work: Exchange, wires: Wires) {
        let _ = net;
        let wires = wires.toward_second();
        answer::<Flag<true>, Packets<PINNED_PACKETS>, Near>(&work, wires, simt::shared_memory());
    }

    /// Answers the CPU: a flag in, a flag out.
    pub fn pinned_flags(net: Net, work: Exchange, wires: Wires) {
        let _ = net;
        answer::<Flag<true>, Flag<true>, Near>(&work, wires.toward_second(), simt::shared_memory());
    }

    /// The same with a message of the block's own in GPU memory.
    pub fn pinned_flags_far(net: Net, work: Exchange, wires: Wires, own: SharedBuf) {
        let _ = net;
        answer::<Flag<true>, Flag<true>, Far>(&work, wires.toward_second(), own);
    }
}

/// One direction.
#[derive(Clone, Copy)]
struct Wire {
    packets: *mut u8,
    lines: *mut u8,
    flag: *mut u64,
}

impl Wires {
    /// The wires to the first end and to the second.
    #[inline(always)]
    fn both(self) -> [Wire; 2] {
        let wire = |half: usize| Wire {
            packets: self.packets.slice(half * (self.packets.len() / 2), usize::MAX).as_ptr(),
            lines: self.lines.slice(half * (self.lines.len() / 2), usize::MAX).as_ptr(),
            flag: self.flags.slice(half * FLAGS_APART, 1).as_ptr(),
        };
        [wire(1), wire(0)]
    }

    /// As the second end has them: those that bring messages, and those that take them away.
    #[inline(always)]
    fn toward_second(self) -> (Wire, Wire) {
        let [to_first, to_second] = self.both();
        (to_second, to_first)
    }
}

/// How a message travels from and to a block's own memory. All threads of the block call it; sends begin after a
/// barrier.
trait Travel<O: Own> {
    /// Sends a message.
    fn send(own: O, to: Wire, bytes: usize, number: u64);
    /// Receives one; whether all of this thread's share has come. Ends with a barrier.
    fn receive(own: O, from: Wire, bytes: usize, number: u64, patient: bool) -> bool;
}

/// The exchange by packets, with this many loads of each thread in flight.
struct Packets<const IN_FLIGHT: usize>;

/// The exchange by a flag, released to this GPU or to the whole system.
struct Flag<const SYSTEM: bool>;

/// Repeats code for each of these numbers, as a constant: what it indexes by it stays in registers.
macro_rules! each {
    ($name:ident in $($number:literal)* => $code:block) => {
        $( { #[allow(dead_code)] const $name: usize = $number; $code } )*
    };
}

impl<const IN_FLIGHT: usize> Travel<Near> for Packets<IN_FLIGHT> {
    #[inline(always)]
    fn send(own: Near, to: Wire, bytes: usize, number: u64) {
        let (packets, threads) = (bytes.div_ceil(8) as u32, access::threads());
        let mut at = access::thread();
        while at < packets {
            let mut payload = [0; 4];
            each!(K in 0 1 2 3 => {
                payload[K] = own.load_word_if(at + K as u32 * threads < packets, at + K as u32 * threads);
            });
            each!(K in 0 1 2 3 => {
                let at = at + K as u32 * threads;
                // SAFETY: the wire holds all packets of a message. So below.
                unsafe { access::store_packet_if(at < packets, to.packets, at, payload[K], number) };
            });
            at += 4 * threads;
        }
    }

    #[inline(always)]
    fn receive(own: Near, from: Wire, bytes: usize, number: u64, patient: bool) -> bool {
        let (packets, threads) = (bytes.div_ceil(8) as u32, access::threads());
        let mut polls = if patient { POLLS } else { 1 };
        let mut at = access::thread();
        while at < packets {
            let mut payload = [0; 8];
            // Counted: the polls.
            loop {
                let mut missing = 0;
                each!(K in 0 1 2 3 4 5 6 7 => {
                    if K < IN_FLIGHT {
                        let at = at + K as u32 * threads;
                        // SAFETY: as in `send`.
                        let found = unsafe {
                            access::load_packet_if(at < packets, from.packets, at, number)
                        };
                        payload[K] = found[0];
                        missing |= found[1] ^ number;
                    }
                });
                polls -= 1;
                if (missing == 0) | (polls == 0) {
                    break;
                }
                simt::pause();
            }
            each!(K in 0 1 2 3 4 5 6 7 => {
                if K < IN_FLIGHT {
                    let at = at + K as u32 * threads;
                    own.store_word_if(at < packets, at, payload[K]);
                }
            });
            if polls == 0 {
                break;
            }
            at += IN_FLIGHT as u32 * threads;
        }
        access::barrier();
        polls > 0
    }
}

impl<O: Own, const SYSTEM: bool> Travel<O> for Flag<SYSTEM> {
    #[inline(always)]
    fn send(own: O, to: Wire, bytes: usize, number: u64) {
        let load = |yes, at| own.load_line_if(yes, at);
        copy_lines(bytes, load, |yes, at, line| {
            // SAFETY: the wire holds all lines of a message. So below.
            unsafe { access::store_line_if(yes, to.lines, at, line) };
        });
        access::barrier();
        if access::thread() == 0 {
            // Release: pairs with the acquire in `receive`, for the stores of all threads, by the barrier.
            access::store_release::<SYSTEM>(to.flag, number);
        }
    }

    #[inline(always)]
    fn receive(own: O, from: Wire, bytes: usize, number: u64, patient: bool) -> bool {
        let mut polls = if patient { POLLS } else { 1 };
        // Across PCIe many warps that poll one word queue up behind one another.
        if !SYSTEM || access::thread() < 32 {
            // Counted: the polls. Acquire: pairs with the release in `send`.
            while access::load_acquire::<SYSTEM>(from.flag) < number && polls > 1 {
                polls -= 1;
                simt::pause();
            }
        }
        if SYSTEM {
            access::barrier();
        }
        // SAFETY: as in `send`.
        let load = |yes, at| unsafe { access::load_line_if::<SYSTEM>(yes, from.lines, at) };
        copy_lines(bytes, load, |yes, at, line| own.store_line_if(yes, at, line));
        access::barrier();
        polls > 1
    }
}

/// Copies the lines of a message, each thread its share, with eight loads in flight where all threads have as many.
/// These have no conditions, since a thread has seven registers for conditions. All threads take the same turns.
#[inline(always)]
fn copy_lines(
    bytes: usize,
    load: impl Fn(bool, u32) -> [u64; 2],
    store: impl Fn(bool, u32, [u64; 2]),
) {
    let (lines, thread, threads) = (bytes.div_ceil(16) as u32, access::thread(), access::threads());
    let mut first = 0;
    while first + 8 * threads <= lines {
        let mut line = [[0; 2]; 8];
        each!(K in 0 1 2 3 4 5 6 7 => {
            line[K] = load(true, first + thread + K as u32 * threads);
        });
        access::loads_first();
        each!(K in 0 1 2 3 4 5 6 7 => {
            store(true, first + thread + K as u32 * threads, line[K]);
        });
        first += 8 * threads;
    }
    while first < lines {
        let mut line = [[0; 2]; 4];
        each!(K in 0 1 2 3 => {
            let at = first + thread + K as u32 * threads;
            line[K] = load(at < lines, at);
        });
        access::loads_first();
        each!(K in 0 1 2 3 => {
            let at = first + thread + K as u32 * threads;
            store(at < lines, at, line[K]);
        });
        first += 4 * threads;
    }
}

/// What each of the two blocks does.
#[inline(always)]
fn two_blocks<T: Travel<O>, O: Own>(
    net: Net,
    work: &Exchange,
    wires: Wires,
    own: SharedBuf,
    (samples, report): (Shared<u64>, Shared<u64>),
) {
    let _ = net;
    let memory = simt::shared_memory();
    if simt::position().block == 0 {
        let clock = Clock::start();
        let mut done = 0;
        let result = begin::<T, O>(work, wires.both(), (memory, own), samples, &mut done);
        clock.stop(report, result, done, -1);
    } else {
        let third = O::choose(memory, own.slice(own.len() / 3 * 2, usize::MAX));
        answer::<T, T, O>(work, wires.toward_second(), third);
    }
}

/// The end that begins and measures.
#[inline(always)]
fn begin<T: Travel<O>, O: Own>(
    work: &Exchange,
    [to_first, to_second]: [Wire; 2],
    (memory, far): (SharedBuf, SharedBuf),
    samples: Shared<u64>,
    done: &mut u64,
) -> Result<(), Errno> {
    let bytes = work.bytes as usize;
    let (kept, rest) = kept_samples(memory, work.rounds);
    let room = O::choose(rest, far.first(far.len() / 3 * 2));
    let half = room.len() / 2 / 16 * 16;
    let (message, answer) = (room.first(bytes), room.slice(half, bytes));
    if half < bytes.next_multiple_of(16) {
        return Err(Errno::EINVAL);
    }
    let (from, into) = (O::at(message), O::at(answer));
    for round in 1..=work.rounds {
        let (number, position) = (work.base + round, round * work.bytes);
        pattern::fill(Block, message, SEED, position);
        Block.barrier();
        let start = simt::cycles();
        T::send(from, to_second, bytes, number);
        let came = T::receive(into, to_first, bytes, number, true);
        let took = simt::cycles() - start;
        if Block.any(!came) {
            return Err(Errno::ETIMEDOUT);
        }
        if Block.any(!pattern::holds(Block, answer, SEED, position)) {
            return Err(Errno::EIO);
        }
        if Block.is_leader() {
            kept.set(round as usize - 1, took);
        }
        *done = round;
    }
    hand_over(kept, samples, *done);
    Ok(())
}

/// The end that answers. Once a message has not come in time, it waits for none of the others.
#[inline(always)]
fn answer<I: Travel<O>, T: Travel<O>, O: Own>(
    work: &Exchange,
    (from, to): (Wire, Wire),
    own: SharedBuf,
) {
    let bytes = work.bytes as usize;
    if own.len() < bytes.next_multiple_of(16) {
        return;
    }
    let own = O::at(own);
    let mut patient = true;
    for round in 1..=work.rounds {
        let number = work.base + round;
        patient &= I::receive(own, from, bytes, number, patient);
        T::send(own, to, bytes, number);
    }
}
