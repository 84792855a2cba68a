//! Streams through host memory without gpunet: a thread of the CPU for each connection moves bytes between its
//! socket and a ring of pinned memory, a block of a kernel between that ring and its own memory, and two
//! counters say how far they are. What comes with such a ring, whoever moves the bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use gpunet_bench_kernels::streams::{BareRings, COUNTERS_APART, move_through_rings};
use gpunet_host::{Gpu, Net, Shape, Task};

use super::stream_peers::{CALL, Direction, Streams, read_header, transfer};
use crate::memory::{Pinned, Watched};

/// Rings for so many connections at once, and a net to launch the kernel.
pub(crate) struct BareStreams {
    net: Net,
    shape: Shape,
    counters: Watched,
    memory: Pinned,
    ring: u64,
    piece: u64,
}

impl BareStreams {
    /// For `count` connections, by blocks of `threads` that move up to `piece` bytes at a time, through rings of
    /// `ring` bytes, rounded up as a net's are.
    pub(crate) fn new(
        gpu: &Gpu,
        count: u32,
        threads: u32,
        (ring, piece): (u32, u32),
    ) -> Result<Self> {
        let ring = ring.next_power_of_two();
        // Whole pieces in a ring, and both ends at work at once.
        let piece = (ring / 4).min(1 << piece.ilog2());
        Ok(Self {
            net: Net::builder(gpu).sockets(1).build()?,
            shape: Shape::new(count, threads).shared_memory(piece),
            counters: Watched::new(gpu, 2 * COUNTERS_APART * count as usize)?,
            memory: Pinned::new(gpu, ring as usize * count as usize)?,
            ring: ring.into(),
            piece: piece.into(),
        })
    }

    /// GB/s of all streams together, as [`transfer`] has it.
    pub(crate) fn transfer(&self, streams: Streams) -> Result<f64> {
        self.counters.all().for_each(|counter| counter.store(0, Ordering::Relaxed));
        let work = BareRings {
            bytes: streams.bytes,
            ring: self.ring,
            piece: self.piece,
            timeout_ns: CALL.as_nanos() as u64,
            fills: u64::from(streams.direction == Direction::Out),
        };
        let arguments = (work, self.counters.words(), self.memory.bytes());
        let launch = self.net.launch(move_through_rings, self.shape, arguments)?;
        let rate = std::thread::scope(|scope| {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let server = listener.local_addr()?;
            let accepting = scope.spawn(move || self.serve(&listener, streams));
            let rate = transfer(server, streams);
            accepting.join().map_err(|_| anyhow!("a server panicked"))??;
            rate
        });
        // Where it was cut short, blocks go through the rest at once.
        self.counters.all().for_each(|counter| counter.store(u64::MAX, Ordering::Release));
        let ended = launch.wait_timeout(2 * CALL);
        let rate = rate?;
        ended?;
        Ok(rate)
    }

    /// Serves the connections of all streams, each by a thread.
    fn serve(&self, listener: &TcpListener, streams: Streams) -> Result<()> {
        std::thread::scope(|scope| {
            let mut servers = Vec::new();
            for index in 0..streams.count as usize {
                let stream = accept(listener)?;
                servers.push(scope.spawn(move || self.one(stream, index, streams.direction)));
            }
            for server in servers {
                server.join().map_err(|_| anyhow!("a server panicked"))??;
            }
            Ok(())
        })
    }

    /// The CPU's end of a stream.
    fn one(&self, mut stream: TcpStream, index: usize, direction: Direction) -> Result<()> {
        let [bytes, _] = read_header(&mut stream)?;
        let counter = |n: usize| {
            let at = (2 * index + n) * COUNTERS_APART;
            self.counters.all().nth(at).context("a counter")
        };
        let (put_in, taken_out) = (counter(0)?, counter(1)?);
        let mut done = 0;
        while done < bytes {
            let at = done % self.ring;
            let offset = index * self.ring as usize + at as usize;
            let to_end = self.ring - at;
            if direction == Direction::Out {
                let end = wait_for(put_in, done + 1)?;
                let now = (end - done).min(to_end);
                self.memory.send(offset, now as usize, &mut stream)?;
                done += now;
                taken_out.store(done, Ordering::Release);
            } else {
                let emptied = wait_for(taken_out, (done + 1).saturating_sub(self.ring))?;
                let space = (emptied + self.ring - done).min(to_end);
                let now = self.memory.receive(offset, space as usize, &mut stream)?;
                ensure!(now > 0, "a stream ended early");
                done += now as u64;
                put_in.store(done, Ordering::Release);
            }
        }
        if direction == Direction::Out {
            stream.shutdown(Shutdown::Write)?;
            // The peer closes when it has read to the end.
            let _ = stream.read(&mut [0])?;
        } else {
            wait_for(taken_out, bytes)?;
            stream.write_all(&bytes.to_le_bytes())?;
        }
        Ok(())
    }
}

/// The next connection, within a time.
fn accept(listener: &TcpListener) -> Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let begun = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        ensure!(begun.elapsed() < CALL, "no connection within {CALL:?}");
        std::thread::yield_now();
    }
}

/// What a counter says once it is at least that.
fn wait_for(counter: &AtomicU64, least: u64) -> Result<u64> {
    let begun = Instant::now();
    let mut turns = 0_u32;
    loop {
        // Acquire: pairs with the kernel's release; the bytes are there, or were read.
        let value = counter.load(Ordering::Acquire);
        if value >= least {
            return Ok(value);
        }
        std::hint::spin_loop();
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(1024) {
            ensure!(begun.elapsed() < CALL, "a block did nothing for {CALL:?}");
            // On a machine with fewer cores than threads the block may be one that waits for this core.
            std::thread::yield_now();
        }
    }
}
