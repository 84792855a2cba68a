//! Echo: a server, a client that measures round trips, and the two ends of a one-way stream.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::ggetsockopt;
use gpunet_device::{
    Errno, Group, Handle, Listener, Net, Shared, SharedBuf, SocketAddr, Stream, kernel_arg,
    kernels, simt,
};
use gpunet_pattern as pattern;

kernel_arg! {
    /// What a client's block does.
    pub struct Work {
        /// Where the server is.
        pub server: SocketAddr,
        /// Round trips (client), or nothing (stream).
        pub messages: u64,
        /// Bytes of a message, or of the whole stream.
        pub bytes: u64,
        /// Seed of the pattern; each block adds its rank.
        pub seed: u64,
        /// Capacity of each ring.
        pub ring: u64,
        /// How long one call may wait, nanoseconds.
        pub timeout_ns: u64,
    }
}

/// Stands for the transport of a connection that was never made.
pub const NOT_CONNECTED: i64 = i64::MIN;

kernel_arg! {
    /// What became of a block's work.
    pub struct Outcome {
        /// 0 when all went well, else a negative error number.
        pub result: i64,
        /// Bytes that arrived and were checked.
        pub verified: u64,
        /// Nanoseconds that the whole work took.
        pub elapsed_ns: u64,
        /// Cycles that the whole work took, to turn samples into time.
        pub elapsed_cycles: u64,
        /// How the connection went: the option `Transport`, negative where that is unknown;
        /// [`NOT_CONNECTED`] where there was none.
        pub transport: i64,
        /// Where its rings lay: the option `Placement`, likewise.
        pub placement: i64,
    }
}

kernels! {
    /// Echoes on every connection of a listener, a block for each, until told to stop.
    pub fn echo_server(net: Net, listener: Handle) {
        let on = net.block();
        let listener = Listener::borrow(on, listener);
        let buffer = simt::shared_memory();
        loop {
            match listener.accept() {
                Ok(stream) => {
                    while let Ok(bytes @ 1..) = stream.read(buffer) {
                        if stream.write_all(buffer.first(bytes)).is_err() {
                            break;
                        }
                    }
                }
                Err(Errno::ECONNABORTED) => {}
                Err(_) => break,
            }
        }
    }

    /// Sends messages, waits for each to come back, checks it, and notes how long that took: a
    /// connection a block. `samples` has `messages` places for each block.
    pub fn echo_client(net: Net, work: Work, samples: Shared<u64>, outcomes: Shared<Outcome>) {
        let group = net.block().group();
        let block = simt::position().block as usize;
        let mine = samples.slice(block * work.messages as usize, work.messages as usize);
        let clock = Clock::start();
        let mut tally = Tally::NOTHING;
        let result = round_trips(net, &work, mine, &mut tally);
        clock.stop(group, outcomes, block, result, tally);
    }

    /// Receives a stream to its end, checks it, and answers with the number of good bytes: a
    /// connection a block, until told to stop.
    pub fn stream_sink(net: Net, listener: Handle, seed: u64) {
        let listener = Listener::borrow(net.block(), listener);
        while let Ok(stream) = listener.accept() {
            let _ = drain(&stream, seed);
        }
    }

    /// Sends a stream of `bytes`, ends it, and waits for the sink's answer.
    pub fn stream_source(net: Net, work: Work, outcomes: Shared<Outcome>) {
        let group = net.block().group();
        let clock = Clock::start();
        let mut tally = Tally::NOTHING;
        let result = pour(net, &work, &mut tally);
        clock.stop(group, outcomes, simt::position().block as usize, result, tally);
    }
}

/// What a block has seen so far.
struct Tally {
    verified: u64,
    transport: i64,
    placement: i64,
}

impl Tally {
    const NOTHING: Self = Self { verified: 0, transport: NOT_CONNECTED, placement: -1 };
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
    fn stop<G: Group>(
        self,
        group: G,
        outcomes: Shared<Outcome>,
        block: usize,
        result: Result<(), Errno>,
        tally: Tally,
    ) {
        if group.is_leader() {
            let outcome = Outcome {
                result: result.map_or_else(Errno::negative, |()| 0),
                verified: tally.verified,
                elapsed_ns: simt::now_ns() - self.ns,
                elapsed_cycles: simt::cycles() - self.cycles,
                transport: tally.transport,
                placement: tally.placement,
            };
            outcomes.set(block, outcome);
        }
    }
}

/// Connects with the rings and the time-out that the work asks for.
#[inline(always)]
fn connect(net: Net, work: &Work) -> Result<Stream, Errno> {
    let stream = Stream::connect_with_rings(net.block(), &work.server, work.ring, work.ring)?;
    stream.set_read_timeout(work.timeout_ns)?;
    stream.set_write_timeout(work.timeout_ns)?;
    Ok(stream)
}

/// How a stream goes: its options `Transport` and `Placement`. Out of line: what is asked once takes
/// no registers from the round trips.
#[inline(never)]
pub(crate) fn transport_of(net: Net, stream: Handle) -> (i64, i64) {
    let option = |option| ggetsockopt(net, net.block().group(), stream, option);
    (option(SocketOption::Transport), option(SocketOption::Placement))
}

#[inline(always)]
fn round_trips(
    net: Net,
    work: &Work,
    samples: Shared<u64>,
    tally: &mut Tally,
) -> Result<(), Errno> {
    let group = net.block().group();
    let stream = connect(net, work)?;
    (tally.transport, tally.placement) = transport_of(net, stream.handle());
    let seed = work.seed + u64::from(simt::position().block);
    // What the ring holds goes out as a whole before any of it is read back, so that a message is
    // one round trip. More than that could wait for a server that waits for us to read.
    let window = work.ring.max(1);
    for turn in 0..work.messages {
        let mut took = 0;
        let mut done = 0;
        while done < work.bytes {
            let bytes = (work.bytes - done).min(window);
            took += round_trip(&stream, seed, turn * work.bytes + done, bytes)?;
            done += bytes;
            tally.verified += bytes;
        }
        if group.is_leader() {
            samples.set(turn as usize, took);
        }
    }
    Ok(())
}

/// Sends `bytes` of the pattern from `position` on, reads and checks the answer: the cycles that
/// took. The first piece is made before the clock starts and the last one checked behind it; with
/// shared memory for the whole message there is no other.
#[inline(always)]
fn round_trip(stream: &Stream, seed: u64, position: u64, bytes: u64) -> Result<u64, Errno> {
    let group = gpunet_device::Block;
    let (message, answer) = halves(simt::shared_memory());
    if message.is_empty() {
        return Err(Errno::EINVAL);
    }
    let mut start = 0;
    let mut at = 0;
    while at < bytes {
        let piece = message.first((bytes - at).min(message.len() as u64) as usize);
        // Sending ends with the whole group done reading, so the buffer may be filled again.
        pattern::fill(group, piece, seed, position + at);
        if at == 0 {
            start = simt::cycles();
        }
        stream.write_all(piece)?;
        at += piece.len() as u64;
    }
    let mut took = 0;
    at = 0;
    while at < bytes {
        let piece = answer.first((bytes - at).min(answer.len() as u64) as usize);
        stream.read_exact(piece)?;
        took = simt::cycles() - start;
        if group.any(!pattern::holds(group, piece, seed, position + at)) {
            return Err(Errno::EIO);
        }
        at += piece.len() as u64;
    }
    Ok(took)
}

#[inline(always)]
fn drain(stream: &Stream, seed: u64) -> Result<(), Errno> {
    let group = gpunet_device::Block;
    let buffer = simt::shared_memory();
    let mut good = 0;
    loop {
        let bytes = stream.read(buffer)?;
        if bytes == 0 {
            break;
        }
        if group.any(!pattern::holds(group, buffer.first(bytes), seed, good)) {
            break;
        }
        good += bytes as u64;
    }
    stream.write_all(good.to_le_bytes().as_slice())
}

#[inline(always)]
fn pour(net: Net, work: &Work, tally: &mut Tally) -> Result<(), Errno> {
    let group = net.block().group();
    let stream = connect(net, work)?;
    // The clock runs, and so nobody asks how it goes.
    tally.transport = -1;
    let buffer = simt::shared_memory();
    let mut sent = 0;
    while sent < work.bytes {
        let piece = (work.bytes - sent).min(buffer.len() as u64 / 8 * 8) as usize;
        pattern::fill(group, buffer.first(piece), work.seed, sent);
        stream.write_all(buffer.first(piece))?;
        sent += piece as u64;
    }
    stream.shutdown(gpunet_device::calls::SHUT_WR)?;
    stream.read_exact(buffer.first(8))?;
    tally.verified = buffer.cast::<u64>().get(0).unwrap_or(0);
    if tally.verified == work.bytes { Ok(()) } else { Err(Errno::EIO) }
}

/// Shared memory as a buffer to send from and one to receive into.
#[inline(always)]
fn halves(memory: SharedBuf) -> (SharedBuf, SharedBuf) {
    let half = memory.len() / 2 / 16 * 16;
    (memory.first(half), memory.slice(half, half))
}
