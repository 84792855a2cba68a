//! `apiperf`: what mapping, checking and unmapping cost; by gdrdrv in its steps as well.

use std::sync::Arc;
use std::time::Instant;

use gpu_usermap::gdrdrv::Driver;
use gpu_usermap::{Backend, GpuMemory, Linux};
use gpunet_apps::failure::Failure;
use serde_json::json;

use crate::bench::{Bench, lost, refused};
use crate::options::ApiOptions;
use crate::report::Report;
use crate::statistics::Times;

/// Samples by the name of what was timed, in the order of the first round.
#[derive(Default)]
struct Steps(Vec<(&'static str, Vec<f64>)>);

impl Steps {
    fn time<R>(&mut self, name: &'static str, f: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = f();
        let took = start.elapsed().as_secs_f64() * 1e6;
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, samples)) => samples.push(took),
            None => self.0.push((name, vec![took])),
        }
        result
    }
}

/// `apiperf`.
pub(crate) fn run(options: &ApiOptions) -> Result<Report, Failure> {
    let bench = Bench::open(&options.common)?;
    let mut report: Option<Report> = None;
    for size in &options.sizes {
        let size = usize::try_from(*size).map_err(|_| Failure::refused("more than any memory"))?;
        let mapping = bench.allocate(size)?;
        let facts = bench.facts(&mapping);
        let backend = mapping.backend();
        let memory = mapping.unmap();
        let mut steps = Steps::default();
        for _ in 0..options.iterations {
            let mapping = steps.time("map", || bench.mapper.map(&memory, 0..size));
            let mapping = mapping.map_err(|error| refused(&error))?;
            steps.time("check", || mapping.check()).map_err(lost)?;
            steps.time("view", || mapping.view().map(|view| view.len())).map_err(lost)?;
            steps.time("unmap", || drop(mapping));
        }
        if backend == Backend::Gdrdrv {
            gdrdrv(options, &memory, size, &mut steps)?;
        }
        let columns = ["bytes", "call", "median_us", "min_us"];
        let report = report.get_or_insert_with(|| Report::new("apiperf", facts, &columns));
        for (call, samples) in steps.0 {
            let times = Times::of(samples);
            report.row([json!(size), json!(call), json!(times.median()), json!(times.minimum())]);
        }
    }
    report.ok_or_else(|| Failure::refused("no size to measure: give --sizes"))
}

/// The driver's calls one by one.
fn gdrdrv(
    options: &ApiOptions,
    memory: &impl GpuMemory,
    size: usize,
    steps: &mut Steps,
) -> Result<(), Failure> {
    let failed = |why| Failure::refused(format!("gdrdrv: {why}"));
    let driver = Driver::open(Arc::new(Linux)).map_err(failed)?;
    for _ in 0..options.iterations {
        let pin = steps.time("pin", || driver.pin(memory.device_address(), size));
        let pin = pin.map_err(failed)?;
        let mapped = steps.time("mmap and info", || pin.map(None)).map_err(failed)?;
        let pin = steps.time("munmap", || mapped.unmap());
        steps.time("unpin", || drop(pin));
    }
    Ok(())
}
