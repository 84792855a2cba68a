//! `bench ways`: every way of calling has a row, so that none is fast by being the one that is measured. Round
//! trips of short messages by TCP, against a server on the CPU that polls, and kernel to kernel, against the floor
//! and, where its library is found, NVSHMEM.

mod nvshmem;
mod server;
mod table;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use gpunet_host::{Gpu, GpuChoice, GpuKind, TransportChoice};
use gpunet_terminal::quantity::bytes_text;
use serde_json::{Value, json};

use super::client::{self, Batch};
use super::figures::Spread;
use super::floor::{Best, Floor, THREADS};
use super::kernel_client::{KernelClient, Settings};
use super::report::pair;
use super::{Common, Latency, Report, Trips};
use crate::baseline::{EchoLoop, EchoServer};
use crate::memory::Memory;
use crate::size::parse_size;
use nvshmem::Nvshmem;
use server::Target;
use table::{Row, Way};

const COLUMNS: &[&str] = &[
    "way",
    "transport",
    "threads",
    "bytes",
    "baseline us",
    "nvshmem us",
    "gpunet us",
    "p99",
    "added us [quartiles]",
    "ratio [quartiles]",
    "floor by",
];

/// GPU memory that is held beside a launch, so that each finds its own memory elsewhere: where it lies moves a
/// round trip of 64 B by 0.2 us.
const HELD: [usize; 6] = [0, 2 << 20, 34 << 20, 70 << 20, 110 << 20, 130 << 20];
/// Round trips of a batch that finds the best exchange.
const TRIES: usize = 500;

/// Options of `bench ways`.
#[derive(Args)]
#[command(
    after_help = "Each row is a way in which a server kernel calls, and a length of messages. By TCP a polling client \
    of this program measures the kernel and, in each pair, an echo server on the CPU that polls (the baseline). \
    Kernel to kernel (local) a client kernel measures: the reference writes and reads by blocking calls of a block, \
    with as many threads as the server's, in whole warps; with `both ends` it calls as the server does. The baseline \
    is the floor, as in `bench sizes`. `16 streams`: one block serves them, and messages take them in turns; by TCP \
    the server on the CPU then has one thread and epoll. `16 blocks`: each serves one, all on one listener. Pairs are \
    spread over several launches, each with nets and memory of its own; figures are medians over all of them. \
    `nvshmem` is NVSHMEM's put with signal between two processes on this GPU under an MPS daemon of its own, with as \
    many threads as the row's, and with the best of 32, 128 and 512: where python3 has the package nvidia.nvshmem, \
    or --nvshmem names its folder, and nvcc and nvidia-cuda-mps-control are there. The worst row is that with the \
    most time added by TCP, and with the largest ratio to the floor kernel to kernel. Every byte is checked. Meant \
    to take less than four minutes on an H200; `--quick --gpu emulated` takes seconds."
)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Launches that a row's pairs are spread over [default: 4, quick: 1]
    #[arg(long, value_name = "N")]
    launches: Option<usize>,
    /// Bytes of the messages [default: 64,1000,1K,4K,16K, quick: 64,1000]
    #[arg(long, alias = "bytes", value_name = "LIST", value_delimiter = ',', value_parser = parse_size)]
    sizes: Vec<usize>,
    /// Ways of calling [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ways: Vec<Way>,
    /// Threads of a block, in place of those of the rows; not of warps and threads
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// tcp, local or both
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tcp,local")]
    transport: Vec<Transport>,
    /// Round trips in a batch at most [default: 500, quick: 6]
    #[arg(long, alias = "rounds", value_name = "N")]
    messages: Option<usize>,
    /// Milliseconds after which a batch begins no further round trip
    #[arg(long, default_value_t = 30, value_name = "MS")]
    batch_limit: u64,
    /// The folder of NVSHMEM, with include and lib; `none` leaves it out [default: that of python3's nvidia.nvshmem]
    #[arg(long, value_name = "DIR")]
    nvshmem: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum Transport {
    Tcp,
    Local,
}

impl Transport {
    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Local => "local",
        }
    }
}

impl Options {
    fn sizes(&self) -> Vec<usize> {
        match (self.sizes.is_empty(), self.common.quick) {
            (false, _) => self.sizes.clone(),
            (true, true) => vec![64, 1000],
            (true, false) => vec![64, 1000, 1 << 10, 4 << 10, 16 << 10],
        }
    }

    fn longest(&self) -> usize {
        self.sizes().into_iter().max().unwrap_or(64)
    }

    fn rounds(&self) -> usize {
        self.messages.unwrap_or(if self.common.quick { 6 } else { 500 }).max(1)
    }

    fn batch(&self, bytes: usize) -> Batch {
        Batch { bytes, rounds: self.rounds(), limit: Duration::from_millis(self.batch_limit) }
    }

    fn launches(&self) -> usize {
        self.launches.unwrap_or(if self.common.quick { 1 } else { 4 }).max(1)
    }

    /// Pairs of each launch.
    fn pairs(&self) -> usize {
        self.common.pairs().div_ceil(self.launches())
    }
}

/// What a server is compared with.
enum Rival {
    /// Servers on the CPU: for one connection, and for several.
    Cpu(SocketAddr, SocketAddr),
    Floor(Box<Floors>),
}

/// What kernels are compared with kernel to kernel.
struct Floors {
    floor: Floor,
    /// The best exchange of each length.
    best: Vec<Best>,
    nvshmem: Option<Nvshmem>,
}

impl Rival {
    const fn transport(&self) -> Transport {
        match self {
            Self::Cpu(..) => Transport::Tcp,
            Self::Floor(_) => Transport::Local,
        }
    }
}

/// What was measured of a row, for one length of messages.
#[derive(Default)]
struct Found {
    pairs: Vec<(Latency, Latency)>,
    /// What NVSHMEM's batches took, for each of [`THREADS`].
    nvshmem: [Vec<f64>; THREADS.len()],
}

/// A finished row, as the worst one is chosen from.
struct Finished {
    transport: Transport,
    row: Row,
    bytes: usize,
    gpunet: f64,
    added: f64,
    ratio: f64,
}

/// `bench ways`.
pub(crate) fn run(gpu: &Gpu, choice: &GpuChoice, options: &Options) -> Result<()> {
    let mut report = Report::new("ways", gpu, &options.common, COLUMNS);
    let rows = table::rows(&options.ways, &options.threads);
    let mut finished = Vec::new();
    for transport in [Transport::Tcp, Transport::Local] {
        if !options.transport.contains(&transport) {
            continue;
        }
        let mut rival = match transport {
            Transport::Tcp => Rival::Cpu(EchoServer::start()?.address, EchoLoop::start()?.address),
            Transport::Local => Rival::Floor(Box::new(floors(gpu, choice, options, &mut report)?)),
        };
        let of_both = |row: &&Row| transport == Transport::Local || !row.both_ends;
        for row in rows.iter().filter(of_both) {
            measure(gpu, options, *row, &mut rival, &mut report, &mut finished);
        }
    }
    for transport in [Transport::Tcp, Transport::Local] {
        name_the_worst(&finished, transport, &mut report);
    }
    report.finish()
}

/// Finds the best exchange of each length, and starts NVSHMEM where it is there.
fn floors(gpu: &Gpu, choice: &GpuChoice, options: &Options, report: &mut Report) -> Result<Floors> {
    let floor = Floor::new(gpu, options.longest(), options.rounds())?;
    let tries = options.rounds().min(TRIES);
    let sizes = options.sizes().into_iter();
    let best = sizes.map(|bytes| floor.best(bytes, tries)).collect::<Result<_>>()?;
    let device = match choice {
        GpuChoice::Cuda { ordinal } => *ordinal,
        _ => 0,
    };
    let nvshmem = match Nvshmem::start(gpu, device, options.nvshmem.as_deref(), options.longest()) {
        Ok(nvshmem) => Some(nvshmem),
        Err(error) => {
            report.not_run(&format!("the column nvshmem: {error:#}"));
            None
        }
    };
    Ok(Floors { floor, best, nvshmem })
}

/// Measures a row over all launches, for every length of messages.
fn measure(
    gpu: &Gpu,
    options: &Options,
    row: Row,
    rival: &mut Rival,
    report: &mut Report,
    finished: &mut Vec<Finished>,
) {
    let transport = rival.transport();
    let what = format!("{}, {row}, {} threads", transport.name(), row.threads);
    if !report.has_time(&what) {
        return;
    }
    let (sizes, launches) = (options.sizes(), options.launches());
    let mut found: Vec<Found> = sizes.iter().map(|_| Found::default()).collect();
    let progress = options.common.progress_of(&what, launches);
    let mut outcome = Ok(());
    for launch in 0..launches {
        if launch > 0 && report.is_late() {
            report.cut_short(&format!("{what}: launches"), launches - launch, launches);
            break;
        }
        outcome = one_launch(gpu, options, row, rival, &mut found, launch);
        if outcome.is_err() {
            break;
        }
        progress.done(1);
    }
    drop(progress);
    if let Rival::Floor(floors) = rival
        && let Some(why) = floors.nvshmem.as_mut().and_then(Nvshmem::failure)
    {
        report.not_run(&format!("the column nvshmem, from {what} on: {why}"));
        floors.nvshmem = None;
    }
    if outcome.is_ok() {
        for (at, (bytes, found)) in sizes.into_iter().zip(found).enumerate() {
            let best = match rival {
                Rival::Floor(floors) => Some(floors.best[at]),
                Rival::Cpu(..) => None,
            };
            finished.push(add_row(report, (transport, row, bytes), best, found));
        }
    }
    report.outcome(&what, outcome);
}

/// The pairs of one launch, with nets and memory of its own.
fn one_launch(
    gpu: &Gpu,
    options: &Options,
    row: Row,
    rival: &mut Rival,
    found: &mut [Found],
    launch: usize,
) -> Result<()> {
    let held = if gpu.info().kind == GpuKind::Emulated { 0 } else { HELD[launch % HELD.len()] };
    let _held = if held > 0 { Some(Memory::new(gpu, held)?) } else { None };
    let longest = options.longest();
    let sizes = options.sizes().into_iter().enumerate().zip(found);
    match rival {
        Rival::Cpu(one, several) => {
            let target = Target::new(gpu, row, longest, TransportChoice::Tcp)?;
            let address = target.address.to_ip().context("a loopback address")?;
            let cpu = if row.connections() > 1 { *several } else { *one };
            for ((_, bytes), found) in sizes {
                let serving = target.launch(bytes)?;
                for index in 0..options.pairs() {
                    found.pairs.push(pair(launch + index, |measured| {
                        let server = if measured { address } else { cpu };
                        client::rotating(server, options.batch(bytes), row.connections() as usize)
                    })?);
                }
                serving.stop()?;
            }
        }
        Rival::Floor(floors) => {
            let Floors { floor, best, nvshmem } = &mut **floors;
            let target = Target::new(gpu, row, longest, TransportChoice::Local)?;
            let (kernel, threads) = row.client();
            let messages = Settings::messages_up_to(longest);
            let (rounds, streams) = (options.rounds(), row.connections());
            let settings = Settings { threads, bytes: longest, rounds, streams, messages, kernel };
            let client = KernelClient::new(gpu, settings)?;
            for ((at, bytes), found) in sizes {
                for index in 0..options.pairs() {
                    found.pairs.push(pair(launch + index, |measured| {
                        if !measured {
                            return floor.round_trips(best[at], bytes, rounds);
                        }
                        // Launched for this batch alone: beside NVSHMEM no kernel of another process may run,
                        // and the floor has no block beside it.
                        let serving = target.launch(bytes)?;
                        let latency = client.round_trips(target.address, options.batch(bytes))?;
                        serving.stop()?;
                        Ok(latency)
                    })?);
                    let Some(nvshmem) = nvshmem else { continue };
                    for (threads, took) in THREADS.into_iter().zip(&mut found.nvshmem) {
                        took.extend(nvshmem.batch(threads, bytes, rounds));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Adds a row to the report.
fn add_row(
    report: &mut Report,
    (transport, row, bytes): (Transport, Row, usize),
    best: Option<Best>,
    found: Found,
) -> Finished {
    let trips = Trips::of(found.pairs);
    let columns = found.nvshmem.map(|took| (!took.is_empty()).then(|| Spread::of(took)));
    let named = THREADS.into_iter().zip(columns);
    let same =
        named.clone().find(|(threads, _)| *threads == row.threads).and_then(|(_, took)| took);
    let fastest = named.filter_map(|(threads, took)| Some((threads, took?)));
    let fastest = fastest.min_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let nvshmem = match (fastest, same) {
        (None, _) => "-".to_owned(),
        (Some((threads, took)), None) => format!("{:.2} ({threads})", took.median),
        (Some((threads, took)), Some(same)) => {
            format!("{:.2} ({threads}), {:.2} with {}", took.median, same.median, row.threads)
        }
    };
    let [baseline, gpunet, p99, added, ratio] = trips.cells();
    let cells = vec![
        row.to_string(),
        transport.name().to_owned(),
        row.threads.to_string(),
        bytes_text(bytes as u64),
        baseline,
        nvshmem,
        gpunet,
        p99,
        added,
        ratio,
        best.map_or("-".to_owned(), |best| best.to_string()),
    ];
    let json = json!({
        "way": row.way.name(),
        "transport": transport.name(),
        "group": row.way.group(),
        "ends": if row.both_ends { "both" } else { "server" },
        "streams": row.streams,
        "blocks": row.blocks,
        "threads": row.threads,
        "bytes": bytes,
        "by": best.map(|best| best.to_string()),
        "nvshmem_us": fastest.map(|(_, took)| took.json()),
        "nvshmem_threads": fastest.map(|(threads, _)| threads),
        "nvshmem_same_us": same.map(Spread::json),
    });
    report.row(cells, trips.json(json, ["baseline", "gpunet"]));
    let (gpunet, added, ratio) = trips.medians();
    Finished { transport, row, bytes, gpunet, added, ratio }
}

/// Names the row that is farthest from what it is compared with: by TCP in time, kernel to kernel in times of the
/// floor.
fn name_the_worst(finished: &[Finished], transport: Transport, report: &mut Report) {
    let rows = finished.iter().filter(|row| row.transport == transport);
    let by = |row: &Finished| match transport {
        Transport::Tcp => row.added,
        Transport::Local => row.ratio,
    };
    let Some(worst) = rows.max_by(|a, b| by(a).total_cmp(&by(b))) else { return };
    let Finished { row, bytes, gpunet, added, ratio, .. } = worst;
    let name = transport.name();
    let against = match transport {
        Transport::Tcp => format!("{added:.2} us more than a server on the CPU"),
        Transport::Local => format!("{ratio:.2} times the floor"),
    };
    let (threads, size) = (row.threads, bytes_text(*bytes as u64));
    let line = format!("{name}: {row}, {threads} threads, {size}: {gpunet:.2} us, {against}");
    let json: Value = json!({
        "transport": name, "way": row.to_string(), "threads": threads, "bytes": bytes,
        "gpunet_us": gpunet, "added_us": added, "ratio": ratio,
    });
    report.worst(line, json);
}
