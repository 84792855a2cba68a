//! The command line: the stock tool's letters, with longer names beside them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use gpunet_apps::failure::Failure;
use gpunet_apps::transport::{RingPlacement, SocketTransport};
use gpunet_host::GpuChoice;
use gpunet_kernels::rstream::{ASYNC, BLOCKING, NON_BLOCKING};
use gpunet_sockets::Address;
use gpunet_terminal::quantity::{TIMEOUT, parse_bytes, parse_ring, parse_seconds};

use crate::plan::{Custom, Plan};

/// Most bytes of a transfer, transfers or iterations: the stock tool counts in 31 bits.
const MOST: i64 = i32::MAX as i64;

/// A GPU kernel as the other end of librdmacm's rstream: its server, or with -s its client.
#[derive(Debug, Parser)]
#[command(name = "rstream", version)]
#[command(after_help = "\
Example: rstream -T v -S 4K -C 10 -I 10              and, on the other machine, the stock tool:
         rstream -T v -S 4096 -C 10 -I 10 -s HOST

Both ends have to be given the same -S, -C, -I and -T v; the other modes are each end's own.
docs/reference/json.md describes what --json prints.")]
pub(crate) struct Options {
    /// Be the client of the server at this host; without it, be the server
    #[arg(short, long, value_name = "HOST")]
    pub(crate) server: Option<String>,
    /// Address to serve at [default: every one of this machine]
    #[arg(short, long, value_name = "IP", conflicts_with = "server")]
    pub(crate) bind: Option<IpAddr>,
    /// Port
    #[arg(short, long, default_value_t = 7471)]
    pub(crate) port: u16,
    /// Bytes of a transfer, such as 64 or 16K, or all: the whole sweep [default: a sweep of four sizes]
    #[arg(short = 'S', long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) size: Option<Size>,
    /// Transfers in each direction before the other's turn [default: 1000, or as the sweep has it]
    #[arg(short = 'C', long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=MOST))]
    pub(crate) transfers: Option<i64>,
    /// Iterations of that [default: 1, or as the sweep has it]
    #[arg(short = 'I', long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=MOST))]
    pub(crate) iterations: Option<i64>,
    /// How the kernel makes its calls, and whether it checks what arrives; may be given twice
    #[arg(short = 'T', long = "test", value_enum, value_name = "MODE")]
    pub(crate) modes: Vec<Mode>,
    /// Bytes of each of the connection's two rings, 4K to 1G
    #[arg(short = 'B', long, value_name = "BYTES", value_parser = parse_ring, default_value = "512K")]
    pub(crate) ring: u32,
    /// How the connection travels; a server on auto takes both kinds
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) transport: SocketTransport,
    /// Where the rings of RDMA streams lie [default: the first of these that the device reaches]
    #[arg(long, value_enum)]
    pub(crate) placement: Option<RingPlacement>,
    /// Seconds without a byte after which the connection counts as lost
    #[arg(long, value_name = "SECONDS", default_value = TIMEOUT, value_parser = parse_seconds)]
    pub(crate) timeout: Duration,
    /// One JSON object on standard output in place of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// auto, cuda, cuda:N or emulated [default: auto, a CUDA device where there is one]
    #[arg(long, value_name = "GPU")]
    pub(crate) gpu: Option<GpuChoice>,
    /// Threads of the kernel's block, at most 1024 [default: 256; 32 on the emulated GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
}

/// Which sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// The sweep with all of its sizes.
    All,
    /// One.
    Bytes(u64),
}

/// How calls are made; what the stock tool calls its test options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Calls wait (the default)
    #[value(name = "b", alias = "blocking")]
    Blocking,
    /// Calls are tried until they need not wait
    #[value(name = "n", alias = "nonblocking")]
    NonBlocking,
    /// Polls before each call
    #[value(name = "a", alias = "async")]
    Async,
    /// Checks every byte that arrives; the other end has to verify, too
    #[value(name = "v", alias = "verify")]
    Verify,
}

impl Options {
    /// The tests that are asked for.
    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        let may_be_rdma = matches!(self.transport, SocketTransport::Auto | SocketTransport::Rdma);
        if self.placement.is_some() && !may_be_rdma {
            return Err(Failure::refused(
                "--placement is about RDMA streams: leave it out, or use --transport rdma or auto",
            ));
        }
        if self.server.is_some() && self.port == 0 {
            return Err(Failure::refused("--port: nobody listens at port 0; name the server's"));
        }
        let ways = self.modes.iter().filter(|mode| **mode != Mode::Verify).count();
        if ways > 1 {
            return Err(Failure::refused("-T: calls are made one way, so give one of b, n and a"));
        }
        let number = |given: Option<i64>| given.and_then(|given| u64::try_from(given).ok());
        let custom = Custom {
            bytes: match self.size {
                Some(Size::Bytes(bytes)) => Some(bytes),
                Some(Size::All) | None => None,
            },
            transfers: number(self.transfers),
            iterations: number(self.iterations),
        };
        match self.size {
            Some(Size::All) if !custom.is_empty() => Err(Failure::refused(
                "-S all has its own counts: leave -C and -I out, or name one size",
            )),
            Some(Size::All) => Ok(Plan::sweep(true)),
            _ if custom.is_empty() => Ok(Plan::sweep(false)),
            _ => Ok(Plan::custom(&custom)),
        }
    }

    pub(crate) fn verify(&self) -> bool {
        self.modes.contains(&Mode::Verify)
    }

    /// As the kernel knows it.
    pub(crate) fn mode(&self) -> u64 {
        match self.modes.iter().find(|mode| **mode != Mode::Verify) {
            Some(Mode::NonBlocking) => NON_BLOCKING,
            Some(Mode::Async) => ASYNC,
            _ => BLOCKING,
        }
    }

    /// Where to serve.
    pub(crate) fn listen(&self) -> SocketAddr {
        SocketAddr::new(self.bind.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), self.port)
    }

    /// Where to connect.
    pub(crate) fn connect(&self, host: &str) -> Result<gpunet_device::SocketAddr, Failure> {
        let address = Address::Ip { host: host.to_owned(), port: self.port };
        address.resolve().map_err(Failure::refused)
    }
}

fn parse_size(text: &str) -> Result<Size, String> {
    if text.eq_ignore_ascii_case("all") {
        return Ok(Size::All);
    }
    match parse_bytes(text) {
        Ok(bytes) if bytes <= MOST.unsigned_abs() => Ok(Size::Bytes(bytes)),
        _ => Err(format!("write a number of bytes up to {MOST}, such as 64 or 16K, or all")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Options {
        Options::try_parse_from([&["rstream"], arguments].concat()).unwrap()
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }

    #[test]
    fn the_stock_letters_are_understood() {
        let options = options(&["-s", "h", "-p", "1", "-S", "64", "-C", "2", "-I", "3", "-T", "a"]);
        assert_eq!((options.server.as_deref(), options.port), (Some("h"), 1));
        assert_eq!((options.mode(), options.verify()), (ASYNC, false));
        assert_eq!(options.plan().unwrap().tests(), 1);
    }

    #[test]
    fn what_makes_no_sense_together_is_refused() {
        for bad in [
            &["-S", "all", "-I", "3"][..],
            &["-T", "a", "-T", "b"],
            &["-s", "h", "-p", "0"],
            &["--transport", "tcp", "--placement", "bounce"],
        ] {
            assert!(options(bad).plan().is_err(), "{bad:?}");
        }
        for bad in [&["-S", "0"][..], &["-S", "3G"], &["-I", "0"], &["-s", "h", "-b", "::"]] {
            assert!(Options::try_parse_from([&["rstream"], bad].concat()).is_err(), "{bad:?}");
        }
    }
}
