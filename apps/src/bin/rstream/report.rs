//! What came out: the stock tool's columns, or one JSON object (docs/reference/json.md).

use std::time::Duration;

use gpunet_host::AdapterReport;
use serde::Serialize;

use crate::plan::{Case, human_bytes, human_count};

/// The header of the columns.
pub(crate) fn header() -> String {
    format!(
        "{:<10}{:<8}{:<8}{:<8}{:<8}{:>8} {:>10}{:>13}\n",
        "name", "bytes", "xfers", "iters", "total", "time", "Gb/sec", "usec/xfer"
    )
}

/// One test.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    name: String,
    bytes: u64,
    transfers: u64,
    iterations: u64,
    total_bytes: u128,
    seconds: f64,
    gbit_per_s: f64,
    us_per_transfer: f64,
}

impl Row {
    pub(crate) fn new(case: &Case, took: Duration) -> Self {
        // A clock that has not moved makes no test infinitely fast.
        let seconds = took.as_secs_f64().max(1e-9);
        let both_ways = 2.0 * case.transfers as f64 * case.iterations as f64;
        Self {
            name: case.name.clone(),
            bytes: case.bytes,
            transfers: case.transfers,
            iterations: case.iterations,
            total_bytes: case.total(),
            seconds,
            gbit_per_s: case.total() as f64 * 8.0 / 1e9 / seconds,
            us_per_transfer: seconds * 1e6 / both_ways,
        }
    }

    pub(crate) fn line(&self) -> String {
        format!(
            "{:<10}{:<8}{:<8}{:<8}{:<8}{:>8.2}s{:>10.2}{:>11.2}\n",
            self.name,
            human_bytes(self.bytes),
            human_count(self.transfers),
            human_count(self.iterations),
            human_bytes(self.total_bytes),
            self.seconds,
            self.gbit_per_s,
            self.us_per_transfer
        )
    }
}

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) gpu: String,
    pub(crate) gpu_name: String,
    pub(crate) role: &'static str,
    pub(crate) transport: &'static str,
    pub(crate) transport_reason: Option<String>,
    pub(crate) placement: Option<&'static str>,
    pub(crate) rdma_devices: Vec<AdapterReport>,
    pub(crate) verified: bool,
    pub(crate) tests: Vec<Row>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_stock_tool() {
        let case = Case { name: "4k_bw".to_owned(), bytes: 4096, transfers: 10_000, iterations: 1 };
        let row = Row::new(&case, Duration::from_millis(500));
        let expected = "4k_bw     4k      10k     1       78m         0.50s      1.31      25.00\n";
        assert_eq!(row.line(), expected);
        let words: Vec<_> = header().split_whitespace().map(str::to_owned).collect();
        assert_eq!(
            words,
            ["name", "bytes", "xfers", "iters", "total", "time", "Gb/sec", "usec/xfer"]
        );
    }
}
