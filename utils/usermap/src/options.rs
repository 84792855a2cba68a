//! The command line.

use clap::{Args, Parser, Subcommand};
use gpu_usermap::Choice;
use gpunet_host::GpuChoice;
use gpunet_terminal::quantity::parse_bytes;

const JSON: &str = "docs/reference/json.md describes what --json prints.";

/// CPU mappings of GPU memory: does it work here, how, and how fast?
///
/// Memory of the GPU is mapped by gdrdrv, or as a dma-buf; where neither works, pinned host memory
/// stands in for it and the report says why. Without CUDA everything runs on the emulated GPU.
#[derive(Debug, Parser)]
#[command(name = "usermap", version, after_help = JSON)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check: every byte right at all offsets and widths, threads, fork, mistakes, nothing left
    #[command(after_help = JSON)]
    Sanity(SanityOptions),
    /// Bandwidth of copies through the mapping, either way
    #[command(after_help = JSON)]
    Copybw(CopyOptions),
    /// Latency of copies through the mapping, 1 byte to 16 MiB, beside the driver's copy
    ///
    /// The driver's copy is the one that gpunet uses: staged, asynchronous, and waited for. Copies of
    /// up to 4 KiB through the mapping are timed 16 at once.
    #[command(after_help = JSON)]
    Copylat(CopyOptions),
    /// What it costs to map, to check a mapping, and to unmap
    #[command(after_help = JSON)]
    Apiperf(ApiOptions),
    /// Ping-pong: the CPU stores a mapped word, a kernel sees it and answers in host memory
    ///
    /// Where GPU memory can be mapped, the same through host memory is measured beside it.
    #[command(after_help = JSON)]
    Pplat(PingOptions),
}

/// What every command takes.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// auto, cuda, cuda:N or emulated [default: auto, a CUDA device where there is one]
    #[arg(long, value_name = "GPU", default_value = "auto", hide_default_value = true)]
    pub(crate) gpu: GpuChoice,
    /// auto, gdrdrv, dma-buf, host or emulated
    #[arg(long, default_value = "auto")]
    pub(crate) backend: Choice,
    /// One JSON object on standard output in place of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SanityOptions {
    /// Threads of the program that share the mapping
    #[arg(long = "cpu-threads", alias = "threads", value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Debug)]
pub(crate) struct CopyOptions {
    /// Bytes of the copies, such as 64,128K [default: 128K; copylat: 1 to 16M]
    #[arg(long, value_name = "LIST", value_parser = parse_bytes, value_delimiter = ',')]
    pub(crate) sizes: Vec<u64>,
    /// Where in the memory copies begin
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) offset: u32,
    /// Copies of each size [default: what passes in 50 ms, 5 to 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: Option<u32>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Debug)]
pub(crate) struct ApiOptions {
    /// Bytes mapped, such as 64K,1M
    #[arg(long, value_name = "LIST", value_parser = parse_bytes, value_delimiter = ',', default_value = "64K,1M,16M")]
    pub(crate) sizes: Vec<u64>,
    /// Times that each is done
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Debug)]
pub(crate) struct PingOptions {
    /// Round trips
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}
