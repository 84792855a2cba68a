//! Suites: what gpunet costs beside its baseline, as tables of pairs.
//!
//! A pair is a batch of the baseline and a batch of gpunet, measured one after the other in one run;
//! which comes first alternates. Differences and ratios are made inside a pair, and the median and
//! the quartiles are those of all pairs, so that what else the machine does hits both alike.
//!
//! ```text
//!   sizes    round trips of 64 B to 1 MiB:  TCP against a CPU server,  kernel to kernel against the floor
//!   ways     round trips by every way of calling:  against the same
//!   waiters  64 B while other blocks wait:  against none waiting
//!   streams  1, 4, 8 connections in, out:   against CPU to CPU
//!   scale    round trips beside very many connections that do nothing:  against none beside
//!   sgemm    a matrix multiplication that calls:  against one that does not
//!   languages  echo servers in C++ and Python:  against one in Rust
//!   footprint  time to load kernels, cold against cached; registers and stack of each kernel
//! ```

mod client;
mod echo_peer;
mod figures;
pub(crate) mod floor;
pub(crate) mod footprint;
mod kernel_client;
pub(crate) mod languages;
mod pinned;
mod report;
pub(crate) mod scale;
pub(crate) mod sgemm;
pub(crate) mod sizes;
mod stream_limit;
mod stream_peers;
pub(crate) mod streams;
pub(crate) mod waiters;
pub(crate) mod ways;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use gpunet_host::{Gpu, GpuKind, Launch, NetBuilder, Task};
use gpunet_terminal::progress::Progress;

use figures::{Latency, Pairs, Trips};
use report::Report;

/// Options that all suites have.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Pairs of a baseline's and a measured batch, at least 10 for figures [default: 11, quick: 2]
    #[arg(long, value_name = "N")]
    pairs: Option<usize>,
    /// Few round trips and bytes: shows that everything works, for the emulated GPU
    #[arg(long)]
    pub(crate) quick: bool,
    /// One JSON object on standard output in place of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress on standard error
    #[arg(long)]
    quiet: bool,
    /// Seconds after which nothing further is begun; what is left counts as not run
    #[arg(long, default_value_t = 240, value_name = "SECONDS")]
    limit: u64,
}

impl Common {
    /// The pairs of one row.
    pub(crate) fn progress(&self, what: &str) -> Progress {
        self.progress_of(what, self.pairs())
    }

    /// So many steps.
    pub(crate) fn progress_of(&self, what: &str, steps: usize) -> Progress {
        let progress = Progress::of_steps(steps as u64, self.quiet || self.json);
        progress.begin(what);
        progress
    }

    /// How many pairs.
    pub(crate) fn pairs(&self) -> usize {
        self.pairs.unwrap_or(if self.quick { 2 } else { 11 }).max(1)
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
        Ok(self.0.wait_timeout(Duration::from_secs(60))?)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
        // The net's drop deals with a kernel that does not end.
        let _ = self.0.wait_timeout(Duration::from_secs(5));
    }
}
