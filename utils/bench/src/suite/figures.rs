//! Figures of batches and pairs: medians, quartiles, differences and ratios.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// Lower quartile, median, upper quartile.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
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

/// Round trips of a row: the medians and the 99th percentiles of its pairs.
pub(crate) struct Trips {
    medians: Pairs,
    tails: Pairs,
}

impl Trips {
    /// Of pairs of a baseline's and a measured batch.
    pub(crate) fn of(pairs: impl IntoIterator<Item = (Latency, Latency)>) -> Self {
        let (mut medians, mut tails) = (Pairs::EMPTY, Pairs::EMPTY);
        for (baseline, measured) in pairs {
            medians.push(baseline.p50, measured.p50);
            tails.push(baseline.p99, measured.p99);
        }
        Self { medians, tails }
    }

    /// The baseline's median, the measured one and its 99th percentile, what was added, the ratio.
    pub(crate) fn cells(&self) -> [String; 5] {
        [
            format!("{:.2}", self.medians.baseline().median),
            format!("{:.2}", self.medians.measured().median),
            format!("{:.2}", self.tails.measured().median),
            self.medians.added().text(),
            self.medians.ratio().text(),
        ]
    }

    /// The measured median, the median of what was added, and that of the ratio.
    pub(crate) fn medians(&self) -> (f64, f64, f64) {
        let Self { medians, .. } = self;
        (medians.measured().median, medians.added().median, medians.ratio().median)
    }

    /// The same, with the facts of the row before it; the two are named so.
    pub(crate) fn json(&self, facts: Value, [baseline, measured]: [&str; 2]) -> Value {
        let mut json = facts;
        json["pairs"] = json!(self.medians.len());
        json[format!("{baseline}_us")] = self.medians.baseline().json();
        json[format!("{measured}_us")] = self.medians.measured().json();
        json[format!("{baseline}_p99_us")] = self.tails.baseline().json();
        json[format!("{measured}_p99_us")] = self.tails.measured().json();
        json["added_us"] = self.medians.added().json();
        json["ratio"] = self.medians.ratio().json();
        json
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
}
