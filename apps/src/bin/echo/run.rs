//! The three things the program does: all pairings, a server, a client.

use std::path::PathBuf;
use std::time::Duration;

use gpunet_apps::failure::Failure;
use gpunet_apps::gpu::{default_threads, open};
use gpunet_apps::stop::Stop;
use gpunet_apps::transport::{self, SocketTransport, Travelled};
use gpunet_device::SocketAddr;
use gpunet_host::{Gpu, TransportChoice};
use gpunet_sockets::Address;
use gpunet_terminal::output::{complain, print, say};
use gpunet_terminal::progress::Progress;
use gpunet_terminal::quantity::bytes_text;
use rsocket_shim::load::Libraries;

use crate::addresses::Addresses;
use crate::cpu::CpuEnd;
use crate::end::{End, Processor, Server, Work};
use crate::gpu::{GpuEnd, Settings};
use crate::options::{
    ClientOptions, GpuOptions, MessageOptions, RunOptions, ServerOptions, Transport,
};
use crate::report::{ClientReport, Figures, GpuFacts, Pairing, RunReport, TransportFacts};

/// How long connections may take to send their last bytes once the server was interrupted.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs all pairings; whether all bytes were right.
pub(crate) fn pairings(options: &RunOptions, stop: &Stop) -> Result<bool, Failure> {
    options.check()?;
    let messages = &options.messages;
    // First of all: a GPU may take a minute to translate the kernels.
    let addresses = Addresses::new(options.transport, options.address)?;
    let (gpu, reason) = open("echo", &options.gpu.choice())?;
    let mut settings = settings(&gpu, &options.gpu, messages.connections);
    settings.connections = messages.connections;
    let mut gpu_end = None;
    let progress = messages.progress(addresses.pairings().len());
    let mut all = Vec::new();
    for (client, server) in addresses.pairings().iter().copied() {
        let transport = addresses.socket_transport((client, server));
        let cpu_end = CpuEnd::new(transport, stop);
        // A net travels one way; the one before is given back first.
        let gpu_end = match gpu_end.take().filter(|end: &GpuEnd| end.transport() == transport) {
            Some(end) => gpu_end.insert(end),
            None => {
                settings.transport = transport;
                gpu_end.insert(GpuEnd::new(&gpu, settings, stop)?)
            }
        };
        let end = |processor| -> &dyn End {
            match processor {
                Processor::Gpu => gpu_end,
                Processor::Cpu => &cpu_end,
            }
        };
        let name = format!("{} client, {} server", client.name(), server.name());
        let serving = end(server).serve(&addresses.address("echo")?)?;
        let to = serving.address();
        let (figures, travelled) = echo(end(client), &to, messages, &progress, &name)?;
        serving.stop()?;
        all.push(Pairing {
            client,
            server,
            transport: travelled.map(|travelled| travelled.name(&to)),
            placement: travelled.and_then(|travelled| travelled.placement),
            figures,
        });
    }
    drop(progress);
    let devices = gpu_end.as_ref().map_or(Vec::new(), GpuEnd::rdma_devices);
    let report = RunReport {
        gpu: GpuFacts::of(&gpu, &reason),
        facts: TransportFacts::of_pairings(&all, addresses.reason(), devices),
        verified: all.iter().all(|pairing| pairing.figures.verified),
        pairings: all,
    };
    print(&if messages.json { json(&report) } else { report.table(&messages.sizes) })?;
    report.facts.explain();
    if options.transport == Transport::Local {
        say("echo: local is between kernels: the CPU has no GPU memory to be written into, so no \
             pairing has an end there");
    }
    for pairing in &report.pairings {
        if let Some(error) = &pairing.figures.error {
            let (client, server) = (pairing.client.name(), pairing.server.name());
            complain("echo", format!("{client} client, {server} server: {error}"));
        }
    }
    Ok(report.verified)
}

/// Messages of every size. What goes wrong on the way ends this pairing, not the program.
fn echo(
    client: &dyn End,
    to: &SocketAddr,
    messages: &MessageOptions,
    progress: &Progress,
    name: &str,
) -> Result<(Figures, Option<Travelled>), Failure> {
    let mut figures = Figures { verified: true, ..Figures::default() };
    let mut travelled = None;
    for (at, bytes) in messages.sizes.iter().enumerate() {
        progress.begin(format!("{name}: messages of {}", bytes_text(*bytes)));
        let work = Work {
            bytes: *bytes,
            messages: messages.messages,
            connections: messages.connections,
            timeout: messages.timeout,
        };
        let echoed = client.echo(to, &work);
        travelled = echoed.travelled.or(travelled);
        match echoed.mean {
            Ok(mean) => figures.add(*bytes, mean),
            Err(failure @ Failure::Lost(_)) => {
                (figures.verified, figures.error) = (false, Some(failure.to_string()));
                progress.done((messages.sizes.len() - at) as u64);
                break;
            }
            Err(failure) => return Err(failure),
        }
        progress.done(1);
    }
    Ok((figures, travelled))
}

/// Serves until interrupted.
pub(crate) fn server(options: &ServerOptions, stop: &Stop) -> Result<bool, Failure> {
    options.check()?;
    transport::require(options.transport)?;
    let at = options.listen.resolve().map_err(Failure::refused)?;
    let path = at.to_path();
    match options.on {
        Processor::Cpu => {
            let end = CpuEnd::new(options.transport, stop);
            let missing = Libraries::load().err().map(|missing| missing.to_string());
            let on = with_reason("CPU".to_owned(), options, missing.as_deref());
            serve(end.serve(&at)?, &on, path, stop)?;
        }
        Processor::Gpu => {
            let (gpu, reason) = open("echo", &options.gpu.choice())?;
            let mut settings = settings(&gpu, &options.gpu, options.blocks.unwrap_or(8));
            settings.transport = options.transport;
            let end = GpuEnd::new(&gpu, settings, stop)?;
            let on = format!("GPU: {} ({reason})", gpu.info().name);
            let on = with_reason(on, options, end.without_rdma());
            serve(end.serve(&at)?, &on, path, stop)?;
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

/// Echoes by a server elsewhere; whether all bytes were right.
pub(crate) fn client(options: &ClientOptions, stop: &Stop) -> Result<bool, Failure> {
    options.check()?;
    transport::require(options.transport)?;
    let messages = &options.messages;
    let to = options.connect.resolve().map_err(Failure::refused)?;
    let mut gpu_end = None;
    let cpu_end = CpuEnd::new(options.transport, stop);
    let gpu = match options.on {
        Processor::Cpu => GpuFacts::default(),
        Processor::Gpu => {
            let (gpu, reason) = open("echo", &options.gpu.choice())?;
            let mut settings = settings(&gpu, &options.gpu, 0);
            settings.connections = messages.connections;
            settings.transport = options.transport;
            settings.timeout = Some(messages.timeout);
            gpu_end = Some(GpuEnd::new(&gpu, settings, stop)?);
            GpuFacts::of(&gpu, &reason)
        }
    };
    let end: &dyn End = gpu_end.as_ref().map_or(&cpu_end, |end| end);
    let name = format!("{} client", options.on.name());
    let (figures, travelled) = echo(end, &to, messages, &messages.progress(1), &name)?;
    let report = ClientReport {
        gpu,
        client: options.on,
        server: to.to_string(),
        facts: transport_facts(&to, options.transport, travelled, gpu_end.as_ref()),
        figures,
    };
    print(&if messages.json { json(&report) } else { report.table(&messages.sizes) })?;
    report.facts.explain();
    if let Some(error) = &report.figures.error {
        complain("echo", error);
    }
    Ok(report.figures.verified)
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

fn settings(gpu: &Gpu, options: &GpuOptions, blocks: u32) -> Settings {
    Settings {
        blocks,
        threads: options.threads.unwrap_or(default_threads(gpu.info())),
        proxy_threads: options.proxy_threads.unwrap_or(1),
        ring: options.ring.unwrap_or(256 << 10),
        connections: 0,
        transport: SocketTransport::Auto,
        placement: options.placement,
        timeout: None,
    }
}

fn json(report: &impl serde::Serialize) -> String {
    // Plain data with names for keys: nothing in it can fail to serialize.
    serde_json::to_string(report).unwrap_or_default() + "\n"
}
