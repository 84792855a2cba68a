//! What a suite finds: it measures pairs in turns, keeps to the time limit, and prints rows as a table or
//! as JSON.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use gpunet_host::Gpu;
use serde_json::{Value, json};

use super::Common;

/// Measures a baseline and what is compared with it, the first of the two by turns.
fn pair<T>(index: usize, mut measure: impl FnMut(bool) -> Result<T>) -> Result<(T, T)> {
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
            gpu: gpu.info().name.clone(),
            options: options.clone(),
            columns,
            rows: Vec::new(),
            json: Vec::new(),
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

    #[cfg(test)]
    pub(crate) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Notes what was left out, and why.
    pub(crate) fn not_run(&mut self, what: &str) {
        eprintln!("\rnot run: {what}");
        self.not_run.push(what.to_owned());
    }

    /// Notes a row that failed; the suite goes on, and fails in the end.
    pub(crate) fn outcome(&mut self, what: &str, outcome: Result<()>) {
        if let Err(error) = outcome {
            let line = format!("{what}: {error:#}");
            eprintln!("\rfailed: {line}");
            self.failed.push(line);
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    fn is_late(&self) -> bool {
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
        let mut pairs = Vec::new();
        for index in 0..wanted {
            if index > 0 && self.is_late() {
                self.out_of_time = true;
                self.not_run(&format!("{what}: {} of {wanted} pairs: out of time", wanted - index));
                break;
            }
            self.progress(what, index);
            pairs.push(pair(index, &mut measure)?);
        }
        Ok(pairs)
    }

    /// Shows what is being measured, on one line of a terminal or a line a row.
    fn progress(&self, what: &str, pair: usize) {
        let seconds = self.begun.elapsed().as_secs();
        let pairs = self.options.pairs();
        if std::io::stderr().is_terminal() {
            eprint!("\r{seconds:>4} s  {what}, pair {} of {pairs}\x1b[K", pair + 1);
        } else if pair == 0 {
            eprintln!("{seconds:>4} s  {what}, {pairs} pairs");
        }
    }

    /// Prints everything. An error when something failed or time ran out.
    pub(crate) fn finish(self) -> Result<()> {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
        if self.options.json {
            let object = json!({
                "suite": self.suite,
                "gpu": self.gpu,
                "pairs": self.options.pairs(),
                "quick": self.options.quick,
                "seconds": self.begun.elapsed().as_secs_f64(),
                "rows": self.json,
                "not_run": self.not_run,
                "failed": self.failed,
            });
            println!("{object:#}");
        } else {
            self.print();
        }
        ensure!(self.failed.is_empty(), "{}: {} rows failed", self.suite, self.failed.len());
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
            "{}: {} pairs a row{}, {} rows, {} failed, {} not run, {:.0} s",
            self.suite,
            self.options.pairs(),
            if self.options.quick { " (quick: no figures to keep)" } else { "" },
            self.rows.len(),
            self.failed.len(),
            self.not_run.len(),
            self.begun.elapsed().as_secs_f64()
        );
        for (outcome, lines) in [("failed", &self.failed), ("not run", &self.not_run)] {
            for line in lines {
                println!("{outcome}: {line}");
            }
        }
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
