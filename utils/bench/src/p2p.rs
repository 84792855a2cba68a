//! P2P streams against what the GPU itself does: round trips against a bare exchange of flags,
//! streams against a bare copy by one block. Both ends are kernels, on two nets of this process or,
//! with a server elsewhere, of two.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use gpunet_bench_kernels::p2p::{copy_alone, exchange_flags, send_all, swallow_all};
use gpunet_bench_kernels::serve::echo_server;
use gpunet_bench_kernels::sizes::{Client, REPORT_WORDS, measure_echo};
use gpunet_device::{Errno, SocketAddr};
use gpunet_host::{Gpu, Launch, Net, Shape, TransportChoice};
use serde_json::json;

use crate::load::Percentiles;
use crate::memory::Memory;

/// How long a measurement may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// What each of several pairs at once is measured with.
const PAIRS: u32 = 8;

/// Options of `bench local`.
#[derive(Args)]
pub(crate) struct Options {
    /// Bytes of an echoed message
    #[arg(long, default_value_t = 64)]
    bytes: u64,
    /// Round trips in each round
    #[arg(long, default_value_t = 5000)]
    messages: u64,
    /// Rounds of each measurement, which take turns
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Bytes that a stream sends at once
    #[arg(long, default_value_t = 8 << 20)]
    piece: usize,
    /// How often
    #[arg(long, default_value_t = 250)]
    turns: u64,
    /// Capacity of the rings of streams
    #[arg(long, default_value_t = 8 << 20)]
    ring: u32,
    /// Threads of a block that echoes
    #[arg(long, default_value_t = 32)]
    echo_threads: u32,
    /// Threads of a block that streams
    #[arg(long, default_value_t = 512)]
    stream_threads: u32,
    /// Serve both kinds at these ports until told to stop, for `--connect` in another process
    #[arg(long, value_name = "PORT", conflicts_with = "connect")]
    serve: Option<u16>,
    /// The port of another process that serves
    #[arg(long, value_name = "PORT")]
    connect: Option<u16>,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
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
        let _ = self.launch.wait_for(Duration::from_secs(5));
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
    let (flags, echo) = round_trips(gpu, options, options.connect.map(at))?;
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
    report(gpu, options, &flags, &echo, [streams[0], streams[1]]);
    Ok(())
}

/// Bare flags, and messages: both between the blocks of two kernels that are launched one after the
/// other, so that they lie on the same multiprocessors.
fn round_trips(
    gpu: &Gpu,
    options: &Options,
    server: Option<SocketAddr>,
) -> Result<(Percentiles, Percentiles)> {
    let client = net(gpu, options)?;
    let rounds = options.messages;
    let words = Memory::new(gpu, 2 * 4096)?;
    let samples = Memory::new(gpu, (rounds as usize + 2) * 8)?;
    let report = Memory::new(gpu, 8 * REPORT_WORDS)?;
    // Two messages, for which shared memory may have no room.
    let messages = Memory::new(gpu, 2 * (options.bytes as usize).next_multiple_of(4096).max(4096))?;
    let (mut flags, mut echoes) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        eprint!("\rround trips, round {} of {} ", round + 1, options.rounds);
        words.0.write(0, &[0; 8])?;
        words.0.write(4096, &[0; 8])?;
        let shape = Shape::new(1, 32).shared_memory(8 * rounds as u32);
        let arguments = |first: u64| (words.words(), rounds, samples.words(), first);
        let second = client.launch(exchange_flags, shape, arguments(0))?;
        client.launch(exchange_flags, shape, arguments(1))?.wait_for(PATIENCE)?;
        second.wait_for(PATIENCE)?;
        let read = samples.read(rounds as usize + 2)?;
        ensure!(read[rounds as usize] > 0, "the blocks did not hear each other");
        flags.extend(times(
            &read[..rounds as usize],
            read[rounds as usize],
            read[rounds as usize + 1],
        ));
        let own = if server.is_none() { Some(Server::echo(gpu, options, 0)?) } else { None };
        let server = server.or(own.as_ref().map(|own| own.address)).context("no server")?;
        report.write(&[Errno::ECANCELED.negative() as u64; REPORT_WORDS])?;
        let work = Client {
            server,
            bytes: options.bytes,
            rounds,
            ring: u64::from(options.ring),
            timeout_ns: 10_000_000_000,
            limit_ns: PATIENCE.as_nanos() as u64,
        };
        let shape =
            Shape::new(1, options.echo_threads).shared_memory(8 * rounds as u32 + (16 << 10));
        let arguments = (work, messages.bytes(), samples.words(), report.words());
        client.launch(measure_echo, shape, arguments)?.wait_for(PATIENCE)?;
        let told = report.read(REPORT_WORDS)?;
        ensure!(told[0] == 0, "the echo failed: {}", Errno(-told[0].cast_signed() as i32));
        ensure!(told[4] == TransportChoice::Local as u64, "it went another way");
        let read = samples.read(told[1] as usize)?;
        echoes.extend(times(&read, told[2], told[3]));
    }
    eprintln!();
    Ok((Percentiles::of(flags), Percentiles::of(echoes)))
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
    for round in 0..options.rounds {
        eprint!("\r{pairs} pair(s), round {} of {} ", round + 1, options.rounds);
        let arguments = (from.bytes(), to.bytes(), options.turns, took.words());
        client.launch(copy_alone, shape, arguments)?.wait_for(PATIENCE)?;
        rates[0].push(total / slowest(&took, pairs)?);
        let ring = u64::from(options.ring);
        let arguments = (server, ring, from.bytes(), options.turns, took.words());
        client.launch(send_all, shape, arguments)?.wait_for(PATIENCE)?;
        rates[1].push(total / slowest(&took, pairs)?);
    }
    eprintln!();
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
    flags: &Percentiles,
    echo: &Percentiles,
    [one, many]: [Rates; 2],
) {
    let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
    let ratio = us(echo.p50) / us(flags.p50);
    let (share, gain) = (one.stream / one.bare, many.stream / one.stream);
    if options.json {
        let object = json!({
            "gpu": gpu.info().name,
            "bytes": options.bytes,
            "round_trip_us": {
                "flags": {"p50": us(flags.p50), "p99": us(flags.p99)},
                "local": {"p50": us(echo.p50), "p99": us(echo.p99)},
                "local_to_flags": ratio,
            },
            "stream_gbps": {
                "one": {"copy": one.bare, "local": one.stream, "share": share},
                "pairs": PAIRS,
                "many": {"copy": many.bare, "local": many.stream, "to_one": gain},
            },
        });
        println!("{object:#}");
        return;
    }
    println!("{:<52} {:>9} {:>9}", format!("round trip of {} B, us", options.bytes), "p50", "p99");
    println!("{:<52} {:>9.2} {:>9.2}", "two blocks, bare flags", us(flags.p50), us(flags.p99));
    println!("{:<52} {:>9.2} {:>9.2}", "kernel to kernel, local", us(echo.p50), us(echo.p99));
    println!("{:<52} {ratio:>9.2}", "local / bare flags (at most 2.2)");
    println!("{:<52} {:>9} {:>9}", "stream, GB/s", "copy", "local");
    println!("{:<52} {:>9.2} {:>9.2}", "one pair", one.bare, one.stream);
    println!("{:<52} {share:>9.2}", "local / bare copy by one block (at least 0.85)");
    println!("{:<52} {:>9.2} {:>9.2}", format!("{PAIRS} pairs"), many.bare, many.stream);
    println!("{:<52} {gain:>9.2}", "pairs together / one pair (at least 6)");
}
