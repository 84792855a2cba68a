//! The command line: what can be asked, its defaults, and what makes no sense together.

use std::net::IpAddr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gpunet_apps::quantity::{parse_bytes, parse_ring, parse_seconds};
use gpunet_apps::transport::{RingPlacement, SocketTransport};
use gpunet_host::GpuChoice;

use crate::address::Address;
use crate::end::Processor;
use gpunet_apps::failure::Failure;

/// Echo between GPU and CPU: kernels that open sockets, beside the same program on the CPU.
///
/// Without a command it runs all four pairings (client and server, each on GPU and CPU) on this
/// machine, checks every byte and ends with a table.
#[derive(Debug, Parser)]
#[command(name = "echo", version, args_conflicts_with_subcommands = true)]
#[command(after_help = crate::report::JSON_HELP)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run all four pairings on this machine (as without a command)
    #[command(after_help = crate::report::JSON_HELP)]
    Run(RunOptions),
    /// Serve until interrupted
    #[command(after_help = "Example: echo server --on gpu --listen 127.0.0.1:7000\n\n\
        The first line on standard output is `listening on ADDR`. Ctrl-C ends it.")]
    Server(ServerOptions),
    /// Measure round trips against an echo server, any echo server
    #[command(after_help = "Example: echo client --on gpu --connect 127.0.0.1:7000 --json\n\n\
        --json gives one object: {\"gpu\", \"gpu_name\", \"gpu_reason\" (null with --on cpu), \
        \"client\", \"server\" (address), \"transport\", \"transport_reason\", \"placement\", \
        \"rdma_devices\", \"verified\", \"error\", \"rtt_us\", \"machine\", \
        \"settings\"}, as in `echo run --help`.")]
    Client(ClientOptions),
}

/// How the pairings travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// local between kernels; else RDMA where this machine has it, else TCP; the report says why
    Auto,
    /// TCP on the loopback: IPv4
    #[value(alias = "tcp4")]
    Tcp,
    /// TCP on the loopback: IPv6
    Tcp6,
    /// UNIX-domain sockets in a temporary folder
    Unix,
    /// RDMA at an address of an RDMA device; CPU ends use the stock rsocket library
    Rdma,
    /// Straight from kernel to kernel; only the pairing of a GPU client with a GPU server
    Local,
}

#[derive(Args, Debug)]
pub(crate) struct RunOptions {
    /// Transport between the ends; tcp4 is another name of tcp
    #[arg(long, value_enum, default_value = "auto", help_heading = "Measurement")]
    pub(crate) transport: Transport,
    /// Where the ends meet with rdma [default: the first IPv4 address of an RDMA device]
    #[arg(long, value_name = "IP", help_heading = "Measurement")]
    pub(crate) address: Option<IpAddr>,
    /// Bytes of the one-way stream on each connection [default: what passes in 0.7 s], such as 64M
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Measurement")]
    pub(crate) stream_bytes: Option<u64>,
    /// Blocks of the server's kernel, at least one for each connection [default: --connections]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65535), help_heading = "GPU")]
    pub(crate) blocks: Option<u32>,
    #[command(flatten)]
    pub(crate) measure: MeasureOptions,
    #[command(flatten)]
    pub(crate) gpu: GpuOptions,
}

#[derive(Args, Debug)]
pub(crate) struct ServerOptions {
    /// Where the server runs
    #[arg(long, value_enum)]
    pub(crate) on: Processor,
    /// `HOST:PORT`, `[IPV6]:PORT` or `unix:/path`; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Address,
    /// How connections travel; auto takes all kinds
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) transport: SocketTransport,
    /// Blocks of the kernel: connections served at once, others wait [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65535), help_heading = "GPU")]
    pub(crate) blocks: Option<u32>,
    #[command(flatten)]
    pub(crate) gpu: GpuOptions,
}

#[derive(Args, Debug)]
pub(crate) struct ClientOptions {
    /// Where the client runs
    #[arg(long, value_enum)]
    pub(crate) on: Processor,
    /// `HOST:PORT`, `[IPV6]:PORT` or `unix:/path`
    #[arg(long, value_name = "ADDR")]
    pub(crate) connect: Address,
    /// How connections travel; auto tries local first, then RDMA
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) transport: SocketTransport,
    #[command(flatten)]
    pub(crate) measure: MeasureOptions,
    #[command(flatten)]
    pub(crate) gpu: GpuOptions,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Measurement")]
pub(crate) struct MeasureOptions {
    /// Bytes of the messages, such as 64,1K,1M
    #[arg(long, value_name = "LIST", value_parser = parse_bytes, value_delimiter = ',', default_value = "64,1024,65536")]
    pub(crate) sizes: Vec<u64>,
    /// Messages of each size on each connection [default: what passes in 0.4 s, 20 to 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) messages: Option<u64>,
    /// Connections at once; on the GPU a block for each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) connections: u32,
    /// Seconds without a byte after which a connection counts as lost
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    pub(crate) timeout: Duration,
    /// One JSON object on standard output in place of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "GPU")]
pub(crate) struct GpuOptions {
    /// auto, cuda, cuda:N or emulated [default: auto, a CUDA device where there is one]
    #[arg(long, value_name = "GPU")]
    pub(crate) gpu: Option<GpuChoice>,
    /// Threads of a block, at most 1024 [default: 256; 32 on the emulated GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Threads that move bytes between kernels and the network [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) proxy_threads: Option<u32>,
    /// Bytes of each of a connection's two rings, 4K to 1G [default: 256K]
    #[arg(long, value_name = "BYTES", value_parser = parse_ring)]
    pub(crate) ring: Option<u32>,
    /// Where the rings of RDMA streams lie [default: the first of these that the device reaches]
    #[arg(long, value_enum)]
    pub(crate) placement: Option<RingPlacement>,
}

impl RunOptions {
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks.unwrap_or(self.measure.connections)
    }

    pub(crate) fn check(&self) -> Result<(), Failure> {
        let may_be_rdma = matches!(self.transport, Transport::Auto | Transport::Rdma);
        if self.address.is_some() && !may_be_rdma {
            return Err(Failure::refused(
                "--address is where RDMA ends meet: leave it out, or use --transport rdma or auto",
            ));
        }
        self.gpu.check_placement(may_be_rdma)?;
        if self.blocks() < self.measure.connections {
            return Err(Failure::refused(format!(
                "--blocks {} for --connections {}: a block serves one connection, so give at \
                 least as many blocks",
                self.blocks(),
                self.measure.connections
            )));
        }
        self.measure.check()
    }
}

impl ServerOptions {
    pub(crate) fn check(&self) -> Result<(), Failure> {
        check_transport(self.transport, self.on, &self.listen)?;
        self.gpu.check(self.on, self.blocks.is_some())?;
        self.gpu.check_placement(may_be_rdma(self.transport, &self.listen))
    }
}

impl ClientOptions {
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if let Address::Ip { port: 0, .. } = self.connect {
            return Err(Failure::refused("--connect: nobody listens at port 0; name the server's"));
        }
        check_transport(self.transport, self.on, &self.connect)?;
        self.gpu.check(self.on, false)?;
        self.gpu.check_placement(may_be_rdma(self.transport, &self.connect))?;
        self.measure.check()
    }
}

/// A path is no way for RDMA, and the CPU has no GPU memory for p2p streams.
fn check_transport(
    transport: SocketTransport,
    on: Processor,
    address: &Address,
) -> Result<(), Failure> {
    match (transport, address) {
        (SocketTransport::Local, _) if on == Processor::Cpu => Err(Failure::refused(
            "--transport local is between kernels: the CPU has no GPU memory to be written into; \
             use --on gpu, or leave --transport out",
        )),
        (SocketTransport::Rdma, Address::Unix(_)) => Err(Failure::refused(format!(
            "--transport rdma cannot go to {address}: give an IP address of an RDMA device, or \
             leave --transport out"
        ))),
        _ => Ok(()),
    }
}

fn may_be_rdma(transport: SocketTransport, address: &Address) -> bool {
    let may = matches!(transport, SocketTransport::Auto | SocketTransport::Rdma);
    may && matches!(address, Address::Ip { .. })
}

impl MeasureOptions {
    /// Refuses sizes that nobody can mean, and what memory cannot hold before any is touched.
    fn check(&self) -> Result<(), Failure> {
        let largest = self.largest();
        let twice = |(at, size): (usize, &u64)| self.sizes[..at].contains(size);
        if let Some(at) = self.sizes.iter().enumerate().position(twice) {
            let size = self.sizes[at];
            return Err(Failure::refused(format!("--sizes names {size} twice: once is enough")));
        }
        // A message and its answer on each connection, at both ends.
        let needed = u128::from(largest) * 4 * u128::from(self.connections);
        let available = crate::machine::available_memory();
        if let Some(available) = available
            && needed > u128::from(available)
        {
            return Err(Failure::refused(format!(
                "--sizes {largest} with --connections {} needs {needed} bytes of memory, this \
                 machine has {available} left: choose smaller ones",
                self.connections
            )));
        }
        Ok(())
    }

    pub(crate) fn largest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(1)
    }
}

impl GpuOptions {
    /// What shapes kernels means nothing to a program that launches none.
    fn check(&self, on: Processor, blocks: bool) -> Result<(), Failure> {
        let given = [
            (self.gpu.is_some(), "--gpu"),
            (self.threads.is_some(), "--threads"),
            (self.proxy_threads.is_some(), "--proxy-threads"),
            (self.ring.is_some(), "--ring"),
            (self.placement.is_some(), "--placement"),
            (blocks, "--blocks"),
        ];
        match given.iter().find(|(given, _)| *given) {
            Some((_, name)) if on == Processor::Cpu => Err(Failure::refused(format!(
                "{name} is about kernels and means nothing with --on cpu: leave it out, or use \
                 --on gpu"
            ))),
            _ => Ok(()),
        }
    }

    fn check_placement(&self, may_be_rdma: bool) -> Result<(), Failure> {
        if self.placement.is_some() && !may_be_rdma {
            return Err(Failure::refused(
                "--placement is about RDMA streams: leave it out, or use --transport rdma or auto",
            ));
        }
        Ok(())
    }

    pub(crate) fn choice(&self) -> GpuChoice {
        self.gpu.clone().unwrap_or_default()
    }

    pub(crate) fn proxy_threads(&self) -> u32 {
        self.proxy_threads.unwrap_or(1)
    }

    pub(crate) fn ring(&self) -> u32 {
        self.ring.unwrap_or(256 << 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }
}
