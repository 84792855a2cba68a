//! The three things the program does: all pairings, a server, a client.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gpunet_apps::failure::Failure;
use gpunet_apps::gpu::{default_threads, open};
use gpunet_apps::print::{print, say};
use gpunet_apps::stop::Stop;
use gpunet_apps::transport::{self, SocketTransport, Travelled};
use gpunet_device::SocketAddr;
use gpunet_host::{Gpu, TransportChoice};
use rsocket_shim::load::Libraries;

use crate::address::Address;
use crate::addresses::Addresses;
use crate::cpu::CpuEnd;
use crate::end::{End, Processor, Server, Service};
use crate::gpu::{self, GpuEnd};
use crate::machine::Machine;
use crate::measure;
use crate::options::{
    ClientOptions, GpuOptions, MeasureOptions, RunOptions, ServerOptions, Transport,
};
use crate::progress::Progress;
use crate::report::{
    ClientReport, Figures, GpuFacts, Pairing, RunReport, Settings, StreamFigure, TransportFacts,
    human_bytes,
};

/// How long connections may take to send their last bytes once the server was interrupted.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs all pairings; whether all bytes were right.
pub(crate) fn pairings(options: &RunOptions, stop: &Stop) -> Result<bool, Failure> {
    options.check()?;
    let begin = Instant::now();
    let measure = &options.measure;
    // First of all: a GPU may take a minute to translate the kernels.
    let addresses = Addresses::new(options.transport, options.address)?;
    let (gpu, reason) = open("echo", &options.gpu.choice())?;
    let mut shape = shape(&gpu, &options.gpu, options.blocks(), SocketTransport::Auto, measure);
    let mut gpu_end = None;
    let mut progress = Progress::new(addresses.pairings().len() * (measure.sizes.len() + 1));
    let mut all = Vec::new();
    for (client, server) in addresses.pairings().iter().copied() {
        let transport = addresses.socket_transport((client, server));
        let cpu_end = CpuEnd::new(transport, stop);
        // A net travels one way; the one before is given back first.
        let gpu_end = match gpu_end.take().filter(|end: &GpuEnd| end.transport() == transport) {
            Some(end) => gpu_end.insert(end),
            None => {
                shape.transport = transport;
                gpu_end.insert(GpuEnd::new(&gpu, shape, stop)?)
            }
        };
        let end = |processor| -> &dyn End {
            match processor {
                Processor::Gpu => gpu_end,
                Processor::Cpu => &cpu_end,
            }
        };
        let name = format!("{} client, {} server", client.name(), server.name());
        let mut watched = Watched { progress: &mut progress, name: &name, failed: None };
        let mut figures = Figures { verified: false, error: None, rtt_us: Vec::new() };
        let mut stream: Option<StreamFigure> = None;
        let (client_end, server_end) = (end(client), end(server));

        let echo = server_end.serve(Service::Echo, &addresses.address("echo")?)?;
        let met_at = echo.address();
        figures.rtt_us = watched.round_trips(client_end, &met_at, measure)?;
        echo.stop()?;
        if watched.failed.is_none() {
            let sink = server_end.serve(Service::Sink, &addresses.address("sink")?)?;
            let asked = options.stream_bytes;
            stream = watched.stream(client_end, &sink.address(), asked, measure)?;
            sink.stop()?;
        } else {
            watched.progress.skip(1);
        }
        figures.error = watched.failed.as_ref().map(Failure::to_string);
        figures.verified = figures.error.is_none();
        let travelled = client_end.take_travelled();
        all.push(Pairing {
            client,
            server,
            transport: travelled.map(|travelled| travelled.name(&met_at)),
            placement: travelled.and_then(|travelled| travelled.placement),
            figures,
            stream_gbps: stream.map(|stream| (stream.gbps * 1e4).round() / 1e4),
            stream_bytes: stream.map(|stream| stream.bytes),
        });
    }
    drop(progress);
    let devices = gpu_end.as_ref().map_or(Vec::new(), GpuEnd::rdma_devices);
    let report = RunReport {
        gpu: facts(&gpu, &reason),
        facts: TransportFacts::of_pairings(&all, addresses.reason(), devices),
        verified: all.iter().all(|pairing| pairing.figures.verified),
        pairings: all,
        machine: Machine::read(),
        settings: settings(Some(&shape), measure, true),
        elapsed_s: (begin.elapsed().as_secs_f64() * 100.0).round() / 100.0,
    };
    let text = if measure.json { json(&report) } else { report.table(&measure.sizes) };
    print(&text)?;
    report.facts.explain();
    if options.transport == Transport::Local {
        say("echo: local is between kernels: the CPU has no GPU memory to be written into, so no \
             pairing has an end there");
    }
    for pairing in &report.pairings {
        if let Some(error) = &pairing.figures.error {
            let (client, server) = (pairing.client.name(), pairing.server.name());
            say(&format!("echo: {client} client, {server} server: {error}"));
        }
    }
    Ok(report.verified)
}

/// Serves until interrupted.
pub(crate) fn server(options: &ServerOptions, stop: &Stop) -> Result<bool, Failure> {
    options.check()?;
    transport::require(options.transport)?;
    let at = options.listen.resolve()?;
    let path = at.to_path();
    match options.on {
        Processor::Cpu => {
            let end = CpuEnd::new(options.transport, stop);
            let missing = Libraries::load().err().map(|missing| missing.to_string());
            let on = with_reason("CPU".to_owned(), options, missing.as_deref());
            serve(end.serve(Service::Echo, &at)?, &on, path, stop)?;
        }
        Processor::Gpu => {
            let (gpu, reason) = open("echo", &options.gpu.choice())?;
            let shape = gpu::Settings {
                blocks: options.blocks.unwrap_or(8),
                threads: options.gpu.threads.unwrap_or(default_threads(gpu.info())),
                proxy_threads: options.gpu.proxy_threads(),
                ring: options.gpu.ring(),
                connections: 0,
                largest: gpu::MOST_SHARED,
                transport: options.transport,
                placement: options.gpu.placement,
                timeout: None,
            };
            let end = GpuEnd::new(&gpu, shape, stop)?;
            let on = format!("GPU: {} ({reason})", gpu.info().name);
            let on = with_reason(on, options, end.without_rdma());
            serve(end.serve(Service::Echo, &at)?, &on, path, stop)?;
        }
    }
    Ok(true)
}

/// Adds why a server does not take RDMA, where it could.
fn with_reason(on: String, options: &ServerOptions, missing: Option<&str>) -> String {
    match (&options.listen, options.transport, missing) {
        (Address::Ip { .. }, SocketTransport::Auto, Some(why)) => format!("{on}; {why}"),
        _ => on,
    }
}

fn serve(
    server: Box<dyn Server + '_>,
    on: &str,
    path: Option<PathBuf>,
    stop: &Stop,
) -> Result<(), Failure> {
    print(&format!("listening on {}\n", server.address()))?;
    say(&format!("{on}; Ctrl-C ends it"));
    while !stop.is_set() {
        server.watch()?;
    }
    // A peer that does not read could hold the last bytes, and us, for long.
    std::thread::spawn(move || {
        std::thread::sleep(FAREWELL);
        if let Some(path) = path {
            let _ = std::fs::remove_file(path);
        }
        std::process::exit(0);
    });
    server.stop()
}

/// Measures against a server elsewhere; whether all bytes were right.
pub(crate) fn client(options: &ClientOptions, stop: &Stop) -> Result<bool, Failure> {
    options.check()?;
    transport::require(options.transport)?;
    let measure = &options.measure;
    let to = options.connect.resolve()?;
    let mut gpu_end = None;
    let cpu_end = CpuEnd::new(options.transport, stop);
    let (gpu, shape) = match options.on {
        Processor::Cpu => (GpuFacts::default(), None),
        Processor::Gpu => {
            let (gpu, reason) = open("echo", &options.gpu.choice())?;
            let mut shape = shape(&gpu, &options.gpu, 0, options.transport, measure);
            shape.timeout = Some(measure.timeout);
            gpu_end = Some(GpuEnd::new(&gpu, shape, stop)?);
            (facts(&gpu, &reason), Some(shape))
        }
    };
    let end: &dyn End = gpu_end.as_ref().map_or(&cpu_end, |end| end);
    let mut progress = Progress::new(measure.sizes.len());
    let name = format!("{} client", options.on.name());
    let mut watched = Watched { progress: &mut progress, name: &name, failed: None };
    let rtt_us = watched.round_trips(end, &to, measure)?;
    let failed = watched.failed.take();
    drop(progress);
    let error = failed.map(|failed| failed.to_string());
    let report = ClientReport {
        gpu,
        client: options.on,
        server: to.to_string(),
        facts: transport_facts(&to, options.transport, end.take_travelled(), gpu_end.as_ref()),
        figures: Figures { verified: error.is_none(), error, rtt_us },
        machine: Machine::read(),
        settings: settings(shape.as_ref(), measure, false),
    };
    print(&if measure.json { json(&report) } else { report.table(&measure.sizes) })?;
    report.facts.explain();
    if let Some(error) = &report.figures.error {
        say(&format!("echo: {error}"));
    }
    Ok(report.figures.verified)
}

/// Measurements of one pairing with their progress. One that goes wrong ends the pairing, not the
/// program.
struct Watched<'a> {
    progress: &'a mut Progress,
    name: &'a str,
    failed: Option<Failure>,
}

impl Watched<'_> {
    fn round_trips(
        &mut self,
        end: &dyn End,
        to: &SocketAddr,
        measure: &MeasureOptions,
    ) -> Result<Vec<crate::report::RoundTrip>, Failure> {
        let mut trips = Vec::new();
        for (index, size) in measure.sizes.iter().enumerate() {
            let what = format!("{}: round trips of {}", self.name, human_bytes(*size));
            self.progress.begin(&what);
            match measure::round_trips(end, to, *size, measure) {
                Ok(trip) => {
                    let result = format!("p50 {:.1} us, p99 {:.1} us", trip.p50_us, trip.p99_us);
                    self.progress.end(&what, &result);
                    trips.push(trip);
                }
                Err(failure) => {
                    self.fail(failure)?;
                    self.progress.skip(measure.sizes.len() - index);
                    break;
                }
            }
        }
        Ok(trips)
    }

    fn stream(
        &mut self,
        end: &dyn End,
        to: &SocketAddr,
        asked: Option<u64>,
        measure: &MeasureOptions,
    ) -> Result<Option<StreamFigure>, Failure> {
        let what = format!("{}: stream", self.name);
        self.progress.begin(&what);
        match measure::stream(end, to, asked, measure) {
            Ok(stream) => {
                self.progress.end(&what, &format!("{:.3} GB/s", stream.gbps));
                Ok(Some(stream))
            }
            Err(failure) => {
                self.fail(failure)?;
                self.progress.skip(1);
                Ok(None)
            }
        }
    }

    fn fail(&mut self, failure: Failure) -> Result<(), Failure> {
        match failure {
            Failure::Lost(_) => {
                self.failed = Some(failure);
                Ok(())
            }
            _ => Err(failure),
        }
    }
}

/// How a client's connections went, and why not by RDMA where that was possible.
fn transport_facts(
    to: &SocketAddr,
    asked: SocketTransport,
    travelled: Option<Travelled>,
    end: Option<&GpuEnd>,
) -> TransportFacts {
    let Some(travelled) = travelled else { return TransportFacts::default() };
    let may_be_rdma = asked == SocketTransport::Auto && to.to_ip().is_some();
    let by_tcp = travelled.by == TransportChoice::Tcp;
    let reason = (may_be_rdma && by_tcp).then(|| match end {
        Some(end) => end.without_rdma().map(str::to_owned),
        None => Libraries::load().err().map(|missing| missing.to_string()),
    });
    let reason = reason.map(|missing| missing.unwrap_or(format!("no RDMA on the way to {to}")));
    TransportFacts {
        transport: Some(travelled.name(to)),
        transport_reason: reason,
        placement: travelled.placement,
        rdma_devices: end.map_or(Vec::new(), GpuEnd::rdma_devices),
    }
}

fn shape(
    gpu: &Gpu,
    options: &GpuOptions,
    blocks: u32,
    transport: SocketTransport,
    measure: &MeasureOptions,
) -> gpu::Settings {
    gpu::Settings {
        blocks,
        threads: options.threads.unwrap_or(default_threads(gpu.info())),
        proxy_threads: options.proxy_threads(),
        ring: options.ring(),
        connections: measure.connections,
        largest: measure.largest(),
        transport,
        placement: options.placement,
        timeout: None,
    }
}

fn facts(gpu: &Gpu, reason: &str) -> GpuFacts {
    GpuFacts {
        gpu: Some(gpu.info().kind.to_string()),
        gpu_name: Some(gpu.info().name.clone()),
        gpu_reason: Some(reason.to_owned()),
    }
}

fn settings(shape: Option<&gpu::Settings>, measure: &MeasureOptions, server: bool) -> Settings {
    Settings {
        connections: measure.connections,
        blocks: shape.filter(|_| server).map(|shape| shape.blocks),
        threads: shape.map(|shape| shape.threads),
        proxy_threads: shape.map(|shape| shape.proxy_threads),
        ring_bytes: shape.map(|shape| shape.ring),
    }
}

fn json(report: &impl serde::Serialize) -> String {
    // Plain data with names for keys: nothing in it can fail to serialize.
    serde_json::to_string(report).unwrap_or_default() + "\n"
}
