//! The proof's two ends: a server that sends back what comes, and a client that checks it.
//!
//! One kernel in a module of its own: at its first start a driver compiles the whole module, for each
//! kernel all that it calls. For the same reason each call that moves bytes stands here once, out of
//! line.

#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::ggetsockopt;
use gpunet_device::{
    Block, Errno, Group, Handle, Listener, Net, Shared, SharedBuf, SocketAddr, Stream, kernel_arg,
    kernels, simt,
};

kernel_arg! {
    /// What the client does.
    pub struct Work {
        /// Where the server is.
        pub server: SocketAddr,
        /// Round trips.
        pub messages: u64,
        /// Bytes of each, a multiple of 8 that half the shared memory and a ring have room for.
        pub bytes: u64,
    }
}

kernel_arg! {
    /// What became of it.
    pub struct Outcome {
        /// 0 when all went well, else a negative error number.
        pub result: i64,
        /// Bytes that came back and were as sent.
        pub verified: u64,
        /// Nanoseconds that it took.
        pub elapsed_ns: u64,
        /// How the connection went: the option `Transport`, negative where that is unknown.
        pub transport: i64,
    }
}

kernels! {
    /// The first block is the server, of one connection; the second is the client.
    pub fn proof(net: Net, listener: Handle, work: Work, outcome: Shared<Outcome>) {
        if simt::position().block == 0 {
            serve(net, listener);
        } else {
            let begun = simt::now_ns();
            let (mut verified, mut transport) = (0, -1);
            let result = round_trips(net, &work, &mut verified, &mut transport);
            if Block.is_leader() {
                let result = result.map_or_else(Errno::negative, |()| 0);
                let elapsed_ns = simt::now_ns() - begun;
                outcome.set(0, Outcome { result, verified, elapsed_ns, transport });
            }
        }
    }
}

/// Sends back what comes.
#[inline(always)]
fn serve(net: Net, listener: Handle) {
    let listener = Listener::borrow(net.block(), listener);
    let buffer = simt::shared_memory();
    if let Ok(stream) = listener.accept() {
        while let Ok(bytes @ 1..) = receive(&stream, buffer) {
            if send(&stream, buffer.first(bytes)).is_err() {
                break;
            }
        }
    }
}

/// Sends messages, waits for each to come back, and checks it.
#[inline(always)]
fn round_trips(
    net: Net,
    work: &Work,
    verified: &mut u64,
    transport: &mut i64,
) -> Result<(), Errno> {
    let stream = Stream::connect(net.block(), &work.server)?;
    *transport = ggetsockopt(net, Block, stream.handle(), SocketOption::Transport);
    let memory = simt::shared_memory();
    let bytes = work.bytes as usize;
    let (message, answer) = (memory.first(bytes), memory.slice(bytes, bytes));
    if bytes == 0 || answer.len() != bytes {
        return Err(Errno::EINVAL);
    }
    for turn in 0..work.messages {
        let words = message.cast::<u64>();
        let mut at = Block.rank();
        while at < words.len() {
            words.set(at, word(turn, at));
            at += Block.size();
        }
        send(&stream, message)?;
        let mut came = 0;
        while came < bytes {
            match receive(&stream, answer.slice(came, bytes - came))? {
                0 => return Err(Errno::ECONNRESET),
                more => came += more,
            }
        }
        let words = answer.cast::<u64>();
        let mut same = true;
        let mut at = Block.rank();
        while at < words.len() {
            same &= words.get(at) == Some(word(turn, at));
            at += Block.size();
        }
        if Block.any(!same) {
            return Err(Errno::EIO);
        }
        *verified += work.bytes;
    }
    Ok(())
}

/// A word of a message.
#[inline(always)]
const fn word(turn: u64, at: usize) -> u64 {
    (turn << 32 | at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[inline(never)]
fn send(stream: &Stream, from: SharedBuf) -> Result<(), Errno> {
    stream.write_all(from)
}

#[inline(never)]
fn receive(stream: &Stream, to: SharedBuf) -> Result<usize, Errno> {
    stream.read(to)
}
