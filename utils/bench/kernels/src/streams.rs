//! Kernels of the benchmark suite `streams`: one end of a stream in each direction, a connection a
//! block.
//!
//! A peer opens with a header of two words: the bytes of the stream, and the seed of their pattern.
//! With seed 0 the bytes are counted and not looked at.

use gpunet_device::calls::SHUT_WR;
use gpunet_device::{
    Block, Errno, Group, Handle, Listener, Net, Shared, SharedBuf, Stream, buf, kernel_arg,
    kernels, simt,
};
use gpunet_support::pattern;

use crate::flag::{arrives, publish, word_at};

/// Bytes of a header.
pub const HEADER: usize = 16;
/// Words from one counter of bare rings to the next: each has a page, as far apart as those of two sides are.
pub const COUNTERS_APART: usize = 512;

kernel_arg! {
    /// What blocks do with rings of host memory, without gpunet.
    pub struct BareRings {
        /// Bytes of each stream.
        pub bytes: u64,
        /// Bytes of each ring, whole pieces.
        pub ring: u64,
        /// What a block moves at a time, in its shared memory.
        pub piece: u64,
        /// How long one piece may take, nanoseconds.
        pub timeout_ns: u64,
        /// 1: blocks fill the rings and the CPU empties them; 0: the other way.
        pub fills: u64,
    }
}

kernels! {
    /// Receives streams to their end and answers each with the number of bytes that were right, until
    /// it is stopped.
    pub fn receive_streams(net: Net, listener: Handle) {
        let listener = Listener::borrow(net.block(), listener);
        while let Ok(stream) = listener.accept() {
            let _ = receive(&stream);
        }
    }

    /// Sends each peer as many bytes as it asks for and ends the stream, until it is stopped.
    pub fn send_streams(net: Net, listener: Handle) {
        let listener = Listener::borrow(net.block(), listener);
        while let Ok(stream) = listener.accept() {
            let _ = send(&stream);
        }
    }

    /// Fills or empties a ring of host memory for each block. Of each there are two counters: bytes that
    /// were put in, and bytes that were taken out.
    pub fn move_through_rings(
        net: Net,
        work: BareRings,
        counters: Shared<u64>,
        memory: SharedBuf,
    ) {
        let _: Net = net;
        let block = simt::position().block as usize;
        let counter = |n: usize| word_at(counters, (2 * block + n) * COUNTERS_APART);
        let (put_in, taken_out) = (counter(0), counter(1));
        let ring = memory.slice(block * work.ring as usize, work.ring as usize);
        let own = simt::shared_memory().first(work.piece as usize);
        let fills = work.fills != 0;
        let (others, ours) = if fills { (taken_out, put_in) } else { (put_in, taken_out) };
        // So far the block may go, by the other counter as it was last read; it is read again only where
        // that is not enough.
        let mut seen = if fills { work.ring } else { 0 };
        let mut at = 0;
        // Counted: the pieces.
        while at < work.bytes {
            let bytes = (work.bytes - at).min(work.piece);
            let own = own.first(bytes as usize);
            let part = ring.slice((at % work.ring) as usize, bytes as usize);
            at += bytes;
            if seen < at {
                let ahead = if fills { work.ring } else { 0 };
                if !arrives(others, at.saturating_sub(ahead), work.timeout_ns) {
                    return;
                }
                // The same for all threads: others may go on between two loads.
                let mut now = 0;
                if Block.is_leader() {
                    now = others.load_acquire();
                }
                let [now] = Block.broadcast([now]);
                seen = now.saturating_add(ahead);
            }
            if fills {
                buf::copy(Block, own, part);
            } else {
                buf::copy(Block, part, own);
            }
            publish(ours, at);
        }
    }
}

/// The header: bytes and seed.
#[inline(always)]
fn header(stream: &Stream) -> Result<[u64; 2], Errno> {
    let words = simt::shared_memory().first(HEADER);
    stream.read_exact(words)?;
    let words = words.cast::<u64>();
    let header = [0, 1].map(|index| words.get(index).unwrap_or(0));
    // All have read it before it is written over.
    Block.barrier();
    Ok(header)
}

#[inline(always)]
fn receive(stream: &Stream) -> Result<(), Errno> {
    let [_, seed] = header(stream)?;
    let buffer = simt::shared_memory();
    let mut right = 0;
    loop {
        let bytes = stream.read(buffer)?;
        if bytes == 0 {
            break;
        }
        if seed != 0 && Block.any(!pattern::holds(Block, buffer.first(bytes), seed, right)) {
            break;
        }
        right += bytes as u64;
    }
    stream.write_all(right.to_le_bytes().as_slice())
}

#[inline(always)]
fn send(stream: &Stream) -> Result<(), Errno> {
    let [bytes, seed] = header(stream)?;
    let memory = simt::shared_memory();
    let buffer = memory.first(memory.len() / 16 * 16);
    pattern::fill(Block, buffer, seed, 0);
    let mut sent = 0;
    while sent < bytes {
        let piece = buffer.first((bytes - sent).min(buffer.len() as u64) as usize);
        if seed != 0 && sent > 0 {
            // Sending ends with the whole block done reading.
            pattern::fill(Block, piece, seed, sent);
        }
        stream.write_all(piece)?;
        sent += piece.len() as u64;
    }
    stream.shutdown(SHUT_WR)?;
    // The peer closes when it has read to the end.
    stream.read(buffer).map(|_| ())
}
