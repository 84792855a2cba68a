//! Suites: what gpunet costs beside its baseline, as tables of pairs.
//!
//! A pair is a batch of the baseline and a batch of gpunet, measured one after the other in one run;
//! which comes first alternates. Differences and ratios are made inside a pair, and the median and
//! the quartiles are those of all pairs, so that what else the machine does hits both alike.
//!
//! ```text
//!   sizes    round trips of 64 B to 1 MiB:  TCP against a CPU server,  kernel to kernel against a bare exchange
//!   waiters  64 B while other blocks wait:  against none waiting
//!   streams  1, 4, 8 connections in, out:   against CPU to CPU
//! ```

pub(crate) mod client;
pub(crate) mod kernel_client;
pub(crate) mod sizes;
pub(crate) mod stream_peers;
pub(crate) mod streams;
pub(crate) mod waiters;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use gpunet_host::{Gpu, GpuKind, Launch, NetBuilder};
use serde_json::{Value, json};

/// Options that all suites have.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Pairs of a baseline's and a measured batch, at least 10 for figures [default: 11, quick: 2]
    #[arg(long)]
    pairs: Option<usize>,
    /// Few round trips and bytes: shows that everything works, for the emulated GPU
    #[arg(long)]
    pub(crate) quick: bool,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Seconds after which nothing further is begun; what is left counts as not run
    #[arg(long, default_value_t = 240, value_name = "SECONDS")]
    limit: u64,
}

impl Common {
    /// How many pairs.
    pub(crate) fn pairs(&self) -> usize {
        self.pairs.unwrap_or(if self.quick { 2 } else { 11 }).max(1)
    }
}

/// Lower quartile, median, upper quartile.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        // Between two values where the share falls between them.
        let at = |share: f64| {
            let place = share * values.len().saturating_sub(1) as f64;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            let value = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
            value(below) + (value(above) - value(below)) * place.fract()
        };
        Self { low: at(0.25), median: at(0.5), high: at(0.75) }
    }

    pub(crate) fn json(self) -> Value {
        json!({"p25": self.low, "median": self.median, "p75": self.high})
    }

    /// The median, and the quartiles in brackets.
    pub(crate) fn text(self) -> String {
        format!("{:.2} [{:.2} {:.2}]", self.median, self.low, self.high)
    }
}

/// Figures of pairs: the baseline's and the measured one.
pub(crate) struct Pairs(Vec<(f64, f64)>);

impl Pairs {
    /// None yet.
    pub(crate) const EMPTY: Self = Self(Vec::new());

    pub(crate) fn push(&mut self, baseline: f64, measured: f64) {
        self.0.push((baseline, measured));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn spread(&self, of: impl Fn(&(f64, f64)) -> f64) -> Spread {
        Spread::of(self.0.iter().map(of).collect())
    }

    pub(crate) fn baseline(&self) -> Spread {
        self.spread(|pair| pair.0)
    }

    pub(crate) fn measured(&self) -> Spread {
        self.spread(|pair| pair.1)
    }

    /// The measured minus the baseline, in each pair.
    pub(crate) fn added(&self) -> Spread {
        self.spread(|pair| pair.1 - pair.0)
    }

    /// The measured over the baseline, in each pair.
    pub(crate) fn ratio(&self) -> Spread {
        self.spread(|pair| pair.1 / pair.0)
    }
}

/// What a batch of round trips came to, in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Latency {
    /// Of single round trips, in nanoseconds.
    pub(crate) fn of(mut samples: Vec<f64>) -> Result<Self> {
        ensure!(!samples.is_empty(), "no round trip was measured");
        samples.sort_by(f64::total_cmp);
        let at = |share: usize| samples[(samples.len() * share / 100).min(samples.len() - 1)];
        Ok(Self { p50: at(50) / 1000.0, p99: at(99) / 1000.0 })
    }
}

/// Measures a baseline and what is compared with it, the first of the two by turns.
pub(crate) fn pair<T>(index: usize, mut measure: impl FnMut(bool) -> Result<T>) -> Result<(T, T)> {
    if index.is_multiple_of(2) {
        let baseline = measure(false)?;
        Ok((baseline, measure(true)?))
    } else {
        let measured = measure(true)?;
        Ok((measure(false)?, measured))
    }
}

/// What a suite has found so far, and the time it has left.
pub(crate) struct Report {
    suite: &'static str,
    gpu: String,
    options: Common,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
    json: Vec<Value>,
    not_run: Vec<String>,
    out_of_time: bool,
    begun: Instant,
}

impl Report {
    pub(crate) fn new(
        suite: &'static str,
        gpu: &Gpu,
        options: &Common,
        columns: &'static [&'static str],
    ) -> Self {
        Self {
            suite,
            gpu: gpu.info().name.clone(),
            options: options.clone(),
            columns,
            rows: Vec::new(),
            json: Vec::new(),
            not_run: Vec::new(),
            out_of_time: false,
            begun: Instant::now(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>, json: Value) {
        self.rows.push(cells);
        self.json.push(json);
    }

    pub(crate) fn not_run(&mut self, what: &str) {
        eprintln!("\rnot run: {what}");
        self.not_run.push(what.to_owned());
    }

    /// Whether there is time left to begin `what`; else it counts as not run.
    pub(crate) fn has_time(&mut self, what: &str) -> bool {
        let has_time = self.begun.elapsed() < Duration::from_secs(self.options.limit);
        if !has_time {
            self.out_of_time = true;
            self.not_run(&format!("{what}: out of time (--limit {})", self.options.limit));
        }
        has_time
    }

    /// Shows what is being measured, on one line of standard error.
    pub(crate) fn progress(&self, what: &str, pair: usize) {
        let seconds = self.begun.elapsed().as_secs();
        let pairs = self.options.pairs();
        eprint!("\r{seconds:>4} s  {what}, pair {} of {pairs}\x1b[K", pair + 1);
    }

    /// Prints everything. An error when time ran out.
    pub(crate) fn finish(self) -> Result<()> {
        eprint!("\r\x1b[K");
        if self.options.json {
            let object = json!({
                "suite": self.suite,
                "gpu": self.gpu,
                "pairs": self.options.pairs(),
                "quick": self.options.quick,
                "seconds": self.begun.elapsed().as_secs_f64(),
                "rows": self.json,
                "not_run": self.not_run,
            });
            println!("{object:#}");
        } else {
            self.print();
        }
        ensure!(!self.out_of_time, "{}: ran out of time", self.suite);
        Ok(())
    }

    fn print(&self) {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(String::len);
            cells.chain([self.columns[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
            println!("{}", padded.collect::<Vec<_>>().join("  "));
        };
        line(&mut self.columns.iter().copied());
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str));
        }
        println!(
            "{}: {} pairs a row{}, {} rows, {} not run, {:.0} s",
            self.suite,
            self.options.pairs(),
            if self.options.quick { " (quick: no figures to keep)" } else { "" },
            self.rows.len(),
            self.not_run.len(),
            self.begun.elapsed().as_secs_f64()
        );
        for what in &self.not_run {
            println!("not run: {what}");
        }
    }
}

/// Has proxy threads poll throughout on hardware; the emulated GPU needs their cores.
pub(crate) fn polling(gpu: &Gpu, builder: NetBuilder) -> NetBuilder {
    match gpu.info().kind {
        GpuKind::Emulated => builder,
        _ => builder.spin(Duration::from_secs(1)),
    }
}

/// Ends a kernel that would serve for ever, also where a measurement failed.
pub(crate) struct Serving(pub(crate) Launch);

impl Serving {
    /// Ends it now; an error if it does not end, or had ended badly.
    pub(crate) fn stop(&self) -> Result<()> {
        self.0.abort();
        Ok(self.0.wait_for(Duration::from_secs(10))?)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
        // The net's drop deals with a kernel that does not end.
        let _ = self.0.wait_for(Duration::from_secs(5));
    }
}

/// Bytes as people write them.
pub(crate) fn bytes_text(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => {
            format!("{} MiB", bytes >> 20)
        }
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => {
            format!("{} KiB", bytes >> 10)
        }
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_values() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((spread.low, spread.median, spread.high), (1.75, 2.5, 3.25));
        let one = Spread::of(vec![7.0]);
        assert_eq!((one.low, one.median, one.high), (7.0, 7.0, 7.0));
    }

    #[test]
    fn differences_are_made_inside_a_pair() {
        let mut pairs = Pairs::EMPTY;
        for (baseline, measured) in [(10.0, 11.0), (1.0, 3.0), (5.0, 8.0)] {
            pairs.push(baseline, measured);
        }
        assert_eq!(pairs.added().median, 2.0);
        assert_eq!(pairs.ratio().median, 1.6);
    }

    #[test]
    fn the_first_of_a_pair_alternates() {
        for (index, order) in [(0, [false, true]), (1, [true, false])] {
            let mut seen = Vec::new();
            let result = pair(index, |measured| {
                seen.push(measured);
                Ok(measured)
            });
            assert_eq!((result.unwrap(), seen), ((false, true), order.to_vec()));
        }
    }
}
