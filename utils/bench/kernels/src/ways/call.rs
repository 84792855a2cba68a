//! The calls by which a group receives and sends; clients and servers use them alike.

use gpunet_device::abi::option::SocketOption;
use gpunet_device::calls::{grecv, gsend};
use gpunet_device::{Errno, Group, SharedBuf, Stream, simt};

/// Streams of a group at most.
pub const MOST_STREAMS: usize = 16;
/// Bytes of shared memory at its beginning for the handles of streams, or for what is polled.
pub const SLOTS: usize = 16 * MOST_STREAMS;

/// A way of receiving and sending.
pub(crate) trait Call<G: Group> {
    /// Whether a receive may return EAGAIN.
    const ASKS: bool = false;

    /// Sets what a new stream needs.
    #[inline(always)]
    fn prepare(stream: &Stream<G>) -> Result<(), Errno> {
        let _ = stream;
        Ok(())
    }

    /// Receives at least one byte; 0 at the end of the stream.
    fn receive(stream: &Stream<G>, into: SharedBuf) -> Result<usize, Errno>;

    /// Receives as [`Self::receive`] does, but returns EAGAIN where nothing is there and it need not wait.
    #[inline(always)]
    fn try_receive(stream: &Stream<G>, into: SharedBuf) -> Result<usize, Errno> {
        Self::receive(stream, into)
    }

    /// Sends all bytes.
    fn send(stream: &Stream<G>, from: SharedBuf) -> Result<(), Errno>;
}

/// Calls by handle that wait.
pub(crate) struct Blocking;

impl<G: Group> Call<G> for Blocking {
    #[inline(always)]
    fn receive(stream: &Stream<G>, into: SharedBuf) -> Result<usize, Errno> {
        stream.read(into)
    }

    #[inline(always)]
    fn send(stream: &Stream<G>, from: SharedBuf) -> Result<(), Errno> {
        stream.write_all(from)
    }
}

/// Calls by handle that do not wait, repeated until there is something: with these flags, or without any on a
/// non-blocking socket.
pub(crate) struct Asking<const FLAGS: u32>;

impl<G: Group, const FLAGS: u32> Call<G> for Asking<FLAGS> {
    const ASKS: bool = true;

    #[inline(always)]
    fn prepare(stream: &Stream<G>) -> Result<(), Errno> {
        match FLAGS {
            0 => stream.set(SocketOption::NonBlocking, 1),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn receive(stream: &Stream<G>, into: SharedBuf) -> Result<usize, Errno> {
        loop {
            match Self::try_receive(stream, into) {
                Err(Errno::EAGAIN) => simt::pause(),
                outcome => return outcome,
            }
        }
    }

    #[inline(always)]
    fn try_receive(stream: &Stream<G>, into: SharedBuf) -> Result<usize, Errno> {
        let on = stream.on();
        let got = grecv(on.net(), on.group(), stream.handle(), into, FLAGS);
        Errno::check(got).map(|got| got as usize)
    }

    #[inline(always)]
    fn send(stream: &Stream<G>, from: SharedBuf) -> Result<(), Errno> {
        let on = stream.on();
        let mut sent = 0;
        while sent < from.len() {
            let rest = from.slice(sent, usize::MAX);
            match Errno::check(gsend(on.net(), on.group(), stream.handle(), rest, FLAGS)) {
                Ok(more) => sent += more as usize,
                Err(Errno::EAGAIN) => simt::pause(),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// Slices: bytes are copied from the receive ring and into the send ring by the kernel itself.
pub(crate) struct Slices;

impl<G: Group> Call<G> for Slices {
    #[inline(always)]
    fn receive(stream: &Stream<G>, into: SharedBuf) -> Result<usize, Errno> {
        let Some(received) = stream.peek(1)? else { return Ok(0) };
        let bytes = received.copy_to(0, into);
        received.consume(bytes);
        Ok(bytes)
    }

    #[inline(always)]
    fn send(stream: &Stream<G>, from: SharedBuf) -> Result<(), Errno> {
        let mut sent = 0;
        while sent < from.len() {
            let space = stream.reserve(1, from.len() - sent)?;
            let bytes = space.copy_from(0, from.slice(sent, usize::MAX));
            space.commit(bytes);
            sent += bytes;
        }
        Ok(())
    }
}
