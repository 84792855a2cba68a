//! `bench scale`: what connections cost that do nothing. Clients are in a process of their own.
//!
//! ```text
//!   active     round trips on some connections of very many, against as many connections alone
//!   idle, full, watched, owed, lingering, p2p
//!              round trips on one connection beside very many in that state, against one alone
//!   quiet      nobody talks: processor time of the net's threads, and the first round trip after a pause
//!   short      very many connections one after the other: what is left of them
//!   memory     what a connection takes
//! ```

mod client;
mod clients;
mod process;
mod quiet;
mod server;
mod short;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use gpunet_device::abi::layout::Layout;
use gpunet_host::{Gpu, GpuKind, NetBuilder, NetError};
use serde_json::json;

use super::{Common, Pairs, Report, polling};
use crate::size::parse_size;
pub(crate) use client::run as run_client;
use clients::{Batch, Clients};
use server::{Load, Passive, RING, Server};

const COLUMNS: &[&str] = &[
    "what",
    "connections",
    "unit",
    "alone",
    "measured [quartiles]",
    "ratio [quartiles]",
    "wanted",
    "met",
];

/// Connections that are active at once, at most.
const ACTIVE: usize = 100;

/// Options of `bench scale`.
#[derive(Args)]
#[command(
    after_help = "The server kernel has blocks of 32 threads with a poller each; clients are another \
    process, on this machine's own addresses. active: a tenth of the connections, 100 at most, in round \
    trips, all at once and one at a time, while the others are silent in the same pollers. The passive \
    states: idle (not in a poller), full (its receive ring is full, and more has come), watched (in the \
    same poller), owed (in a poller whose events nobody takes), lingering (closed with unsent bytes that \
    the peer does not read), p2p (kernel to kernel, in the same poller); nine tenths as many as \
    --connections, of p2p three tenths. The baseline is the same kernel on a net with the active \
    connections alone; only the net that is measured has a kernel running. The server needs an open file \
    for each connection (of p2p two or more), and so does the clients' process. On the emulated GPU: \
    `--quick`, or some hundred --connections. A whole run takes minutes: `--limit 900`."
)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Connections [default: 10000, quick: 200]
    #[arg(long)]
    connections: Option<usize>,
    /// Short connections [default: ten times as many]
    #[arg(long)]
    short: Option<usize>,
    /// What is measured
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "active,idle,full,watched,owed,lingering,p2p,quiet,short,memory"
    )]
    only: Vec<Part>,
    /// Blocks of the server kernel [default: 16, on the emulated GPU 2]
    #[arg(long)]
    blocks: Option<u32>,
    /// Bytes of a message
    #[arg(long, alias = "bytes", value_name = "BYTES", default_value = "64", value_parser = parse_size)]
    size: usize,
    /// Round trips in a batch [default: 5000, quick: 100]
    #[arg(long, alias = "rounds", value_name = "N")]
    messages: Option<usize>,
    /// Milliseconds after which a batch ends, however many round trips it had
    #[arg(long, default_value_t = 900, value_name = "MS")]
    batch_limit: u64,
    /// Round trips after a pause [default: 100, quick: 5]
    #[arg(long)]
    wakes: Option<usize>,
    /// Part quiet: with which settings; cpu: servers on the CPU
    #[arg(long, value_delimiter = ',', default_value = "cpu,default,awake,economy")]
    settings: Vec<Setting>,
    /// Economy settings: microseconds that a proxy thread polls after the last event
    #[arg(long, default_value_t = 0, value_name = "US")]
    economy_spin: u64,
    /// Economy settings: microseconds that it sleeps at a time while kernels run
    #[arg(long, default_value_t = 900, value_name = "US")]
    economy_sleep: u64,
}

/// A part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Active,
    Idle,
    Full,
    Watched,
    Owed,
    Lingering,
    P2p,
    Quiet,
    Short,
    Memory,
}

/// What is measured while nobody talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Setting {
    /// Servers on the CPU.
    Cpu,
    /// A net as it is unless told otherwise.
    Default,
    /// Proxy threads that never sleep.
    Awake,
    /// Proxy threads that spare the processor.
    Economy,
}

/// What a figure is to be.
#[derive(Clone, Copy)]
enum Wanted {
    /// It is stated, no more.
    Nothing,
    /// At most so many times what it is alone.
    Ratio(f64),
    /// At most that.
    AtMost(f64),
    /// The same as before.
    Same,
}

impl Wanted {
    fn text(self) -> String {
        match self {
            Self::Nothing => "-".to_owned(),
            Self::Ratio(ratio) => format!("{ratio} x at most"),
            Self::AtMost(most) => format!("{most} at most"),
            Self::Same => "the same".to_owned(),
        }
    }

    /// Whether it is so, by the medians.
    fn is_met(self, pairs: &Pairs) -> Option<bool> {
        match self {
            Self::Nothing => None,
            Self::Ratio(ratio) => Some(pairs.ratio().median <= ratio),
            Self::AtMost(most) => Some(pairs.measured().median <= most),
            Self::Same => Some(pairs.added().median == 0.0),
        }
    }
}

/// The suite while it runs.
struct Scale<'a> {
    gpu: &'a Gpu,
    options: &'a Options,
    clients: Clients,
    report: Report,
    connections: usize,
    blocks: u32,
}

/// `bench scale`.
pub(crate) fn run(gpu: &Gpu, options: &Options) -> Result<()> {
    measure_all(gpu, options)?.finish()
}

fn measure_all(gpu: &Gpu, options: &Options) -> Result<Report> {
    let mut report = Report::new("scale", gpu, &options.common, COLUMNS);
    let is_emulated = gpu.info().kind == GpuKind::Emulated;
    let connections = connections(options, &mut report)?;
    let blocks = options.blocks.unwrap_or(if is_emulated { 2 } else { 16 }).max(1);
    let clients = Clients::start(!is_emulated)?;
    let mut scale = Scale { gpu, options, clients, report, connections, blocks };
    for part in &options.only {
        let what = format!("{part:?}").to_lowercase();
        if !scale.report.has_time(&what) {
            continue;
        }
        match scale.part(*part) {
            Err(error) if matches!(error.downcast_ref(), Some(NetError::Local(_))) => {
                scale.report.not_run(&format!("{what}: {error:#}"));
            }
            Err(error) => {
                scale.report.outcome(&what, Err(error));
                // Its connections are still open there.
                scale.clients = Clients::start(!is_emulated)?;
            }
            Ok(()) => {}
        }
    }
    Ok(scale.report)
}

/// As many connections as were asked for, or as there may be files open.
fn connections(options: &Options, report: &mut Report) -> Result<usize> {
    let wanted = options.connections.unwrap_or(if options.common.quick { 200 } else { 10_000 });
    let wanted = wanted.clamp(10, 1 << 20);
    let limit = process::raise_file_limit()?;
    let most = limit.saturating_sub(process::OTHER_FILES).max(10) as usize;
    if wanted <= most {
        return Ok(wanted);
    }
    report.not_run(&format!(
        "{wanted} connections: a process may have {limit} open files; {most} connections instead \
         (`ulimit -Hn {}` as root, or LimitNOFILE=, allows more)",
        wanted as u64 + process::OTHER_FILES
    ));
    Ok(most)
}

impl Scale<'_> {
    fn part(&mut self, part: Part) -> Result<()> {
        let (most, few) = (self.connections * 9 / 10, self.connections * 3 / 10);
        match part {
            Part::Active => self.active(),
            Part::Idle => self.beside(most, Passive::Idle),
            Part::Full => self.beside(most, Passive::Full),
            Part::Watched => self.beside(most, Passive::Watched),
            Part::Owed => self.beside(most, Passive::Owed),
            Part::Lingering => self.beside(most, Passive::Lingering),
            Part::P2p => self.beside(few, Passive::P2p),
            Part::Quiet => self.quiet(),
            Part::Short => self.short(),
            Part::Memory => self.memory(),
        }
    }

    fn batch(&self, flight: usize) -> Batch {
        let quick = self.options.common.quick;
        let rounds = self.options.messages.unwrap_or(if quick { 100 } else { 5000 });
        let limit = Duration::from_millis(self.options.batch_limit);
        Batch { bytes: self.options.size.clamp(1, RING as usize), rounds, flight, limit }
    }

    fn active(&mut self) -> Result<()> {
        let active = ACTIVE.min(self.connections / 10);
        let passive = self.connections - active;
        for (flight, how) in [(active, "all at once"), (1, "one at a time")] {
            let what = format!("{active} active, {how}");
            let wanted = [Wanted::Ratio(1.2), Wanted::Ratio(2.0)];
            self.compare(&what, (active, passive, Passive::Watched), flight, wanted)?;
        }
        Ok(())
    }

    fn beside(&mut self, count: usize, state: Passive) -> Result<()> {
        let what = format!("1 active beside {count} {state:?}").to_lowercase();
        self.compare(&what, (1, count, state), 1, [Wanted::Ratio(1.3), Wanted::Nothing])
    }

    /// Round trips on active connections, alone and beside passive ones, by turns.
    fn compare(
        &mut self,
        what: &str,
        (active, passive, state): (usize, usize, Passive),
        flight: usize,
        [p50, p99]: [Wanted; 2],
    ) -> Result<()> {
        let batch = self.batch(flight);
        let (gpu, blocks, clients) = (self.gpu, self.blocks, &mut self.clients);
        let mut server = |passive| {
            let load = Load { active, passive, state, blocks };
            Server::new(gpu, clients, load, |builder| polling(gpu, builder))
        };
        let (alone, beside) = (server(0)?, server(passive)?);
        let measured = self.report.pairs(what, |with| {
            let server = if with { &beside } else { &alone };
            server.with_kernel(&mut self.clients, |clients, group| clients.echo(group, batch))
        })?;
        alone.end(&mut self.clients)?;
        beside.end(&mut self.clients)?;
        let (mut medians, mut tails) = (Pairs::EMPTY, Pairs::EMPTY);
        for (alone, beside) in measured {
            medians.push(alone.p50, beside.p50);
            tails.push(alone.p99, beside.p99);
        }
        let connections = active + passive;
        self.row(&format!("{what}: p50"), connections, "us", &medians, p50);
        self.row(&format!("{what}: p99"), connections, "us", &tails, p99);
        Ok(())
    }

    /// What a connection takes: by the layout, and of resident memory once all rings were used.
    fn memory(&mut self) -> Result<()> {
        let count = self.connections;
        let layout = |socket_slots: usize| Layout {
            shards: 1,
            socket_slots: socket_slots as u32,
            request_slots: 64,
        };
        let (none, all) = (layout(0), layout(count));
        let each =
            |words: fn(&Layout) -> usize| (words(&all) - words(&none)) as f64 * 8.0 / count as f64;
        let pinned = each(Layout::gpu_control_words)
            + each(Layout::host_control_words)
            + 2.0 * f64::from(RING);
        let before = process::resident()?;
        let load = Load { active: count, passive: 0, state: Passive::Idle, blocks: self.blocks };
        let server = Server::new(self.gpu, &mut self.clients, load, |builder| builder)?;
        let silent = process::resident()?;
        let batch = Batch {
            bytes: RING as usize,
            rounds: count,
            flight: ACTIVE.min(count),
            limit: Duration::from_secs(60),
        };
        server.with_kernel(&mut self.clients, |clients, group| clients.echo(group, batch))?;
        let used = process::resident()?;
        server.end(&mut self.clients)?;
        let resident = |now: u64| now.saturating_sub(before) as f64 / count as f64;
        for (what, bytes) in [
            ("host memory with rings of 4 KiB, pinned on CUDA", pinned),
            ("GPU memory", each(Layout::records_words)),
            ("resident memory, silent", resident(silent)),
            ("resident memory, rings used once", resident(used)),
        ] {
            self.figure(&format!("a connection: {what}"), count, "B", bytes, Wanted::Nothing);
        }
        Ok(())
    }

    /// A row of one figure, without a baseline.
    fn figure(&mut self, what: &str, connections: usize, unit: &str, figure: f64, wanted: Wanted) {
        let mut pairs = Pairs::EMPTY;
        pairs.push(f64::NAN, figure);
        self.row(what, connections, unit, &pairs, wanted);
    }

    fn row(&mut self, what: &str, connections: usize, unit: &str, pairs: &Pairs, wanted: Wanted) {
        let (alone, measured, ratio) = (pairs.baseline(), pairs.measured(), pairs.ratio());
        let met = wanted.is_met(pairs);
        let or_none = |figure: f64, text: String| {
            if figure.is_finite() { text } else { "-".to_owned() }
        };
        let met_text = met.map_or("-", |met| if met { "yes" } else { "no" });
        let cells = vec![
            what.to_owned(),
            connections.to_string(),
            unit.to_owned(),
            or_none(alone.median, format!("{:.2}", alone.median)),
            if pairs.len() > 1 { measured.text() } else { format!("{:.2}", measured.median) },
            or_none(ratio.median, ratio.text()),
            wanted.text(),
            met_text.to_owned(),
        ];
        let json = json!({
            "what": what, "connections": connections, "unit": unit, "pairs": pairs.len(),
            "bytes": self.options.size, "blocks": self.blocks,
            "alone": alone.json(), "measured": measured.json(), "ratio": ratio.json(),
            "wanted": wanted.text(), "met": met,
        });
        self.report.row(cells, json);
    }
}

/// Settings of a net that spares the processor.
fn economy(options: &Options, builder: NetBuilder) -> NetBuilder {
    let us = Duration::from_micros;
    builder.spin(us(options.economy_spin)).idle_sleep(us(options.economy_sleep))
}

#[cfg(test)]
mod tests;
