//! The benchmark: gpunet and what it is compared with, measured in one run.
//!
//! Round trips of small messages: CPU to CPU, both polling; CPU to a GPU server kernel; CPU to a
//! CPU server that copies each request to the GPU, launches a kernel and copies the answer back.
//! Streams: CPU to CPU, and into a kernel. `bench local` measures kernel to kernel; `bench sizes`,
//! `ways`, `waiters`, `streams`, `scale` and `sgemm` are suites of many rows ([`suite`]). The ratios are what counts: absolute
//! figures depend on the machine and on what else it does.

mod baseline;
mod driver;
mod kernel;
mod kernels;
mod launching;
mod load;
mod memory;
mod p2p;
mod report;
mod size;
mod suite;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use gpunet_host::{Gpu, GpuChoice, GpuKind};
use gpunet_terminal::output::{complain, explain, print, say, show_log};
use gpunet_terminal::progress::Progress;
use gpunet_terminal::quantity::{bytes_text, parse_bytes, parse_ring};
use gpunet_terminal::table::Table;
use serde_json::json;

use kernels::MODULE;
use load::{Percentiles, Rate};
use size::parse_size;

/// Measures gpunet against its baselines, both in one run.
#[derive(Parser)]
#[command(
    name = "bench",
    version,
    after_help = "Each figure is the median of --pairs rounds that take turns, so that a \
    change of the machine's load affects both alike, and many, since where the system puts the \
    threads of a round changes its figures by a fifth. Without a command: round trips of 64 B and \
    one and four streams in. `bench sizes --help` and so on have each suite's own options. On a \
    machine without a GPU: `bench sizes --quick --gpu emulated`. docs/reference/json.md describes what --json prints."
)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// auto, cuda, cuda:N or emulated [default: auto, a CUDA device where there is one]
    #[arg(
        long,
        value_name = "GPU",
        default_value = "auto",
        hide_default_value = true,
        global = true
    )]
    gpu: GpuChoice,
    /// Bytes of an echoed message
    #[arg(long, alias = "bytes", value_name = "BYTES", default_value = "64", value_parser = parse_size)]
    size: usize,
    /// Round trips in each round
    #[arg(long, value_name = "N", default_value_t = 5000)]
    messages: usize,
    /// Rounds of each measurement, in which both are measured
    #[arg(long, alias = "rounds", value_name = "N", default_value_t = 25)]
    pairs: usize,
    /// Bytes of each stream in each round
    #[arg(long, value_name = "BYTES", default_value = "512M", value_parser = parse_bytes)]
    stream_bytes: u64,
    /// Bytes of each of a connection's two rings, of streams
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = parse_ring)]
    ring: u32,
    /// Threads of a block that echoes; a small message is a warp's work
    #[arg(long, value_name = "N", default_value_t = 32)]
    echo_threads: u32,
    /// Threads of a block that receives a stream
    #[arg(long, value_name = "N", default_value_t = 256)]
    stream_threads: u32,
    /// One JSON object on standard output in place of the table
    #[arg(long)]
    json: bool,
    /// No progress on standard error
    #[arg(long)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Kernel to kernel: p2p streams against the best exchange known and a bare copy
    Local(p2p::Options),
    /// Suite: round trips of 64 B to 1 MiB, by TCP and kernel to kernel
    Sizes(suite::sizes::Options),
    /// Suite: round trips by every way of calling, by TCP and kernel to kernel
    Ways(suite::ways::Options),
    /// Suite: a round trip while other blocks wait in accept, in receive, in a poller
    Waiters(suite::waiters::Options),
    /// Suite: 1, 4 and 8 connections at once, in and out
    Streams(suite::streams::Options),
    /// Suite: a matrix multiplication with calls between its tiles and in its loop
    Sgemm(suite::sgemm::Options),
    /// Suite: very many connections: round trips beside passive ones, a quiet net, short ones, memory
    Scale(suite::scale::Options),
    /// The clients' process of `scale`, which starts it
    #[command(hide = true)]
    ScaleClient,
    /// Suite: echo servers in other languages against the one in Rust
    Languages(suite::languages::Options),
    /// Suite: time to load the kernels, cold and cached, and what each needs of the GPU
    Footprint(suite::footprint::Options),
    /// Every suite in one run, as JSON and as one HTML page with charts
    Report(report::Options),
}

fn main() -> ExitCode {
    show_log("off");
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return explain("bench", &error),
    };
    match act(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain("bench", format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn act(options: &Options) -> Result<()> {
    match &options.command {
        Some(Command::Footprint(footprint)) => {
            return suite::footprint::run(&options.gpu, footprint);
        }
        Some(Command::ScaleClient) => return suite::scale::run_client(),
        Some(Command::Report(wanted)) => return report::run(&options.gpu, wanted),
        _ => {}
    }
    let gpu = Gpu::open(options.gpu.clone())?;
    gpu.load(&MODULE).context("loading the kernels")?;
    say(&format!("GPU: {}", gpu.info()));
    match &options.command {
        Some(Command::Local(local)) => return p2p::run(&gpu, local),
        Some(Command::Sizes(sizes)) => return suite::sizes::run(&gpu, sizes),
        Some(Command::Ways(ways)) => return suite::ways::run(&gpu, &options.gpu, ways),
        Some(Command::Waiters(waiters)) => return suite::waiters::run(&gpu, waiters),
        Some(Command::Streams(streams)) => return suite::streams::run(&gpu, streams),
        Some(Command::Sgemm(sgemm)) => return suite::sgemm::run(&gpu, sgemm),
        Some(Command::Scale(scale)) => return suite::scale::run(&gpu, scale),
        Some(Command::Languages(languages)) => return suite::languages::run(&gpu, languages),
        Some(Command::Footprint(_) | Command::ScaleClient | Command::Report(_)) | None => {}
    }
    let (echo, launching) = echoes(&gpu, options)?;
    let streams = [1, 4].map(|count| stream_pair(&gpu, options, count));
    let [one, four] = streams;
    print_report(options, &gpu, &echo, launching.as_ref(), &[one?, four?])
}

impl Options {
    fn progress(&self, what: &str) -> Progress {
        let progress = Progress::of_steps(self.pairs as u64, self.quiet || self.json);
        progress.begin(what);
        progress
    }
}

/// Two sides of one comparison.
struct Pair<T> {
    cpu: T,
    gpu: T,
}

/// Echo round trips: (CPU, GPU kernel), and the launching server where there is CUDA.
fn echoes(gpu: &Gpu, options: &Options) -> Result<(Pair<Percentiles>, Option<Percentiles>)> {
    let cpu_server = baseline::EchoServer::start()?;
    // First: it loads a module, which would wait for a kernel that runs.
    let launching = match gpu.info().kind {
        GpuKind::Emulated => None,
        _ => Some(launching::Server::start()?),
    };
    let gpu_server = kernel::Server::echo(gpu, options.echo_threads)?;
    let mut samples = [Vec::new(), Vec::new(), Vec::new()];
    let progress = options.progress("round trips");
    for _ in 0..options.pairs {
        let addresses = [
            Some(cpu_server.address),
            Some(gpu_server.address),
            launching.as_ref().map(|s| s.address),
        ];
        for (samples, address) in samples.iter_mut().zip(addresses) {
            if let Some(address) = address {
                samples.extend(load::round_trips(address, options.size, options.messages)?);
            }
        }
        progress.done(1);
    }
    let [cpu, kernel, launched] = samples;
    let launched = launching.is_some().then(|| Percentiles::of(launched));
    Ok((Pair { cpu: Percentiles::of(cpu), gpu: Percentiles::of(kernel) }, launched))
}

/// `count` streams at once, CPU to CPU and into a kernel.
fn stream_pair(gpu: &Gpu, options: &Options, count: u32) -> Result<Pair<Rate>> {
    let cpu_server = baseline::Sink::start()?;
    let gpu_server = kernel::Server::sink(gpu, count, options.stream_threads, options.ring)?;
    let mut rates = [Vec::new(), Vec::new()];
    let progress = options.progress(&format!("{count} streams"));
    for _ in 0..options.pairs {
        for (rates, address) in rates.iter_mut().zip([cpu_server.address, gpu_server.address]) {
            rates.push(load::streams(address, count, options.stream_bytes)?);
        }
        progress.done(1);
    }
    let [cpu, kernel] = rates;
    Ok(Pair { cpu: Rate::median(cpu), gpu: Rate::median(kernel) })
}

fn print_report(
    options: &Options,
    gpu: &Gpu,
    echo: &Pair<Percentiles>,
    launching: Option<&Percentiles>,
    streams: &[Pair<Rate>; 2],
) -> Result<()> {
    let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
    let ratio = us(echo.gpu.p50) / us(echo.cpu.p50);
    let against_launching = launching.map(|launching| us(echo.gpu.p50) / us(launching.p50));
    let shares = streams.each_ref().map(|pair| pair.gpu.0 / pair.cpu.0);
    if options.json {
        let percentiles = |p: &Percentiles| json!({"p50": us(p.p50), "p99": us(p.p99)});
        let object = json!({
            "gpu": gpu.info().kind.to_string(),
            "gpu_name": gpu.info().name,
            "bytes": options.size,
            "echo_us": {
                "cpu": percentiles(&echo.cpu),
                "kernel": percentiles(&echo.gpu),
                "launch_per_request": launching.map(percentiles),
                "kernel_to_cpu": ratio,
                "kernel_to_launch_per_request": against_launching,
            },
            "stream_gbps": {
                "one": {"cpu": streams[0].cpu.0, "kernel": streams[0].gpu.0, "share": shares[0]},
                "four": {"cpu": streams[1].cpu.0, "kernel": streams[1].gpu.0, "share": shares[1]},
            },
        });
        return Ok(print(&format!("{object:#}\n"))?);
    }
    let percentiles = |what: &str, p: &Percentiles| {
        [what.to_owned(), format!("{:.2}", us(p.p50)), format!("{:.2}", us(p.p99))]
    };
    let size = bytes_text(options.size as u64);
    let mut trips = Table::new([&format!("round trip of {size}"), "p50 us", "p99 us"]);
    trips.row(percentiles("CPU to CPU, polling", &echo.cpu));
    trips.row(percentiles("CPU to a GPU server kernel", &echo.gpu));
    if let Some(launching) = launching {
        trips.row(percentiles("CPU to a server that launches per request", launching));
    }
    trips.row(["kernel / CPU (at most 1.5)", &format!("{ratio:.2}")]);
    if let Some(share) = against_launching {
        trips.row(["kernel / launch per request (at most 0.5)", &format!("{share:.2}")]);
    }
    let mut rates = Table::new(["streams", "CPU GB/s", "kernel GB/s", "share"]);
    for (what, pair, share) in [
        ("one (at least 0.95)", &streams[0], shares[0]),
        ("four (at least 0.80)", &streams[1], shares[1]),
    ] {
        let figures = [pair.cpu.0, pair.gpu.0, share].map(|figure| format!("{figure:.2}"));
        rates.row([what.to_owned()].into_iter().chain(figures));
    }
    Ok(print(&format!("{trips}\n{rates}"))?)
}
