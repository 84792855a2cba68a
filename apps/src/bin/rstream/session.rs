//! Runs the plan: a net, a launch for each connection, and what the kernels wrote.

use std::time::Duration;

use gpunet_apps::failure::Failure;
use gpunet_apps::gpu;
use gpunet_apps::stop::Stop;
use gpunet_apps::transport::{self, RingPlacement, SocketTransport, Travelled};
use gpunet_device::{Errno, Handle, SocketAddr};
use gpunet_host::{Gpu, Net, NetError, Shape, TransportChoice};
use gpunet_kernels::rstream::{Session, TestOutcome, rstream_client, rstream_server};
use gpunet_terminal::output::{print, say};

use crate::options::Options;
use crate::plan::{Case, Plan};
use crate::report::{Report, Row, header};
use crate::results::Results;

/// Shared memory of the block: what every GPU grants.
const SHARED: u32 = 48 << 10;
/// Which end the kernels play.
#[derive(Clone, Copy)]
enum Role {
    Server(Handle),
    Client(SocketAddr),
}

/// Runs all connections and prints what came out.
pub(crate) fn run(options: &Options, plan: &Plan, stop: &Stop) -> Result<(), Failure> {
    transport::require(options.transport)?;
    let peer = options.server.as_deref().map(|host| options.connect(host)).transpose()?;
    let (gpu, _) = gpu::open("rstream", &options.gpu.clone().unwrap_or_default())?;
    let net = net(&gpu, options)?;
    let role = match peer {
        Some(peer) => Role::Client(peer),
        None => {
            let (listener, address) = listen(&net, options)?;
            say(&format!("listening on {address}"));
            Role::Server(listener)
        }
    };
    if !options.json {
        print(&header())?;
    }
    let threads = options.threads.unwrap_or(gpu::default_threads(gpu.info()));
    let connections = Connections { options, gpu: &gpu, net: &net, threads, role, stop };
    let mut rows = Vec::new();
    let mut last = None;
    for cases in &plan.connections {
        let outcomes = connections.connection(cases, last.as_ref())?;
        for (case, outcome) in cases.iter().zip(&outcomes) {
            connections.check(outcome)?;
            let row = Row::new(case, Duration::from_nanos(outcome.elapsed_ns));
            if !options.json {
                print(&row.line())?;
            }
            rows.push(row);
        }
        if outcomes.len() < cases.len() {
            return Err(Failure::lost("the kernel ended before its tests"));
        }
        last = outcomes.last().copied();
    }
    let travelled =
        last.map(|outcome| Travelled::from_options(outcome.transport, outcome.placement));
    connections.conclude(rows, travelled)
}

fn net(gpu: &Gpu, options: &Options) -> Result<Net, Failure> {
    let builder = Net::builder(gpu).sockets(16).ring(options.ring);
    let builder = builder.transport(options.transport.into());
    // A server waits for its client, with no limit.
    let is_client = options.server.is_some();
    let builder = if is_client { builder.timeout(options.timeout) } else { builder };
    let net = builder.placements(RingPlacement::of_net(options.placement)).build();
    net.map_err(|error| match error {
        NetError::Rdma(missing) => Failure::refused(missing.to_string()),
        NetError::Local(why) => transport::without_local(&why),
        error => Failure::refused(format!("{error}; a smaller --ring needs less")),
    })
}

fn listen(net: &Net, options: &Options) -> Result<(Handle, SocketAddr), Failure> {
    let at = options.listen();
    net.listen(at).map_err(|error| {
        Failure::refused(format!("cannot listen at {at}: {error}; choose another -b or -p"))
    })
}

struct Connections<'a> {
    options: &'a Options,
    gpu: &'a Gpu,
    net: &'a Net,
    threads: u32,
    role: Role,
    stop: &'a Stop,
}

impl Connections<'_> {
    /// One connection with its tests; the pattern goes on where the one before ended.
    fn connection(
        &self,
        cases: &[Case],
        before: Option<&TestOutcome>,
    ) -> Result<Vec<TestOutcome>, Failure> {
        let results = Results::new(self.gpu, cases)?;
        let options = self.options;
        let nowhere = SocketAddr::v4([0; 4], 0);
        let session = Session {
            server: if let Role::Client(server) = self.role { server } else { nowhere },
            ring: u64::from(options.ring),
            timeout_ns: options.timeout.as_nanos() as u64,
            mode: options.mode(),
            verify: u64::from(options.verify()),
            sent: before.map_or(0, |outcome| outcome.sent),
            received: before.map_or(0, |outcome| outcome.received),
        };
        let shape =
            Shape::new(1, self.threads).shared_memory(SHARED.min(self.gpu.info().max_shared_bytes));
        let (tests, outcomes) = (results.tests(), results.outcomes());
        let launch = match self.role {
            Role::Server(listener) => {
                self.net.launch(rstream_server, shape, (listener, session, tests, outcomes))?
            }
            Role::Client(_) => {
                self.net.launch(rstream_client, shape, (session, tests, outcomes))?
            }
        };
        // Its calls have a limit, but for the wait for a client.
        gpu::finish(&launch, self.stop)?;
        results.read()
    }

    /// Why a test failed.
    fn check(&self, outcome: &TestOutcome) -> Result<(), Failure> {
        if outcome.result == 0 {
            return Ok(());
        }
        if let Some(refusal) = transport::refusal(self.net, self.options.placement) {
            return Err(refusal);
        }
        let errno = Errno(i32::try_from(-outcome.result).unwrap_or(Errno::EIO.0));
        Err(match (errno, self.role) {
            (Errno::EIO, _) => Failure::lost(format!(
                "wrong bytes from byte {} on: has the other end -T v, too?",
                outcome.received
            )),
            (Errno::ETIMEDOUT, _) => Failure::lost("nothing moved for --timeout"),
            (Errno::EXDEV, _) => Failure::refused(
                "the GPUs of both ends cannot reach each other's memory: give both the same --gpu, \
                 or leave --transport out",
            ),
            (Errno::ECONNREFUSED, Role::Client(server)) => Failure::refused(format!(
                "cannot connect to {server}: nobody listens; start `rstream` there"
            )),
            (Errno::ENODEV, Role::Client(server)) => Failure::refused(format!(
                "cannot connect to {server}: no RDMA device is on the way there; choose another \
                 address or transport"
            )),
            (Errno::ECONNRESET | Errno::EPIPE, _) => Failure::lost(
                "the other end left before the last byte: has it the same -S, -C and -I?",
            ),
            (errno, _) => Failure::lost(format!("the connection failed: {errno}")),
        })
    }

    /// The report; with `auto` also why it was TCP.
    fn conclude(&self, tests: Vec<Row>, travelled: Option<Travelled>) -> Result<(), Failure> {
        let by = travelled.map_or(TransportChoice::Tcp, |travelled| travelled.by);
        let missing = || {
            let why = self.net.without_rdma().map(str::to_owned);
            why.unwrap_or_else(|| "the other end did not take RDMA".to_owned())
        };
        let asked = self.options.transport;
        let transport_reason =
            (asked == SocketTransport::Auto && by == TransportChoice::Tcp).then(missing);
        if let Some(reason) = &transport_reason {
            say(&format!("rstream: TCP was used: {reason}"));
        }
        if !self.options.json {
            return Ok(());
        }
        let report = Report {
            gpu: self.gpu.info().kind.to_string(),
            gpu_name: self.gpu.info().name.clone(),
            role: if let Role::Client(_) = self.role { "client" } else { "server" },
            transport: match by {
                TransportChoice::Rdma => "rdma",
                TransportChoice::Local => "local",
                TransportChoice::Auto | TransportChoice::Tcp => "tcp",
            },
            transport_reason,
            placement: travelled.and_then(|travelled| travelled.placement),
            rdma_devices: self.net.rdma_adapters(),
            verified: self.options.verify(),
            tests,
        };
        // Plain data with names for keys: nothing in it can fail to serialize.
        Ok(print(&(serde_json::to_string(&report).unwrap_or_default() + "\n"))?)
    }
}
