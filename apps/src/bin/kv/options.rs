//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use gpunet_host::{Gpu, GpuChoice, GpuKind};
use gpunet_terminal::quantity::{parse_bytes, parse_ring, parse_seconds};

/// A key-value store on the GPU with the Redis protocol (RESP2 and RESP3).
///
/// One kernel serves all clients: each of its blocks has connections of its own, and the table lies in
/// GPU memory. Any Redis client works: redis-cli, redis-benchmark, redis-py. Ctrl-C ends it in order:
/// no new clients, answers to what was asked, statistics.
///
/// Commands: GET SET (EX PX EXAT PXAT NX XX GET KEEPTTL) GETSET GETDEL MGET MSET SETNX SETEX PSETEX
/// APPEND STRLEN INCR DECR INCRBY DECRBY DEL UNLINK EXISTS TOUCH TYPE EXPIRE PEXPIRE EXPIREAT TTL PTTL
/// PERSIST SCAN DBSIZE FLUSHALL FLUSHDB PING ECHO SELECT HELLO INFO CLIENT CONFIG COMMAND TIME RESET QUIT.
/// Keys and values have up to 1 MiB, requests up to 2 MiB. A command of several keys takes effect key by key.
#[derive(Debug, Parser)]
#[command(name = "kv", version)]
#[command(after_help = "docs/reference/json.md describes what --json prints.")]
pub(crate) struct Options {
    /// Address to listen at; port 0: the system chooses one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6379")]
    pub(crate) listen: SocketAddr,
    /// auto, cuda, cuda:N or emulated [default: auto, a CUDA device where there is one]
    #[arg(long, value_name = "GPU", default_value = "auto", hide_default_value = true)]
    pub(crate) gpu: GpuChoice,
    /// Blocks of the kernel [default: one for each multiprocessor; 2 on the emulated GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    blocks: Option<u32>,
    /// Threads of a block [default: 64; 4 on the emulated GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Threads of the proxy, which moves bytes between sockets and the kernel
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) proxy_threads: u32,
    /// GPU memory for keys and values [default: 4G; 128M on the emulated GPU]; more is for requests and answers on
    /// their way: 32K a connection or an eighth of it, whatever is more, 16M to 1G
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Clients at a time; further ones are refused with an error [default: 10000; 1000 on the emulated GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Option<u32>,
    /// Bytes of each of a connection's two rings, in host memory
    #[arg(long, value_name = "BYTES", value_parser = parse_ring, default_value = "16K")]
    pub(crate) ring: u32,
    /// Shared memory of a block: half of it for requests, half for answers
    #[arg(long, value_name = "BYTES", value_parser = parse_staging, default_value = "16K")]
    pub(crate) staging: u32,
    /// Seconds from the first byte of a request to its last; a client that takes longer is refused; 0: any time
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_idle)]
    pub(crate) request_timeout: Duration,
    /// Seconds without a byte after which a client is closed; 0: never
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_idle)]
    pub(crate) idle_timeout: Duration,
    /// Seconds that clients have for their last answers once the server is interrupted
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    pub(crate) drain: Duration,
    /// One JSON object on standard output in place of the table, at the end
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_idle(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_seconds(text) }
}

fn parse_staging(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| (4 << 10..=200 << 10).contains(bytes))
        .ok_or_else(|| "4K to 200K".to_owned())
}

impl Options {
    pub(crate) fn blocks(&self, gpu: &Gpu) -> u32 {
        let usual = if is_emulated(gpu) { 2 } else { gpu.info().multiprocessors };
        self.blocks.unwrap_or(usual)
    }

    pub(crate) fn threads(&self, gpu: &Gpu) -> u32 {
        self.threads.unwrap_or(if is_emulated(gpu) { 4 } else { 64 })
    }

    pub(crate) fn memory(&self, gpu: &Gpu) -> u64 {
        self.memory.unwrap_or(if is_emulated(gpu) { 128 << 20 } else { 4 << 30 })
    }

    pub(crate) fn connections(&self, gpu: &Gpu) -> u32 {
        self.connections.unwrap_or(if is_emulated(gpu) { 1000 } else { 10_000 })
    }
}

fn is_emulated(gpu: &Gpu) -> bool {
    gpu.info().kind == GpuKind::Emulated
}
