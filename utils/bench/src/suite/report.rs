//! What a suite finds: it measures pairs in turns, keeps to the time limit, and prints rows as a table or
//! as JSON.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use gpunet_host::Gpu;
use gpunet_host::gpu::GpuInfo;
use gpunet_terminal::output::{print, say};
use gpunet_terminal::table::Table;
use serde_json::{Value, json};

use super::Common;

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
    gpu: GpuInfo,
    options: Common,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
    json: Vec<Value>,
    /// The worst row of each kind, as a line and as JSON.
    worst: Vec<(String, Value)>,
    not_run: Vec<String>,
    failed: Vec<String>,
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
            gpu: gpu.info().clone(),
            options: options.clone(),
            columns,
            rows: Vec::new(),
            json: Vec::new(),
            worst: Vec::new(),
            not_run: Vec::new(),
            failed: Vec::new(),
            out_of_time: false,
            begun: Instant::now(),
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>, json: Value) {
        self.rows.push(cells);
        self.json.push(json);
    }

    /// Names a row as the worst of its kind.
    pub(crate) fn worst(&mut self, line: String, json: Value) {
        self.worst.push((line, json));
    }

    #[cfg(test)]
    pub(crate) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Notes what was left out, and why.
    pub(crate) fn not_run(&mut self, what: &str) {
        say(&format!("not run: {what}"));
        self.not_run.push(what.to_owned());
    }

    /// Notes a row that failed; the suite goes on, and fails in the end.
    pub(crate) fn outcome(&mut self, what: &str, outcome: Result<()>) {
        if let Err(error) = outcome {
            let line = format!("{what}: {error:#}");
            say(&format!("failed: {line}"));
            self.failed.push(line);
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    pub(crate) fn is_late(&self) -> bool {
        self.begun.elapsed() > Duration::from_secs(self.options.limit)
    }

    /// Whether there is time left to begin `what`; else it counts as not run.
    pub(crate) fn has_time(&mut self, what: &str) -> bool {
        let late = self.is_late();
        if late {
            self.out_of_time = true;
            self.not_run(&format!("{what}: out of time (--limit {})", self.options.limit));
        }
        !late
    }

    /// Measures the pairs of a row, as many as were asked for or as there is time for.
    pub(crate) fn pairs<T>(
        &mut self,
        what: &str,
        mut measure: impl FnMut(bool) -> Result<T>,
    ) -> Result<Vec<(T, T)>> {
        let wanted = self.options.pairs();
        let progress = self.options.progress(what);
        let mut pairs = Vec::new();
        while pairs.len() < wanted && (pairs.is_empty() || !self.is_late()) {
            pairs.push(pair(pairs.len(), &mut measure)?);
            progress.done(1);
        }
        drop(progress);
        self.cut_short(&format!("{what}: pairs"), wanted - pairs.len(), wanted);
        Ok(pairs)
    }

    /// Notes how many parts of `what` time was too short for, if any.
    pub(crate) fn cut_short(&mut self, what: &str, left: usize, wanted: usize) {
        if left > 0 {
            self.out_of_time = true;
            self.not_run(&format!("{what}: {left} of {wanted}: out of time"));
        }
    }

    /// Prints everything. An error when something failed or time ran out.
    pub(crate) fn finish(self) -> Result<()> {
        if self.options.json {
            let mut object = json!({
                "suite": self.suite,
                "gpu": self.gpu.kind.to_string(),
                "gpu_name": self.gpu.name,
                "pairs": self.options.pairs(),
                "quick": self.options.quick,
                "seconds": self.begun.elapsed().as_secs_f64(),
                "rows": self.json,
                "not_run": self.not_run,
                "failed": self.failed,
            });
            if !self.worst.is_empty() {
                object["worst"] = self.worst.into_iter().map(|(_, json)| json).collect();
            }
            print(&format!("{object:#}\n"))?;
        } else {
            print(&self.text())?;
        }
        ensure!(self.failed.is_empty(), "{}: {} rows failed", self.suite, self.failed.len());
        ensure!(!self.out_of_time, "{}: ran out of time", self.suite);
        Ok(())
    }

    fn text(&self) -> String {
        let mut table = Table::new(self.columns.iter().copied());
        self.rows.iter().for_each(|row| table.row(row));
        let mut text = format!(
            "{table}{}: {} pairs a row{}, {} rows, {} failed, {} not run, {:.0} s\n",
            self.suite,
            self.options.pairs(),
            if self.options.quick { " (quick: no figures to keep)" } else { "" },
            self.rows.len(),
            self.failed.len(),
            self.not_run.len(),
            self.begun.elapsed().as_secs_f64()
        );
        self.worst.iter().for_each(|(line, _)| text += &format!("worst: {line}\n"));
        for (outcome, lines) in [("failed", &self.failed), ("not run", &self.not_run)] {
            lines.iter().for_each(|line| text += &format!("{outcome}: {line}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
