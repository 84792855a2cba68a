//! Round trips between two kernels, for the suites `sizes` and `waiters` and for p2p streams: a client that
//! measures an echo server, and the bare exchange of bytes and a flag that it is compared with.
//!
//! One block each. Samples stay in shared memory until the end: a store to GPU memory would be for
//! the next release to wait for. Every byte that comes back is checked, outside the measured time.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::abi::word::Word;
use gpunet_device::calls::ggetsockopt;
use gpunet_device::{
    Block, Errno, Group, Handle, Net, Shared, SharedBuf, SocketAddr, Stream, buf, kernel_arg,
    kernels, simt,
};
use gpunet_pattern as pattern;

use crate::p2p::word_at;

/// Words of a report: the result (0 or a negative error number), round trips done, nanoseconds and
/// cycles of the whole work, and the option `Transport` of the connection.
pub const REPORT_WORDS: usize = 5;

/// Stands for the transport of a connection that was never made.
const NOT_CONNECTED: i64 = i64::MIN;

/// Polls of a flag between two looks at the clock.
const POLLS: u32 = 1 << 12;
/// The seed of the bytes.
const SEED: u64 = 0x5EED;

kernel_arg! {
    /// What a measuring client does.
    pub struct Client {
        /// The echo server.
        pub server: SocketAddr,
        /// Bytes of a message.
        pub bytes: u64,
        /// Round trips, at most.
        pub rounds: u64,
        /// Capacity of each ring; at least a message, since all of it is sent before any is read.
        pub ring: u64,
        /// How long one call may wait, nanoseconds.
        pub timeout_ns: u64,
        /// The time after which no further round trip begins, nanoseconds.
        pub limit_ns: u64,
    }
}

kernel_arg! {
    /// What one end of a bare exchange does.
    pub struct Exchange {
        /// Bytes of a message.
        pub bytes: u64,
        /// Round trips.
        pub rounds: u64,
        /// How long one flag may take, nanoseconds.
        pub timeout_ns: u64,
        /// 1 at the end that begins and measures, 0 at the one that answers.
        pub first: u64,
        /// 1: each end copies what has come into memory of its own, as one who receives does; 0: it uses
        /// the bytes where they lie.
        pub copies_out: u64,
    }
}

kernels! {
    /// Sends messages to an echo server, reads each back and checks it. `samples` gets the cycles of
    /// each round trip. A message that shared memory has no room for lies in `memory`, which holds two.
    pub fn measure_echo(
        net: Net,
        work: Client,
        memory: SharedBuf,
        samples: Shared<u64>,
        report: Shared<u64>,
    ) {
        let clock = Clock::start();
        let mut done = 0;
        let mut transport = NOT_CONNECTED;
        let result = echo_rounds(net, &work, memory, samples, (&mut done, &mut transport));
        clock.stop(report, result, done, transport);
    }

    /// Exchanges messages through memory with another launch of this, or with the CPU: each direction is one
    /// copy by all threads, a barrier and a release store of a flag at system scope; the receiver polls
    /// the flag with acquire. `memory` holds two messages: to the second, to the first. `own` holds three of the
    /// kernels' own, for which shared memory may have no room.
    pub fn exchange_bytes(
        net: Net,
        work: Exchange,
        flags: Shared<u64>,
        memory: SharedBuf,
        own: SharedBuf,
        samples: Shared<u64>,
        report: Shared<u64>,
    ) {
        let _ = net;
        // Far apart, as those of two streams are.
        let (ping, pong) = (word_at(flags, 0), word_at(flags, 512));
        if work.first == 0 {
            answer(&work, memory, own, (ping, pong));
        } else {
            let clock = Clock::start();
            let mut done = 0;
            let result = exchange(&work, (memory, own), (ping, pong), samples, &mut done);
            clock.stop(report, result, done, -1);
        }
    }
}

/// Both clocks at the beginning of the work.
struct Clock {
    ns: u64,
    cycles: u64,
}

impl Clock {
    #[inline(always)]
    fn start() -> Self {
        Self { ns: simt::now_ns(), cycles: simt::cycles() }
    }

    #[inline(always)]
    fn stop(self, report: Shared<u64>, result: Result<(), Errno>, done: u64, transport: i64) {
        if Block.is_leader() {
            report.set(0, result.map_or_else(Errno::negative, |()| 0) as u64);
            report.set(1, done);
            report.set(2, simt::now_ns() - self.ns);
            report.set(3, simt::cycles() - self.cycles);
            report.set(4, transport as u64);
        }
    }
}

/// Shared memory as room for samples, and the rest.
#[inline(always)]
fn kept_samples(rounds: u64) -> (Shared<u64>, SharedBuf) {
    let memory = simt::shared_memory();
    let bytes = (rounds as usize * 8).next_multiple_of(16);
    (memory.first(bytes).cast::<u64>(), memory.slice(bytes, usize::MAX))
}

/// Hands the samples of all round trips to the host.
#[inline(always)]
fn hand_over(kept: Shared<u64>, samples: Shared<u64>, rounds: u64) {
    if Block.is_leader() {
        for round in 0..rounds as usize {
            samples.set(round, kept.get(round).unwrap_or(0));
        }
    }
}

/// How a stream goes. Out of line: what is asked once takes no registers from the round trips.
#[inline(never)]
fn transport_of(net: Net, stream: Handle) -> i64 {
    ggetsockopt(net, Block, stream, SocketOption::Transport)
}

#[inline(always)]
fn echo_rounds(
    net: Net,
    work: &Client,
    memory: SharedBuf,
    samples: Shared<u64>,
    (done, transport): (&mut u64, &mut i64),
) -> Result<(), Errno> {
    let bytes = work.bytes as usize;
    let stream = Stream::connect_with_rings(net.block(), &work.server, work.ring, work.ring)?;
    stream.set_read_timeout(work.timeout_ns)?;
    stream.set_write_timeout(work.timeout_ns)?;
    *transport = transport_of(net, stream.handle());
    let (kept, rest) = kept_samples(work.rounds);
    let room = if rest.len() / 2 >= bytes.next_multiple_of(16) { rest } else { memory };
    let half = room.len() / 2 / 16 * 16;
    let (message, answer) = (room.first(bytes.min(half)), room.slice(half, bytes));
    if message.len() < bytes || answer.len() < bytes {
        return Err(Errno::EINVAL);
    }
    let end = simt::now_ns().saturating_add(work.limit_ns);
    for round in 0..work.rounds {
        let position = round * work.bytes;
        pattern::fill(Block, message, SEED, position);
        // The threads' clocks differ, and all of them must go on or stop.
        if Block.any(simt::now_ns() > end) {
            break;
        }
        let start = simt::cycles();
        stream.write_all(message)?;
        stream.read_exact(answer)?;
        let took = simt::cycles() - start;
        if Block.any(!pattern::holds(Block, answer, SEED, position)) {
            return Err(Errno::EIO);
        }
        if Block.is_leader() {
            kept.set(round as usize, took);
        }
        *done = round + 1;
    }
    hand_over(kept, samples, *done);
    Ok(())
}

/// The end of a bare exchange that begins and measures.
#[inline(always)]
fn exchange(
    work: &Exchange,
    (memory, own): (SharedBuf, SharedBuf),
    (ping, pong): (Word, Word),
    samples: Shared<u64>,
    done: &mut u64,
) -> Result<(), Errno> {
    let (kept, rest) = kept_samples(work.rounds);
    let [to_second, to_first] = parts(memory, work.bytes);
    let [message, answer, _] = parts(own, work.bytes);
    let bytes = work.bytes as usize;
    let source = if rest.len() >= bytes { rest.first(bytes) } else { message };
    let arrived = if work.copies_out != 0 { answer } else { to_first };
    for round in 1..=work.rounds {
        let position = round * work.bytes;
        pattern::fill(Block, source, SEED, position);
        Block.barrier();
        let start = simt::cycles();
        buf::copy(Block, source, to_second);
        publish(ping, round);
        if !arrives(pong, round, work.timeout_ns) {
            return Err(Errno::ETIMEDOUT);
        }
        if work.copies_out != 0 {
            buf::copy(Block, to_first, arrived);
            Block.barrier();
        }
        let took = simt::cycles() - start;
        if Block.any(!pattern::holds(Block, arrived, SEED, position)) {
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

/// The end that answers.
#[inline(always)]
fn answer(work: &Exchange, memory: SharedBuf, own: SharedBuf, (ping, pong): (Word, Word)) {
    let [to_second, to_first] = parts(memory, work.bytes);
    let [_, _, room] = parts(own, work.bytes);
    let (_, rest) = kept_samples(0);
    let bytes = work.bytes as usize;
    let room = if rest.len() >= bytes { rest.first(bytes) } else { room };
    for round in 1..=work.rounds {
        if !arrives(ping, round, work.timeout_ns) {
            return;
        }
        if work.copies_out != 0 {
            buf::copy(Block, to_second, room);
            Block.barrier();
            buf::copy(Block, room, to_first);
        } else {
            buf::copy(Block, to_second, to_first);
        }
        publish(pong, round);
    }
}

/// Memory as so many messages.
#[inline(always)]
fn parts<const N: usize>(memory: SharedBuf, bytes: u64) -> [SharedBuf; N] {
    let part = memory.len() / N / 16 * 16;
    core::array::from_fn(|index| memory.slice(index * part, bytes as usize))
}

/// Notifies the other block that all threads have copied; pairs with the acquire load in [`arrives`].
#[inline(always)]
pub(crate) fn publish(flag: Word, round: u64) {
    Block.barrier();
    if Block.is_leader() {
        flag.store_release(round);
    }
}

/// Whether the flag reaches that number in time; the same for all threads.
#[inline(always)]
pub(crate) fn arrives(flag: Word, round: u64, timeout_ns: u64) -> bool {
    let late = Block.is_leader() && !leader_sees(flag, round, timeout_ns);
    !Block.any(late)
}

#[inline(always)]
fn leader_sees(flag: Word, round: u64, timeout_ns: u64) -> bool {
    let start = simt::now_ns();
    // Counted: ends with the timeout.
    while simt::now_ns().saturating_sub(start) < timeout_ns {
        for _ in 0..POLLS {
            // A later one, too: the CPU ends an exchange so.
            if flag.load_acquire() >= round {
                return true;
            }
            simt::pause();
        }
    }
    false
}
