//! `bench waiters`: what blocks that wait cost the one that works. Round trips of 64 B on one active
//! connection while other blocks of the launch wait, against the same while none does.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use gpunet_bench_kernels::waiters::{self, serve_beside_waiters};
use gpunet_device::Errno;
use gpunet_host::{Gpu, GpuKind, LaunchError, Net, Shape, Task};
use serde_json::json;

use super::client::{self, Batch, PollClient};
use super::floor::{Best, Floor};
use super::kernel_client::{KernelClient, Settings};
use super::{Common, Latency, Pairs, Report, Serving, Trips, polling};
use crate::driver;
use crate::memory::{Memory, Watched};
use crate::size::parse_size;

const COLUMNS: &[&str] = &[
    "waiting in",
    "blocks",
    "client",
    "none waiting us",
    "waiting us",
    "p99",
    "added us [quartiles]",
    "ratio [quartiles]",
];

/// How long blocks may take until they wait.
const READY: Duration = Duration::from_secs(20);
/// How long a call of a kernel may wait: longer than all batches of a launch take together.
const CALL: Duration = Duration::from_secs(60);
/// How long blocks have waited when the measurement begins.
const WAITED: Duration = Duration::from_millis(5);
/// How long an abort may take.
const ABORT: Duration = Duration::from_secs(5);
/// Shared memory of a block: as much as that of the kernel client, so that it finds a place beside the
/// others. A multiprocessor divides its memory when its first block comes, and not again while one runs.
const SHARED_MEMORY: u32 = 24 << 10;
/// Sockets beside those that wait.
const SPARE_SOCKETS: u32 = 32;

/// Options of `bench waiters`.
#[derive(Args)]
#[command(
    after_help = "One launch of blocks of 32 threads: one block echoes, the others wait until \
    the launch is aborted. accept: all blocks on the listener of the active connection. receive: \
    each block on an idle TCP connection of its own. poller: each block in a poller of its own that \
    watches an idle TCP connection. The baseline is the same kernel with one block on a net without \
    idle connections. Four clients measure each launch: rust (TCP, this program), c (TCP, a plain C \
    program that polls), kernel (another kernel, kernel to kernel), bare (two blocks that exchange the \
    bytes through GPU memory, without gpunet, the best way known: what the GPU itself makes of the others). The rows with 0 blocks compare \
    none with none: how much pairs scatter. Meant to take less than two minutes on an H200; \
    `--quick --gpu emulated` takes seconds."
)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Other blocks that wait [default: 0,63,127,1000, quick: 0,3,7]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    blocks: Option<Vec<u32>>,
    /// Where they wait
    #[arg(long = "in", value_delimiter = ',', default_value = "accept,receive,poller")]
    calls: Vec<Call>,
    /// Who measures
    #[arg(long = "client", value_delimiter = ',', default_value = "rust,c,kernel,bare")]
    clients: Vec<Client>,
    /// Bytes of a message
    #[arg(long, alias = "bytes", value_name = "BYTES", default_value = "64", value_parser = parse_size)]
    size: usize,
    /// Round trips in a batch [default: 1000, quick: 20]
    #[arg(long, alias = "rounds", value_name = "N")]
    messages: Option<usize>,
    /// Milliseconds after which a batch ends, however many round trips it had
    #[arg(long, default_value_t = 150, value_name = "MS")]
    batch_limit: u64,
    /// The C client, if not beside this program or where it was built
    #[arg(long, value_name = "FILE")]
    poll_client: Option<PathBuf>,
}

/// The call that blocks wait in.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Call {
    Accept,
    Receive,
    Poller,
}

impl Call {
    const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Receive => "receive",
            Self::Poller => "poller",
        }
    }

    const fn number(self) -> u64 {
        match self {
            Self::Accept => waiters::ACCEPT,
            Self::Receive => waiters::RECEIVE,
            Self::Poller => waiters::POLL,
        }
    }

    /// Sockets that each waiting block needs.
    const fn sockets(self) -> u32 {
        match self {
            Self::Accept => 0,
            Self::Receive => 1,
            Self::Poller => 2,
        }
    }
}

/// Who measures.
#[derive(Clone, Copy, clap::ValueEnum, PartialEq, Eq)]
enum Client {
    Rust,
    C,
    Kernel,
    Bare,
}

impl Client {
    const fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust, tcp",
            Self::C => "c, tcp",
            Self::Kernel => "kernel, local",
            Self::Bare => "bare exchange",
        }
    }
}

/// The clients that there are.
struct Clients {
    used: Vec<Client>,
    c: Option<PollClient>,
    kernel: KernelClient,
    floor: Floor,
    best: Best,
    batch: Batch,
}

impl Clients {
    fn new(gpu: &Gpu, options: &Options, report: &mut Report) -> Result<Self> {
        let mut used = options.clients.clone();
        let c = match PollClient::find(options.poll_client.clone()) {
            _ if !used.contains(&Client::C) => None,
            Ok(c) => Some(c),
            Err(why) => {
                used.retain(|client| *client != Client::C);
                report.not_run(&format!("the C client: {why}"));
                None
            }
        };
        let rounds = options.messages.unwrap_or(if options.common.quick { 20 } else { 1000 });
        let limit = Duration::from_millis(options.batch_limit);
        let kernel = KernelClient::new(gpu, Settings::new(32, options.size, rounds))?;
        let floor = Floor::new(gpu, options.size, rounds)?;
        let best = floor.best(options.size, rounds.min(500))?;
        let batch = Batch { bytes: options.size, rounds, limit };
        Ok(Self { used, c, kernel, floor, best, batch })
    }

    /// A batch of each, in their order.
    fn measure(&self, server: &Server) -> Result<Vec<Latency>> {
        let tcp = server.address.to_ip().context("a loopback address")?;
        let each = |client: &Client| match (client, &self.c) {
            (Client::Rust, _) => client::round_trips(tcp, self.batch),
            (Client::C, Some(c)) => c.round_trips(tcp, self.batch),
            (Client::C, None) => bail!("no C client"),
            (Client::Kernel, _) => self.kernel.round_trips(server.address, self.batch),
            (Client::Bare, _) => {
                self.floor.round_trips(self.best, self.batch.bytes, self.batch.rounds)
            }
        };
        let named = |client: &Client| each(client).with_context(|| client.name().to_owned());
        self.used.iter().map(named).collect()
    }
}

/// A net with a listener and what blocks wait for.
struct Server {
    net: Net,
    listener: gpunet_device::Handle,
    address: gpunet_device::SocketAddr,
    call: Call,
    waiting: u32,
    handles: Memory,
    states: Watched,
    is_cuda: bool,
    /// The other ends of idle connections; nothing is sent on them.
    _peers: Vec<TcpStream>,
}

impl Server {
    fn new(gpu: &Gpu, call: Call, waiting: u32) -> Result<Self> {
        let sockets = call.sockets() * waiting + SPARE_SOCKETS;
        let builder = Net::builder(gpu).sockets(sockets).ring(4 << 10).timeout(CALL);
        // A poller's ring holds an event of each socket; the active connection has larger rings.
        let events = (u64::from(sockets) * 16).next_power_of_two().max(4 << 10);
        let rings = u64::from(waiting) * (2 * (4 << 10) + events);
        let net = polling(gpu, builder.ring_memory(rings + (4 << 20))).build()?;
        let (listener, address) = net.listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let mut handles = vec![0; waiting.max(1) as usize];
        let mut peers = Vec::new();
        if call.sockets() > 0 && waiting > 0 {
            let acceptor = TcpListener::bind("127.0.0.1:0")?;
            for handle in &mut handles {
                let stream = TcpStream::connect(acceptor.local_addr()?)
                    .context("connecting an idle connection")?;
                peers.push(acceptor.accept()?.0);
                *handle = net.hand_over(stream)?.0;
            }
        }
        let memory = Memory::new(gpu, 8 * handles.len())?;
        memory.write(&handles)?;
        let states = Watched::new(gpu, waiting as usize + 1)?;
        let is_cuda = gpu.info().kind != GpuKind::Emulated;
        let handles = memory;
        Ok(Self { net, listener, address, call, waiting, handles, states, is_cuda, _peers: peers })
    }

    /// Launches, waits until all blocks wait, measures, and ends the launch: what was measured, and the
    /// microseconds from the abort until the last block's wait had returned.
    fn with_blocks_waiting<T>(&self, measure: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
        self.states.all().for_each(|state| state.store(0, Ordering::Relaxed));
        let shape = Shape::new(self.waiting + 1, 32).shared_memory(SHARED_MEMORY);
        let (listener, timeout_ns) = (self.listener, CALL.as_nanos() as u64);
        let (idle, states) = (self.handles.words(), self.states.words());
        let arguments = (listener, self.call.number(), idle, timeout_ns, states);
        let launch = self.net.launch(serve_beside_waiters, shape, arguments)?;
        let serving = Serving(launch);
        let deadline = Instant::now() + READY;
        while self.any_is(0) {
            ensure!(Instant::now() < deadline, "not all blocks wait after {READY:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(WAITED);
        let measured = measure();
        // A waiter's error says more than the client that lost its server.
        self.check(|state| state == waiters::READY, "while it should wait")?;
        let measured = measured?;
        if self.is_cuda {
            driver::free_beside_kernels()?;
        }
        let begun = Instant::now();
        serving.0.abort();
        while self.any_is(waiters::READY) {
            ensure!(begun.elapsed() < ABORT, "not all blocks have ended {ABORT:?} after the abort");
            std::hint::spin_loop();
        }
        let aborted_us = begun.elapsed().as_secs_f64() * 1e6;
        serving.stop()?;
        let canceled = Errno::ECANCELED.negative() as u64;
        self.check(|state| state == canceled, "when it was aborted")?;
        Ok((measured, aborted_us))
    }

    fn any_is(&self, wanted: u64) -> bool {
        self.states.all().any(|state| state.load(Ordering::Acquire) == wanted)
    }

    /// Whether the state of every block is as it should be.
    fn check(&self, right: impl Fn(u64) -> bool, when: &str) -> Result<()> {
        for (block, state) in self.states.all().enumerate() {
            match state.load(Ordering::Acquire) {
                state if right(state) => {}
                waiters::READY => bail!("block {block} still waits {when}"),
                waiters::WOKEN => bail!("block {block} received what nobody sent {when}"),
                state => bail!("block {block}: {} {when}", Errno(-state.cast_signed() as i32)),
            }
        }
        Ok(())
    }
}

/// `bench waiters`.
pub(crate) fn run(gpu: &Gpu, options: &Options) -> Result<()> {
    let mut report = Report::new("waiters", gpu, &options.common, COLUMNS);
    let clients = Clients::new(gpu, options, &mut report)?;
    let small = options.common.quick || gpu.info().kind == GpuKind::Emulated;
    let default = if small { vec![0, 3, 7] } else { vec![0, 63, 127, 1000] };
    let counts = options.blocks.clone().unwrap_or(default);
    raise_file_limit(counts.iter().max().copied().unwrap_or(0))?;
    for call in &options.calls {
        for waiting in &counts {
            measure(gpu, options, &clients, (*call, *waiting), &mut report);
        }
    }
    report.finish()
}

fn measure(
    gpu: &Gpu,
    options: &Options,
    clients: &Clients,
    (call, waiting): (Call, u32),
    report: &mut Report,
) {
    let what = format!("{waiting} blocks in {}", call.name());
    if !report.has_time(&what) {
        return;
    }
    let servers = || Ok((Server::new(gpu, call, 0)?, Server::new(gpu, call, waiting)?));
    let measured = servers().and_then(|(none, with)| {
        report.pairs(&what, |waits| {
            let server = if waits { &with } else { &none };
            server.with_blocks_waiting(|| clients.measure(server))
        })
    });
    match measured {
        Ok(measured) => rows(options, clients, (call, waiting), &measured, report),
        Err(error) if is_too_large(&error) => report.not_run(&format!("{what}: {error:#}")),
        Err(error) => report.outcome(&what, Err(error)),
    }
}

/// What each client measured, and how long the abort took, in microseconds.
type Measured = (Vec<Latency>, f64);

/// A row for each client, and one for the abort.
fn rows(
    options: &Options,
    clients: &Clients,
    (call, waiting): (Call, u32),
    measured: &[(Measured, Measured)],
    report: &mut Report,
) {
    for (index, client) in clients.used.iter().enumerate() {
        let pairs = measured.iter().map(|((none, _), (with, _))| (none[index], with[index]));
        let trips = Trips::of(pairs);
        let facts = [call.name().to_owned(), waiting.to_string(), client.name().to_owned()];
        let json = json!({"waiting_in": call.name(), "blocks": waiting, "client": client.name(),
            "bytes": options.size});
        let cells = facts.into_iter().chain(trips.cells()).collect();
        report.row(cells, trips.json(json, ["none", "waiting"]));
    }
    let mut aborts = Pairs::EMPTY;
    for ((_, none), (_, with)) in measured {
        aborts.push(*none, *with);
    }
    let (added, ratio) = (aborts.added(), aborts.ratio());
    let cells = vec![
        call.name().to_owned(),
        waiting.to_string(),
        "abort".to_owned(),
        format!("{:.2}", aborts.baseline().median),
        format!("{:.2}", aborts.measured().median),
        "-".to_owned(),
        added.text(),
        ratio.text(),
    ];
    let json = json!({
        "waiting_in": call.name(), "blocks": waiting, "client": "abort", "pairs": aborts.len(),
        "none_us": aborts.baseline().json(), "waiting_us": aborts.measured().json(),
        "added_us": added.json(), "ratio": ratio.json(),
    });
    report.row(cells, json);
}

/// Whether a launch was refused because its blocks cannot all be resident.
fn is_too_large(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(LaunchError::NotResident { .. }))
}

/// Both ends of idle connections are this process's.
fn raise_file_limit(waiting: u32) -> Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let needed = u64::from(waiting) * 2 + 256;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let most = limit.maximum;
        ensure!(
            most.is_none_or(|most| most >= needed),
            "{waiting} idle connections need {needed} open files, and the system allows {most:?}"
        );
        limit.current = Some(needed);
        setrlimit(Resource::Nofile, limit).context("setrlimit")?;
    }
    Ok(())
}
