//! The same server and client as the kernels, in threads, on sockets of the system or, by RDMA, on those of
//! the stock rsocket library.

use std::io::{self, Read, Write};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpunet_apps::failure::Failure;
use gpunet_apps::stop::Stop;
use gpunet_apps::transport::{SocketTransport, Travelled};
use gpunet_device::SocketAddr;
use gpunet_host::TransportChoice;
use gpunet_sockets::{By, Limits, Listener, Stream};
use gpunet_support::pattern;

use crate::address::{cannot_connect, cannot_listen};
use crate::end::{Echoed, End, SEED, Server, Work};

/// What goes out before it is read back: every server has room for it while it answers.
const PIECE: usize = 16 << 10;

/// Ends that run on the CPU.
pub(crate) struct CpuEnd {
    transport: SocketTransport,
    stop: Stop,
}

impl CpuEnd {
    pub(crate) fn new(transport: SocketTransport, stop: &Stop) -> Self {
        Self { transport, stop: stop.clone() }
    }

    fn by(&self) -> By {
        match self.transport {
            SocketTransport::Auto => By::Auto,
            SocketTransport::Rdma => By::Rdma,
            // The command line has refused p2p streams: the CPU has no GPU memory to be written into.
            SocketTransport::Tcp | SocketTransport::Local => By::Tcp,
        }
    }
}

/// Calls of such a part end when it, or the program, is to stop.
fn until(stop: &Stop) -> Limits {
    let stop = stop.clone();
    Limits::until(move || stop.is_set())
}

impl End for CpuEnd {
    fn serve(&self, at: &SocketAddr) -> Result<Box<dyn Server + '_>, Failure> {
        let listener = Listener::bind(at, self.by()).map_err(|error| cannot_listen(at, &error))?;
        let address = listener.address().map_err(|error| cannot_listen(at, &error))?;
        let stop = self.stop.part();
        let thread = {
            let stop = stop.clone();
            std::thread::Builder::new()
                .name("server".to_owned())
                .spawn(move || accept_all(&listener, &stop))
                .map_err(|error| Failure::refused(format!("no thread for the server: {error}")))?
        };
        Ok(Box::new(CpuServer { address, stop, thread: Some(thread) }))
    }

    fn echo(&self, to: &SocketAddr, work: &Work) -> Echoed {
        let travelled = OnceLock::new();
        let connection = |rank: u32| {
            let limits = until(&self.stop).at_most(work.timeout);
            let stream = Stream::connect(to, self.by(), &limits)
                .map_err(|error| cannot_connect(to, self.transport, &error))?;
            let by = if stream.is_rdma() { TransportChoice::Rdma } else { TransportChoice::Tcp };
            travelled.get_or_init(|| Travelled { by, placement: None });
            echo_all(&stream, work, SEED + u64::from(rank))
        };
        let connection = &connection;
        let elapsed = std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..work.connections).map(|rank| scope.spawn(move || connection(rank))).collect();
            let panicked = |_| Err(Failure::lost("a client panicked"));
            let first = [connection(0)].into_iter();
            let others = others.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
            // All are waited for, also behind one that failed.
            first.chain(others.collect::<Vec<_>>()).sum::<Result<Duration, Failure>>()
        });
        let messages = work.messages as f64 * f64::from(work.connections);
        let mean = match elapsed {
            Err(_) if self.stop.is_set() => Err(Failure::Interrupted),
            elapsed => elapsed.map(|elapsed| elapsed.div_f64(messages)),
        };
        Echoed { travelled: travelled.into_inner(), mean }
    }
}

/// A listening thread and a thread for each connection.
struct CpuServer {
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
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

fn accept_all(listener: &Listener, stop: &Stop) {
    let limits = until(stop);
    std::thread::scope(|scope| {
        while !stop.is_set() {
            match listener.accept(&limits) {
                // A connection that fails, or that gets no thread, ends alone.
                Ok(Some(stream)) => {
                    let serve = move || send_back(&stream);
                    let _ = std::thread::Builder::new().spawn_scoped(scope, serve);
                }
                // Nobody, a peer that left before it was accepted, or too many open files.
                Ok(None) | Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    });
}

fn send_back(mut stream: &Stream) -> io::Result<()> {
    let mut buffer = vec![0; 4 * PIECE];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            bytes => stream.write_all(&buffer[..bytes])?,
        }
    }
}

/// Sends all messages and checks them: how long the round trips took.
fn echo_all(mut stream: &Stream, work: &Work, seed: u64) -> Result<Duration, Failure> {
    let failed = |error: io::Error| Failure::of_socket("round trip", &error);
    let (mut message, mut answer) = ([0; PIECE], [0; PIECE]);
    let (mut elapsed, mut position) = (Duration::ZERO, 0);
    while position < work.messages * work.bytes {
        let bytes = (work.bytes - position % work.bytes).min(PIECE as u64) as usize;
        let (message, answer) = (&mut message[..bytes], &mut answer[..bytes]);
        pattern::fill_slice(message, seed, position);
        let start = Instant::now();
        stream.write_all(message).and_then(|()| stream.read_exact(answer)).map_err(failed)?;
        elapsed += start.elapsed();
        if !pattern::slice_holds(answer, seed, position) {
            return Err(Failure::lost("round trip: bytes came back wrong"));
        }
        position += bytes as u64;
    }
    Ok(elapsed)
}
