//! A client that measures an echo server from another kernel: one block, which sends a message, receives it
//! back and checks it. The suites `sizes`, `waiters` and `ways` use it, and `bench local`.
//!
//! Samples stay in shared memory until the end: a store to GPU memory would be one more for the next release
//! to wait for. Every byte that comes back is checked, outside the measured time.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::{MSG_DONTWAIT, ggetsockopt};
use gpunet_device::{
    Block, Errno, Group, Handle, On, Shared, SharedBuf, SocketAddr, Stream, Thread, kernel_arg,
    kernels, simt,
};
use gpunet_support::pattern;

use crate::ways::call::{Asking, Blocking, Call, MOST_STREAMS, SLOTS, Slices};

/// Words of a report: the result (0 or a negative error number), round trips done, nanoseconds and
/// cycles of the whole work, and the option `Transport` of the connection.
pub const REPORT_WORDS: usize = 5;

/// Stands for the transport of a connection that was never made.
const NOT_CONNECTED: i64 = i64::MIN;

/// The seed of the bytes.
pub(crate) const SEED: u64 = 0x5EED;

kernel_arg! {
    /// What a measuring client does.
    pub struct Client {
        /// The echo server.
        pub server: SocketAddr,
        /// Connections, up to 16, which the messages take in turns.
        pub streams: u64,
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
        measure::<Block, Blocking>(net.block(), &work, memory, (samples, report));
    }

    /// The same by one thread.
    pub fn measure_echo_thread(
        net: Net,
        work: Client,
        memory: SharedBuf,
        samples: Shared<u64>,
        report: Shared<u64>,
    ) {
        measure::<Thread, Blocking>(net.thread(), &work, memory, (samples, report));
    }

    /// The same with non-blocking sockets.
    pub fn measure_echo_nonblocking(
        net: Net,
        work: Client,
        memory: SharedBuf,
        samples: Shared<u64>,
        report: Shared<u64>,
    ) {
        measure::<Block, Asking<0>>(net.block(), &work, memory, (samples, report));
    }

    /// The same with MSG_DONTWAIT.
    pub fn measure_echo_dontwait(
        net: Net,
        work: Client,
        memory: SharedBuf,
        samples: Shared<u64>,
        report: Shared<u64>,
    ) {
        measure::<Block, Asking<MSG_DONTWAIT>>(net.block(), &work, memory, (samples, report));
    }

    /// The same with slices of the rings.
    pub fn measure_echo_slices(
        net: Net,
        work: Client,
        memory: SharedBuf,
        samples: Shared<u64>,
        report: Shared<u64>,
    ) {
        measure::<Block, Slices>(net.block(), &work, memory, (samples, report));
    }
}

/// Both clocks at the beginning of the work.
pub(crate) struct Clock {
    ns: u64,
    cycles: u64,
}

impl Clock {
    #[inline(always)]
    pub(crate) fn start() -> Self {
        Self { ns: simt::now_ns(), cycles: simt::cycles() }
    }

    #[inline(always)]
    pub(crate) fn stop(
        self,
        report: Shared<u64>,
        result: Result<(), Errno>,
        done: u64,
        transport: i64,
    ) {
        if Block.is_leader() {
            report.set(0, result.map_or_else(Errno::negative, |()| 0) as u64);
            report.set(1, done);
            report.set(2, simt::now_ns() - self.ns);
            report.set(3, simt::cycles() - self.cycles);
            report.set(4, transport as u64);
        }
    }
}

/// Memory as room for samples, and the rest.
#[inline(always)]
pub(crate) fn kept_samples(memory: SharedBuf, rounds: u64) -> (Shared<u64>, SharedBuf) {
    let bytes = (rounds as usize * 8).next_multiple_of(16);
    (memory.first(bytes).cast::<u64>(), memory.slice(bytes, usize::MAX))
}

/// Hands the samples of all round trips to the host.
#[inline(always)]
pub(crate) fn hand_over(kept: Shared<u64>, samples: Shared<u64>, rounds: u64) {
    if Block.is_leader() {
        for round in 0..rounds as usize {
            samples.set(round, kept.get(round).unwrap_or(0));
        }
    }
}

/// How a stream goes. Out of line: what is asked once takes no registers from the round trips.
#[inline(never)]
fn transport_of<G: Group>(on: On<G>, stream: Handle) -> i64 {
    ggetsockopt(on.net(), on.group(), stream, SocketOption::Transport)
}

/// Makes a message. Out of line, as [`transport_of`].
#[inline(never)]
fn make<G: Group>(group: G, message: SharedBuf, position: u64) {
    pattern::fill(group, message, SEED, position);
}

/// Whether this thread's share of an answer is right. The same.
#[inline(never)]
fn is_right<G: Group>(group: G, answer: SharedBuf, position: u64) -> bool {
    pattern::holds(group, answer, SEED, position)
}

/// Connects, measures, and closes what it connected.
#[inline(always)]
fn measure<G: Group, C: Call<G>>(
    on: On<G>,
    work: &Client,
    memory: SharedBuf,
    (samples, report): (Shared<u64>, Shared<u64>),
) {
    let clock = Clock::start();
    let (mut done, mut transport) = (0, NOT_CONNECTED);
    let own = simt::shared_memory();
    let handles = own.first(SLOTS).cast::<u64>();
    let mut connected = 0;
    let mut result = Ok(());
    // Counted: the streams.
    while connected < (work.streams as usize).min(MOST_STREAMS) && result.is_ok() {
        result = connect::<G, C>(on, work).map(|handle| {
            if on.group().is_leader() {
                handles.set(connected, handle.0);
            }
            connected += 1;
        });
    }
    on.group().barrier();
    let handle = |at: usize| Handle(handles.get(at).unwrap_or(Handle::NONE.0));
    if result.is_ok() {
        transport = transport_of(on, handle(0));
        let rest = own.slice(SLOTS, usize::MAX);
        let room = (rest, memory, samples);
        result = round_trips::<G, C>(on, work, handle, room, &mut done);
    }
    for at in 0..connected {
        drop(Stream::from_handle(on, handle(at)));
    }
    clock.stop(report, result, done, transport);
}

/// A connection to the server; it stays open. Out of line, as [`transport_of`].
#[inline(never)]
fn connect<G: Group, C: Call<G>>(on: On<G>, work: &Client) -> Result<Handle, Errno> {
    let stream = Stream::connect_with_rings(on, &work.server, work.ring, work.ring)?;
    stream.set_read_timeout(work.timeout_ns)?;
    stream.set_write_timeout(work.timeout_ns)?;
    C::prepare(&stream)?;
    Ok(stream.into_handle())
}

#[inline(always)]
fn round_trips<G: Group, C: Call<G>>(
    on: On<G>,
    work: &Client,
    handle: impl Fn(usize) -> Handle,
    (own, memory, samples): (SharedBuf, SharedBuf, Shared<u64>),
    done: &mut u64,
) -> Result<(), Errno> {
    let (group, bytes) = (on.group(), work.bytes as usize);
    let (kept, rest) = kept_samples(own, work.rounds);
    let room = if rest.len() / 2 >= bytes.next_multiple_of(16) { rest } else { memory };
    let half = room.len() / 2 / 16 * 16;
    let (message, answer) = (room.first(bytes.min(half)), room.slice(half, bytes));
    if message.len() < bytes || answer.len() < bytes {
        return Err(Errno::EINVAL);
    }
    let end = simt::now_ns().saturating_add(work.limit_ns);
    for round in 0..work.rounds {
        let position = round * work.bytes;
        make(group, message, position);
        // The threads' clocks differ, and all of them must go on or stop.
        if group.any(simt::now_ns() > end) {
            break;
        }
        let stream = Stream::borrow(on, handle((round % work.streams) as usize));
        let start = simt::cycles();
        C::send(&stream, message)?;
        let mut got = 0;
        // Counted: each turn receives a byte or more, or is the last.
        while got < bytes {
            match C::receive(&stream, answer.slice(got, bytes))? {
                0 => return Err(Errno::ECONNRESET),
                more => got += more,
            }
        }
        let took = simt::cycles() - start;
        if group.any(!is_right(group, answer, position)) {
            return Err(Errno::EIO);
        }
        if group.is_leader() {
            kept.set(round as usize, took);
        }
        *done = round + 1;
    }
    hand_over(kept, samples, *done);
    Ok(())
}
