//! Kernels that measure the throughput of p2p streams, and the bare copy that they are compared with.

use gpunet_device::{
    Block, Errno, Group, Handle, Listener, Shared, SharedBuf, SocketAddr, Stream, buf, kernels,
    simt,
};

kernels! {
    /// Each block copies its piece of `from` to its piece of `to`, again and again; `times` gets the
    /// nanoseconds of each.
    pub fn copy_alone(net: Net, from: SharedBuf, to: SharedBuf, turns: u64, times: Shared<u64>) {
        let group = net.block().group();
        let (from, to) = (piece_of(from), piece_of(to));
        group.barrier();
        let start = simt::now_ns();
        for _ in 0..turns {
            buf::copy(group, from, to);
            group.barrier();
        }
        if group.is_leader() {
            times.set(simt::position().block as usize, simt::now_ns() - start);
        }
    }

    /// Receives streams to their end into its piece of `to`, and answers each with the number of
    /// bytes, until it is stopped: a connection a block.
    pub fn swallow_all(net: Net, listener: Handle, to: SharedBuf) {
        let listener = Listener::borrow(net.block(), listener);
        let to = piece_of(to);
        while let Ok(stream) = listener.accept() {
            let mut bytes = 0;
            while let Ok(more @ 1..) = stream.read(to) {
                bytes += more as u64;
            }
            let _ = stream.write_all(bytes.to_le_bytes().as_slice());
        }
    }

    /// Sends its piece of `from` so many times, and waits for the number of bytes that arrived: a
    /// connection a block. `times` gets the nanoseconds of each, or a negative error number.
    pub fn send_all(
        net: Net,
        server: SocketAddr,
        ring: u64,
        from: SharedBuf,
        turns: u64,
        times: Shared<u64>,
    ) {
        let group = net.block().group();
        let from = piece_of(from);
        let took = sent(net, &server, ring, from, turns);
        let took = took.unwrap_or_else(|errno| errno.negative() as u64);
        if group.is_leader() {
            times.set(simt::position().block as usize, took);
        }
    }
}

#[inline(always)]
fn sent(
    net: gpunet_device::Net,
    server: &SocketAddr,
    ring: u64,
    from: SharedBuf,
    turns: u64,
) -> Result<u64, Errno> {
    let stream: Stream = Stream::connect_with_rings(net.block(), server, ring, ring)?;
    stream.set_write_timeout(10_000_000_000)?;
    stream.set_read_timeout(10_000_000_000)?;
    // The other end has to be there: the first byte of all is answered by nobody.
    Block.barrier();
    let start = simt::now_ns();
    for _ in 0..turns {
        stream.write_all(from)?;
    }
    stream.shutdown(gpunet_device::calls::SHUT_WR)?;
    let answer = simt::shared_memory().first(8);
    stream.read_exact(answer)?;
    let took = simt::now_ns() - start;
    let arrived = answer.cast::<u64>().get(0).unwrap_or(0);
    if arrived == turns * from.len() as u64 { Ok(took) } else { Err(Errno::EIO) }
}

/// The calling block's share of a buffer.
#[inline(always)]
fn piece_of(buffer: SharedBuf) -> SharedBuf {
    let position = simt::position();
    let length = buffer.len() / position.blocks as usize;
    buffer.slice(position.block as usize * length, length)
}
