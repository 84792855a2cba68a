//! `bench languages`: echo servers in other languages against the one in Rust, all of them at once on one net.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use gpunet_bench_kernels::serve::echo_server;
use gpunet_device::Handle;
use gpunet_host::{Gpu, GpuKind, Image, Net, RawArguments, Shape};
use gpunet_terminal::quantity::bytes_text;
use serde_json::json;

use super::client::{self, Batch};
use super::{Common, Latency, Report, Serving, Trips, polling};
use crate::size::parse_size;

gpunet_device::export_c_abi!();

const COLUMNS: &[&str] = &[
    "image",
    "bytes",
    "Rust us",
    "its us",
    "p99",
    "added us [quartiles]",
    "ratio [quartiles]",
    "load ms",
    "registers",
];
/// Shared memory of the server in Rust: what it receives and sends at a time.
const PIECE: u32 = 4 << 10;

/// Options of `bench languages`.
#[derive(Args)]
#[command(
    after_help = "An image is PTX, a cubin or a fatbin, on the emulated GPU a shared object; its kernel \
    takes a net and a listener's handle and echoes, as host/c/examples/echo.cu does. The baseline is the same in \
    Rust, with 4 KiB of shared memory. All of them are blocks of --threads threads on one net, at the same \
    time, and a polling client has round trips with one after the other. The time to load an image is that of \
    the driver, with whatever its cache holds."
)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// A server: its name, file and kernel
    #[arg(long = "image", value_name = "NAME=FILE#KERNEL", required = true)]
    images: Vec<Server>,
    /// Bytes of the messages
    #[arg(long, alias = "bytes", value_name = "LIST", value_delimiter = ',', default_value = "64,4K", value_parser = parse_size)]
    sizes: Vec<usize>,
    /// Threads of a block
    #[arg(long, value_name = "N", default_value_t = 32)]
    threads: u32,
}

/// Where a server is found.
#[derive(Clone, Debug, PartialEq)]
struct Server {
    name: String,
    file: PathBuf,
    kernel: String,
}

impl FromStr for Server {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = "NAME=FILE#KERNEL is wanted";
        let (name, rest) = text.split_once('=').ok_or(wanted)?;
        let (file, kernel) = rest.rsplit_once('#').ok_or(wanted)?;
        match [name, file, kernel].iter().any(|part| part.is_empty()) {
            true => Err(wanted),
            false => {
                Ok(Self { name: name.to_owned(), file: file.into(), kernel: kernel.to_owned() })
            }
        }
    }
}

/// A server that runs.
struct Running {
    server: Server,
    address: SocketAddr,
    load_ms: f64,
    registers: Option<u32>,
    serving: Serving,
}

/// `bench languages`.
pub(crate) fn run(gpu: &Gpu, options: &Options) -> Result<()> {
    // Loaded before anything runs, which they would wait for.
    let mut loaded = Vec::new();
    for server in &options.images {
        let image = match gpu.info().kind {
            GpuKind::Emulated => Image::SharedObject(server.file.clone()),
            _ => {
                let bytes = std::fs::read(&server.file);
                Image::bytes(
                    bytes.with_context(|| format!("cannot read {}", server.file.display()))?,
                )?
            }
        };
        let begin = Instant::now();
        // SAFETY: the caller of this program has named the file, and runs its code.
        #[allow(unsafe_code, reason = "runs kernels that are given as files")]
        let image = unsafe { gpu.load_image(&server.name, image) }?;
        loaded.push((server, image, begin.elapsed().as_secs_f64() * 1e3));
    }
    let net = polling(gpu, Net::builder(gpu).sockets(64)).build()?;
    let listen = || -> Result<(Handle, SocketAddr)> {
        let (listener, address) = net.listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok((listener, address.to_ip().context("a loopback address")?))
    };
    let (listener, rust) = listen()?;
    let shape = Shape::new(1, options.threads);
    let baseline = Serving(net.launch(echo_server, shape.shared_memory(PIECE), (listener,))?);
    let mut running = Vec::new();
    for (server, image, load_ms) in &loaded {
        let (listener, address) = listen()?;
        let arguments = RawArguments::new().socket(listener);
        // SAFETY: the kernel takes a net and a handle, by the caller's word; sizes are compared.
        #[allow(unsafe_code, reason = "runs kernels that are given as files")]
        let launch = unsafe { net.launch_raw(image, &server.kernel, shape, &arguments) }?;
        let needs = gpu.kernel_needs(&server.name);
        let registers = needs.iter().find(|needs| needs.kernel == server.kernel);
        running.push(Running {
            server: (*server).clone(),
            address,
            load_ms: *load_ms,
            registers: registers.map(|needs| needs.registers),
            serving: Serving(launch),
        });
    }
    let mut report = Report::new("languages", gpu, &options.common, COLUMNS);
    for server in &running {
        for bytes in &options.sizes {
            measure(&mut report, options, rust, server, *bytes);
        }
    }
    running.iter().try_for_each(|server| server.serving.stop())?;
    baseline.stop()?;
    report.finish()
}

fn measure(
    report: &mut Report,
    options: &Options,
    rust: SocketAddr,
    server: &Running,
    bytes: usize,
) {
    let what = format!("{}, {}", server.server.name, bytes_text(bytes as u64));
    if !report.has_time(&what) {
        return;
    }
    let (rounds, limit) = if options.common.quick { (20, 300) } else { (2000, 400) };
    let batch = Batch { bytes, rounds, limit: Duration::from_millis(limit) };
    let outcome = row(report, &what, server, bytes, |measured| {
        client::round_trips(if measured { server.address } else { rust }, batch)
    });
    report.outcome(&what, outcome);
}

fn row(
    report: &mut Report,
    what: &str,
    server: &Running,
    bytes: usize,
    batch: impl FnMut(bool) -> Result<Latency>,
) -> Result<()> {
    let trips = Trips::of(report.pairs(what, batch)?);
    let Running { server: Server { name, kernel, .. }, load_ms, registers, .. } = server;
    let facts = [name.clone(), bytes_text(bytes as u64)].into_iter();
    let registers_text = registers.map_or("-".to_owned(), |registers| registers.to_string());
    let cells = facts.chain(trips.cells()).chain([format!("{load_ms:.1}"), registers_text]);
    let json = json!({"image": name, "kernel": kernel, "bytes": bytes, "load_ms": load_ms,
        "registers": registers});
    report.row(cells.collect(), trips.json(json, ["baseline", "gpunet"]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_file_and_kernel() {
        let server: Server = "C++=a#b/echo.ptx#echo_server".parse().expect("three parts");
        assert_eq!((server.name.as_str(), server.kernel.as_str()), ("C++", "echo_server"));
        assert_eq!(server.file, PathBuf::from("a#b/echo.ptx"));
        for wrong in ["", "a", "a=b", "a=#b", "=a#b", "a=b#"] {
            assert!(wrong.parse::<Server>().is_err(), "{wrong}");
        }
    }
}
