//! `bench sgemm`: what calls cost a kernel that computes. A matrix multiplication that receives and
//! sends beside its work, against the same one that does not.
//!
//! The connections are handed over to the kernels and stay from launch to launch, so that a launch
//! begins with its multiplication; its time is that from the first block's beginning to the last
//! one's end, by the GPU's clock.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use gpunet_bench_kernels::sgemm::{
    self as kernels, BEGIN, END, MESSAGE, Product, RECEIVED, REPORT_WORDS, RESULT, SENT,
    SHARED_BYTES, THREADS, TILE, sgemm, sgemm_call_in_loop, sgemm_with_calls,
};
use gpunet_device::Errno;
use gpunet_host::gpu::KernelNeeds;
use gpunet_host::{Gpu, GpuKind, Launch, LaunchError, Net, Shape, Task, TransportChoice};
use serde_json::json;

use super::echo_peer::EchoPeer;
use super::{Common, Pairs, Report, Serving, polling};
use crate::kernels::MODULE;
use crate::memory::Memory;

const COLUMNS: &[&str] = &[
    "kernel",
    "registers",
    "blocks/SM",
    "blocks",
    "without calls GFLOP/s",
    "GFLOP/s",
    "quartiles",
    "ratio [quartiles]",
];

/// How long a launch may take.
const LAUNCH: Duration = Duration::from_secs(60);
/// How long one call of a kernel may wait.
const CALL: Duration = Duration::from_secs(20);
/// How long the last message may be on its way to the peer.
const ARRIVAL: Duration = Duration::from_secs(10);
/// Capacity of a ring.
const RING: u32 = 4 << 10;
/// Blocks that no GPU keeps resident.
const TOO_MANY: u32 = 1 << 20;
/// Elements of C that are compared after each launch.
const SAMPLES: usize = 32;
/// Rows of A, and of B, that are made and copied at a time.
const ROWS_AT_ONCE: usize = 64;

/// Options of `bench sgemm`.
#[derive(Args)]
#[command(
    after_help = "C = A B in f32, by persistent blocks of 256 threads, each with a connection of its \
    own to a thread that echoes (TCP, loopback). sgemm: no calls; this row compares the kernel with \
    itself and shows how much pairs scatter. sgemm_with_calls: before each tile of 128x128 a receive \
    of up to 64 B that does not wait, behind it a send of 64 B. sgemm_call_in_loop: also such a \
    receive in the loop over k, in every 64th step of 8, where all sums are alive. Each kernel has as \
    many blocks as are resident with its registers: blocks/SM is what the driver says of it. The \
    ratio is that of GFLOP/s, so below 1 is a cost. Elements of C are compared with the CPU's after \
    each launch. Meant to take seconds on an H200; the emulated GPU, which has no registers, \
    multiplies small matrices by itself."
)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// m, n and k, a multiple of 128 [default: 4096; quick and on the emulated GPU: 256]
    #[arg(long, alias = "size", value_name = "N")]
    dimension: Option<usize>,
}

impl Options {
    fn size(&self, is_emulated: bool) -> Result<usize> {
        let small = self.common.quick || is_emulated;
        let size = self.dimension.unwrap_or(if small { 256 } else { 4096 });
        let possible = size > 0 && size as u64 <= kernels::LARGEST && size.is_multiple_of(TILE);
        ensure!(possible, "--dimension {size}: a multiple of {TILE} up to {}", kernels::LARGEST);
        Ok(size)
    }
}

/// Which multiplication.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    NoCalls,
    WithCalls,
    CallInLoop,
}

impl Variant {
    const ALL: [Self; 3] = [Self::NoCalls, Self::WithCalls, Self::CallInLoop];

    const fn name(self) -> &'static str {
        match self {
            Self::NoCalls => sgemm.name(),
            Self::WithCalls => sgemm_with_calls.name(),
            Self::CallInLoop => sgemm_call_in_loop.name(),
        }
    }
}

/// A variant as this GPU runs it.
struct Fitted {
    variant: Variant,
    /// None on the emulated GPU.
    needs: Option<KernelNeeds>,
    /// Blocks that are resident at once; none on the emulated GPU.
    per_multiprocessor: Option<u32>,
    blocks: u32,
}

/// What a launch came to.
#[derive(Clone, Copy, Default)]
struct Outcome {
    gflops: f64,
    sent: u64,
    received: u64,
}

/// A net with a connection for each block, and the matrices.
struct Multiplication {
    net: Net,
    size: usize,
    matrices: [Memory; 3],
    connections: Memory,
    reports: Memory,
    peer: EchoPeer,
}

/// An element of A.
const fn a_at(row: usize, column: usize) -> i32 {
    ((row * 5 + column * 3 + row * column) % 7) as i32 - 3
}

/// An element of B.
const fn b_at(row: usize, column: usize) -> i32 {
    ((row * 2 + column * 11 + row * column) % 5) as i32 - 2
}

/// An element of C as the CPU computes it. Whole numbers below 2^24 are exact in f32.
fn c_at(size: usize, row: usize, column: usize) -> f32 {
    (0..size).map(|k| a_at(row, k) * b_at(k, column)).sum::<i32>() as f32
}

/// The places in C that are compared: the corners, and some in between.
fn sampled(size: usize) -> impl Iterator<Item = (usize, usize)> {
    let corners = [0, size - 1].into_iter().flat_map(move |row| [(row, 0), (row, size - 1)]);
    let between = (4..SAMPLES).map(move |index| (index * 7919 % size, index * 104_729 % size));
    corners.chain(between)
}

impl Multiplication {
    /// With connections for so many blocks.
    fn new(gpu: &Gpu, size: usize, blocks: u32) -> Result<Self> {
        let builder = Net::builder(gpu).sockets(blocks + 8).ring(RING).timeout(CALL);
        let rings = 2 * u64::from(RING) * u64::from(blocks + 8);
        let builder = builder.ring_memory(rings + (1 << 20)).transport(TransportChoice::Tcp);
        let net = polling(gpu, builder).build()?;
        let (peer, streams) = EchoPeer::start(blocks as usize)?;
        let mut handles = Vec::new();
        for stream in streams {
            handles.push(net.hand_over(stream)?.0);
        }
        let connections = Memory::new(gpu, 8 * handles.len())?;
        connections.write(&handles)?;
        let matrix = || Memory::new(gpu, 4 * size * size);
        let matrices = [matrix()?, matrix()?, matrix()?];
        fill(&matrices[0], size, a_at)?;
        fill(&matrices[1], size, b_at)?;
        let reports = Memory::new(gpu, 8 * REPORT_WORDS * blocks as usize)?;
        Ok(Self { net, size, matrices, connections, reports, peer })
    }

    fn start(&self, variant: Variant, blocks: u32) -> Result<Launch, LaunchError> {
        let size = self.size as u64;
        let [a, b, c] = self.matrices.each_ref().map(|matrix| matrix.bytes().cast::<f32>());
        let product = Product { a, b, c, m: size, n: size, k: size };
        let shape = Shape::new(blocks, THREADS).shared_memory(SHARED_BYTES as u32);
        let (connections, reports) = (self.connections.words(), self.reports.words());
        match variant {
            Variant::NoCalls => self.net.launch(sgemm, shape, (product, reports)),
            Variant::WithCalls => {
                self.net.launch(sgemm_with_calls, shape, (product, connections, reports))
            }
            Variant::CallInLoop => {
                self.net.launch(sgemm_call_in_loop, shape, (product, connections, reports))
            }
        }
    }

    /// Blocks of a variant that are resident at once on the whole GPU.
    fn resident(&self, variant: Variant) -> Result<u32> {
        match self.start(variant, TOO_MANY) {
            Err(LaunchError::NotResident { possible, .. }) => Ok(u32::try_from(possible)?),
            Err(error) => Err(error.into()),
            Ok(launch) => {
                let _ = Serving(launch).stop();
                bail!("{TOO_MANY} blocks of {} are resident at once", variant.name())
            }
        }
    }

    /// Multiplies once, and checks the result.
    fn multiply(&self, fitted: &Fitted) -> Result<Outcome> {
        let what = || fitted.variant.name();
        let (size, blocks) = (self.size, fitted.blocks);
        let offset = |(row, column)| 4 * (row * size + column);
        for place in sampled(size) {
            self.matrices[2].0.write(offset(place), &f32::NAN.to_le_bytes())?;
        }
        let words = REPORT_WORDS * blocks as usize;
        self.reports.write(&vec![Errno::ECANCELED.negative() as u64; words])?;
        let launch = Serving(self.start(fitted.variant, blocks).with_context(what)?);
        launch.0.wait_timeout(LAUNCH).with_context(what)?;
        let reports = self.reports.read(words)?;
        let (reports, _) = reports.as_chunks::<REPORT_WORDS>();
        for report in reports {
            let result = report[RESULT].cast_signed();
            ensure!(result == 0, "{} failed: {}", what(), Errno(-result as i32));
        }
        for (row, column) in sampled(size) {
            let mut element = [0; 4];
            self.matrices[2].0.read(offset((row, column)), &mut element)?;
            let (element, right) = (f32::from_le_bytes(element), c_at(size, row, column));
            ensure!(element == right, "{}: C[{row}][{column}] is {element}, not {right}", what());
        }
        let sum = |word: usize| reports.iter().map(|report| report[word]).sum();
        let begun = reports.iter().map(|report| report[BEGIN]).min().context("no block")?;
        let ended = reports.iter().map(|report| report[END]).max().context("no block")?;
        let operations = 2.0 * (size as f64).powi(3);
        let gflops = operations / ended.saturating_sub(begun).max(1) as f64;
        let outcome = Outcome { gflops, sent: sum(SENT), received: sum(RECEIVED) };
        let tiles = (size / TILE).pow(2) as u64;
        let messages = if fitted.variant == Variant::NoCalls { 0 } else { tiles };
        let wanted = messages * MESSAGE as u64;
        ensure!(outcome.sent == wanted, "{} sent {} B of {wanted}", what(), outcome.sent);
        Ok(outcome)
    }
}

/// Fills a matrix.
fn fill(matrix: &Memory, size: usize, at: impl Fn(usize, usize) -> i32) -> Result<()> {
    for first in (0..size).step_by(ROWS_AT_ONCE) {
        let mut bytes = Vec::with_capacity(4 * size * ROWS_AT_ONCE);
        for row in first..size.min(first + ROWS_AT_ONCE) {
            for column in 0..size {
                bytes.extend((at(row, column) as f32).to_le_bytes());
            }
        }
        matrix.0.write(4 * size * first, &bytes)?;
    }
    Ok(())
}

/// How each variant fits on the GPU.
fn fit(gpu: &Gpu, size: usize) -> Result<Vec<Fitted>> {
    let info = gpu.info();
    // What a launch needs to be refused.
    let probe = Multiplication::new(gpu, TILE, 1)?;
    let tiles = (size / TILE).pow(2) as u32;
    let all_needs = gpu.kernel_needs(MODULE.name);
    let fitted = |variant: Variant| {
        let resident = probe.resident(variant)?;
        ensure!(resident > 0, "no block of {} is resident", variant.name());
        let is_it =
            |needs: &&KernelNeeds| needs.kernel == variant.name() && needs.max_threads >= THREADS;
        let is_emulated = info.kind == GpuKind::Emulated;
        // Emulated blocks share a few cores; two of them have several tiles each.
        let most = if is_emulated { 2 } else { resident };
        Ok(Fitted {
            variant,
            needs: all_needs.iter().find(is_it).cloned(),
            per_multiprocessor: (!is_emulated).then(|| resident / info.multiprocessors.max(1)),
            blocks: most.min(resident).min(tiles),
        })
    };
    Variant::ALL.into_iter().map(fitted).collect()
}

/// `bench sgemm`.
pub(crate) fn run(gpu: &Gpu, options: &Options) -> Result<()> {
    let mut report = Report::new("sgemm", gpu, &options.common, COLUMNS);
    measure(gpu, options, &mut report)?;
    report.finish()
}

fn measure(gpu: &Gpu, options: &Options, report: &mut Report) -> Result<()> {
    let size = options.size(gpu.info().kind == GpuKind::Emulated)?;
    let fitted = fit(gpu, size)?;
    let most = fitted.iter().map(|fitted| fitted.blocks).max().unwrap_or(1);
    let multiplication = Multiplication::new(gpu, size, most)?;
    let (baseline, _) = fitted.split_first().context("no variant")?;
    let mut sent = 0;
    for fitted in &fitted {
        let what = format!("{}, {size}x{size}x{size}", fitted.variant.name());
        if report.has_time(&what) {
            let outcome = row(&multiplication, baseline, fitted, &what, report);
            report.outcome(&what, outcome.map(|more| sent += more));
        }
    }
    if report.has_failed() {
        return Ok(());
    }
    multiplication.peer.wait_for_bytes(sent, ARRIVAL)
}

/// Measures one row; the bytes that its launches sent.
fn row(
    multiplication: &Multiplication,
    baseline: &Fitted,
    fitted: &Fitted,
    what: &str,
    report: &mut Report,
) -> Result<u64> {
    let mut total = Outcome::default();
    let mut multiply = |measured: bool| {
        let outcome = multiplication.multiply(if measured { fitted } else { baseline })?;
        total.sent += outcome.sent;
        total.received += outcome.received;
        Ok(outcome.gflops)
    };
    // The first ones find cold caches and slow clocks.
    multiply(false)?;
    multiply(true)?;
    let mut rates = Pairs::EMPTY;
    for (baseline, measured) in report.pairs(what, multiply)? {
        rates.push(baseline, measured);
    }
    let (measured, ratio) = (rates.measured(), rates.ratio());
    let registers = fitted.needs.as_ref().map(|needs| needs.registers);
    let or_none = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let cells = vec![
        fitted.variant.name().to_owned(),
        or_none(registers),
        or_none(fitted.per_multiprocessor),
        fitted.blocks.to_string(),
        format!("{:.1}", rates.baseline().median),
        format!("{:.1}", measured.median),
        format!("{:.1} {:.1}", measured.low, measured.high),
        ratio.text(),
    ];
    let json = json!({
        "kernel": fitted.variant.name(), "size": multiplication.size, "registers": registers,
        "stack": fitted.needs.as_ref().map(|needs| needs.stack),
        "blocks_per_multiprocessor": fitted.per_multiprocessor, "blocks": fitted.blocks,
        "pairs": rates.len(), "baseline_gflops": rates.baseline().json(),
        "gflops": measured.json(), "ratio": ratio.json(),
        "sent_bytes": total.sent, "received_bytes": total.received,
    });
    report.row(cells, json);
    Ok(total.sent)
}

#[cfg(test)]
mod tests {
    use gpunet_host::GpuChoice;
    use gpunet_host::gpu::EmulatedOptions;

    use super::*;

    #[test]
    fn every_variant_multiplies_right_and_its_messages_arrive() {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap();
        let size = 2 * TILE;
        let fitted = fit(&gpu, size).unwrap();
        let blocks = fitted.iter().map(|fitted| fitted.blocks).max().unwrap();
        let multiplication = Multiplication::new(&gpu, size, blocks).unwrap();
        let mut total = Outcome::default();
        // Twice: what came back of a launch is there for the next.
        for fitted in fitted.iter().chain(&fitted) {
            let outcome = multiplication.multiply(fitted).unwrap();
            total.sent += outcome.sent;
            total.received += outcome.received;
            multiplication.peer.wait_for_bytes(total.sent, ARRIVAL).unwrap();
        }
        // Two variants, four tiles, twice.
        assert_eq!(total.sent, 2 * 4 * 2 * MESSAGE as u64);
        assert!(total.received > 0 && total.received <= total.sent, "{}", total.received);
    }

    #[test]
    fn a_wrong_element_is_found() {
        let gpu = Gpu::open(GpuChoice::Emulated(EmulatedOptions::default())).unwrap();
        let multiplication = Multiplication::new(&gpu, TILE, 1).unwrap();
        // One element of A's first row, which all of C's first row needs.
        multiplication.matrices[0].0.write(0, &100.0_f32.to_le_bytes()).unwrap();
        let fitted = fit(&gpu, TILE).unwrap();
        let error = multiplication.multiply(&fitted[0]).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("C[0][0]"), "{error:#}");
    }

    #[test]
    fn sizes_that_no_tile_divides_are_refused() {
        let common = Common { pairs: None, quick: true, json: false, quiet: true, limit: 1 };
        for (size, right) in [(None, true), (Some(384), true), (Some(100), false), (Some(0), false)]
        {
            assert_eq!(
                Options { common: common.clone(), dimension: size }.size(true).is_ok(),
                right
            );
        }
    }
}
