//! What was measured: percentiles, the table and the JSON object.

use std::fmt::Write as _;
use std::time::Duration;

use gpunet_apps::print::say;
use gpunet_host::AdapterReport;
use serde::{Serialize, Serializer};

use crate::end::Processor;
use crate::machine::Machine;

/// The JSON object, as `--help` describes it; the fields of [`RunReport`].
pub(crate) const JSON_HELP: &str = "\
Example: echo --gpu emulated --sizes 64,64K --json

--json gives one object on standard output:
  gpu, gpu_name, gpu_reason   \"cuda\" or \"emulated\"; which one; why that one
  transport                   \"tcp4\", \"tcp6\", \"unix\", \"rdma\" or \"local\"; \"mixed\" where pairings
                              differ; null where no connection was made
  transport_reason            why some went by TCP and not RDMA, with --transport auto; null otherwise
  placement                   where rings of RDMA streams lay: \"dma-buf\", \"peer memory\",
                              \"bounce\"; null without RDMA
  rdma_devices                those that were used: device, placements, refused (with the reason)
  verified                    whether every byte of every pairing was right (exit status 0)
  pairings                    four times; with --transport local once
    client, server            \"gpu\" or \"cpu\"
    transport, placement      as the client's connection says; null where none was made
    verified, error           whether every byte was right; else why not, null otherwise
    rtt_us                    for each size in bytes: p50 and p99 in microseconds, messages
    stream_gbps, stream_bytes one way, client to server, 10^9 bytes a second; what was sent
  machine                     cpu, cores, memory_bytes, linux
  settings                    connections, blocks, threads, proxy_threads, ring_bytes
  elapsed_s                   seconds that it all took";

/// Round trips of one size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RoundTrip {
    /// Bytes of the messages.
    pub(crate) bytes: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) messages: usize,
}

impl RoundTrip {
    /// From how long each took, in nanoseconds.
    pub(crate) fn of(bytes: u64, mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        let us = |part| (percentile(&samples, part) as f64 / 10.0).round() / 100.0;
        Self { bytes, p50_us: us(0.50), p99_us: us(0.99), messages: samples.len() }
    }
}

/// The smallest sample that `part` of all samples do not exceed.
fn percentile(sorted: &[u64], part: f64) -> u64 {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// Throughput of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StreamFigure {
    pub(crate) bytes: u64,
    /// 10^9 bytes a second.
    pub(crate) gbps: f64,
}

impl StreamFigure {
    pub(crate) fn of(bytes: u64, took: Duration) -> Self {
        Self { bytes, gbps: bytes as f64 / took.as_nanos().max(1) as f64 }
    }
}

/// The GPU that was used.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct GpuFacts {
    /// `cuda` or `emulated`; none where no GPU was needed.
    pub(crate) gpu: Option<String>,
    pub(crate) gpu_name: Option<String>,
    pub(crate) gpu_reason: Option<String>,
}

/// How the connections went.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct TransportFacts {
    /// None where no connection was made.
    pub(crate) transport: Option<&'static str>,
    pub(crate) transport_reason: Option<String>,
    pub(crate) placement: Option<&'static str>,
    pub(crate) rdma_devices: Vec<AdapterReport>,
}

/// The transport of a report whose pairings went different ways.
const MIXED: &str = "mixed";

impl TransportFacts {
    /// Of all pairings; `why_tcp` counts if any went by TCP.
    pub(crate) fn of_pairings(
        pairings: &[Pairing],
        why_tcp: Option<&str>,
        rdma_devices: Vec<AdapterReport>,
    ) -> Self {
        let transports = || pairings.iter().filter_map(|pairing| pairing.transport);
        let transport = transports().next();
        let differ = transports().any(|other| Some(other) != transport);
        Self {
            transport: if differ { Some(MIXED) } else { transport },
            transport_reason: why_tcp.filter(|_| transports().any(is_tcp)).map(str::to_owned),
            placement: pairings.iter().find_map(|pairing| pairing.placement),
            rdma_devices,
        }
    }

    /// Says why it was TCP, where it could have been RDMA.
    pub(crate) fn explain(&self) {
        if let Some(reason) = &self.transport_reason {
            // Kernels find another way between themselves.
            let mixed = self.transport == Some(MIXED);
            let which = if mixed { " for pairings with an end on the CPU" } else { "" };
            say(&format!("echo: TCP was used{which}: {reason}"));
        }
    }
}

fn is_tcp(transport: &str) -> bool {
    transport.starts_with("tcp")
}

/// `rdma (bounce)`, `tcp4`.
fn transport_name(transport: Option<&str>, placement: Option<&str>) -> Option<String> {
    Some(match placement {
        Some(placement) => format!("{} ({placement})", transport?),
        None => transport?.to_owned(),
    })
}

/// How the ends were shaped.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) connections: u32,
    /// Blocks of the server's kernel; none where this program was no server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blocks: Option<u32>,
    pub(crate) threads: Option<u32>,
    pub(crate) proxy_threads: Option<u32>,
    pub(crate) ring_bytes: Option<u32>,
}

/// What one client measured against one server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    /// Whether every byte was right.
    pub(crate) verified: bool,
    /// Why not.
    pub(crate) error: Option<String>,
    /// By size of the messages.
    #[serde(serialize_with = "by_size")]
    pub(crate) rtt_us: Vec<RoundTrip>,
}

fn by_size<S: Serializer>(trips: &[RoundTrip], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Percentiles {
        p50: f64,
        p99: f64,
        messages: usize,
    }
    serializer.collect_map(trips.iter().map(|trip| {
        let percentiles =
            Percentiles { p50: trip.p50_us, p99: trip.p99_us, messages: trip.messages };
        (trip.bytes.to_string(), percentiles)
    }))
}

/// One of the four pairings.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pairing {
    pub(crate) client: Processor,
    pub(crate) server: Processor,
    /// As the client's connection says; none where none was made.
    pub(crate) transport: Option<&'static str>,
    pub(crate) placement: Option<&'static str>,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    pub(crate) stream_gbps: Option<f64>,
    pub(crate) stream_bytes: Option<u64>,
}

/// All pairings.
#[derive(Debug, Serialize)]
pub(crate) struct RunReport {
    #[serde(flatten)]
    pub(crate) gpu: GpuFacts,
    #[serde(flatten)]
    pub(crate) facts: TransportFacts,
    pub(crate) verified: bool,
    pub(crate) pairings: Vec<Pairing>,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) elapsed_s: f64,
}

/// A client against a server elsewhere.
#[derive(Debug, Serialize)]
pub(crate) struct ClientReport {
    #[serde(flatten)]
    pub(crate) gpu: GpuFacts,
    pub(crate) client: Processor,
    pub(crate) server: String,
    #[serde(flatten)]
    pub(crate) facts: TransportFacts,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
}

impl RunReport {
    pub(crate) fn table(&self, sizes: &[u64]) -> String {
        let mut header = ["client", "server", "transport"].map(str::to_owned).to_vec();
        header.extend(size_columns(sizes));
        header.extend(["stream GB/s".to_owned(), "verified".to_owned()]);
        let mut rows = vec![header];
        for pairing in &self.pairings {
            let mut row = vec![pairing.client.name().to_owned(), pairing.server.name().to_owned()];
            let name = transport_name(pairing.transport, pairing.placement);
            row.push(name.unwrap_or_else(|| "-".to_owned()));
            row.extend(size_cells(sizes, &pairing.figures.rtt_us));
            row.push(pairing.stream_gbps.map_or("-".to_owned(), |gbps| format!("{gbps:.3}")));
            row.push(yes_or_no(pairing.figures.verified));
            rows.push(row);
        }
        let mut text = self.gpu.line();
        let _ = writeln!(
            text,
            "on this machine, {} connection(s); round trips p50 / p99 in us\n",
            self.settings.connections
        );
        text + &aligned(&rows)
    }
}

impl ClientReport {
    pub(crate) fn table(&self, sizes: &[u64]) -> String {
        let mut header = vec!["client".to_owned()];
        header.extend(size_columns(sizes));
        header.push("verified".to_owned());
        let mut row = vec![self.client.name().to_owned()];
        row.extend(size_cells(sizes, &self.figures.rtt_us));
        row.push(yes_or_no(self.figures.verified));
        let name = transport_name(self.facts.transport, self.facts.placement);
        let mut text = self.gpu.line();
        let _ = writeln!(
            text,
            "server {} by {}, {} connection(s); round trips p50 / p99 in us\n",
            self.server,
            name.unwrap_or_else(|| "no connection".to_owned()),
            self.settings.connections
        );
        text + &aligned(&[header, row])
    }
}

impl GpuFacts {
    fn line(&self) -> String {
        match (&self.gpu_name, &self.gpu_reason) {
            (Some(name), Some(reason)) => format!("GPU: {name} ({reason})\n"),
            _ => String::new(),
        }
    }
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "NO" }.to_owned()
}

fn size_columns(sizes: &[u64]) -> impl Iterator<Item = String> {
    sizes.iter().map(|size| human_bytes(*size))
}

fn size_cells(sizes: &[u64], trips: &[RoundTrip]) -> impl Iterator<Item = String> {
    sizes.iter().map(|size| {
        let found = trips.iter().find(|trip| trip.bytes == *size);
        found.map_or("-".to_owned(), |trip| format!("{:.1} / {:.1}", trip.p50_us, trip.p99_us))
    })
}

/// `64 B`, `1 KiB`, `64 KiB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// Columns as wide as their widest cell, two spaces between them.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_that_were_measured() {
        let sorted: Vec<_> = (1..=100).collect();
        assert_eq!(percentile(&sorted, 0.50), 50);
        assert_eq!(percentile(&sorted, 0.99), 99);
        assert_eq!(percentile(&[7], 0.99), 7);
        assert_eq!(percentile(&[], 0.5), 0);
    }

    #[test]
    fn throughput_is_in_billions_of_bytes_a_second() {
        assert_eq!(StreamFigure::of(3_000_000_000, Duration::from_secs(2)).gbps, 1.5);
    }

    #[test]
    fn round_trips_are_an_object_by_size() {
        let rtt_us = vec![RoundTrip::of(64, vec![1000, 2000]), RoundTrip::of(1024, vec![5000])];
        let figures = Figures { verified: true, error: None, rtt_us };
        let json = serde_json::to_string(&figures).unwrap();
        assert_eq!(
            json,
            r#"{"verified":true,"error":null,"rtt_us":{"64":{"p50":1.0,"p99":2.0,"messages":2},"1024":{"p50":5.0,"p99":5.0,"messages":1}}}"#
        );
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".to_owned(), "b".to_owned()], vec!["long".to_owned(), "c".to_owned()]];
        assert_eq!(aligned(&rows), "a     b\nlong  c\n");
        assert_eq!(human_bytes(64), "64 B");
        assert_eq!(human_bytes(65536), "64 KiB");
    }
}
