//! Very many connections one after the other: connect, one round trip, close. What is left of them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gpunet_bench_kernels::serve::echo_server;
use gpunet_host::{GpuKind, Net, Shape, TransportChoice};

use super::super::{Pairs, Serving};
use super::server::RING;
use super::{Scale, Wanted, process};

/// How long the last connections may take to be closed.
const CLOSED: Duration = Duration::from_secs(60);
/// Connections before what is there is counted for the first time: tables and buffers have grown.
const WARM_UP: usize = 500;
/// What resident memory may grow by for other reasons: fewer bytes than these for each connection, or
/// than these altogether.
const SPARE_EACH: u64 = 160;
const SPARE: u64 = 8 << 20;

/// What a process and its net have.
#[derive(Clone, Copy)]
struct Held {
    sockets: u64,
    free_ring_bytes: u64,
    files: u64,
    resident: u64,
}

impl Held {
    fn now(net: &Net) -> Result<Self> {
        let statistics = net.statistics();
        Ok(Self {
            sockets: statistics.sockets,
            free_ring_bytes: statistics.free_ring_bytes,
            files: process::open_files()?,
            resident: process::resident()?,
        })
    }

    /// Once the net has so many sockets, and no more files than it had; or what there is in the end.
    fn once_closed(net: &Net, before: Option<Self>) -> Result<Self> {
        let deadline = Instant::now() + CLOSED;
        loop {
            let now = Self::now(net)?;
            let sockets = before.map_or(1, |before| before.sockets);
            let files = before.map_or(u64::MAX, |before| before.files);
            let closed = now.sockets <= sockets && now.files <= files;
            if closed || Instant::now() > deadline {
                return Ok(now);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Scale<'_> {
    pub(super) fn short(&mut self) -> Result<()> {
        let count = self.options.short.unwrap_or(10 * self.connections);
        let emulated = self.gpu.info().kind == GpuKind::Emulated;
        let (blocks, threads) = (self.blocks, if emulated { 2 } else { 8 });
        let net = Net::builder(self.gpu)
            .sockets(1024)
            .ring(RING)
            .timeout(Duration::from_secs(60))
            .transport(TransportChoice::Tcp)
            .build()?;
        let (listener, address) = net.listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let port = address.to_ip().context("a loopback address")?.port();
        let shape = Shape::new(blocks, 32).shared_memory(RING);
        let serving = Serving(net.launch(echo_server, shape, (listener,))?);
        let bytes = self.batch(1).bytes;
        self.clients.short(port, WARM_UP.min(count), threads, bytes)?;
        let before = Held::once_closed(&net, None)?;
        let begun = Instant::now();
        self.clients.short(port, count, threads, bytes)?;
        let seconds = begun.elapsed().as_secs_f64();
        let after = Held::once_closed(&net, Some(before))?;
        serving.stop()?;
        self.short_rows(count, before, after);
        let rate = count as f64 / seconds;
        self.figure("short connections: rate", count, "1/s", rate, Wanted::Nothing);
        let grown = after.resident.saturating_sub(before.resident);
        let spare = SPARE.max(SPARE_EACH * count as u64);
        ensure!(after.sockets == before.sockets, "sockets were left open");
        ensure!(after.free_ring_bytes == before.free_ring_bytes, "ring memory was not given back");
        ensure!(after.files <= before.files, "files were left open");
        ensure!(grown <= spare, "resident memory has grown by {grown} bytes");
        Ok(())
    }

    fn short_rows(&mut self, count: usize, before: Held, after: Held) {
        let kib = |bytes: u64| bytes as f64 / 1024.0;
        for (what, unit, before, after, wanted) in [
            ("sockets", "", before.sockets as f64, after.sockets as f64, Wanted::Same),
            (
                "free ring memory",
                "KiB",
                kib(before.free_ring_bytes),
                kib(after.free_ring_bytes),
                Wanted::Same,
            ),
            ("open files", "", before.files as f64, after.files as f64, Wanted::Same),
            ("resident memory", "KiB", kib(before.resident), kib(after.resident), Wanted::Nothing),
        ] {
            let mut pairs = Pairs::EMPTY;
            pairs.push(before, after);
            let what = format!("short connections, before and after: {what}");
            self.row(&what, count, unit, &pairs, wanted);
        }
    }
}
