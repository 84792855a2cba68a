//! What was measured, as a table and as JSON (docs/reference/json.md).

use std::fmt::Write;

use gpunet_terminal::table::Table;
use serde::Serialize;

use crate::options::Mode;

/// All of it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// `cuda` or `emulated`.
    pub(crate) gpu: String,
    pub(crate) gpu_name: String,
    pub(crate) gpu_reason: String,
    pub(crate) rounds: Vec<Row>,
    pub(crate) overlap: Option<Overlap>,
}

/// One size in one mode.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) bytes: usize,
    pub(crate) compute_us: u64,
    pub(crate) mode: Mode,
    pub(crate) rounds: u32,
    pub(crate) us_per_round: f64,
    /// CPU time of the program's thread.
    pub(crate) thread_us_per_round: f64,
    /// CPU time of the proxy's threads.
    pub(crate) proxy_us_per_round: Option<f64>,
}

/// An exchange beside a kernel.
#[derive(Debug, Serialize)]
pub(crate) struct Overlap {
    pub(crate) bytes: usize,
    pub(crate) compute_us: f64,
    pub(crate) exchange_us: f64,
    pub(crate) both_us: f64,
    /// (compute + exchange - both) / the shorter of the two.
    pub(crate) overlap: f64,
}

impl Report {
    pub(crate) fn table(&self) -> String {
        let heading =
            ["bytes", "compute us", "mode", "us/round", "of cpu", "thread us", "proxy us"];
        let mut table = Table::new(heading);
        for row in &self.rounds {
            let cpu = self.rounds.iter().find(|other| {
                (other.bytes, other.compute_us, other.mode)
                    == (row.bytes, row.compute_us, Mode::Cpu)
            });
            table.row([
                row.bytes.to_string(),
                row.compute_us.to_string(),
                row.mode.name().to_owned(),
                format!("{:.1}", row.us_per_round),
                cpu.map_or("-".to_owned(), |cpu| {
                    format!("{:.2}", row.us_per_round / cpu.us_per_round)
                }),
                format!("{:.1}", row.thread_us_per_round),
                row.proxy_us_per_round.map_or("-".to_owned(), |time| format!("{time:.1}")),
            ]);
        }
        let mut text = format!("GPU: {} ({})\n\n{table}", self.gpu_name, self.gpu_reason);
        if let Some(overlap) = &self.overlap {
            let Overlap { bytes, compute_us, exchange_us, both_us, overlap } = overlap;
            let _ = writeln!(
                text,
                "\n{bytes} bytes to the peer and back {exchange_us:.0} us, a kernel {compute_us:.0} us, \
                 both {both_us:.0} us: {overlap:.2} of the shorter one is hidden"
            );
        }
        text
    }
}
