//! The clients' process: many TCP connections to this machine, driven by lines on standard input.
//!
//! The benchmark starts itself as this process, so that clients share neither descriptors nor memory with
//! the server. It ends when standard input does. A request is a word and numbers, the answer is `ok` and
//! numbers, or `error` and why:
//!
//! ```text
//!   open GROUP PORT COUNT BUFFER         connects; BUFFER bytes to receive, 0 for the system's default
//!   send GROUP BYTES                     sends on each connection
//!   echo GROUP BYTES ROUNDS FLIGHT MS    round trips, FLIGHT at once, for MS at most: p50, p99 (ns), how many
//!   wake GROUP BYTES ROUNDS MS           round trips on the first one, each after MS of quiet: the same
//!   short PORT COUNT THREADS BYTES       connections with one round trip each: how many
//!   close GROUP
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{Timespec, epoll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::super::Latency;
use super::super::client::moved;
use super::process;

/// How long one call on a socket, or one answer, may take.
pub(super) const ANSWER: Duration = Duration::from_secs(60);
/// Addresses of this machine that connections come from in turn: a port is not free for a minute after
/// its connection was closed.
const SOURCES: u32 = 64;

/// How long a client that polls is awake before it sends.
const AWAKE_BEFORE: Duration = Duration::from_millis(2);

/// The variable that has clients poll without sleeping, for machines with cores to spare.
pub(super) const BUSY: &str = "GPUNET_BENCH_BUSY";

/// Serves requests until standard input ends.
pub(crate) fn run() -> Result<()> {
    process::raise_file_limit()?;
    let busy = std::env::var_os(BUSY).is_some();
    let mut clients = Clients { groups: BTreeMap::new(), busy };
    let mut output = std::io::stdout();
    // Who tests this program may have begun a line.
    writeln!(output)?;
    for line in std::io::stdin().lock().lines() {
        match clients.answer(&line?) {
            Ok(numbers) => {
                let numbers: String = numbers.iter().map(|number| format!(" {number}")).collect();
                writeln!(output, "ok{numbers}")?;
            }
            Err(error) => writeln!(output, "error {}", format!("{error:#}").replace('\n', " "))?,
        }
        output.flush()?;
    }
    Ok(())
}

/// Connections, by group.
struct Clients {
    groups: BTreeMap<u64, Vec<TcpStream>>,
    busy: bool,
}

impl Clients {
    fn answer(&mut self, line: &str) -> Result<Vec<u64>> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let numbers: Vec<u64> =
            words.map(str::parse).collect::<Result<_, _>>().context("numbers")?;
        match (name, numbers[..].as_ref()) {
            ("open", &[group, port, count, buffer]) => {
                let streams = (0..count).map(|_| connect(port, buffer)).collect::<Result<_>>()?;
                self.groups.insert(group, streams);
                Ok(Vec::new())
            }
            ("send", &[group, bytes]) => {
                let piece = vec![0x5A; bytes as usize];
                for stream in self.group(group)? {
                    stream.write_all(&piece)?;
                }
                Ok(Vec::new())
            }
            ("echo", &[group, bytes, rounds, flight, ms]) => {
                let (busy, limit) = (self.busy, Duration::from_millis(ms));
                let streams = self.group(group)?;
                let mut trips = RoundTrips::new(streams, bytes as usize, busy)?;
                percentiles(trips.run(rounds as usize, flight as usize, limit)?)
            }
            ("wake", &[group, bytes, rounds, ms]) => {
                let (busy, streams) = (self.busy, self.group(group)?);
                let streams = &mut streams[..1];
                let mut trips = RoundTrips::new(streams, bytes as usize, busy)?;
                let mut samples = Vec::new();
                for round in 0..rounds {
                    // Not in step with anything that sleeps for a fixed time.
                    let uneven = Duration::from_micros(round * 7919 % 10_000);
                    stay_quiet(Duration::from_millis(ms) + uneven, busy);
                    samples.extend(trips.run(1, 1, ANSWER)?);
                }
                percentiles(samples)
            }
            ("short", &[port, count, threads, bytes]) => {
                short(port, count, threads, bytes as usize)
            }
            ("close", &[group]) => {
                self.groups.remove(&group);
                Ok(Vec::new())
            }
            _ => bail!("no such request: {line:?}"),
        }
    }

    fn group(&mut self, number: u64) -> Result<&mut [TcpStream]> {
        let group = self.groups.get_mut(&number).map(Vec::as_mut_slice);
        group.filter(|group| !group.is_empty()).with_context(|| format!("no group {number}"))
    }
}

/// Sends nothing for so long. A client that polls is awake for the last of it: what its own core takes to
/// wake up is not the server's.
fn stay_quiet(time: Duration, busy: bool) {
    let begun = Instant::now();
    std::thread::sleep(time.saturating_sub(if busy { AWAKE_BEFORE } else { Duration::ZERO }));
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// 50th and 99th percentile in nanoseconds, and how many.
fn percentiles(mut samples: Vec<f64>) -> Result<Vec<u64>> {
    // The first ones find cold caches.
    samples.drain(..samples.len() / 10);
    let count = samples.len() as u64;
    let latency = Latency::of(samples)?;
    Ok(vec![(latency.p50 * 1000.0) as u64, (latency.p99 * 1000.0) as u64, count])
}

/// Connects to a port of this machine. Every call on the stream has a time-out.
fn connect(port: u64, receive_buffer: u64) -> Result<TcpStream> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let port = u16::try_from(port)?;
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let socket: OwnedFd = socket.context("socket")?;
    if receive_buffer > 0 {
        sockopt::set_socket_recv_buffer_size(&socket, receive_buffer as usize)?;
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    // It limits connect as well.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(ANSWER))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER))?;
    let source = NEXT.fetch_add(1, Ordering::Relaxed) % SOURCES;
    let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 0, 1, 1)) + source);
    rustix::net::bind(&socket, &SocketAddrV4::new(source, 0)).context("bind")?;
    let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    rustix::net::connect(&socket, &server).context("connect")?;
    Ok(TcpStream::from(socket))
}

/// Connections with one round trip each, by several threads.
fn short(port: u64, count: u64, threads: u64, bytes: usize) -> Result<Vec<u64>> {
    let threads = threads.clamp(1, 64);
    let done: Result<Vec<u64>> = std::thread::scope(|scope| {
        let one = |thread: u64| {
            let mut answer = vec![0; bytes];
            let share = count / threads + u64::from(thread < count % threads);
            for at in 0..share {
                let message = vec![(thread + at) as u8; bytes];
                let mut stream = connect(port, 0)?;
                stream.write_all(&message)?;
                stream.read_exact(&mut answer)?;
                ensure!(answer == message, "the answer differs from the message");
            }
            Ok(share)
        };
        let spawned: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, Result<u64>>| {
            handle.join().unwrap_or_else(|_| bail!("a client thread panicked"))
        };
        spawned.into_iter().map(join).collect()
    });
    Ok(vec![done?.iter().sum()])
}

/// Round trips on several connections, some at once, every byte checked.
struct RoundTrips<'a> {
    trips: Vec<Trip<'a>>,
    ready: OwnedFd,
    events: Vec<epoll::Event>,
    message: Vec<u8>,
    busy: bool,
    /// The connection that is next.
    next: usize,
}

/// One connection, and the round trip that is under way on it.
struct Trip<'a> {
    stream: &'a mut TcpStream,
    begun: Option<Instant>,
    sent: usize,
    got: usize,
    seed: u8,
}

impl<'a> RoundTrips<'a> {
    fn new(streams: &'a mut [TcpStream], bytes: usize, busy: bool) -> Result<Self> {
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, stream) in streams.iter().enumerate() {
            stream.set_nonblocking(true)?;
            let flags = epoll::EventFlags::IN;
            epoll::add(&ready, stream, epoll::EventData::new_u64(at as u64), flags)?;
        }
        let trips = streams
            .iter_mut()
            .map(|stream| Trip { stream, begun: None, sent: 0, got: 0, seed: 0 })
            .collect();
        let events = Vec::with_capacity(256);
        Ok(Self { trips, ready, events, message: vec![0; bytes], busy, next: 0 })
    }

    /// Nanoseconds of each round trip: so many, or as many as end in time, and one at least.
    fn run(&mut self, rounds: usize, flight: usize, limit: Duration) -> Result<Vec<f64>> {
        let begun = Instant::now();
        let mut samples = Vec::with_capacity(rounds);
        let flight = flight.clamp(1, self.trips.len()).min(rounds);
        let mut started = 0;
        while started < flight {
            self.start()?;
            started += 1;
        }
        let mut under_way = flight;
        while under_way > 0 {
            for at in self.wait()? {
                let Some(took) = self.advance(at)? else { continue };
                samples.push(took.as_nanos() as f64);
                under_way -= 1;
                if started < rounds && begun.elapsed() < limit {
                    self.start()?;
                    started += 1;
                    under_way += 1;
                }
            }
        }
        Ok(samples)
    }

    /// Begins a round trip on the next connection that has none.
    fn start(&mut self) -> Result<()> {
        while self.trips[self.next].begun.is_some() {
            self.next = (self.next + 1) % self.trips.len();
        }
        let at = self.next;
        self.next = (at + 1) % self.trips.len();
        let trip = &mut self.trips[at];
        (trip.sent, trip.got, trip.seed) = (0, 0, trip.seed.wrapping_add(1));
        self.message.fill(trip.seed);
        trip.begun = Some(Instant::now());
        // A message is at most as long as what lies between: a ring and the system's buffers.
        while trip.sent < self.message.len() {
            trip.sent += moved(trip.stream.write(&self.message[trip.sent..]))?;
            ensure!(
                trip.begun.is_none_or(|begun| begun.elapsed() < ANSWER),
                "the server receives nothing"
            );
        }
        Ok(())
    }

    /// Connections on which something came, once there is one.
    fn wait(&mut self) -> Result<Vec<usize>> {
        let begun = Instant::now();
        let sleep = if self.busy { Duration::ZERO } else { ANSWER };
        let sleep = Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: 0 };
        loop {
            self.events.clear();
            let spare = rustix::buffer::spare_capacity(&mut self.events);
            match epoll::wait(&self.ready, spare, Some(&sleep)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if !self.events.is_empty() {
                return Ok(self.events.iter().map(|event| event.data.u64() as usize).collect());
            }
            ensure!(begun.elapsed() < ANSWER, "no answer within {ANSWER:?}");
            std::hint::spin_loop();
        }
    }

    /// Receives what has come; how long the round trip took, if that was the rest of it.
    fn advance(&mut self, at: usize) -> Result<Option<Duration>> {
        let trip = &mut self.trips[at];
        let mut piece = [0; 4 << 10];
        let got = moved(trip.stream.read(&mut piece))?;
        let begun = trip.begun.context("an answer that nobody waits for")?;
        ensure!(piece[..got].iter().all(|byte| *byte == trip.seed), "the answer differs");
        trip.got += got;
        ensure!(trip.got <= self.message.len(), "the answer is too long");
        if trip.got < self.message.len() {
            return Ok(None);
        }
        trip.begun = None;
        Ok(Some(begun.elapsed()))
    }
}

impl Drop for RoundTrips<'_> {
    fn drop(&mut self) {
        for trip in &self.trips {
            // A stream that cannot be set back fails in its next use.
            let _ = trip.stream.set_nonblocking(false);
        }
    }
}
