//! The command line.

use std::time::Duration;

use clap::{Parser, ValueEnum};
use gpunet_host::{Gpu, GpuChoice, GpuKind};
use gpunet_terminal::quantity::{TIMEOUT, parse_bytes, parse_seconds};
use serde::Serialize;

/// A kernel makes a message, which travels to a peer and back, and a kernel checks it; round after round,
/// in four ways side by side.
///
/// cpu: the program's thread waits for the kernel, copies, sends, receives, copies and launches the next
/// one, on a socket of the system, and polls wherever it waits. stream: kernels and operations are put on
/// a stream, many rounds ahead. graph: a round is one CUDA graph. kernel: one kernel does all of it, and
/// runs operations that were prepared. The peer is a thread of this process, on a TCP connection over
/// loopback.
#[derive(Debug, Parser)]
#[command(name = "pingpong", version)]
#[command(after_help = "docs/reference/json.md describes what --json prints.")]
pub(crate) struct Options {
    /// auto, cuda, cuda:N or emulated [default: auto, a CUDA device where there is one]
    #[arg(long, value_name = "GPU", default_value = "auto", hide_default_value = true)]
    pub(crate) gpu: GpuChoice,
    /// Bytes of a message, in multiples of 4 [default: 64,1K,16K,256K,1M,16M; 64,4K emulated]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_size)]
    sizes: Vec<u64>,
    /// Messages of each size and mode, a round each, less of large ones [default: 2000; 20 emulated]
    #[arg(long, alias = "rounds", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    messages: Option<u32>,
    /// The modes, in this order
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_values = ["cpu", "stream", "graph", "kernel"])]
    pub(crate) modes: Vec<Mode>,
    /// Microseconds that each kernel computes; several: one after the other
    #[arg(long, value_name = "US", value_delimiter = ',', default_values_t = [0, 20],
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(crate) compute: Vec<u64>,
    /// Measure, too, how much of an exchange of 16M (256K emulated) is hidden behind a kernel
    #[arg(long)]
    pub(crate) overlap: bool,
    /// Threads of the proxy
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) proxy_threads: u32,
    /// Seconds that an operation may take
    #[arg(long, value_name = "SECONDS", default_value = TIMEOUT, value_parser = parse_seconds)]
    pub(crate) timeout: Duration,
    /// One JSON object on standard output in place of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// How a round goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// By the program's thread.
    Cpu,
    /// On a stream.
    Stream,
    /// As a graph.
    Graph,
    /// By the kernel itself.
    Kernel,
}

impl Mode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Stream => "stream",
            Self::Graph => "graph",
            Self::Kernel => "kernel",
        }
    }
}

impl Options {
    pub(crate) fn sizes(&self, gpu: &Gpu) -> Vec<usize> {
        if !self.sizes.is_empty() {
            return self.sizes.iter().map(|bytes| *bytes as usize).collect();
        }
        match gpu.info().kind {
            GpuKind::Emulated => vec![64, 4 << 10],
            _ => vec![64, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20],
        }
    }

    /// Rounds of messages of so many bytes: all rounds move a gigabyte at most.
    pub(crate) fn rounds(&self, gpu: &Gpu, bytes: usize) -> u32 {
        let wanted = self.messages.unwrap_or(match gpu.info().kind {
            GpuKind::Emulated => 20,
            _ => 2000,
        });
        let most = (1 << 30) / bytes.max(1);
        wanted.min(u32::try_from(most).unwrap_or(u32::MAX)).max(1)
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    match bytes % 4 == 0 && bytes <= 1 << 30 {
        true => Ok(bytes),
        false => Err("a multiple of 4, at most 1G".to_owned()),
    }
}
