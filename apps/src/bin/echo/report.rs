//! What came out: the table and the JSON object (docs/reference/json.md).

use std::collections::BTreeMap;
use std::time::Duration;

use gpunet_host::{AdapterReport, Gpu};
use gpunet_terminal::output::{BAD, GOOD, say, styled};
use gpunet_terminal::quantity::bytes_text;
use gpunet_terminal::table::Table;
use serde::Serialize;

use crate::end::Processor;

/// The GPU that was used.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct GpuFacts {
    /// `cuda` or `emulated`; none where no GPU was needed.
    gpu: Option<String>,
    gpu_name: Option<String>,
    gpu_reason: Option<String>,
}

impl GpuFacts {
    pub(crate) fn of(gpu: &Gpu, reason: &str) -> Self {
        Self {
            gpu: Some(gpu.info().kind.to_string()),
            gpu_name: Some(gpu.info().name.clone()),
            gpu_reason: Some(reason.to_owned()),
        }
    }

    fn line(&self) -> String {
        match (&self.gpu_name, &self.gpu_reason) {
            (Some(name), Some(reason)) => format!("GPU: {name} ({reason})\n"),
            _ => String::new(),
        }
    }
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
        let is_tcp = |transport: &str| transport.starts_with("tcp");
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

/// What one client found.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// Whether every byte was right.
    pub(crate) verified: bool,
    /// Why not.
    pub(crate) error: Option<String>,
    /// By bytes of the messages: the mean of the round trips, in microseconds.
    pub(crate) rtt_us: BTreeMap<u64, f64>,
}

impl Figures {
    pub(crate) fn add(&mut self, bytes: u64, mean: Duration) {
        self.rtt_us.insert(bytes, (mean.as_nanos() as f64 / 10.0).round() / 100.0);
    }

    /// A cell for each size, the megabytes a second of the largest, and whether all was right.
    fn cells(&self, sizes: &[u64]) -> Vec<String> {
        let cell = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
        let trip = |size: &u64| self.rtt_us.get(size).map(|us| format!("{us:.1}"));
        let mut cells: Vec<_> = sizes.iter().map(|size| cell(trip(size))).collect();
        let rate = |(bytes, us): (&u64, &f64)| format!("{:.1}", *bytes as f64 / us.max(0.01));
        cells.push(cell(self.rtt_us.last_key_value().map(rate)));
        cells.push(if self.verified { styled(GOOD, "yes") } else { styled(BAD, "NO") });
        cells
    }
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
}

impl RunReport {
    pub(crate) fn table(&self, sizes: &[u64]) -> String {
        let mut table = table(&["client", "server", "transport"], sizes);
        for pairing in &self.pairings {
            let transport = transport_name(pairing.transport, pairing.placement);
            let ends = [pairing.client, pairing.server].map(|end| end.name().to_owned());
            table.row(ends.into_iter().chain([transport]).chain(pairing.figures.cells(sizes)));
        }
        format!("{}echoed on this machine, every byte checked\n\n{table}", self.gpu.line())
    }
}

impl ClientReport {
    pub(crate) fn table(&self, sizes: &[u64]) -> String {
        let mut table = table(&["client", "server", "transport"], sizes);
        let transport = transport_name(self.facts.transport, self.facts.placement);
        let ends = [self.client.name().to_owned(), self.server.clone(), transport];
        table.row(ends.into_iter().chain(self.figures.cells(sizes)));
        format!("{}\n{table}", self.gpu.line())
    }
}

fn table(ends: &[&str], sizes: &[u64]) -> Table {
    let sizes = sizes.iter().map(|size| format!("{}, us", bytes_text(*size)));
    let names = ends.iter().map(|&end| end.to_owned());
    Table::new(names.chain(sizes).chain(["MB/s".to_owned(), "verified".to_owned()]))
}

/// `rdma (bounce)`, `tcp4`.
fn transport_name(transport: Option<&str>, placement: Option<&str>) -> String {
    match (transport, placement) {
        (Some(transport), Some(placement)) => format!("{transport} ({placement})"),
        (Some(transport), None) => transport.to_owned(),
        (None, _) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use gpunet_terminal::output::plain;

    use super::*;

    #[test]
    fn a_size_that_was_not_reached_is_a_dash_and_the_largest_that_was_gives_the_rate() {
        let mut figures = Figures::default();
        figures.add(64, Duration::from_nanos(12_310));
        figures.add(1000, Duration::from_micros(20));
        let cells = figures.cells(&[64, 1000, 5000]).iter().map(|cell| plain(cell)).collect();
        let cells: Vec<String> = cells;
        assert_eq!(cells, ["12.3", "20.0", "-", "50.0", "NO"]);
        let json = serde_json::to_string(&figures).unwrap();
        assert_eq!(json, r#"{"verified":false,"error":null,"rtt_us":{"64":12.31,"1000":20.0}}"#);
    }
}
