//! P2P streams against what the GPU itself does: round trips against the best exchange known of the same bytes,
//! streams against a bare copy by one block. Both ends are kernels, on two nets of this process or,
//! with a server elsewhere, of two.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use gpunet_bench_kernels::client::{Client, REPORT_WORDS, measure_echo};
use gpunet_bench_kernels::p2p::{copy_alone, send_all, swallow_all};
use gpunet_bench_kernels::serve::echo_server;
use gpunet_device::{Errno, SocketAddr};
use gpunet_host::{Gpu, Launch, Net, Shape, Task, TransportChoice};
use gpunet_terminal::output::print;
use gpunet_terminal::progress::Progress;
use gpunet_terminal::quantity::{bytes_text, parse_ring};
use gpunet_terminal::table::Table;
use serde_json::json;

use crate::load::Percentiles;
use crate::memory::Memory;
use crate::size::parse_size;
use crate::suite::floor::Floor;

/// How long a measurement may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What each of several pairs at once is measured with.
const PAIRS: u32 = 8;

/// Options of `bench local`.
#[derive(Args)]
pub(crate) struct Options {
    /// Bytes of an echoed message
    #[arg(long, alias = "bytes", value_name = "BYTES", default_value = "64", value_parser = parse_size)]
    size: usize,
    /// Round trips in each round
    #[arg(long, value_name = "N", default_value_t = 5000)]
    messages: u64,
    /// Rounds of each measurement, in which both are measured
    #[arg(long, alias = "rounds", value_name = "N", default_value_t = 9)]
    pairs: usize,
    /// Bytes that a stream sends at once
    #[arg(long, value_name = "BYTES", default_value = "8M", value_parser = parse_size)]
    piece: usize,
    /// How often
    #[arg(long, value_name = "N", default_value_t = 250)]
    turns: u64,
    /// Bytes of each of a connection's two rings, of streams
    #[arg(long, value_name = "BYTES", default_value = "8M", value_parser = parse_ring)]
    ring: u32,
    /// Threads of a block that echoes
    #[arg(long, default_value_t = 32)]
    echo_threads: u32,
    /// Threads of a block that streams
    #[arg(long, default_value_t = 512)]
    stream_threads: u32,
    /// Serve both kinds at these ports until it is stopped, for `--connect` in another process
    #[arg(long, value_name = "PORT", conflicts_with = "connect")]
    serve: Option<u16>,
    /// The port of another process that serves
    #[arg(long, value_name = "PORT")]
    connect: Option<u16>,
    /// One JSON object on standard output in place of the table
    #[arg(long)]
    json: bool,
    /// No progress on standard error
    #[arg(long)]
    quiet: bool,
}

impl Options {
    fn progress(&self, what: String) -> Progress {
        let progress = Progress::of_steps(self.pairs as u64, self.quiet || self.json);
        progress.begin(what);
        progress
    }
}

/// A net with a kernel that serves.
struct Server {
    address: SocketAddr,
    launch: Launch,
    net: Net,
    _memory: Option<Memory>,
}

impl Server {
    fn echo(gpu: &Gpu, options: &Options, port: u16) -> Result<Self> {
        let net = net(gpu, options)?;
        let (listener, address) = net.listen(loopback(port))?;
        let shape = Shape::new(1, options.echo_threads).shared_memory(16 << 10);
        let launch = net.launch(echo_server, shape, (listener,))?;
        Ok(Self { address, launch, net, _memory: None })
    }

    fn sink(gpu: &Gpu, options: &Options, pairs: u32, port: u16) -> Result<Self> {
        let net = net(gpu, options)?;
        let memory = Memory::new(gpu, options.piece * pairs as usize)?;
        let (listener, address) = net.listen(loopback(port))?;
        let shape = Shape::new(pairs, options.stream_threads).shared_memory(1 << 10);
        let launch = net.launch(swallow_all, shape, (listener, memory.bytes()))?;
        Ok(Self { address, launch, net, _memory: Some(memory) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.launch.abort();
        // The net's drop deals with a kernel that does not end.
        let _ = self.launch.wait_timeout(Duration::from_secs(5));
        let _ = &self.net;
    }
}

fn net(gpu: &Gpu, options: &Options) -> Result<Net> {
    let builder = Net::builder(gpu).sockets(64).ring(options.ring).ring_memory(64 << 20);
    Ok(builder.transport(TransportChoice::Local).build()?)
}

fn loopback(port: u16) -> std::net::SocketAddr {
    std::net::SocketAddr::from(([127, 0, 0, 1], port))
}

/// `bench local`.
pub(crate) fn run(gpu: &Gpu, options: &Options) -> Result<()> {
    if let Some(port) = options.serve {
        let _echo = Server::echo(gpu, options, port)?;
        let _one = Server::sink(gpu, options, 1, port + 1)?;
        let _many = Server::sink(gpu, options, PAIRS, port + 2)?;
        println!("serving");
        // Ends with whoever started it.
        let _ = std::io::stdin().read_line(&mut String::new());
        return Ok(());
    }
    let at = |port: u16| SocketAddr::from(loopback(port));
    let (floor, echo) = round_trips(gpu, options, options.connect.map(at))?;
    let mut streams = Vec::new();
    for (pairs, next) in [(1, 1), (PAIRS, 2)] {
        streams.push(match options.connect {
            Some(port) => stream(gpu, options, pairs, at(port + next))?,
            None => {
                let server = Server::sink(gpu, options, pairs, 0)?;
                stream(gpu, options, pairs, server.address)?
            }
        });
    }
    report(gpu, options, &floor, &echo, [streams[0], streams[1]])
}

/// The best exchange known, and messages of a stream: both between two blocks.
fn round_trips(
    gpu: &Gpu,
    options: &Options,
    server: Option<SocketAddr>,
) -> Result<(Percentiles, Percentiles)> {
    let client = net(gpu, options)?;
    let rounds = options.messages;
    let samples = Memory::new(gpu, rounds as usize * 8)?;
    let report = Memory::new(gpu, 8 * REPORT_WORDS)?;
    // Two messages, for which shared memory may have no room.
    let messages = Memory::new(gpu, 2 * (options.size).next_multiple_of(4096).max(4096))?;
    let floor = Floor::new(gpu, options.size, rounds as usize)?;
    let best = floor.best(options.size, rounds.min(500) as usize)?;
    let (mut floors, mut echoes) = (Vec::new(), Vec::new());
    let progress = options.progress("round trips".to_owned());
    for _ in 0..options.pairs {
        let samples_ns = floor.samples(best, options.size, rounds as usize)?;
        floors.extend(samples_ns.into_iter().map(|ns| Duration::from_nanos(ns as u64)));
        let own = if server.is_none() { Some(Server::echo(gpu, options, 0)?) } else { None };
        let server = server.or(own.as_ref().map(|own| own.address)).context("no server")?;
        report.write(&[Errno::ECANCELED.negative() as u64; REPORT_WORDS])?;
        let work = Client {
            server,
            streams: 1,
            bytes: options.size as u64,
            rounds,
            ring: u64::from(options.ring),
            timeout_ns: 10_000_000_000,
            limit_ns: TIMEOUT.as_nanos() as u64,
        };
        let shape =
            Shape::new(1, options.echo_threads).shared_memory(8 * rounds as u32 + (16 << 10));
        let arguments = (work, messages.bytes(), samples.words(), report.words());
        client.launch(measure_echo, shape, arguments)?.wait_timeout(TIMEOUT)?;
        let read_back = report.read(REPORT_WORDS)?;
        ensure!(
            read_back[0] == 0,
            "the echo failed: {}",
            Errno(-read_back[0].cast_signed() as i32)
        );
        ensure!(read_back[4] == TransportChoice::Local as u64, "it went another way");
        let read = samples.read(read_back[1] as usize)?;
        echoes.extend(times(&read, read_back[2], read_back[3]));
        progress.done(1);
    }
    Ok((Percentiles::of(floors), Percentiles::of(echoes)))
}

fn times(cycles: &[u64], all_ns: u64, all_cycles: u64) -> Vec<Duration> {
    let ns = all_ns as f64 / all_cycles.max(1) as f64;
    // The first ones find cold caches.
    let warm = &cycles[cycles.len() / 10..];
    warm.iter().map(|cycles| Duration::from_nanos((*cycles as f64 * ns) as u64)).collect()
}

/// GB/s of all pairs together: a bare copy, and streams.
#[derive(Clone, Copy)]
struct Rates {
    bare: f64,
    stream: f64,
}

fn stream(gpu: &Gpu, options: &Options, pairs: u32, server: SocketAddr) -> Result<Rates> {
    let client = net(gpu, options)?;
    let bytes = options.piece * pairs as usize;
    let (from, to) = (Memory::new(gpu, bytes)?, Memory::new(gpu, bytes)?);
    let took = Memory::new(gpu, 8 * pairs as usize)?;
    let shape = Shape::new(pairs, options.stream_threads).shared_memory(1 << 10);
    let total = bytes as f64 * options.turns as f64;
    let mut rates = [Vec::new(), Vec::new()];
    let progress = options.progress(format!("{pairs} pairs"));
    for _ in 0..options.pairs {
        let arguments = (from.bytes(), to.bytes(), options.turns, took.words());
        client.launch(copy_alone, shape, arguments)?.wait_timeout(TIMEOUT)?;
        rates[0].push(total / slowest(&took, pairs)?);
        let ring = u64::from(options.ring);
        let arguments = (server, ring, from.bytes(), options.turns, took.words());
        client.launch(send_all, shape, arguments)?.wait_timeout(TIMEOUT)?;
        rates[1].push(total / slowest(&took, pairs)?);
        progress.done(1);
    }
    let median = |mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let [bare, stream] = rates.map(median);
    Ok(Rates { bare, stream })
}

fn slowest(took: &Memory, pairs: u32) -> Result<f64> {
    let times = took.read(pairs as usize)?;
    let failed = times.iter().map(|time| time.cast_signed()).find(|time| *time <= 0);
    if let Some(failed) = failed {
        bail!("a stream failed: {}", Errno(-failed as i32));
    }
    times.into_iter().max().map(|time| time as f64).context("no pair")
}

fn report(
    gpu: &Gpu,
    options: &Options,
    floor: &Percentiles,
    echo: &Percentiles,
    [one, many]: [Rates; 2],
) -> Result<()> {
    let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
    let ratio = us(echo.p50) / us(floor.p50);
    let (share, gain) = (one.stream / one.bare, many.stream / one.stream);
    if options.json {
        let object = json!({
            "gpu": gpu.info().kind.to_string(),
            "gpu_name": gpu.info().name,
            "bytes": options.size,
            "round_trip_us": {
                "floor": {"p50": us(floor.p50), "p99": us(floor.p99)},
                "local": {"p50": us(echo.p50), "p99": us(echo.p99)},
                "local_to_floor": ratio,
            },
            "stream_gbps": {
                "one": {"copy": one.bare, "local": one.stream, "share": share},
                "pairs": PAIRS,
                "many": {"copy": many.bare, "local": many.stream, "to_one": gain},
            },
        });
        return Ok(print(&format!("{object:#}\n"))?);
    }
    let figures = |what: &str, figures: &[f64]| {
        let figures = figures.iter().map(|figure| format!("{figure:.2}"));
        [what.to_owned()].into_iter().chain(figures).collect::<Vec<_>>()
    };
    let size = bytes_text(options.size as u64);
    let mut trips = Table::new([&format!("round trip of {size}"), "p50 us", "p99 us"]);
    trips.row(figures("two blocks, best exchange known", &[us(floor.p50), us(floor.p99)]));
    trips.row(figures("kernel to kernel, local", &[us(echo.p50), us(echo.p99)]));
    trips.row(figures("local / best exchange known", &[ratio]));
    let mut rates = Table::new(["streams", "copy GB/s", "local GB/s"]);
    rates.row(figures("one pair", &[one.bare, one.stream]));
    rates.row(figures("local / bare copy by one block (at least 0.85)", &[share]));
    rates.row(figures(&format!("{PAIRS} pairs"), &[many.bare, many.stream]));
    rates.row(figures("pairs together / one pair (at least 6)", &[gain]));
    Ok(print(&format!("{trips}\n{rates}"))?)
}
