//! Samples and what is said of them.

use std::time::{Duration, Instant};

/// Times of one thing done again and again, in microseconds, sorted.
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        Self(samples)
    }

    /// Times `f`, which does the thing `batch` times: as often as asked, or for 50 ms.
    pub(crate) fn measure<E>(
        iterations: Option<u32>,
        batch: u32,
        mut f: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        const TIME: Duration = Duration::from_millis(50);
        // Once without a clock: pages and code are there then.
        f()?;
        let mut samples = Vec::new();
        let begun = Instant::now();
        loop {
            let done = samples.len();
            let enough = match iterations {
                Some(iterations) => done >= iterations as usize,
                None => done >= 1000 || (done >= 5 && begun.elapsed() >= TIME),
            };
            if enough {
                return Ok(Self::of(samples));
            }
            let start = Instant::now();
            f()?;
            samples.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(batch));
        }
    }

    fn part(&self, of_hundred: usize) -> f64 {
        let at = self.0.len() * of_hundred / 100;
        self.0.get(at).or(self.0.last()).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        self.part(50)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.part(99)
    }

    pub(crate) fn minimum(&self) -> f64 {
        self.part(0)
    }

    /// 10^9 bytes a second at the median.
    pub(crate) fn gigabytes(&self, bytes: usize) -> f64 {
        bytes as f64 / self.median() / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_that_were_measured() {
        let times = Times::of((1..=200).rev().map(f64::from).collect());
        assert_eq!((times.minimum(), times.median(), times.p99()), (1.0, 101.0, 199.0));
        assert_eq!(Times::of(vec![2.0]).p99(), 2.0);
        assert!((times.gigabytes(101_000) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn measures_as_often_as_asked() {
        let mut count = 0;
        let measured = Times::measure(Some(7), 1, || {
            count += 1;
            Ok::<(), ()>(())
        });
        assert_eq!((count, measured.map(|times| times.0.len())), (8, Ok(7)));
        assert!(Times::measure(Some(7), 1, || Err(())).is_err());
    }
}
