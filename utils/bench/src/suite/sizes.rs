//! `bench sizes`: round trips of 64 B to 1 MiB, by TCP against a CPU echo server, and kernel to kernel
//! against the floor: the best exchange known of the same bytes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use gpunet_bench_kernels::serve::echo_server;
use gpunet_host::{Gpu, Net, Shape, TransportChoice};
use gpunet_terminal::quantity::{bytes_text, parse_ring};
use serde_json::json;

use super::client::{self, Batch};
use super::figures::Spread;
use super::floor::{Best, Floor};
use super::kernel_client::{KernelClient, Settings};
use super::pinned::PinnedFloor;
use super::{Common, Report, Serving, Trips, polling};
use crate::baseline::EchoServer;
use crate::size::parse_size;

const COLUMNS: &[&str] = &[
    "transport",
    "threads",
    "bytes",
    "baseline us",
    "gpunet us",
    "p99",
    "added us [quartiles]",
    "ratio [quartiles]",
    "limit us",
    "by",
];

/// Options of `bench sizes`.
#[derive(Args)]
#[command(
    after_help = "TCP: one polling client, a CPU echo server that polls (the baseline) and an \
    echo server kernel of one block. Kernel to kernel (local): a client kernel and an echo server \
    kernel of one block each, on two nets; the baseline is the floor, the best exchange known of the same bytes \
    between two blocks without gpunet: by packets (16 bytes with 8 of the message and a number) or by a flag (a copy, \
    a barrier, a release store), by 32, 128 or 512 threads, delivered into the receiver's own memory. Each is tried \
    for each length, and the best one is measured in each pair. Figures are medians of each batch; `added` and `ratio` \
    are made inside each pair. `limit` is what the machine takes by TCP without gpunet: the best round trip known \
    between a polling thread of the CPU and a block through pinned memory, to hold against `added`. `by` says how the \
    floor or the limit exchanges, and with how many threads. Every byte is checked. Meant to take a minute on an H200; `--quick --gpu emulated` takes seconds."
)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Bytes of the messages
    #[arg(long, alias = "bytes", value_name = "LIST", value_delimiter = ',', value_parser = parse_size,
          default_value = "64,256,1K,4K,16K,64K,256K,1M")]
    sizes: Vec<usize>,
    /// Threads of a block
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "32,256")]
    threads: Vec<u32>,
    /// tcp, local or both
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tcp,local")]
    transport: Vec<Transport>,
    /// Shared memory of a server's block: what it receives and sends at a time
    #[arg(long, value_name = "BYTES", default_value = "32K", value_parser = parse_ring)]
    piece: u32,
    /// Round trips in a batch of small messages; long ones have fewer
    #[arg(long, alias = "rounds", value_name = "N")]
    messages: Option<usize>,
}

#[derive(Clone, Copy, clap::ValueEnum, PartialEq, Eq)]
enum Transport {
    Tcp,
    Local,
}

impl Options {
    fn batch(&self, bytes: usize) -> Batch {
        let (rounds, total, limit) =
            if self.common.quick { (20, 1 << 20, 300) } else { (2000, 32 << 20, 400) };
        let rounds = self.messages.unwrap_or(rounds);
        let rounds = rounds.min((total / bytes.max(1)).max(3));
        Batch { bytes, rounds, limit: Duration::from_millis(limit) }
    }

    /// Round trips of a batch that finds the best exchange.
    fn tries(&self, batch: Batch) -> usize {
        batch.rounds.min(500)
    }

    /// Room for the largest message as a whole.
    fn ring(&self) -> u32 {
        let largest = self.sizes.iter().max().copied().unwrap_or(0).max(64 << 10);
        u32::try_from(largest).unwrap_or(u32::MAX)
    }

    fn most_rounds(&self) -> usize {
        self.sizes.iter().map(|bytes| self.batch(*bytes).rounds).max().unwrap_or(1)
    }
}

/// An echo server of one block, launched when it is needed.
struct Server {
    net: Net,
    listener: gpunet_device::Handle,
    address: gpunet_device::SocketAddr,
    shape: Shape,
}

impl Server {
    fn new(gpu: &Gpu, options: &Options, threads: u32, by: TransportChoice) -> Result<Self> {
        let ring = options.ring();
        let builder = Net::builder(gpu).sockets(16).ring(ring).ring_memory(16 * u64::from(ring));
        let net = polling(gpu, builder).transport(by).build()?;
        let (listener, address) = net.listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let shape = Shape::new(1, threads).shared_memory(options.piece);
        Ok(Self { net, listener, address, shape })
    }

    fn launch(&self) -> Result<Serving> {
        Ok(Serving(self.net.launch(echo_server, self.shape, (self.listener,))?))
    }
}

/// `bench sizes`.
pub(crate) fn run(gpu: &Gpu, options: &Options) -> Result<()> {
    let mut report = Report::new("sizes", gpu, &options.common, COLUMNS);
    for threads in &options.threads {
        if options.transport.contains(&Transport::Tcp) {
            by_tcp(gpu, options, *threads, &mut report)?;
        }
    }
    for threads in &options.threads {
        if options.transport.contains(&Transport::Local) {
            kernel_to_kernel(gpu, options, *threads, &mut report)?;
        }
    }
    report.finish()
}

fn by_tcp(gpu: &Gpu, options: &Options, threads: u32, report: &mut Report) -> Result<()> {
    let cpu = EchoServer::start()?;
    let server = Server::new(gpu, options, threads, TransportChoice::Tcp)?;
    let address = server.address.to_ip().context("a loopback address")?;
    let pinned = PinnedFloor::new(gpu, options.ring() as usize)?;
    for bytes in &options.sizes {
        let batch = options.batch(*bytes);
        measure(report, ("tcp", threads, *bytes), |report, what| {
            // Without a server, whose waiting block would poll across PCIe, too.
            let best = pinned.best(*bytes, options.tries(batch))?;
            let mut limits = Vec::new();
            let serving = server.launch()?;
            let pairs = report.pairs(what, |measured| {
                if !measured {
                    return client::round_trips(cpu.address, batch);
                }
                limits.push(pinned.round_trips(best, *bytes, batch.rounds)?.p50);
                client::round_trips(address, batch)
            })?;
            serving.stop()?;
            Ok((Trips::of(pairs), Some(Spread::of(limits)), best))
        });
    }
    Ok(())
}

fn kernel_to_kernel(gpu: &Gpu, options: &Options, threads: u32, report: &mut Report) -> Result<()> {
    let (longest, rounds) = (options.ring() as usize, options.most_rounds());
    let server = Server::new(gpu, options, threads, TransportChoice::Local)?;
    let client = KernelClient::new(gpu, Settings::new(threads, longest, rounds))?;
    let floor = Floor::new(gpu, longest, rounds)?;
    for bytes in &options.sizes {
        let batch = options.batch(*bytes);
        measure(report, ("local", threads, *bytes), |report, what| {
            let best = floor.best(*bytes, options.tries(batch))?;
            let pairs = report.pairs(what, |measured| {
                if !measured {
                    return floor.round_trips(best, *bytes, batch.rounds);
                }
                // Launched anew each time, as the floor is, so that no block of a server waits beside it.
                let serving = server.launch()?;
                let latency = client.round_trips(server.address, batch)?;
                serving.stop()?;
                Ok(latency)
            })?;
            Ok((Trips::of(pairs), None, best))
        });
    }
    Ok(())
}

/// Measures one row: its round trips, the limit where there is one, and how that or the floor exchanges.
fn measure(
    report: &mut Report,
    (transport, threads, bytes): (&str, u32, usize),
    batches: impl FnOnce(&mut Report, &str) -> Result<(Trips, Option<Spread>, Best)>,
) {
    let what = format!("{transport}, {threads} threads, {}", bytes_text(bytes as u64));
    if !report.has_time(&what) {
        return;
    }
    let outcome = batches(report, &what).map(|(trips, limit, best)| {
        let facts = [transport.to_owned(), threads.to_string(), bytes_text(bytes as u64)];
        let json = json!({
            "transport": transport, "threads": threads, "bytes": bytes,
            "limit_us": limit.map(Spread::json), "by": best.to_string(),
        });
        let limit = limit.map_or("-".to_owned(), |limit| format!("{:.2}", limit.median));
        let cells = facts.into_iter().chain(trips.cells()).chain([limit, best.to_string()]);
        report.row(cells.collect(), trips.json(json, ["baseline", "gpunet"]));
    });
    report.outcome(&what, outcome);
}
