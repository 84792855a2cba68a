//! `bench streams`: bytes a second of one and several connections, into kernels and out of them,
//! against CPU to CPU.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use gpunet_bench_kernels::streams::{receive_streams, send_streams};
use gpunet_host::{Gpu, Net, Shape, TransportChoice};
use gpunet_terminal::quantity::{bytes_text, parse_bytes, parse_ring};
use serde_json::json;

use super::figures::Spread;
use super::stream_limit::BareStreams;
use super::stream_peers::{self, Direction, Streams};
use super::{Common, Pairs, Report, Serving};

const COLUMNS: &[&str] = &[
    "direction",
    "connections",
    "proxy threads",
    "CPU to CPU GB/s",
    "gpunet GB/s",
    "quartiles",
    "ratio [quartiles]",
    "limit GB/s",
];

/// Options of `bench streams`.
#[derive(Args)]
#[command(after_help = "in: the peer sends, a kernel receives; out: a kernel sends, the peer \
    receives. A block for each connection. Peers block in the system's calls; the baseline is the \
    same peers with a CPU server, a thread for each connection. Every byte is counted in every \
    round; before each row one round of --checked-bytes compares each byte with a pattern of its \
    position. GB/s is 10^9 bytes a second of all connections together. `limit` is what the machine \
    does without gpunet: a thread of the CPU for each connection moves the bytes between its socket \
    and a ring in pinned memory, a block between that ring and shared memory, with two counters and \
    nothing else; not for one proxy thread with several connections. Meant to take a minute on an \
    H200; `--quick --gpu emulated` takes seconds.")]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Connections at once
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4,8")]
    connections: Vec<u32>,
    /// Directions
    #[arg(long, value_delimiter = ',', default_value = "in,out")]
    direction: Vec<Direction>,
    /// Bytes of each stream in each round [default: 256 MiB, quick: 4 MiB]
    #[arg(long, alias = "bytes", value_name = "BYTES", value_parser = parse_bytes)]
    stream_bytes: Option<u64>,
    /// Bytes of each stream in the round that compares them [default: 16 MiB, quick: 1 MiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    checked_bytes: Option<u64>,
    /// Threads of a block
    #[arg(long, value_name = "N", default_value_t = 256)]
    threads: u32,
    /// Bytes of each of a connection's two rings
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = parse_ring)]
    ring: u32,
    /// Shared memory of a block: what it receives and sends at a time
    #[arg(long, value_name = "BYTES", default_value = "128K", value_parser = parse_ring)]
    piece: u32,
}

/// A net with a kernel that receives or sends.
struct Server {
    address: SocketAddr,
    serving: Serving,
    _net: Net,
}

impl Server {
    fn new(
        gpu: &Gpu,
        options: &Options,
        direction: Direction,
        connections: u32,
        proxy_threads: u32,
    ) -> Result<Self> {
        let net = Net::builder(gpu)
            .sockets(64)
            .ring(options.ring)
            .ring_memory(u64::from(options.ring) * 32)
            .proxy_threads(proxy_threads)
            .spin(Duration::from_millis(10))
            .transport(TransportChoice::Tcp)
            .build()?;
        let (listener, address) = net.listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = address.to_ip().context("a loopback address")?;
        let shape = Shape::new(connections, options.threads).shared_memory(options.piece);
        let kernel = match direction {
            Direction::In => receive_streams,
            Direction::Out => send_streams,
        };
        let serving = Serving(net.launch(kernel, shape, (listener,))?);
        Ok(Self { address, serving, _net: net })
    }
}

/// `bench streams`.
pub(crate) fn run(gpu: &Gpu, options: &Options) -> Result<()> {
    let mut report = Report::new("streams", gpu, &options.common, COLUMNS);
    for direction in &options.direction {
        for connections in &options.connections {
            let mut threads = vec![*connections, 1];
            threads.dedup();
            for proxy_threads in threads {
                measure(gpu, options, (*direction, *connections, proxy_threads), &mut report);
            }
        }
    }
    report.finish()
}

/// Measures one row.
fn measure(
    gpu: &Gpu,
    options: &Options,
    (direction, count, proxy_threads): (Direction, u32, u32),
    report: &mut Report,
) {
    let name = if direction == Direction::In { "in" } else { "out" };
    let what = format!("{name}, {count} connections, {proxy_threads} proxy threads");
    if report.has_time(&what) {
        let outcome = row(gpu, options, (direction, count, proxy_threads), (name, &what), report);
        report.outcome(&what, outcome);
    }
}

fn row(
    gpu: &Gpu,
    options: &Options,
    (direction, count, proxy_threads): (Direction, u32, u32),
    (name, what): (&str, &str),
    report: &mut Report,
) -> Result<()> {
    let quick = options.common.quick;
    let bytes = options.stream_bytes.unwrap_or(if quick { 4 << 20 } else { 256 << 20 });
    let checked_bytes = options.checked_bytes.unwrap_or(if quick { 1 << 20 } else { 16 << 20 });
    let cpu = stream_peers::serve(direction)?;
    let server = Server::new(gpu, options, direction, count, proxy_threads)?;
    let checked = Streams { direction, count, bytes: checked_bytes, checked: true };
    stream_peers::transfer(server.address, checked).context("the checked round")?;
    let streams = Streams { bytes, checked: false, ..checked };
    let bare = match proxy_threads == count {
        true => {
            let sizes = (options.ring, options.piece);
            Some(BareStreams::new(gpu, count, options.threads, sizes)?)
        }
        false => None,
    };
    let (mut rates, mut limits) = (Pairs::EMPTY, Vec::new());
    for (baseline, measured) in report.pairs(what, |measured| {
        if !measured {
            return stream_peers::transfer(cpu, streams);
        }
        if let Some(bare) = &bare {
            limits.push(bare.transfer(streams)?);
        }
        stream_peers::transfer(server.address, streams)
    })? {
        rates.push(baseline, measured);
    }
    server.serving.stop()?;
    let limit = bare.map(|_| Spread::of(limits));
    let (measured, ratio) = (rates.measured(), rates.ratio());
    let cells = vec![
        name.to_owned(),
        count.to_string(),
        proxy_threads.to_string(),
        format!("{:.2}", rates.baseline().median),
        format!("{:.2}", measured.median),
        format!("{:.2} {:.2}", measured.low, measured.high),
        ratio.text(),
        limit.map_or_else(|| "-".to_owned(), |limit| format!("{:.2}", limit.median)),
    ];
    let json = json!({
        "direction": name, "connections": count, "proxy_threads": proxy_threads,
        "bytes": bytes, "checked_bytes": checked_bytes, "pairs": rates.len(),
        "threads": options.threads, "piece": bytes_text(u64::from(options.piece)),
        "baseline_gbps": rates.baseline().json(), "gpunet_gbps": measured.json(),
        "ratio": ratio.json(), "limit_gbps": limit.map(Spread::json),
    });
    report.row(cells, json);
    Ok(())
}
