//! The command line: what can be asked, its defaults, and what makes no sense together.

use std::net::IpAddr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gpunet_apps::failure::Failure;
use gpunet_apps::transport::{RingPlacement, SocketTransport};
use gpunet_host::GpuChoice;
use gpunet_sockets::Address;
use gpunet_terminal::progress::Progress;
use gpunet_terminal::quantity::{TIMEOUT, parse_bytes, parse_ring, parse_seconds};

use crate::end::Processor;

/// The largest message.
const LARGEST: u64 = 1 << 30;

/// Echo between GPU and CPU: kernels that open sockets, beside the same program on the CPU.
///
/// Without a command it runs all four pairings (client and server, each on GPU and CPU) on this
/// machine, checks every byte and ends with a table.
#[derive(Debug, Parser)]
#[command(name = "echo", version, args_conflicts_with_subcommands = true)]
#[command(after_help = "Example: echo --gpu emulated --sizes 64,64K\n\n\
    The table has the mean of the round trips; `bench sizes` and `bench streams` measure. docs/reference/json.md \
    describes what --json prints.")]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve until interrupted
    #[command(after_help = "Example: echo server --on gpu --listen 127.0.0.1:7000\n\n\
        The first line on standard output is `listening on ADDR`. Ctrl-C ends it.")]
    Server(ServerOptions),
    /// Send messages to an echo server, any echo server, and check what comes back
    #[command(after_help = "Example: echo client --on gpu --connect 127.0.0.1:7000")]
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
    #[arg(long, value_enum, default_value = "auto", help_heading = "Messages")]
    pub(crate) transport: Transport,
    /// Where the ends connect with rdma [default: the first IPv4 address of an RDMA device]
    #[arg(long, value_name = "IP", help_heading = "Messages")]
    pub(crate) address: Option<IpAddr>,
    #[command(flatten)]
    pub(crate) messages: MessageOptions,
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
    pub(crate) messages: MessageOptions,
    #[command(flatten)]
    pub(crate) gpu: GpuOptions,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Messages")]
pub(crate) struct MessageOptions {
    /// Bytes of the messages, such as 64,1K,1M
    #[arg(long, value_name = "LIST", value_parser = parse_size, value_delimiter = ',', default_value = "64,1K,64K")]
    pub(crate) sizes: Vec<u64>,
    /// Messages of each size on each connection
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) messages: u64,
    /// Connections at once; on the GPU a block for each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) connections: u32,
    /// Seconds without a byte after which a connection counts as lost
    #[arg(long, value_name = "SECONDS", default_value = TIMEOUT, value_parser = parse_seconds)]
    pub(crate) timeout: Duration,
    /// One JSON object on standard output in place of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
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
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let may_be_rdma = matches!(self.transport, Transport::Auto | Transport::Rdma);
        if self.address.is_some() && !may_be_rdma {
            return Err(Failure::refused(
                "--address is where RDMA ends connect: leave it out, or use --transport rdma or auto",
            ));
        }
        self.gpu.check_placement(may_be_rdma)?;
        self.messages.check()
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
        self.messages.check()
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

impl MessageOptions {
    fn check(&self) -> Result<(), Failure> {
        let twice = |(at, size): (usize, &u64)| self.sizes[..at].contains(size);
        match self.sizes.iter().enumerate().position(twice) {
            Some(at) => {
                let size = self.sizes[at];
                Err(Failure::refused(format!("--sizes names {size} twice: once is enough")))
            }
            None => Ok(()),
        }
    }

    /// Of so many pairings.
    pub(crate) fn progress(&self, pairings: usize) -> Progress {
        Progress::of_steps((pairings * self.sizes.len()) as u64, self.quiet || self.json)
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes @ ..=LARGEST => Ok(bytes),
        _ => Err("at most 1G".to_owned()),
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
