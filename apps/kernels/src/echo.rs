//! Echo: a server, and a client that checks what comes back.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::ggetsockopt;
use gpunet_device::{
    Block, Errno, Group, Handle, Listener, Net, Shared, SharedBuf, SocketAddr, Stream, kernel_arg,
    kernels, simt,
};
use gpunet_support::pattern;

kernel_arg! {
    /// What a client's block does.
    pub struct Work {
        /// Where the server is.
        pub server: SocketAddr,
        /// Messages, one after the other.
        pub messages: u64,
        /// Bytes of a message.
        pub bytes: u64,
        /// Seed of the pattern; each block adds its rank.
        pub seed: u64,
        /// Capacity of each ring.
        pub ring: u64,
        /// How long one call may wait, nanoseconds.
        pub timeout_ns: u64,
    }
}

/// What became of a block's work.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// 0 when all went well, else a negative error number; EIO: a wrong byte came back.
    pub result: i64,
    /// Bytes that came back and were checked.
    pub verified: i64,
    /// Nanoseconds of all round trips, without making and checking the bytes.
    pub elapsed_ns: i64,
    /// How the connection went: the option `Transport`, negative where that is unknown;
    /// [`NOT_CONNECTED`] where there was none.
    pub transport: i64,
    /// Where its rings lay: the option `Placement`, likewise.
    pub placement: i64,
}

/// Stands for the transport of a connection that was never made.
pub const NOT_CONNECTED: i64 = i64::MIN;
/// Words of an outcome.
pub const OUTCOME: usize = 5;

impl Outcome {
    const NOTHING: Self =
        Self { result: 0, verified: 0, elapsed_ns: 0, transport: NOT_CONNECTED, placement: -1 };

    /// From the words that a block wrote.
    #[must_use]
    pub const fn from_words(words: [i64; OUTCOME]) -> Self {
        let [result, verified, elapsed_ns, transport, placement] = words;
        Self { result, verified, elapsed_ns, transport, placement }
    }

    #[inline(always)]
    const fn to_words(self) -> [i64; OUTCOME] {
        let Self { result, verified, elapsed_ns, transport, placement } = self;
        [result, verified, elapsed_ns, transport, placement]
    }
}

kernels! {
    /// Echoes on every connection of a listener, a block for each, until it is stopped.
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

    /// Sends messages, waits for each to come back and checks it: a connection a block. `outcomes` has
    /// the words of an outcome for each block.
    pub fn echo_client(net: Net, work: Work, outcomes: Shared<i64>) {
        let mut outcome = Outcome::NOTHING;
        outcome.result = echoes(net, &work, &mut outcome).map_or_else(Errno::negative, |()| 0);
        if net.block().group().is_leader() {
            let first = simt::position().block as usize * OUTCOME;
            // Counted: as many as an outcome has words.
            for (at, word) in outcome.to_words().into_iter().enumerate() {
                outcomes.set(first + at, word);
            }
        }
    }
}

/// How a stream goes: its options `Transport` and `Placement`. Out of line: what is asked once takes
/// no registers from the round trips.
#[inline(never)]
pub(crate) fn transport_of(net: Net, stream: Handle) -> (i64, i64) {
    let option = |option| ggetsockopt(net, net.block().group(), stream, option);
    (option(SocketOption::Transport), option(SocketOption::Placement))
}

#[inline(always)]
fn echoes(net: Net, work: &Work, outcome: &mut Outcome) -> Result<(), Errno> {
    let stream = Stream::connect_with_rings(net.block(), &work.server, work.ring, work.ring)?;
    stream.set_read_timeout(work.timeout_ns)?;
    stream.set_write_timeout(work.timeout_ns)?;
    (outcome.transport, outcome.placement) = transport_of(net, stream.handle());
    let seed = work.seed + u64::from(simt::position().block);
    let (message, answer) = halves(simt::shared_memory());
    // What shared memory and the ring hold goes out before any of it is read back. More than that could
    // wait for a server that waits for us to read.
    let piece = work.ring.min(message.len() as u64);
    if piece == 0 {
        return Err(Errno::EINVAL);
    }
    let mut position = 0;
    // Counted: each turn moves `position` towards the last byte of the last message.
    while position < work.messages * work.bytes {
        let bytes = (work.bytes - position % work.bytes).min(piece) as usize;
        let (message, answer) = (message.first(bytes), answer.first(bytes));
        pattern::fill(Block, message, seed, position);
        let start = simt::now_ns();
        stream.write_all(message)?;
        stream.read_exact(answer)?;
        outcome.elapsed_ns += (simt::now_ns() - start) as i64;
        if Block.any(!pattern::holds(Block, answer, seed, position)) {
            return Err(Errno::EIO);
        }
        position += bytes as u64;
        outcome.verified = position as i64;
    }
    Ok(())
}

/// Shared memory as a buffer to send from and one to receive into.
#[inline(always)]
fn halves(memory: SharedBuf) -> (SharedBuf, SharedBuf) {
    let half = memory.len() / 2 / 16 * 16;
    (memory.first(half), memory.slice(half, half))
}
