//! The CPU twin: the same server, client and streams as the kernels, in threads on plain sockets
//! or, by RDMA, on those of the stock rsocket library.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpunet_apps::transport::{SocketTransport, Travelled};
use gpunet_device::SocketAddr;
use gpunet_host::TransportChoice;
use gpunet_pattern as pattern;

use crate::address::{cannot_connect, cannot_listen};
use crate::end::{End, RoundTrips, SEED, Server, Service, Streaming};
use crate::socket::{Listener, Stream, Wait};
use gpunet_apps::failure::Failure;
use gpunet_apps::stop::Stop;

/// What one read or write moves at most.
const CHUNK: usize = 64 << 10;

/// Ends that run on the CPU.
pub(crate) struct CpuEnd {
    transport: SocketTransport,
    stop: Stop,
    travelled: Mutex<Option<Travelled>>,
}

impl CpuEnd {
    pub(crate) fn new(transport: SocketTransport, stop: &Stop) -> Self {
        Self { transport, stop: stop.clone(), travelled: Mutex::default() }
    }

    fn connect(&self, to: &SocketAddr, timeout: Duration) -> Result<Stream, Failure> {
        let stream = Stream::connect(to, self.transport, timeout)
            .map_err(|error| cannot_connect(to, self.transport, &error))?;
        let by = if stream.is_rdma() { TransportChoice::Rdma } else { TransportChoice::Tcp };
        let travelled = Travelled { by, placement: None };
        *self.travelled.lock().unwrap_or_else(PoisonError::into_inner) = Some(travelled);
        Ok(stream)
    }

    /// Runs `work` for each connection in a thread of its own; all results, or the first failure.
    fn each_connection<T: Send>(
        connections: u32,
        work: impl Fn(u32) -> Result<T, Failure> + Sync,
    ) -> Result<Vec<T>, Failure> {
        let no_thread = |error: io::Error| Failure::refused(format!("no more threads: {error}"));
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for rank in 1..connections {
                let work = &work;
                let builder = std::thread::Builder::new().name(format!("client-{rank}"));
                let thread = builder.spawn_scoped(scope, move || work(rank)).map_err(no_thread)?;
                threads.push(thread);
            }
            let mut results = vec![work(0)];
            for thread in threads {
                let ended = thread.join();
                results.push(ended.unwrap_or_else(|_| Err(Failure::lost("a client panicked"))));
            }
            results.into_iter().collect()
        })
    }
}

impl End for CpuEnd {
    fn serve(&self, service: Service, at: &SocketAddr) -> Result<Box<dyn Server + '_>, Failure> {
        let listener =
            Listener::bind(at, self.transport).map_err(|error| cannot_listen(at, &error))?;
        let address = listener.address().map_err(|error| cannot_listen(at, &error))?;
        let stop = self.stop.part();
        let thread = {
            let stop = stop.clone();
            std::thread::Builder::new()
                .name("server".to_owned())
                .spawn(move || accept_all(&listener, service, &stop))
                .map_err(|error| Failure::refused(format!("no thread for the server: {error}")))?
        };
        Ok(Box::new(CpuServer { address, stop, thread: Some(thread) }))
    }

    fn round_trips(&self, to: &SocketAddr, work: &RoundTrips) -> Result<Vec<u64>, Failure> {
        let samples = Self::each_connection(work.connections, |rank| {
            let stream = self.connect(to, work.timeout)?;
            connection_round_trips(stream, work, SEED + u64::from(rank), &self.stop)
        })?;
        Ok(samples.concat())
    }

    fn stream(&self, to: &SocketAddr, work: &Streaming) -> Result<Duration, Failure> {
        let took = Self::each_connection(work.connections, |_| {
            let start = Instant::now();
            let mut stream = self.connect(to, work.timeout)?;
            pour(&mut stream, work, &self.stop)?;
            Ok(start.elapsed())
        })?;
        Ok(took.into_iter().max().unwrap_or_default())
    }

    fn take_travelled(&self) -> Option<Travelled> {
        self.travelled.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A listening thread and a thread for each connection.
struct CpuServer {
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Server for CpuServer {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn watch(&self) -> Result<(), Failure> {
        std::thread::sleep(Duration::from_millis(50));
        match &self.thread {
            Some(thread) if thread.is_finished() && !self.stop.is_set() => {
                Err(Failure::lost("the server's listener failed: start it again"))
            }
            _ => Ok(()),
        }
    }

    fn stop(self: Box<Self>) -> Result<(), Failure> {
        // Dropping it does that.
        Ok(())
    }
}

impl Drop for CpuServer {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // What it ended with was of interest only while it served.
            let _ = thread.join();
        }
    }
}

fn accept_all(listener: &Listener, service: Service, stop: &Stop) -> io::Result<()> {
    std::thread::scope(|scope| {
        let mut wait = Wait::new(stop, None);
        loop {
            match listener.try_accept() {
                Ok(Some(stream)) => {
                    // A connection that fails, or that gets no thread, ends alone.
                    let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
                        let mut wait = Wait::new(stop, None);
                        match service {
                            Service::Echo => echo(stream, &mut wait),
                            Service::Sink => drain(stream, &mut wait),
                        }
                    });
                    wait.begin();
                }
                Ok(None) => {
                    if wait.pause().is_err() {
                        return Ok(());
                    }
                }
                // Such as a peer that left before it was accepted, or too many open files.
                Err(error) if stop.is_set() => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    })
}

fn echo(mut stream: Stream, wait: &mut Wait<'_>) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match stream.read(&mut buffer, wait)? {
            0 => return Ok(()),
            bytes => stream.write_all(&buffer[..bytes], wait)?,
        }
    }
}

fn drain(mut stream: Stream, wait: &mut Wait<'_>) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut good = 0;
    loop {
        let bytes = stream.read(&mut buffer, wait)?;
        if bytes == 0 || !pattern::slice_holds(&buffer[..bytes], SEED, good) {
            break;
        }
        good += bytes as u64;
    }
    stream.write_all(&good.to_le_bytes(), wait)
}

fn connection_round_trips(
    mut stream: Stream,
    work: &RoundTrips,
    seed: u64,
    stop: &Stop,
) -> Result<Vec<u64>, Failure> {
    let failed = |error: io::Error| Failure::of_socket("round trip", &error);
    let mut wait = Wait::new(stop, Some(work.timeout));
    let mut message = vec![0; work.bytes as usize];
    let mut answer = vec![0; work.bytes as usize];
    let mut samples = Vec::new();
    for turn in 0..work.messages {
        let position = turn * work.bytes;
        pattern::fill_slice(&mut message, seed, position);
        let start = Instant::now();
        exchange(&mut stream, &message, &mut answer, &mut wait).map_err(failed)?;
        samples.push(start.elapsed().as_nanos() as u64);
        if !pattern::slice_holds(&answer, seed, position) {
            return Err(Failure::lost("round trip: bytes came back wrong"));
        }
    }
    Ok(samples)
}

/// Sends and receives at once: a server cannot take a large message whole before it answers.
fn exchange(
    stream: &mut Stream,
    message: &[u8],
    answer: &mut [u8],
    wait: &mut Wait<'_>,
) -> io::Result<()> {
    let (mut sent, mut received) = (0, 0);
    wait.begin();
    while received < answer.len() {
        let mut moved = false;
        if sent < message.len()
            && let Some(bytes) = stream.try_write(&message[sent..])?
        {
            sent += bytes;
            moved = true;
        }
        match stream.try_read(&mut answer[received..])? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(bytes) => {
                received += bytes;
                moved = true;
            }
            None if moved => {}
            None => wait.pause()?,
        }
        if moved {
            wait.begin();
        }
    }
    Ok(())
}

/// Sends a stream, ends it, and waits for the sink's answer.
fn pour(stream: &mut Stream, work: &Streaming, stop: &Stop) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::of_socket("stream", &error);
    let mut wait = Wait::new(stop, Some(work.timeout));
    let mut buffer = vec![0; CHUNK];
    let mut sent = 0;
    while sent < work.bytes {
        let piece = &mut buffer[..(work.bytes - sent).min(CHUNK as u64) as usize];
        pattern::fill_slice(piece, SEED, sent);
        stream.write_all(piece, &mut wait).map_err(failed)?;
        sent += piece.len() as u64;
    }
    stream.end().map_err(failed)?;
    let mut answer = [0; 8];
    let mut got = 0;
    while got < answer.len() {
        match stream.read(&mut answer[got..], &mut wait).map_err(failed)? {
            0 => return Err(Failure::lost("stream: the sink left without an answer")),
            bytes => got += bytes,
        }
    }
    match u64::from_le_bytes(answer) {
        good if good == work.bytes => Ok(()),
        good => Err(Failure::lost(format!("stream: {good} of {} bytes arrived well", work.bytes))),
    }
}
