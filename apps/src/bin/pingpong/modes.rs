//! How rounds go, in each mode.

use std::net::TcpStream;
use std::time::Duration;

use gpunet_apps::failure::Failure;
use gpunet_host::{Batch, Buffer, Completions, Handle, Net, Shape, StreamQueue, Task};
use gpunet_kernels::exchange::{Exchange, STATE, WRONG, consume, exchange_rounds, produce};

use crate::options::Mode;
use crate::peer;

/// Rounds that are put on a stream before the thread waits, which it then does for half of them: it sleeps
/// once, in place of waking for each.
const AHEAD: usize = 64;

/// An exchange of one size: its memory, and the kernels' shape.
pub(crate) struct Rounds<'a> {
    pub(crate) net: &'a Net,
    pub(crate) queue: &'a StreamQueue,
    sent: Buffer<u32>,
    received: Buffer<u32>,
    state: Buffer<u32>,
    compute_ns: u64,
    shape: Shape,
    threads: u32,
    timeout: Duration,
}

impl<'a> Rounds<'a> {
    pub(crate) fn new(
        net: &'a Net,
        queue: &'a StreamQueue,
        bytes: usize,
        compute: Duration,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let (gpu, numbers) = (net.gpu(), bytes / 4);
        let threads = gpunet_apps::gpu::default_threads(gpu.info());
        let blocks = (numbers as u32).div_ceil(threads * 4).clamp(1, 64);
        Ok(Self {
            net,
            queue,
            sent: gpu.buffer(numbers)?,
            received: gpu.buffer(numbers)?,
            state: gpu.buffer(STATE)?,
            compute_ns: compute.as_nanos() as u64,
            shape: Shape::new(blocks, threads),
            threads,
            timeout,
        })
    }

    /// Runs so many rounds, and checks that nothing came back wrong.
    pub(crate) fn run(
        &self,
        mode: Mode,
        connection: &mut Connection,
        rounds: u32,
    ) -> Result<(), Failure> {
        self.state.write(0, &[0; STATE])?;
        match (mode, connection) {
            (Mode::Cpu, Connection::System(stream)) => self.by_cpu(stream, rounds)?,
            (Mode::Stream, Connection::Kernel(socket)) => self.on_stream(*socket, rounds)?,
            (Mode::Graph, Connection::Kernel(socket)) => self.as_graph(*socket, rounds)?,
            (Mode::Kernel, Connection::Kernel(socket)) => self.by_kernel(*socket, rounds)?,
            _ => return Err(Failure::refused("a mode with the other one's connection")),
        }
        let state = self.state.to_vec()?;
        if state[0] != rounds {
            return Err(Failure::lost(format!("{} of {rounds} rounds ended", state[0])));
        }
        match state[WRONG] {
            0 => Ok(()),
            wrong => Err(Failure::lost(format!("{wrong} numbers came back wrong"))),
        }
    }

    /// Of a message.
    pub(crate) fn bytes(&self) -> usize {
        self.sent.len() * 4
    }

    fn exchange(&self) -> impl gpunet_device::kernel::LaunchArg<Exchange> {
        Exchange::launch_arg(&self.sent, &self.received, &self.state, self.compute_ns)
    }

    fn idle(&self) -> Result<(), Failure> {
        match self.queue.stream().wait(self.timeout * 100) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::lost("the stream is not done in time")),
            Err(error) => Err(Failure::lost(error.to_string())),
        }
    }

    fn by_cpu(&self, stream: &mut TcpStream, rounds: u32) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::of_socket("the peer", &error);
        let mut numbers = vec![0_u32; self.sent.len()];
        let mut bytes = vec![0_u8; self.sent.len() * 4];
        for _ in 0..rounds {
            self.queue.launch(produce, self.shape, (self.exchange(),))?;
            self.idle()?;
            self.sent.read(0, &mut numbers)?;
            for (to, number) in bytes.chunks_exact_mut(4).zip(&numbers) {
                to.copy_from_slice(&number.to_ne_bytes());
            }
            peer::send(stream, &bytes, self.timeout).map_err(failed)?;
            peer::receive(stream, &mut bytes, self.timeout).map_err(failed)?;
            for (from, number) in bytes.chunks_exact(4).zip(&mut numbers) {
                *number = u32::from_ne_bytes([from[0], from[1], from[2], from[3]]);
            }
            self.received.write(0, &numbers)?;
            self.queue.launch(consume, self.shape, (self.exchange(),))?;
            self.idle()?;
        }
        Ok(())
    }

    /// A send and a receive.
    pub(crate) fn batch(&self, socket: Handle) -> Result<Batch, Failure> {
        let mut batch = Batch::new();
        batch.send(socket, &self.sent, ..)?.receive(socket, &self.received, ..)?;
        Ok(batch)
    }

    fn on_stream(&self, socket: Handle, rounds: u32) -> Result<(), Failure> {
        let batch = self.batch(socket)?;
        let mut posted = Vec::<Completions>::with_capacity(AHEAD);
        for _ in 0..rounds {
            if posted.len() == AHEAD {
                posted[AHEAD / 2 - 1].wait_timeout(self.timeout * 10)?;
                for done in posted.drain(..AHEAD / 2) {
                    done.wait_timeout(self.timeout * 10)?;
                }
            }
            self.queue.launch(produce, self.shape, (self.exchange(),))?;
            posted.push(self.queue.post(&batch)?);
            self.queue.launch(consume, self.shape, (self.exchange(),))?;
        }
        for post in posted {
            post.wait_timeout(self.timeout * 10)?;
        }
        self.idle()
    }

    fn as_graph(&self, socket: Handle, rounds: u32) -> Result<(), Failure> {
        let batch = self.batch(socket)?;
        let graph = self.queue.graph(|graph| {
            graph.launch(produce, self.shape, (self.exchange(),))?;
            graph.post(&batch)?;
            graph.launch(consume, self.shape, (self.exchange(),))?;
            Ok(())
        })?;
        for round in 1..=rounds {
            graph.launch()?;
            if let Some(earlier) = round.checked_sub(AHEAD as u32 / 2)
                && round.is_multiple_of(AHEAD as u32 / 2)
            {
                graph.wait_launch(earlier, self.timeout * 10)?;
            }
        }
        graph.wait_launch(rounds, self.timeout * 10)?;
        self.idle()
    }

    fn by_kernel(&self, socket: Handle, rounds: u32) -> Result<(), Failure> {
        let prepared = self.queue.prepare(&self.batch(socket)?)?;
        let shape = Shape::new(1, self.threads);
        let arguments = (self.exchange(), &prepared, rounds);
        self.queue.launch(exchange_rounds, shape, arguments)?;
        prepared.wait_runs(rounds, self.timeout * 100)?;
        self.idle()
    }
}

/// A connection to the peer, of the system's or given to kernels.
pub(crate) enum Connection {
    System(TcpStream),
    Kernel(Handle),
}
