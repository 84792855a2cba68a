//! `copybw` and `copylat`: copies through the mapping, beside the driver's own.

use gpu_usermap::View;
use gpunet_apps::failure::Failure;
use gpunet_host::gpu::DeviceMemory;
use serde_json::{Value, json};

use crate::bench::{Bench, lost};
use crate::options::CopyOptions;
use crate::report::{Facts, Report};
use crate::statistics::Times;

/// Copies of up to this size are timed several at once: one takes less than the clock.
const SMALL: usize = 4 << 10;
const BATCH: u32 = 16;

/// A mapping of the largest size, and what is copied.
struct Copies<'a> {
    options: &'a CopyOptions,
    view: View<'a>,
    /// GPU memory of its own for the driver's copy: the mapped bytes may lie on the host.
    driver: &'a DeviceMemory,
    offset: usize,
}

impl Copies<'_> {
    fn through_mapping(&self, size: usize) -> Result<[Times; 2], Failure> {
        let mut bytes = vec![0x5A; size];
        let batch = if size <= SMALL { BATCH } else { 1 };
        let write = Times::measure(self.options.iterations, batch, || {
            (0..batch).try_for_each(|_| self.view.write(self.offset, &bytes))
        });
        let write = write.map_err(lost)?;
        let read = Times::measure(self.options.iterations, batch, || {
            (0..batch).try_for_each(|_| self.view.read(self.offset, &mut bytes))
        });
        Ok([write, read.map_err(lost)?])
    }

    fn by_driver(&self, size: usize) -> Result<[Times; 2], Failure> {
        let mut bytes = vec![0x5A; size];
        let iterations = self.options.iterations;
        let write = Times::measure(iterations, 1, || self.driver.write(self.offset, &bytes))?;
        let read = Times::measure(iterations, 1, || self.driver.read(self.offset, &mut bytes))?;
        Ok([write, read])
    }
}

/// Maps what the largest copy needs, and has each size measured.
fn each_size(
    options: &CopyOptions,
    default: impl IntoIterator<Item = u64>,
    mut measure: impl FnMut(&Copies<'_>, usize) -> Result<(), Failure>,
) -> Result<Facts, Failure> {
    let sizes: Vec<u64> = if options.sizes.is_empty() {
        default.into_iter().collect()
    } else {
        options.sizes.clone()
    };
    let offset = options.offset as usize;
    let largest = sizes
        .iter()
        .filter_map(|size| usize::try_from(*size).ok()?.checked_add(offset))
        .max()
        .ok_or_else(|| Failure::refused("no size to measure: give --sizes"))?;
    let bench = Bench::open(&options.common)?;
    let mapping = bench.allocate(largest)?;
    let driver = bench.gpu.device_memory(largest)?;
    let view = mapping.view().map_err(lost)?;
    let copies = Copies { options, view, driver: &driver, offset };
    for size in sizes {
        measure(&copies, size as usize)?;
    }
    Ok(bench.facts(&mapping))
}

/// `copybw`.
pub(crate) fn bandwidth(options: &CopyOptions) -> Result<Report, Failure> {
    let mut rows = Vec::new();
    let facts = each_size(options, [128 << 10], |copies, size| {
        let mapping = copies.through_mapping(size)?;
        let driver = copies.by_driver(size)?;
        let rates = mapping.iter().chain(&driver).map(|times| json!(times.gigabytes(size)));
        rows.push([json!(size)].into_iter().chain(rates).collect::<Vec<Value>>());
        Ok(())
    })?;
    let columns = ["bytes", "write_GB/s", "read_GB/s", "driver_write_GB/s", "driver_read_GB/s"];
    let mut report = Report::new("copybw", facts, &columns);
    rows.into_iter().for_each(|row| report.row(row));
    Ok(report)
}

/// `copylat`.
pub(crate) fn latency(options: &CopyOptions) -> Result<Report, Failure> {
    let mut rows = Vec::new();
    let facts = each_size(options, (0..=24).map(|power| 1 << power), |copies, size| {
        let mapping = copies.through_mapping(size)?;
        let driver = copies.by_driver(size)?;
        let times = mapping.iter().chain(&driver);
        let times = times.flat_map(|times| [json!(times.median()), json!(times.minimum())]);
        rows.push([json!(size)].into_iter().chain(times).collect::<Vec<Value>>());
        Ok(())
    })?;
    let columns = [
        "bytes",
        "write_us",
        "write_min",
        "read_us",
        "read_min",
        "driver_write_us",
        "driver_write_min",
        "driver_read_us",
        "driver_read_min",
    ];
    let mut report = Report::new("copylat", facts, &columns);
    rows.into_iter().for_each(|row| report.row(row));
    Ok(report)
}
